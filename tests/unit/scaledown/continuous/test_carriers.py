"""Where costs are written: annotations and PodGroupCosts, and whose they are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.lab.workloads.clusters import JSON
from tests.unit.scaledown.worlds import PolicyWorld, target, template
from trimtab.api import codec
from trimtab.api.annotations import (
    ALPHA_COST,
    DELETION_COST,
    POLICY_COST,
    RANKED_AMONG,
    SCALE_PLAN,
    SUBSET_COST,
    fingerprint,
)
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost
from trimtab.kube.resources import Resource
from trimtab.ranking.costs import LIMIT, Band, Carrier, Level
from trimtab.scaledown.continuous import carriers
from trimtab.scaledown.continuous.carriers import Author, Cost, Holder, author, cost_of, erasure, inscription, number_of
from trimtab.testing.builders import pod
from trimtab_lab.apiserver.wire.statuses import refusal

RAW_COSTS = Resource.of(PodGroupCost).raw
CLONESET = target("web", "CloneSet", "apps.kruise.io/v1alpha1")
BALANCE = [{"name": "Balance"}]
ANNOTATED = [Carrier.ANNOTATION, Carrier.ALPHA_ANNOTATION]


def patched(a_pod: Pod, patch: JSON | None) -> Pod:
    """The pod after a merge patch of its annotations."""
    tree = codec.to_tree(a_pod)
    annotations = dict(tree["metadata"].get("annotations", {}))
    for name, text in ((patch or {}).get("metadata", {}).get("annotations", {})).items():
        annotations.pop(name, None)
        if text is not None:
            annotations[name] = text
    tree["metadata"]["annotations"] = annotations
    return codec.convert(tree, Pod)


def with_annotations(**annotations: str) -> Pod:
    """A pod with these annotations; names are looked up in the table below."""
    return pod("p").annotations({NAMES[name]: text for name, text in annotations.items()}).build()


NAMES = {
    "cost": DELETION_COST,
    "alpha": ALPHA_COST,
    "subset": SUBSET_COST,
    "plan": SCALE_PLAN,
    "mark": POLICY_COST,
}


@pytest.mark.parametrize(
    ("a_pod", "wanted"),
    [
        pytest.param(with_annotations(), Author.NOBODY, id="no cost"),
        pytest.param(with_annotations(cost="3"), Author.OTHERS, id="a person's"),
        pytest.param(with_annotations(cost="2000000", subset="2000000"), Author.SUBSET, id="a subset's"),
        pytest.param(with_annotations(cost="3", subset="2000000"), Author.OTHERS, id="a person's over a subset's"),
        pytest.param(with_annotations(cost="-1", plan="{}"), Author.PLAN, id="a scale-down's that is under way"),
        pytest.param(with_annotations(cost="3", mark="?"), Author.OTHERS, id="one beside a mark that says nothing"),
        pytest.param(with_annotations(alpha="3"), Author.NOBODY, id="that of another carrier does not count"),
    ],
)
def test_whose_a_cost_is(a_pod: Pod, wanted: Author) -> None:
    """By what stands beside it."""
    assert author(a_pod, Carrier.ANNOTATION) is wanted


@pytest.mark.parametrize("carrier", ANNOTATED)
@pytest.mark.parametrize("before", [None, "2000000"])
def test_written_and_taken_back_is_as_before(carrier: Carrier, before: str | None) -> None:
    """Whatever a subset had put there comes back; nothing else is touched."""
    start = pod("p").annotations({"other": "x"}).build()
    if before is not None:
        start = patched(start, {"metadata": {"annotations": {DELETION_COST: before, SUBSET_COST: before}}})
    first = patched(start, inscription(Cost(start, "default/web", carrier, 5)))
    assert author(first, carrier) is Author.POLICY
    second = patched(first, inscription(Cost(first, "default/web", carrier, 6, among="abc")))
    assert second.metadata.annotations[RANKED_AMONG] == "abc"
    assert inscription(Cost(second, "default/web", carrier, 6, among="abc")) is None
    assert patched(second, erasure(second)) == start


def test_patches_hold_for_the_version_that_was_looked_at() -> None:
    """Whoever writes a cost meanwhile is not overwritten."""
    seen = codec.convert({"metadata": {"name": "p", "namespace": "default", "resourceVersion": "7"}}, Pod)
    patch = inscription(Cost(seen, "default/web", Carrier.ANNOTATION, 5))
    assert patch is not None
    assert patch["metadata"]["resourceVersion"] == "7"


@settings(deadline=None)
@given(st.integers(-LIMIT, LIMIT), st.sampled_from(Carrier), st.sampled_from(Level), st.integers(0, 9))
def test_a_cost_says_which_number_it_stands_for(number: int, carrier: Carrier, level: Level, subset: int) -> None:
    """In every band, for every carrier; and one of another band stands for none."""
    band = Band(level, subset, 10)
    cost = cost_of(number, carrier, band)
    assert number_of(cost, carrier, band) == number
    other = Band(Level.GUARANTEED if level is not Level.GUARANTEED else Level.REDUNDANT, subset, 10)
    assert abs(number_of(cost, carrier, other)) > LIMIT


def test_sets_of_pods_are_named_as_clonesets_look_for_them() -> None:
    """The two parts know nothing of one another; this is where they meet."""
    assert fingerprint(["b", "a"]) == fingerprint(["a", "b"])
    assert RANKED_AMONG == RANKED_AMONG


def test_the_name_of_a_group_is_one_that_a_server_takes() -> None:
    """However long the workload's own is; and two workloads never share one."""
    names = {Holder("v1", kind, "ns", "x" * 250 + end, "u").group_name for kind in ("A", "B") for end in "yz"}
    assert len(names) == 4
    assert max(map(len, names)) <= 253


