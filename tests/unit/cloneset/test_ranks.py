"""Costs honoured as ranks: by rank, wait, or fall back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.ranking.groups import PAIRED
from trimtab.api import codec, times
from trimtab.api.annotations import (
    ALPHA_COST,
    DELETION_COST,
    POLICY_COST,
    RANKED_AMONG,
    SUBSET_COST,
    PolicyCostAnnotation,
    fingerprint,
)
from trimtab.api.cloneset import RankWait
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.cloneset import ranks
from trimtab.cloneset.ranks import ByRank, KnownRanks, OriginalOrder, Terms, Wait
from trimtab.cloneset.view import owner_key
from trimtab.kube.clocks import SECOND
from trimtab.ranking.costs import Carrier
from trimtab.ranking.explicit import NO_COSTS, GroupCosts
from trimtab.testing.builders import pod
from trimtab.testing.clocks import START

NAMES = ("a", "b", "c")
ALL = KnownRanks({"a": 1.0, "b": 2.0, "c": 3.0})
SOME = KnownRanks({"a": 1.0, "b": 2.0})
PATIENT = Terms(Carrier.ALPHA_ANNOTATION, timeout=30.0)
RECOMPUTING = Terms(Carrier.POD_GROUP_COST, timeout=30.0, recompute=True, recompute_timeout=30.0)


def policy(**fields: Any) -> ScaleDownPolicySpec:
    """A policy with these fields."""
    return codec.convert(fields, ScaleDownPolicySpec)


def group(name: str = "ranks", **costs: int) -> PodGroupCost:
    """The costs of a group."""
    owner = {"kind": "CloneSet", "name": "web"}
    return codec.convert({"metadata": {"name": name}, "spec": {"owner": owner, "costs": costs}}, PodGroupCost)


def external(*costs: PodGroupCost) -> GroupCosts:
    """PodGroupCosts of components that are not Trimtab's."""
    return GroupCosts(others=costs)


def waited(seconds: float, among: str = "") -> RankWait:
    """A wait that began so long ago."""
    return RankWait(since=times.from_ns(START - round(seconds * SECOND)), among=among)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(None, Terms(), id="no policy: what there is counts, and nothing is waited for"),
        pytest.param(policy(carrier="Annotation"), None, id="deletion costs are the order's own"),
        pytest.param(
            policy(carrier="AlphaAnnotation"), Terms(Carrier.ALPHA_ANNOTATION, 30.0), id="half a minute by default"
        ),
        pytest.param(
            policy(carrier="PodGroupCost", whenUnranked={"action": "Fallback"}),
            Terms(Carrier.POD_GROUP_COST, 0.0),
            id="fall back at once",
        ),
        pytest.param(
            policy(carrier="PodGroupCost", strategies=[{"name": "AntiAffinity"}]),
            Terms(Carrier.POD_GROUP_COST, 30.0, recompute=True, recompute_timeout=30.0),
            id="a strategy that needs recomputation",
        ),
        pytest.param(
            policy(
                carrier="PodGroupCost",
                strategies=[{"name": "AntiAffinity"}],
                whenUnranked={"action": "Fallback", "timeoutSeconds": 10},
            ),
            Terms(Carrier.POD_GROUP_COST, 0.0, recompute=True, recompute_timeout=10.0),
            id="no wait for missing ranks, and one pod at a time",
        ),
    ],
)
def test_terms(spec: ScaleDownPolicySpec | None, want: Terms | None) -> None:
    """What a policy asks for."""
    assert ranks.terms(spec) == want


@pytest.mark.parametrize("carrier", ["AlphaAnnotation", "PodGroupCost"])
def test_a_strategy_that_goes_one_at_a_time_is_recomputed(carrier: str) -> None:
    """Although a removal does not change its ranks."""
    found = ranks.terms(policy(carrier=carrier, strategies=[{"name": "Paired"}]), PAIRED)
    assert found == Terms(Carrier(carrier), 30.0, recompute=True, recompute_timeout=30.0)


