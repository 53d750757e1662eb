"""Which policy speaks for a workload."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api import codec, configuration
from trimtab.api.annotations import OPT_OUT
from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import ReplicationController
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.scaledown import ScaleDownPolicy, StrategySpec
from trimtab.api.selectors import from_labels
from trimtab.ranking.faults import faults
from trimtab.scaledown.policy import effective
from trimtab.scaledown.policy.effective import (
    LEVEL_EVERYONE,
    NO_DEFAULTS,
    DefaultPolicy,
    Defaults,
    Specificity,
    WorkloadRef,
)


def workload(
    name: str = "web",
    *,
    kind: str = "Deployment",
    api_version: str = "apps/v1",
    labels: dict[str, str] | None = None,
    **more: Any,
) -> WorkloadRef:
    """A Deployment whose pods are labelled with its name."""
    marks = labels or {"app": name}
    more = {"uid": f"uid-{kind}-{name}", "selector": from_labels(marks), **more}
    return WorkloadRef(api_version, kind, "default", name, pod_labels=marks, **more)


def policy(name: str, *, namespace: str = "default", age: int = 0, **spec: Any) -> ScaleDownPolicy:
    """A policy that is so many days old."""
    created = datetime(2026, 6, 28 - age, tzinfo=UTC).isoformat()
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": created, "uid": f"uid-{name}"}
    return codec.convert({"metadata": metadata, "spec": spec}, ScaleDownPolicy)


def target(name: str = "web", kind: str = "Deployment", api_version: str = "apps/v1") -> dict[str, str]:
    """A reference to a workload."""
    return {"apiVersion": api_version, "kind": kind, "name": name}


def selector(**labels: str) -> dict[str, Any]:
    """A selector of these labels."""
    return {"matchLabels": labels}


BY_NAME = policy("by-name", targetRef=target())
BY_LABEL = policy("by-label", selector=selector(app="web"))
BY_LABELS = policy("by-labels", selector=selector(app="web", tier="front"))


@pytest.mark.parametrize(
    ("given_policies", "wanted", "yielding"),
    [
        pytest.param([BY_NAME, BY_LABEL], "by-name", ("default/by-label",), id="a target comes before a selector"),
        pytest.param([BY_LABEL, BY_NAME], "by-name", ("default/by-label",), id="in whatever order they are read"),
        pytest.param(
            [BY_LABEL, BY_LABELS], "by-labels", ("default/by-label",), id="a narrower selector before a wider one"
        ),
        pytest.param(
            [policy("young", targetRef=target()), policy("old", age=3, targetRef=target())],
            "old",
            ("default/young",),
            id="among equals the older one",
        ),
        pytest.param(
            [policy("b", targetRef=target()), policy("a", targetRef=target())],
            "a",
            ("default/b",),
            id="among those of one age by name",
        ),
        pytest.param(
            [policy("elsewhere", namespace="other", targetRef=target())], None, (), id="not one of another namespace"
        ),
        pytest.param([policy("p", targetRef=target("api"))], None, (), id="not one for another workload"),
        pytest.param([policy("p", targetRef=target(kind="CloneSet"))], None, (), id="not one for another kind"),
        pytest.param([policy("p", selector=selector(app="api"))], None, (), id="not one for other labels"),
        pytest.param([policy("p", selector={})], "p", (), id="an empty selector means the whole namespace"),
        pytest.param([policy("p")], None, (), id="not one that names nobody"),
    ],
)
def test_the_more_specific_policy_speaks(
    given_policies: list[ScaleDownPolicy], wanted: str | None, yielding: tuple[str, ...]
) -> None:
    """Target, then selector, then age and name; and the others are named."""
    found = effective.governing(workload(labels={"app": "web", "tier": "front"}), given_policies)
    assert (found.name if found else None) == wanted
    assert (found.yielding if found else ()) == yielding


def test_a_replica_set_is_spoken_for_by_its_deployments_policy() -> None:
    """What holds for a Deployment holds for its ReplicaSets, unless one of them has a policy of its own."""
    replicas = workload("web-abc", kind="ReplicaSet", labels={"app": "web"}, owner=("apps/v1", "Deployment", "web"))
    own = policy("own", targetRef=target("web-abc", "ReplicaSet"))
    for_owner = effective.governing(replicas, [BY_NAME, BY_LABEL])
    assert for_owner is not None
    assert (for_owner.name, for_owner.specificity) == ("by-name", Specificity.OWNER)
    for_itself = effective.governing(replicas, [BY_NAME, own])
    assert for_itself is not None
    assert (for_itself.name, for_itself.specificity) == ("own", Specificity.TARGET)


def test_a_policy_on_its_way_out_speaks_for_nobody() -> None:
    """A finalizer of somebody else may hold it; it is gone all the same."""
    going = codec.convert(
        {
            "metadata": {"name": "p", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"targetRef": target()},
        },
        ScaleDownPolicy,
    )
    assert effective.governing(workload(), [going]) is None


FRONT = DefaultPolicy("front", namespaces=from_labels({"team": "front"}))
EVERYONE = DefaultPolicy("everyone")


@pytest.mark.parametrize(
    ("defaults", "labels", "wanted"),
    [
        pytest.param(NO_DEFAULTS, {}, None, id="without a default nobody speaks"),
        pytest.param(LEVEL_EVERYONE, {}, "everyone", id="a default for all"),
        pytest.param(Defaults(policies=(FRONT,)), {"team": "front"}, "front", id="one for namespaces by label"),
        pytest.param(Defaults(policies=(FRONT,)), {"team": "back"}, None, id="and not for other namespaces"),
        pytest.param(
            Defaults(policies=(FRONT, EVERYONE)), {"team": "front"}, "front", id="the first whose namespaces these are"
        ),
        pytest.param(
            Defaults(policies=(FRONT, EVERYONE)), {"team": "back"}, "everyone", id="and the next for the others"
        ),
    ],
)
def test_defaults_speak_for_who_has_no_policy(defaults: Defaults, labels: dict[str, str], wanted: str | None) -> None:
    """A configuration can hold policies for all workloads, or for those of some namespaces."""
    found = effective.governing(workload(), [], defaults, labels)
    assert (found.name if found else None) == wanted


def test_a_policy_of_its_own_comes_before_a_default() -> None:
    """And the default is not listed as giving way: it is made for that."""
    found = effective.governing(workload(), [BY_LABEL], LEVEL_EVERYONE)
    assert found is not None
    assert (str(found), found.yielding) == ("ScaleDownPolicy default/by-label", ())


@pytest.mark.parametrize(
    ("ref", "defaults", "labels", "reason"),
    [
        pytest.param(workload(), Defaults(enabled=False), {}, "switched off", id="the switch is off"),
        pytest.param(workload(), Defaults(exempt=frozenset({"default"})), {}, "exempt", id="the namespace is exempt"),
        pytest.param(workload(), Defaults(only=frozenset({"shop"})), {}, "look after", id="other namespaces are meant"),
        pytest.param(workload(opted_out=True), LEVEL_EVERYONE, {}, "opts out", id="the workload opts out"),
        pytest.param(workload(), LEVEL_EVERYONE, {OPT_OUT: "disabled"}, "opts out", id="its namespace opts out"),
        pytest.param(
            workload(kind="StatefulSet"), LEVEL_EVERYONE, {}, "highest ordinal", id="a StatefulSet shrinks by ordinal"
        ),
        pytest.param(
            workload(kind="Job", api_version="batch/v1"), LEVEL_EVERYONE, {}, "Job does not", id="a Job does not choose"
        ),
        pytest.param(
            workload(kind="Rollout", api_version="argoproj.io/v1alpha1"),
            LEVEL_EVERYONE,
            {},
            "not supported",
            id="a kind that nobody knows",
        ),
    ],
)
def test_nobody_speaks_and_the_reason_is_said(
    ref: WorkloadRef, defaults: Defaults, labels: dict[str, str], reason: str
) -> None:
    """Whatever policies there are."""
    everything = [policy("all", selector={}), policy("one", targetRef=target())]
    assert effective.governing(ref, everything, defaults, labels) is None
    assert reason in effective.silence(ref, defaults, labels)


TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("kind", "name", "spec"),
    [
        (Deployment, "Deployment", {"selector": SELECTOR, "template": TEMPLATE}),
        (ReplicaSet, "ReplicaSet", {"selector": SELECTOR, "template": TEMPLATE}),
        (StatefulSet, "StatefulSet", {"selector": SELECTOR, "template": TEMPLATE}),
        (CloneSet, "CloneSet", {"selector": SELECTOR, "template": TEMPLATE}),
        (ReplicationController, "ReplicationController", {"selector": {"app": "web"}, "template": TEMPLATE}),
    ],
)
def test_workloads_of_every_kind_are_described(kind: type[Any], name: str, spec: dict[str, Any]) -> None:
    """Template labels, selector, opt-out and owner are read from the object."""
    metadata = {
        "name": "web",
        "namespace": "default",
        "uid": "u",
        "annotations": {OPT_OUT: "Disabled"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Boss", "name": "b", "uid": "o", "controller": True}],
    }
    ref = effective.workload_ref(codec.convert({"metadata": metadata, "spec": spec}, kind))
    assert (ref.kind, ref.pod_labels, ref.selector) == (name, {"app": "web"}, from_labels({"app": "web"}))
    assert (ref.opted_out, ref.owner, ref.owner_uid) == (True, ("v1", "Boss", "b"), "o")


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        pytest.param(workload("api", labels={"app": "web"}), True, id="another that selects its pods"),
        pytest.param(workload("api"), False, id="another that selects other pods"),
        pytest.param(
            workload("wide", labels={"app": "web", "x": "y"}), True, id="one whose pods it would select itself"
        ),
        pytest.param(
            workload("web-1", kind="ReplicaSet", labels={"app": "web"}, owner_uid="uid-Deployment-web"),
            False,
            id="its own ReplicaSet is no rival",
        ),
        pytest.param(workload(), False, id="nor is it itself"),
    ],
)
def test_two_owners_of_one_group_are_found(other: WorkloadRef, wanted: bool) -> None:
    """Whoever claims the same pods is a rival, whichever of the two is asked."""
    assert bool(effective.rivals(workload(), [other])) is wanted
    assert bool(effective.rivals(other, [workload()])) is wanted


def test_replica_sets_of_one_deployment_are_no_rivals() -> None:
    """A rollout has two of them, and their pods differ by a hash alone."""
    pair = [
        workload(name, kind="ReplicaSet", labels={"app": "web"}, owner_uid="uid-Deployment-web") for name in ("a", "b")
    ]
    assert effective.rivals(pair[0], pair) == ()


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        pytest.param({}, "spec", "selects no pods", id="no target"),
        pytest.param(
            {"targetRef": target(), "selector": {}}, "spec.selector", "combined with targetRef", id="two targets"
        ),
        pytest.param(
            {"targetRef": target(kind="StatefulSet")}, "spec.targetRef.kind", "highest ordinal", id="a StatefulSet"
        ),
        pytest.param(
            {"targetRef": target(kind="Job", api_version="batch/v1")}, "spec.targetRef.kind", "Job", id="a Job"
        ),
        pytest.param(
            {"targetRef": target(), "strategies": [{"name": "Balanse"}]},
            "spec.strategies[0].name",
            "known are",
            id="an unknown strategy",
        ),
        pytest.param(
            {"targetRef": target(), "strategies": [{"name": "Balance", "args": {"topologyKey": "a b"}}]},
            "spec.strategies[0].args.topologyKey",
            "is not a key",
            id="a setting that cannot be",
        ),
        pytest.param(
            {"targetRef": target(), "strategies": [{"name": "Balance", "threshold": 3}, {"name": "Taints"}]},
            "spec.strategies[1].threshold",
            "is required",
            id="several strategies without thresholds",
        ),
        pytest.param(
            {
                "targetRef": target(),
                "strategies": [{"name": "Probe", "threshold": 3}, {"name": "Stated", "threshold": 3}],
            },
            "spec.strategies[1].name",
            "both look at what pods answer",
            id="pods asked in two ways",
        ),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
            "spec.selector.matchExpressions[0].operator",
            "not an operator",
            id="a selector that cannot be read",
        ),
    ],
)
def test_a_bad_policy_says_which_field_and_what_to_write(spec: dict[str, Any], path: str, words: str) -> None:
    """Each fault once."""
    found = list(faults(policy("p", **spec)))
    assert [error.path for error in found] == [path]
    assert words in found[0].reason


def test_a_negative_weight_is_refused_where_a_policy_is_made_in_python_too() -> None:
    """The schema refuses it on the wire; who makes a policy otherwise is told the same."""
    with pytest.raises(InvalidError, match="weight"):
        policy("p", targetRef=target(), strategies=[{"name": "Balance", "weight": -1}])


def test_a_default_policy_with_an_unknown_strategy_is_refused() -> None:
    """With the field of the configuration that is wrong."""
    written = configuration.ScaleDown(
        default_policies=(configuration.DefaultPolicy(name="a", strategies=(StrategySpec(name="None"),)),)
    )
    with pytest.raises(InvalidError) as caught:
        effective.read_defaults(written)
    assert caught.value.path == "defaultPolicies[0].strategies[0].name"


def test_a_configuration_is_read() -> None:
    """The switch, the defaults in their order, and whose namespaces are left alone."""
    front = configuration.DefaultPolicy(
        name="front", namespace_selector=LabelSelector(match_labels={"team": "front"}), delivery="Continuous"
    )
    every = configuration.DefaultPolicy(name="all", strategies=(StrategySpec(name="Balance"),))
    written = configuration.ScaleDown(default_policies=(front, every))
    read = effective.read_defaults(written, exempt=["kube-system", "trimtab"], only=["shop"])
    assert [each.name for each in read.policies] == ["front", "all"]
    assert read.policies[0].spec.delivery == "Continuous"
    assert (read.exempt, read.only) == (frozenset({"kube-system", "trimtab"}), frozenset({"shop"}))
    assert effective.read_defaults(configuration.ScaleDown()) == NO_DEFAULTS


names = st.sampled_from(["a", "b", "c", "d"])
some_policies = st.lists(
    st.builds(
        lambda name, age, how: policy(name, age=age, **how),
        names,
        st.integers(0, 3),
        st.sampled_from(
            [{"targetRef": target()}, {"selector": selector(app="web")}, {"selector": {}}, {"targetRef": target("x")}]
        ),
    ),
    max_size=5,
    unique_by=lambda each: each.metadata.name,
)


@settings(deadline=None, max_examples=60)
@given(some_policies, st.randoms(use_true_random=False))
def test_who_speaks_does_not_depend_on_the_order_of_reading(found: list[ScaleDownPolicy], rng: Any) -> None:
    """And every policy that means the workload either speaks or is listed as giving way, once."""
    first = effective.governing(workload(), found)
    rng.shuffle(found)
    assert effective.governing(workload(), found) == first
    meaning = {effective.key_of(each) for _, each in effective.claimants(workload(), found)}
    assert ({first.key, *first.yielding} if first else set()) == meaning


some_labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]), max_size=2)
some_workloads = st.lists(
    st.builds(
        lambda at, wanted, labels, owner: WorkloadRef(
            "apps/v1", "ReplicaSet", "default", f"w{at}", f"u{at}", labels, from_labels(wanted), owner_uid=owner
        ),
        st.integers(0, 8),
        some_labels,
        some_labels,
        st.sampled_from(["", "", "o1", "o2"]),
    ),
    max_size=8,
    unique_by=lambda ref: ref.uid,
)


@settings(deadline=None, max_examples=100)
@given(some_workloads)
def test_the_contests_of_a_namespace_are_those_of_its_workloads(refs: list[WorkloadRef]) -> None:
    """All at once says what one by one says."""
    found = effective.contests(refs)
    assert {ref.uid: effective.rivals(ref, refs) for ref in refs} == {ref.uid: found.get(ref.uid, ()) for ref in refs}
