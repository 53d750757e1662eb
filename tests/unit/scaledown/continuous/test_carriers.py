"""Where costs are written: annotations and PodGroupCosts, and whose they are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.scaledown.policy_cluster import PolicyCluster, target, template
from trimtab.api import codec
from trimtab.api.annotations import (
    ALPHA_COST,
    DELETION_COST,
    POLICY_COST,
    RANKED_AMONG,
    SCALE_PLAN,
    SUBSET_COST,
    CostOwner,
    fingerprint,
)
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.kube.resources import Resource
from trimtab.ranking.costs import LIMIT, Band, Carrier, Level
from trimtab.scaledown.continuous.annotation_costs import carrier_cost_owner
from trimtab.scaledown.continuous.assessment import Assessment, costs
from trimtab.scaledown.continuous.carriers import cost_of, number_of
from trimtab.scaledown.continuous.delivery import carrier_for
from trimtab.scaledown.continuous.sweeps import sweep
from trimtab.scaledown.pod_costs import PolicyCost, apply_policy_patch, revert_policy_patch
from trimtab.scaledown.policy.effective import EffectivePolicy
from trimtab.scaledown.policy.groups import Group, GroupKey, GroupOwner
from trimtab.scaledown.policy.workloads import WorkloadRef
from trimtab.testing.builders import pod
from trimtab_lab.apiserver.kinds.errors import status_error
from trimtab_lab.testing.labs import JSON

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
        pytest.param(with_annotations(), CostOwner.NONE, id="no cost"),
        pytest.param(with_annotations(cost="3"), CostOwner.OTHER, id="a person's"),
        pytest.param(with_annotations(cost="2000000", subset="2000000"), CostOwner.SUBSET, id="a subset's"),
        pytest.param(with_annotations(cost="3", subset="2000000"), CostOwner.OTHER, id="a person's over a subset's"),
        pytest.param(with_annotations(cost="-1", plan="{}"), CostOwner.PLAN, id="a scale-down's that is under way"),
        pytest.param(with_annotations(cost="3", mark="?"), CostOwner.OTHER, id="one beside a mark that says nothing"),
        pytest.param(with_annotations(alpha="3"), CostOwner.NONE, id="that of another carrier does not count"),
    ],
)
def test_cost_owner(a_pod: Pod, wanted: CostOwner) -> None:
    """By what stands beside it."""
    assert carrier_cost_owner(a_pod, Carrier.ANNOTATION) is wanted


@pytest.mark.parametrize("carrier", ANNOTATED)
@pytest.mark.parametrize("before", [None, "2000000"])
def test_an_applied_and_reverted_pod_is_as_before(carrier: Carrier, before: str | None) -> None:
    """Whatever a subset had put there comes back; nothing else is touched."""
    start = pod("p").annotations({"other": "x"}).build()
    if before is not None:
        start = patched(start, {"metadata": {"annotations": {DELETION_COST: before, SUBSET_COST: before}}})
    first = patched(start, apply_policy_patch(PolicyCost(start, "default/web", carrier, 5)))
    assert carrier_cost_owner(first, carrier) is CostOwner.POLICY
    second = patched(first, apply_policy_patch(PolicyCost(first, "default/web", carrier, 6, among="abc")))
    assert second.metadata.annotations[RANKED_AMONG] == "abc"
    assert apply_policy_patch(PolicyCost(second, "default/web", carrier, 6, among="abc")) is None
    assert patched(second, revert_policy_patch(second)) == start


def test_patches_have_the_resource_version_they_were_computed_from() -> None:
    """A cost that is written meanwhile is not overwritten."""
    seen = codec.convert({"metadata": {"name": "p", "namespace": "default", "resourceVersion": "7"}}, Pod)
    patch = apply_policy_patch(PolicyCost(seen, "default/web", Carrier.ANNOTATION, 5))
    assert patch is not None
    assert patch["metadata"]["resourceVersion"] == "7"


@settings(deadline=None)
@given(st.integers(-LIMIT, LIMIT), st.sampled_from(Carrier), st.sampled_from(Level), st.integers(0, 9))
def test_a_cost_can_be_converted_back_to_its_number(number: int, carrier: Carrier, level: Level, subset: int) -> None:
    """In every band, for every carrier; and one of another band stands for none."""
    band = Band(level, subset, 10)
    cost = cost_of(number, carrier, band)
    assert number_of(cost, carrier, band) == number
    other = Band(Level.GUARANTEED if level is not Level.GUARANTEED else Level.REDUNDANT, subset, 10)
    assert abs(number_of(cost, carrier, other)) > LIMIT


def test_fingerprints_equal_those_that_clonesets_compute() -> None:
    """The two parts know nothing of one another; this is where they meet."""
    assert fingerprint(["b", "a"]) == fingerprint(["a", "b"])
    assert RANKED_AMONG == RANKED_AMONG


@pytest.mark.parametrize(
    ("delivery", "carrier", "level", "shrinking"),
    [
        pytest.param("Continuous", Carrier.ANNOTATION, True, True, id="kept current, while pods are deleted too"),
        pytest.param("Continuous", Carrier.POD_GROUP_COST, True, True, id="kept current in an object"),
        pytest.param("OnScaleIntent", Carrier.ALPHA_ANNOTATION, False, True, id="while pods are too many"),
        pytest.param("OnScaleIntent", Carrier.ANNOTATION, False, False, id="written while a request is held"),
    ],
)
def test_when_a_group_has_costs(delivery: str, carrier: Carrier, level: bool, shrinking: bool) -> None:
    """With as many pods as are wanted, and with more; with a policy that observes, never."""
    ref = WorkloadRef("apps/v1", "ReplicaSet", "default", "web")
    owner = GroupOwner("apps/v1", "ReplicaSet", "default", "web", "uid")
    for mode in ("Enforce", "Observe"):
        spec = codec.convert({"delivery": delivery, "carrier": carrier, "mode": mode}, ScaleDownPolicySpec)
        policy = EffectivePolicy(spec, "default/web", "web")
        group = Group(GroupKey("ReplicaSet", "default", "web"), owner, ref, ref, 3, None, policy)
        found = [carrier_for(group, active) is carrier for active in (3, 4)]
        assert found == ([level, shrinking] if mode == "Enforce" else [False, False])


def test_group_names_are_valid_and_unique() -> None:
    """However long the workload's own is; and two workloads never share one."""
    names = {GroupOwner("v1", kind, "ns", "x" * 250 + end, "u").group_name for kind in ("A", "B") for end in "yz"}
    assert len(names) == 4
    assert max(map(len, names)) <= 253