@pytest.mark.parametrize(
    ("terms", "annotations", "costs", "want"),
    [
        pytest.param(Terms(), {}, NO_COSTS, None, id="there are none"),
        pytest.param(Terms(), {"a": "4"}, NO_COSTS, {"a": 4.0}, id="a pod is annotated"),
        pytest.param(Terms(), {"a": "4"}, external(group(b=2)), {"b": 2.0}, id="a group's costs come first"),
        pytest.param(Terms(), {}, GroupCosts(own=group(b=2)), None, id="those of a policy that is gone do not count"),
        pytest.param(
            Terms(), {}, external(group("aaa", a=1), group("bbb", a=2)), {}, id="none of two counts, whatever its name"
        ),
        pytest.param(PATIENT, {}, NO_COSTS, {}, id="promised, and not there yet"),
        pytest.param(PATIENT, {"a": "4", "b": "x"}, external(group(b=2)), {"a": 4.0}, id="no number is no rank"),
        pytest.param(RECOMPUTING, {"a": "4"}, NO_COSTS, {}, id="annotations do not stand in for a group's costs"),
        pytest.param(RECOMPUTING, {}, external(group(b=2)), {}, id="nor does the object of another writer"),
        pytest.param(
            RECOMPUTING, {}, GroupCosts(group("own", b=2), (group("aaa", b=9),)), {"b": 2.0}, id="the policy's own does"
        ),
    ],
)
def test_known_ranks(
    terms: Terms, annotations: dict[str, str], costs: GroupCosts, want: dict[str, float] | None
) -> None:
    """Ranks are read from the policy's carrier, or from any that has some."""
    pods = [pod(name).annotations({ALPHA_COST: annotations[name]} if name in annotations else {}) for name in NAMES]
    found = ranks.known_ranks(terms, [each.build() for each in pods], costs)
    assert (None if found is None else dict(found.ranks)) == want


def test_annotations_name_the_pods_that_were_ranked_together() -> None:
    """They hold together only if all say the same."""
    digest = fingerprint(NAMES)
    pods = [pod(name).annotations({ALPHA_COST: "1", RANKED_AMONG: digest}).build() for name in NAMES]
    found = ranks.known_ranks(PATIENT, pods, NO_COSTS)
    assert found is not None
    assert found.among == digest
    other = pod("c").annotations({ALPHA_COST: "1", RANKED_AMONG: "other"}).build()
    mixed = ranks.known_ranks(PATIENT, [*pods[:2], other], NO_COSTS)
    assert mixed is not None
    assert mixed.among is None


@pytest.mark.parametrize(
    ("owner", "want"),
    [
        pytest.param({"kind": "CloneSet", "name": "web"}, "shop/web", id="as in the proposal"),
        pytest.param(
            {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}, "shop/web", id="its version"
        ),
        pytest.param({"apiVersion": "apps/v1", "kind": "CloneSet", "name": "web"}, None, id="another group's version"),
        pytest.param({"kind": "Deployment", "name": "web"}, None, id="another kind"),
        pytest.param({"kind": "CloneSet"}, None, id="no name"),
    ],
)
def test_which_cloneset_an_object_ranks(owner: dict[str, str], want: str | None) -> None:
    """The one that its owner names, and no other of the same name."""
    tree = {"metadata": {"name": "ranks", "namespace": "shop"}, "spec": {"owner": owner}}
    assert owner_key(codec.convert(tree, PodGroupCost)) == want


def test_two_objects_are_reported() -> None:
    """With both names, and without waiting."""
    two = external(group("bbb", a=1, b=2, c=3), group("aaa", a=3, b=2, c=1))
    found = ranks.known_ranks(Terms(), [pod(name).build() for name in NAMES], two)
    want = OriginalOrder("none of PodGroupCosts aaa, bbb counts")
    assert ranks.evaluate(Terms(), found, NAMES, None, START) == want


def test_all_ranked() -> None:
    """All may go, by rank, whatever was waited for."""
    assert ranks.evaluate(PATIENT, ALL, NAMES, waited(99), START) == ByRank((1.0, 2.0, 3.0), 3)


def test_no_ranks_to_be_had() -> None:
    """The original order, without a reason."""
    assert ranks.evaluate(Terms(), None, NAMES, None, START) == OriginalOrder()


def test_one_unranked_waits_and_then_falls_back() -> None:
    """The wait begins now, goes on from the status, and ends with the timeout."""
    first = ranks.evaluate(PATIENT, SOME, NAMES, None, START)
    assert first == Wait(waited(0), 30.0, "1 of 3 pods have no rank: c")
    later = ranks.evaluate(PATIENT, SOME, NAMES, waited(20), START)
    assert isinstance(later, Wait)
    assert later.seconds == 10.0
    assert ranks.evaluate(PATIENT, SOME, NAMES, waited(30), START) == OriginalOrder(
        "1 of 3 pods have no rank: c after 30 s"
    )


def test_a_policy_without_a_timeout_still_waits_for_recomputation() -> None:
    """Otherwise the first removal would let all the others go in the original order."""
    hasty = Terms(Carrier.POD_GROUP_COST, recompute=True, recompute_timeout=10.0)
    assert isinstance(ranks.evaluate(hasty, ALL, NAMES, None, START), Wait)
    assert ranks.evaluate(hasty, SOME, NAMES, None, START) == OriginalOrder("1 of 3 pods have no rank: c")