# Over the lab's server.


@pytest_asyncio.fixture
async def clones(world: PolicyWorld) -> AsyncIterator[PolicyWorld]:
    """The same world with a CloneSet of four pods, two of them in each zone; nobody looks after CloneSets here."""
    labels = {"app": "web"}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template(**labels)}
    kind = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}
    made = await world.user.create(
        Resource.of(CloneSet).raw, {**kind, "metadata": {"name": "web"}, "spec": spec}, namespace="default"
    )
    owner = {**kind, "name": "web", "uid": made["metadata"]["uid"], "controller": True}
    for at, where in enumerate(("a1", "b1", "a2", "b1")):
        body = {**template(**labels), "metadata": {"name": f"web-{at}", "labels": labels, "ownerReferences": [owner]}}
        await world.user.create(Resource.of(Pod).raw, body, namespace="default")
        await world.user.bind(f"web-{at}", namespace="default", node=where)
        await world.advance(1)
    await world.look()
    yield world


async def group_cost(world: PolicyWorld) -> JSON | None:
    """The PodGroupCost of the CloneSet web."""
    found = await world.user.list(RAW_COSTS, namespace="default")
    return next(iter(found.items), None)


async def test_all_costs_of_a_group_are_one_write(clones: PolicyWorld) -> None:
    """One object, in the group's namespace, owned by its workload: the higher goes first."""
    clones.product.requests.clear()
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    made = await group_cost(clones)
    assert made is not None
    assert made["spec"]["costs"] == {"web-0": 1, "web-1": 1, "web-2": 2, "web-3": 2}
    assert made["spec"]["owner"] == {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}
    owner = made["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("CloneSet", "web")
    assert (len(clones.writes("podgroupcosts")), len(clones.writes("pods"))) == (1, 0)


async def test_a_pod_that_goes_is_one_write_too(clones: PolicyWorld) -> None:
    """Its cost goes with it: the object names the pods that are there."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    clones.product.requests.clear()
    await clones.user.delete(Pod, "web-3", namespace="default", grace_period_seconds=0)
    await clones.look()
    made = await group_cost(clones)
    assert made is not None
    assert made["spec"]["costs"] == {"web-0": 1, "web-1": 1, "web-2": 2}
    assert len(clones.writes("podgroupcosts")) == 1


async def test_the_object_goes_with_the_policy(clones: PolicyWorld) -> None:
    """And comes back with it."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    await clones.drop_policy()
    assert await group_cost(clones) is None


async def test_an_object_of_somebody_else_is_left_alone(clones: PolicyWorld) -> None:
    """It is not ours to write to, nor to delete."""
    kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "PodGroupCost"}
    body = {**kind, "metadata": {"name": "cloneset-web"}, "spec": {"owner": CLONESET, "costs": {"web-0": 9}}}
    await clones.user.create(RAW_COSTS, body, namespace="default")
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    await clones.drop_policy()
    made = await group_cost(clones)
    assert made is not None
    assert made["spec"]["costs"] == {"web-0": 9}