# Over the lab's server.


@pytest_asyncio.fixture
async def clones(cluster: PolicyCluster) -> AsyncIterator[PolicyCluster]:
    """The same cluster with a CloneSet of four pods, two of them in each zone; CloneSets have no controller."""
    labels = {"app": "web"}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template(**labels)}
    kind = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}
    made = await cluster.user.create(
        Resource.of(CloneSet).raw, {**kind, "metadata": {"name": "web"}, "spec": spec}, namespace="default"
    )
    owner = {**kind, "name": "web", "uid": made["metadata"]["uid"], "controller": True}
    for at, where in enumerate(("a1", "b1", "a2", "b1")):
        body = {**template(**labels), "metadata": {"name": f"web-{at}", "labels": labels, "ownerReferences": [owner]}}
        await cluster.user.create(Resource.of(Pod).raw, body, namespace="default")
        await cluster.user.bind(f"web-{at}", namespace="default", node=where)
        await cluster.advance(1)
    await cluster.look()
    yield cluster


async def group_cost(cluster: PolicyCluster) -> JSON | None:
    """The PodGroupCost of the CloneSet web."""
    found = await cluster.user.list(RAW_COSTS, namespace="default")
    return next(iter(found.items), None)


async def test_all_costs_of_a_group_are_one_write(clones: PolicyCluster) -> None:
    """One object, in the group's namespace, owned by its workload: the higher cost is deleted first."""
    clones.product.requests.clear()
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    made = await group_cost(clones)
    assert made is not None
    assert made["spec"]["costs"] == {"web-0": 1, "web-1": 1, "web-2": 2, "web-3": 2}
    assert made["spec"]["owner"] == {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}
    owner = made["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("CloneSet", "web")
    assert (len(clones.writes("podgroupcosts")), len(clones.writes("pods"))) == (1, 0)


async def test_a_deleted_pod_is_one_write_too(clones: PolicyCluster) -> None:
    """Its cost is removed: the object names the pods that exist."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    clones.product.requests.clear()
    await clones.user.delete(Pod, "web-3", namespace="default", grace_period_seconds=0)
    await clones.look()
    made = await group_cost(clones)
    assert made is not None
    assert made["spec"]["costs"] == {"web-0": 1, "web-1": 1, "web-2": 2}
    assert len(clones.writes("podgroupcosts")) == 1


async def test_the_pod_group_cost_is_deleted_with_the_policy(clones: PolicyCluster) -> None:
    """And comes back with it."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    await clones.drop_policy()
    assert await group_cost(clones) is None


async def test_a_foreign_pod_group_cost_is_not_changed(clones: PolicyCluster) -> None:
    """It is not ours to write to, nor to delete."""
    kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "PodGroupCost"}
    body = {**kind, "metadata": {"name": "cloneset-web"}, "spec": {"owner": CLONESET, "costs": {"web-0": 9}}}
    await clones.user.create(RAW_COSTS, body, namespace="default")
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    await clones.drop_policy()
    made = await group_cost(clones)
    assert made is not None
    assert made["spec"]["costs"] == {"web-0": 9}


