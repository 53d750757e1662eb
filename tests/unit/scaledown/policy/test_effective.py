"""Which policy applies to a workload."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api import codec, configuration, selectors
from trimtab.api.annotations import OPT_OUT
from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import ReplicationController
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.scaledown import ScaleDownPolicy, StrategySpec
from trimtab.api.selectors import from_labels
from trimtab.kube.stores import key_of
from trimtab.ranking.faults import faults
from trimtab.scaledown.policy import conflicts, effective
from trimtab.scaledown.policy.defaults import LEVEL_EVERYONE, NO_DEFAULTS, DefaultPolicy, Defaults, read_defaults
from trimtab.scaledown.policy.effective import PolicyTable, Specificity
from trimtab.scaledown.policy.workloads import WorkloadRef, workload_ref


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


def policy(
    name: str, *, namespace: str = "default", age: int = 0, is_going: bool = False, **spec: Any
) -> ScaleDownPolicy:
    """A policy that is so many days old, and may be being deleted."""
    created = datetime(2026, 6, 28 - age, tzinfo=UTC).isoformat()
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": created, "uid": f"uid-{name}"}
    if is_going:
        metadata["deletionTimestamp"] = created
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
def test_the_more_specific_policy_applies(
    given_policies: list[ScaleDownPolicy], wanted: str | None, yielding: tuple[str, ...]
) -> None:
    """Target, then selector, then age and name; and the others are named."""
    found = effective.effective_policy(workload(labels={"app": "web", "tier": "front"}), given_policies)
    assert (found.name if found else None) == wanted
    assert (found.overridden if found else ()) == yielding


def test_the_policy_of_a_deployment_applies_to_its_replica_sets() -> None:
    """What holds for a Deployment holds for its ReplicaSets, unless one of them has a policy of its own."""
    replicas = workload("web-abc", kind="ReplicaSet", labels={"app": "web"}, owner=("apps/v1", "Deployment", "web"))
    own = policy("own", targetRef=target("web-abc", "ReplicaSet"))
    for_owner = effective.effective_policy(replicas, [BY_NAME, BY_LABEL])
    assert for_owner is not None
    assert (for_owner.name, for_owner.specificity) == ("by-name", Specificity.OWNER)
    for_itself = effective.effective_policy(replicas, [BY_NAME, own])
    assert for_itself is not None
    assert (for_itself.name, for_itself.specificity) == ("own", Specificity.TARGET)


def test_a_policy_that_is_being_deleted_does_not_apply() -> None:
    """A finalizer of another program may hold it; it is gone all the same."""
    going = codec.convert(
        {
            "metadata": {"name": "p", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"targetRef": target()},
        },
        ScaleDownPolicy,
    )
    assert effective.effective_policy(workload(), [going]) is None


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
def test_a_default_applies_where_there_is_no_policy(
    defaults: Defaults, labels: dict[str, str], wanted: str | None
) -> None:
    """A configuration can hold policies for all workloads, or for those of some namespaces."""
    found = effective.effective_policy(workload(), [], defaults, labels)
    assert (found.name if found else None) == wanted


def test_a_policy_overrides_a_default() -> None:
    """And the default is not listed as giving way: it is made for that."""
    found = effective.effective_policy(workload(), [BY_LABEL], LEVEL_EVERYONE)
    assert found is not None
    assert (str(found), found.overridden) == ("ScaleDownPolicy default/by-label", ())


@pytest.mark.parametrize(
    ("ref", "defaults", "labels", "reason"),
    [
        pytest.param(workload(), Defaults(enabled=False), {}, "disabled", id="the switch is off"),
        pytest.param(workload(), Defaults(exempt=frozenset({"default"})), {}, "exempt", id="the namespace is exempt"),
        pytest.param(
            workload(),
            Defaults(only=frozenset({"shop"})),
            {},
            "not among the namespaces",
            id="other namespaces are meant",
        ),
        pytest.param(workload(opted_out=True), LEVEL_EVERYONE, {}, "opts out", id="the workload opts out"),
        pytest.param(workload(), LEVEL_EVERYONE, {OPT_OUT: "disabled"}, "opts out", id="its namespace opts out"),
        pytest.param(
            workload(kind="StatefulSet"), LEVEL_EVERYONE, {}, "highest ordinal", id="a StatefulSet shrinks by ordinal"
        ),
        pytest.param(
            workload(kind="Job", api_version="batch/v1"), LEVEL_EVERYONE, {}, "Job does not", id="a Job does not choose"
        ),
        pytest.param(
            workload(in_scheduling_group=True), LEVEL_EVERYONE, {}, "scheduling group", id="a group is disrupted as one"
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
def test_no_policy_applies_and_the_reason_is_reported(
    ref: WorkloadRef, defaults: Defaults, labels: dict[str, str], reason: str
) -> None:
    """Whatever policies there are."""
    everything = [policy("all", selector={}), policy("one", targetRef=target())]
    assert effective.effective_policy(ref, everything, defaults, labels) is None
    assert reason in effective.exemption(ref, defaults, labels)


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
    ref = workload_ref(codec.convert({"metadata": metadata, "spec": spec}, kind))
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
def test_workloads_that_select_the_same_pods_conflict(other: WorkloadRef, wanted: bool) -> None:
    """In both directions."""
    assert bool(conflicts.conflicting_workloads(workload(), [other])) is wanted
    assert bool(conflicts.conflicting_workloads(other, [workload()])) is wanted


def test_replica_sets_of_one_deployment_do_not_conflict() -> None:
    """A rollout has two of them, and their pods differ by a hash alone."""
    pair = [
        workload(name, kind="ReplicaSet", labels={"app": "web"}, owner_uid="uid-Deployment-web") for name in ("a", "b")
    ]
    assert conflicts.conflicting_workloads(pair[0], pair) == ()


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
def test_an_invalid_policy_names_the_field_and_what_to_write(spec: dict[str, Any], path: str, words: str) -> None:
    """Each fault once."""
    found = list(faults(policy("p", **spec)))
    assert [error.path for error in found] == [path]
    assert words in found[0].reason


def test_a_negative_weight_is_refused_where_a_policy_is_made_in_python_too() -> None:
    """The schema refuses it on the wire; a policy that is made in Python gets the same error."""
    with pytest.raises(InvalidError, match="weight"):
        policy("p", targetRef=target(), strategies=[{"name": "Balance", "weight": -1}])


def test_a_default_policy_with_an_unknown_strategy_is_refused() -> None:
    """With the field of the configuration that is wrong."""
    written = configuration.ScaleDown(
        default_policies=(configuration.DefaultPolicy(name="a", strategies=(StrategySpec(name="None"),)),)
    )
    with pytest.raises(InvalidError) as caught:
        read_defaults(written)
    assert caught.value.path == "defaultPolicies[0].strategies[0].name"


def test_a_default_policy_whose_ranks_none_recomputes_is_refused() -> None:
    """It would apply to built-in kinds, whose controllers do not wait."""
    form = configuration.DefaultPolicy(name="a", strategies=(StrategySpec(name="Scheduled"),), delivery="Continuous")
    with pytest.raises(InvalidError, match="cannot be used with Scheduled") as caught:
        read_defaults(configuration.ScaleDown(default_policies=(form,)))
    assert caught.value.path == "defaultPolicies[0].delivery"


def test_a_configuration_is_read() -> None:
    """The switch, the defaults in their order, and whose namespaces are left alone."""
    front = configuration.DefaultPolicy(
        name="front", namespace_selector=LabelSelector(match_labels={"team": "front"}), delivery="Continuous"
    )
    every = configuration.DefaultPolicy(name="all", strategies=(StrategySpec(name="Balance"),))
    written = configuration.ScaleDown(default_policies=(front, every))
    read = read_defaults(written, exempt=["kube-system", "trimtab"], only=["shop"])
    assert [each.name for each in read.policies] == ["front", "all"]
    assert read.policies[0].spec.delivery == "Continuous"
    assert (read.exempt, read.only) == (frozenset({"kube-system", "trimtab"}), frozenset({"shop"}))
    assert read_defaults(configuration.ScaleDown()) == NO_DEFAULTS


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
def test_the_effective_policy_does_not_depend_on_the_order_of_reading(found: list[ScaleDownPolicy], rng: Any) -> None:
    """And every policy that refers to the workload either applies or is listed as overridden, once."""
    first = effective.effective_policy(workload(), found)
    rng.shuffle(found)
    assert effective.effective_policy(workload(), found) == first
    meaning = {key_of(each) for _, each in PolicyTable(found).matching(workload())}
    assert ({first.key, *first.overridden} if first else set()) == meaning


def matching_one_by_one(ref: WorkloadRef, policies: list[ScaleDownPolicy]) -> list[tuple[Specificity, str]]:
    """The slow twin of a table of policies: each policy is compared with the workload, and those found are sorted."""
    found = []
    for each in policies:
        named, metadata = each.spec.target_ref, each.metadata
        chosen = selectors.compile(each.spec.selector)
        if metadata.namespace != ref.namespace or metadata.deletion_timestamp is not None:
            continue
        precedence = (-len(chosen.requirements), metadata.creation_timestamp, metadata.name)
        if named is None:
            if chosen.matches(ref.pod_labels):
                found.append((Specificity.SELECTOR, precedence))
        elif (named.api_version, named.kind, named.name) == ref.identity:
            found.append((Specificity.TARGET, precedence))
        elif (named.api_version, named.kind, named.name) == ref.owner:
            found.append((Specificity.OWNER, precedence))
    return [(specificity, name) for specificity, (_, _, name) in sorted(found)]


OWNER = ("apps/v1", "Deployment", "boss")
any_policies = st.lists(
    st.builds(
        lambda name, namespace, age, how, is_going: policy(
            name, namespace=namespace, age=age, is_going=is_going, **how
        ),
        st.sampled_from("abcdefgh"),
        st.sampled_from(["default", "default", "default", "other"]),
        st.integers(0, 2),
        st.sampled_from(
            [
                {},
                {"targetRef": target()},
                {"targetRef": target("boss")},
                {"targetRef": target("x")},
                {"selector": {}},
                {"selector": selector(app="web")},
                {"selector": selector(app="web", tier="front")},
                {"selector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}},
            ]
        ),
        st.sampled_from([False, False, True]),
    ),
    max_size=8,
    unique_by=lambda each: each.metadata.name,
)
any_workloads = st.lists(
    st.builds(
        lambda name, labels, owner: workload(name, labels=labels, owner=owner),
        st.sampled_from(["web", "api"]),
        st.sampled_from([{"app": "web"}, {"app": "web", "tier": "front"}, {"tier": "front"}]),
        st.sampled_from([None, OWNER, ("apps/v1", "Deployment", "web")]),
    ),
    max_size=4,
)


@settings(deadline=None, max_examples=150)
@given(any_policies, any_workloads)
def test_a_table_finds_the_policies_that_are_found_one_by_one(
    found: list[ScaleDownPolicy], refs: list[WorkloadRef]
) -> None:
    """In the same order, for workloads of any kind."""
    table = PolicyTable(found)
    for ref in refs:
        matching = [(specificity, each.metadata.name) for specificity, each in table.matching(ref)]
        assert matching == matching_one_by_one(ref, found)