async def test_an_object_that_cannot_be_written_is_told(clones: PolicyWorld) -> None:
    """In the status, until it can."""
    clones.product.refuse = lambda request: (
        refusal(403, "not allowed to create podgroupcosts") if request.method == "POST" else None
    )
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    found = (await clones.status()).status
    assert "not allowed to create podgroupcosts" in found.last_error
    clones.product.refuse = None
    await clones.advance(60)
    await clones.look()
    assert await group_cost(clones) is not None
    assert (await clones.status()).status.last_error == ""


async def test_a_change_made_by_somebody_else_is_undone(clones: PolicyWorld) -> None:
    """The object is ours as a whole."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    await clones.user.patch(RAW_COSTS, "cloneset-web", {"spec": {"costs": {"web-0": 99}}}, namespace="default")
    await clones.look()
    made = await group_cost(clones)
    assert made is not None
    assert sorted(made["spec"]["costs"]) == ["web-0", "web-1", "web-2", "web-3"]
    assert made["spec"]["costs"]["web-0"] < made["spec"]["costs"]["web-2"]


async def test_the_alpha_annotation_says_the_higher_goes_first(clones: PolicyWorld) -> None:
    """The same ranks with the other sign; `pod-deletion-cost` is not touched."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="AlphaAnnotation")
    assert await clones.costs(ALPHA_COST) == {"web-0": 1, "web-1": 1, "web-2": 2, "web-3": 2}
    assert await clones.costs() == {}


async def test_ranks_that_must_be_recomputed_name_the_pods_they_are_of(clones: PolicyWorld) -> None:
    """So that who reads them can tell whether they were worked out since the last removal."""
    strategies = [{"name": "AntiAffinity"}]
    await clones.policy(targetRef=CLONESET, strategies=strategies, delivery="Continuous", carrier="AlphaAnnotation")
    names = [pod.metadata.name for pod in await clones.pods()]
    found = {pod.metadata.annotations.get(RANKED_AMONG) for pod in await clones.pods()}
    assert found == {fingerprint(names)}
    await clones.user.delete(Pod, "web-3", namespace="default", grace_period_seconds=0)
    await clones.look()
    found = {pod.metadata.annotations.get(RANKED_AMONG) for pod in await clones.pods()}
    assert found == {fingerprint(names[:3])}


async def test_another_carrier_takes_over_from_the_first(clones: PolicyWorld) -> None:
    """Nothing of the old one is left."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    policies = Resource.of(type(await clones.status())).raw
    for carrier, annotation in (("AlphaAnnotation", ALPHA_COST), ("Annotation", DELETION_COST)):
        await clones.user.patch(policies, "web", {"spec": {"carrier": carrier}}, namespace="default")
        await clones.look()
        assert await group_cost(clones) is None
        marks = [set(pod.metadata.annotations) for pod in await clones.pods()]
        assert marks == [{annotation, POLICY_COST}] * 4


async def test_costs_for_controllers_that_wait_are_written_when_a_scale_down_is_asked_for(clones: PolicyWorld) -> None:
    """With delivery on intent: nothing before, all of them while the workload is to shrink, nothing after."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, carrier="PodGroupCost")
    assert await group_cost(clones) is None
    await clones.user.resize(CloneSet, "web", 3, namespace="default")
    await clones.look()
    made = await group_cost(clones)
    assert made is not None
    assert len(made["spec"]["costs"]) == 4
    await clones.user.delete(Pod, "web-3", namespace="default", grace_period_seconds=0)
    await clones.look()
    assert await group_cost(clones) is None


async def test_a_sweep_needs_nobody(clones: PolicyWorld) -> None:
    """Uninstalling takes everything back, whatever carries it, with nothing running; and may be done twice."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    await clones.deploy(3, name="api")
    await clones.policy("api", targetRef=target("api"), strategies=BALANCE, delivery="Continuous")
    assert len(await clones.costs()) == 3
    await clones.stop_policies()
    assert await carriers.sweep(clones.user) == 4
    assert (await group_cost(clones), await clones.costs()) == (None, {})
    assert await carriers.sweep(clones.user) == 0


async def test_the_mark_is_plain_to_read(world: PolicyWorld) -> None:
    """Whoever looks at a pod sees who wrote its cost."""
    await world.deploy(1)
    await world.policy(strategies=BALANCE, delivery="Continuous")
    (found,) = await world.pods()
    mark: dict[str, Any] = json.loads(found.metadata.annotations[POLICY_COST])
    assert mark == {"policy": "ScaleDownPolicy default/web", "carrier": "Annotation", "cost": -1}