async def test_a_pod_group_cost_that_cannot_be_written_is_reported(clones: PolicyCluster) -> None:
    """In the status, until it can."""
    clones.product.refuse = lambda request: (
        status_error(403, "not allowed to create podgroupcosts") if request.method == "POST" else None
    )
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    found = (await clones.status()).status
    assert "not allowed to create podgroupcosts" in found.last_error
    clones.product.refuse = None
    await clones.advance(60)
    await clones.look()
    assert await group_cost(clones) is not None
    assert (await clones.status()).status.last_error == ""


async def test_a_foreign_change_to_a_pod_group_cost_is_reverted(clones: PolicyCluster) -> None:
    """The object is ours as a whole."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    await clones.user.patch(RAW_COSTS, "cloneset-web", {"spec": {"costs": {"web-0": 99}}}, namespace="default")
    await clones.look()
    made = await group_cost(clones)
    assert made is not None
    assert sorted(made["spec"]["costs"]) == ["web-0", "web-1", "web-2", "web-3"]
    assert made["spec"]["costs"]["web-0"] < made["spec"]["costs"]["web-2"]


async def test_the_alpha_annotation_has_the_opposite_sign(clones: PolicyCluster) -> None:
    """The same ranks with the other sign; `pod-deletion-cost` is not touched."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="AlphaAnnotation")
    assert await clones.costs(ALPHA_COST) == {"web-0": 1, "web-1": 1, "web-2": 2, "web-3": 2}
    assert await clones.costs() == {}


async def test_ranks_that_must_be_recomputed_have_a_fingerprint(clones: PolicyCluster) -> None:
    """So that readers know whether they were computed since the last removal."""
    strategies = [{"name": "AntiAffinity"}]
    await clones.policy(targetRef=CLONESET, strategies=strategies, delivery="Continuous", carrier="AlphaAnnotation")
    names = [pod.metadata.name for pod in await clones.pods()]
    found = {pod.metadata.annotations.get(RANKED_AMONG) for pod in await clones.pods()}
    assert found == {fingerprint(names)}
    await clones.user.delete(Pod, "web-3", namespace="default", grace_period_seconds=0)
    await clones.look()
    found = {pod.metadata.annotations.get(RANKED_AMONG) for pod in await clones.pods()}
    assert found == {fingerprint(names[:3])}


async def test_a_change_of_carrier_reverts_the_previous_one(clones: PolicyCluster) -> None:
    """Nothing of the old one is left."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    policies = Resource.of(type(await clones.status())).raw
    for carrier, annotation in (("AlphaAnnotation", ALPHA_COST), ("Annotation", DELETION_COST)):
        await clones.user.patch(policies, "web", {"spec": {"carrier": carrier}}, namespace="default")
        await clones.look()
        assert await group_cost(clones) is None
        marks = [set(pod.metadata.annotations) for pod in await clones.pods()]
        assert marks == [{annotation, POLICY_COST}] * 4


async def test_costs_for_controllers_that_wait_are_written_on_scale_down(clones: PolicyCluster) -> None:
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


async def test_a_sweep_reverts_all_carriers_without_a_running_trimtab(clones: PolicyCluster) -> None:
    """Uninstalling reverts everything, whatever carries it, with nothing running; and may be done twice."""
    await clones.policy(targetRef=CLONESET, strategies=BALANCE, delivery="Continuous", carrier="PodGroupCost")
    await clones.deploy(3, name="api")
    await clones.policy("api", targetRef=target("api"), strategies=BALANCE, delivery="Continuous")
    assert len(await clones.costs()) == 3
    await clones.stop_policies()
    assert await sweep(clones.user) == 4
    assert (await group_cost(clones), await clones.costs()) == (None, {})
    assert await sweep(clones.user) == 0


async def test_the_annotation_is_readable(cluster: PolicyCluster) -> None:
    """It shows which policy wrote the cost."""
    await cluster.deploy(1)
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    (found,) = await cluster.pods()
    mark: dict[str, Any] = json.loads(found.metadata.annotations[POLICY_COST])
    assert mark == {"policy": "ScaleDownPolicy default/web", "carrier": "Annotation", "cost": -1}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5)), min_size=1, max_size=12),
    st.sampled_from([Carrier.ANNOTATION, Carrier.ALPHA_ANNOTATION]),
)
def test_costs_that_are_kept_current_follow_the_subsets(pods: list[tuple[int, int]], carrier: Carrier) -> None:
    """BestEffort subsets share a band: a later one goes before an earlier one, and inside a subset ranks decide."""
    made = [pod(f"p{number}").build() for number in range(len(pods))]
    bands = {each.key: Band(Level.BEST_EFFORT, at, 3) for each, (at, _) in zip(made, pods, strict=True)}
    ranks = {each.key: float(rank) for each, (_, rank) in zip(made, pods, strict=True)}
    found = costs(made, Assessment(ranks), carrier, bands)
    first = sorted(found, key=lambda key: carrier.sign * found[key], reverse=True)
    wanted = [(-bands[key].subset, -ranks[key]) for key in first]
    assert wanted == sorted(wanted)