def test_without_a_policy_nothing_is_waited_for() -> None:
    """But the reason why ranks were ignored is reported."""
    assert ranks.evaluate(Terms(), SOME, NAMES, None, START) == OriginalOrder("1 of 3 pods have no rank: c")


def test_a_wait_never_begins_before_it_does() -> None:
    """Times are kept in whole seconds: the next one is written."""
    found = ranks.evaluate(PATIENT, SOME, NAMES, None, START + 1)
    assert isinstance(found, Wait)
    assert times.to_ns(found.wait.since) == START + SECOND
    assert found.seconds > 30.0


def test_a_wait_that_a_faster_clock_has_begun_is_no_longer_than_others() -> None:
    """It begins when it is first seen, and that is written down."""
    assert ranks.evaluate(PATIENT, SOME, NAMES, waited(-3600), START) == ranks.evaluate(
        PATIENT, SOME, NAMES, None, START
    )


def test_recomputed_ranks_allow_one_deletion() -> None:
    """Ranks that name exactly the pods that are there hold for one of them."""
    exact = KnownRanks(ALL.ranks, fingerprint(NAMES))
    assert ranks.evaluate(RECOMPUTING, exact, NAMES, None, START) == ByRank((1.0, 2.0, 3.0), 1)


def test_ranks_from_before_the_last_removal_do_not_hold() -> None:
    """Although every pod that is left has one; and the wait for new ones is a wait of its own."""
    stale = KnownRanks(ALL.ranks, fingerprint(NAMES))
    left = NAMES[:2]
    found = ranks.evaluate(RECOMPUTING, stale, left, waited(40, fingerprint(NAMES)), START)
    assert isinstance(found, Wait)
    assert found.wait.among == fingerprint(left)
    assert found.seconds == 30.0
    ended = ranks.evaluate(RECOMPUTING, stale, left, waited(40, fingerprint(left)), START)
    assert ended == OriginalOrder("the ranks have not been recomputed since the last removal after 30 s")


def test_ranks_of_an_unknown_group_are_not_used_if_recomputed() -> None:
    """Annotations that name no group cannot be distinguished from outdated ones."""
    assert isinstance(ranks.evaluate(RECOMPUTING, ALL, NAMES, None, START), Wait)


def test_fingerprints() -> None:
    """The same pods have one, in whatever order; others have another."""
    assert fingerprint(("b", "a")) == fingerprint(("a", "b"))
    assert fingerprint(("a", "b")) != fingerprint(("a", "b", "c"))
    assert fingerprint(("ab",)) != fingerprint(("a", "b"))


KEPT = Terms(Carrier.ANNOTATION, timeout=30.0)


def costed(name: str, cost: int | None, *, ours: bool = True, among: str = "") -> Pod:
    """A pod with a deletion cost, of a policy or of another writer; the policy's replaced 7."""
    made = pod(name)
    if cost is not None:
        written = PolicyCostAnnotation(policy="web", carrier="Annotation", cost=cost, before="7")
        beside = {POLICY_COST: codec.encode(written).decode()} if ours else {}
        made = made.annotations({DELETION_COST: str(cost), **beside, **({RANKED_AMONG: among} if among else {})})
    return made.build()


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, KEPT, id="kept current"),
        pytest.param(
            {"strategies": [{"name": "Scheduled"}]},
            Terms(Carrier.ANNOTATION, 30.0, recompute=True, recompute_timeout=30.0),
            id="and recomputed",
        ),
    ],
)
def test_terms_of_deletion_costs_that_are_kept_current(spec: dict[str, Any], want: Terms) -> None:
    """As those of any other carrier."""
    assert ranks.terms(policy(carrier="Annotation", delivery="Continuous", **spec)) == want


def test_deletion_costs_are_ranks_with_their_sign_turned() -> None:
    """Of the policy, or of another writer; a subset's cost is none, and neither is none."""
    subset = pod("d").annotations({DELETION_COST: "5", SUBSET_COST: "5"}).build()
    pods = [costed("a", -3), costed("b", 2, ours=False), costed("c", None), subset]
    found = ranks.known_ranks(KEPT, pods, NO_COSTS)
    assert found is not None
    assert found.ranks == {"a": 3.0, "b": -2.0}


def test_pods_with_costs_of_another_writer_need_no_recomputation() -> None:
    """The policy never writes to them."""
    pods = [costed("a", 1, among="x"), costed("b", 2, ours=False)]
    found = ranks.known_ranks(KEPT, pods, NO_COSTS)
    assert found is not None
    assert found.among == "x"


def test_the_original_order_is_without_the_costs_of_the_policy() -> None:
    """What was there before counts, and what other writers wrote."""
    assert ranks.costs_without_policy([costed("a", -3), costed("b", 2, ours=False), costed("c", None)]) == (7, 2, 0)
