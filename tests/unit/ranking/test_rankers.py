"""Ranks by node and by topology."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ranking import twins
from tests.unit.ranking.crowds import NOW, make, pod_lists, rows_of, view_of
from trimtab.api.annotations import RANK
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.pods import Pod, TopologySpreadConstraint
from trimtab.ranking.contenders import Contenders
from trimtab.ranking.rankers import (
    SCALES,
    Constraint,
    Ranker,
    RankSettings,
    SameNodeRanker,
    Scale,
    SpreadConstraintsRanker,
    constraints_of,
    ranker_for,
)
from trimtab.ranking.victims import Order, order_contenders
from trimtab.snapshot import Snapshot

LN3 = struct.unpack(">d", bytes.fromhex("3ff193ea7aad030a"))[0]
"""ln(3) as Go computes it on amd64, which is not what the C library says."""

BALANCED, PROPORTIONAL = (SpreadConstraintsRanker((Constraint(ZONE),), scale) for scale in ("balanced", "proportional"))


def ranked(view: Snapshot, pods: Sequence[Pod], ranker: Ranker) -> tuple[dict[str, float], Order]:
    """The rank of each pod by name, and the order that follows."""
    contenders = Contenders(view.pods, rows_of(view, pods))
    ranks = ranker.ranks(contenders, view.nodes)
    by_name = {pod.metadata.name: rank for pod, rank in zip(pods, ranks.tolist(), strict=True)}
    return by_name, order_contenders(contenders, ranks)


def sequence(view: Snapshot, order: Order) -> str:
    """The names of pods in their order."""
    found = (view.pods.objects[row] for row in order.rows.tolist())
    return " ".join(pod.metadata.name for pod in found if pod is not None)


# --- The proposal's example ---------------------------------------------------------------------------------------

NODES = {
    **{f"node-{name}": {ZONE: "zone-x", HOSTNAME: f"node-{name}"} for name in "abc"},
    **{f"node-{name}": {ZONE: "zone-y", HOSTNAME: f"node-{name}"} for name in "de"},
}
YOUNGEST_FIRST = "c-2 d-1 e-1 a-1 c-1 d-0 e-0 a-0 b-0 c-0"
"""Ages that give the two inner orders which the proposal prints; where ranks are equal, they decide."""


def example() -> tuple[Snapshot, list[Pod]]:
    """The ten pods of the proposal's example."""
    pods = [
        make(name, uid=name, node=f"node-{name[0]}", since=NOW - timedelta(hours=hours + 1))
        for hours, name in enumerate(YOUNGEST_FIRST.split())
    ]
    return view_of(pods, NODES), pods


@pytest.mark.parametrize(
    "ranker", [pytest.param(BALANCED, id="balanced"), pytest.param(PROPORTIONAL, id="proportional")]
)
@pytest.mark.parametrize(
    ("zone", "want"),
    [
        pytest.param("abc", "c-2 a-1 c-1 a-0 b-0 c-0", id="zone-x"),
        pytest.param("de", "d-1 e-1 d-0 e-0", id="zone-y"),
    ],
)
def test_the_examples_order_inside_each_zone(ranker: Ranker, zone: str, want: str) -> None:
    """Inside a zone pods go as the proposal prints, with either scale."""
    view, pods = example()
    _, order = ranked(view, pods, ranker)
    assert " ".join(name for name in sequence(view, order).split() if name[0] in zone) == want


def test_the_examples_final_sequence() -> None:
    """The proportional scale gives the printed sequence, to the last pod."""
    view, pods = example()
    _, order = ranked(view, pods, PROPORTIONAL)
    assert sequence(view, order) == "d-1 c-2 e-1 a-1 c-1 d-0 a-0 b-0 e-0 c-0"


def test_the_balanced_sequence_takes_from_the_fuller_zone() -> None:
    """Six pods against four: the first two go from zone-x, and the zones stay level from then on."""
    view, pods = example()
    _, order = ranked(view, pods, BALANCED)
    left = {"x": 6, "y": 4}
    for name in sequence(view, order).split():
        left["x" if name[0] in "abc" else "y"] -= 1
        assert abs(left["x"] - left["y"]) <= 1
    assert sequence(view, order).startswith("c-2 a-1 ")


def test_the_examples_same_node_ranks() -> None:
    """Alone on a node is 0; of several, the first to go has as many as stay behind it."""
    view, pods = example()
    ranks, _ = ranked(view, pods, SameNodeRanker())
    assert ranks == {
        "a-1": 1, "a-0": 0, "b-0": 0, "c-2": 2, "c-1": 1, "c-0": 0, "d-1": 1, "d-0": 0, "e-1": 1, "e-0": 0,
    }  # fmt: skip


# --- Rules --------------------------------------------------------------------------------------------------------


def young(name: str, node: str, **fields: Any) -> Pod:
    """A pod that is the younger the earlier its name."""
    return make(name, uid=name, node=node, since=NOW - timedelta(hours=ord(name[0]) - 90), **fields)


def test_pods_without_a_node_have_no_rank() -> None:
    """However many they are: they share no node."""
    pods = [young(name, "") for name in "abc"]
    ranks, _ = ranked(view_of(pods), pods, SameNodeRanker())
    assert ranks == {"a": 0, "b": 0, "c": 0}


def test_pods_of_an_unknown_node_share_it_all_the_same() -> None:
    """The same-node rank goes by the node's name; a domain takes a node whose labels are known."""
    pods = [young("a", "lost"), young("b", "lost"), young("c", "found")]
    view = view_of(pods, {"found": {ZONE: "z"}})
    assert ranked(view, pods, SameNodeRanker())[0] == {"a": 1, "b": 0, "c": 0}
    assert ranked(view, pods, BALANCED)[0] == {"a": 0, "b": 0, "c": LN3}


def test_a_node_without_the_label_is_in_no_domain_and_an_empty_value_is_one() -> None:
    """Lacking a label is not the same as having it with nothing in it."""
    pods = [young("a", "bare"), young("b", "empty"), young("c", "full")]
    view = view_of(pods, {"bare": {}, "empty": {ZONE: ""}, "full": {ZONE: "z"}})
    ranks, _ = ranked(view, pods, PROPORTIONAL)
    assert ranks == {"a": 0, "b": 0, "c": 0}
    assert [rank > 0 for rank in ranked(view, pods, BALANCED)[0].values()] == [False, True, True]


def test_the_last_pod_of_a_domain_ranks_one_and_weights_are_gos() -> None:
    """One domain weighs ln(3), with the bits that Go gives it; its last pod has 1 of that, not 0."""
    pods = [young("a", "one"), young("b", "two")]
    view = view_of(pods, {"one": {ZONE: "z"}, "two": {ZONE: "z"}, "unused": {ZONE: "other"}})
    assert ranked(view, pods, BALANCED)[0] == {"a": 2 * LN3, "b": LN3}


@pytest.mark.parametrize(
    ("limited", "want"),
    [
        pytest.param(None, [True, True, True], id="no list means all values"),
        pytest.param((), [True, True, True], id="an empty list means all values"),
        pytest.param(("z1", "z9"), [True, True, False], id="values outside of the list do not count"),
        pytest.param(("z9",), [False, False, False], id="a list of strangers leaves nobody"),
    ],
)
def test_limited_values(limited: tuple[str, ...] | None, want: list[bool]) -> None:
    """Only the domains listed give ranks, and only those are counted."""
    pods = [young("a", "n1"), young("b", "n1"), young("c", "n2")]
    view = view_of(pods, {"n1": {ZONE: "z1"}, "n2": {ZONE: "z2"}})
    ranks, _ = ranked(view, pods, SpreadConstraintsRanker((Constraint(ZONE, limited),)))
    assert [rank > 0 for rank in ranks.values()] == want
    if limited == ("z1", "z9"):
        assert ranks["b"] == LN3


def test_several_constraints_add_up() -> None:
    """A constraint listed twice counts twice."""
    pods = [young("a", "n1"), young("b", "n2"), young("c", "n2")]
    view = view_of(pods, {"n1": {ZONE: "z", HOSTNAME: "n1"}, "n2": {ZONE: "z", HOSTNAME: "n2"}})
    zone, host = Constraint(ZONE), Constraint(HOSTNAME)
    alone = [ranked(view, pods, SpreadConstraintsRanker((c,)))[0] for c in (zone, host, zone)]
    together, _ = ranked(view, pods, SpreadConstraintsRanker((zone, host, zone)))
    assert together == {name: alone[0][name] + alone[1][name] + alone[2][name] for name in "abc"}


def test_in_a_zone_a_crowded_node_gives_first_and_among_hosts_age_decides() -> None:
    """Pods of a zone are put in order by their crowding; pods of a host are not, for they all share it."""
    pods = [young("a", "n1"), young("b", "n2"), young("c", "n2")]
    view = view_of(pods, {"n1": {ZONE: "z", HOSTNAME: "h"}, "n2": {ZONE: "z", HOSTNAME: "h"}})
    by_zone, _ = ranked(view, pods, SpreadConstraintsRanker((Constraint(ZONE),)))
    by_host, _ = ranked(view, pods, SpreadConstraintsRanker((Constraint(HOSTNAME),)))
    assert sorted(by_zone, key=by_zone.__getitem__, reverse=True) == ["b", "a", "c"]
    assert sorted(by_host, key=by_host.__getitem__, reverse=True) == ["a", "b", "c"]


def test_a_pod_alone_in_its_domain_is_the_last_to_give_proportionally() -> None:
    """The share (n − i)/(n − 1) has no value for n = 1: such a pod ranks 0, below all pods of larger domains."""
    pods = [young("a", "n1"), young("b", "n2"), young("c", "n2")]
    view = view_of(pods, {"n1": {ZONE: "z1"}, "n2": {ZONE: "z2"}})
    assert ranked(view, pods, PROPORTIONAL)[0] == {"a": 0, "b": 2, "c": 1}


def test_criteria_before_the_rank_decide_inside_a_domain_too() -> None:
    """An unready pod is the first that its domain gives, however old it is."""
    pods = [young("a", "n"), young("b", "n", ready=False)]
    ranks, _ = ranked(view_of(pods, {"n": {ZONE: "z"}}), pods, BALANCED)
    assert ranks == {"a": LN3, "b": 2 * LN3}


@pytest.mark.parametrize("ranker", [SameNodeRanker(), BALANCED, PROPORTIONAL, SpreadConstraintsRanker(())])
def test_no_pods_have_no_ranks(ranker: Ranker) -> None:
    """Nothing in, nothing out."""
    ranks, order = ranked(Snapshot(), [], ranker)
    assert ranks == {}
    assert len(order) == 0


def test_an_unknown_scale_is_refused() -> None:
    """The error lists those that exist."""
    with pytest.raises(InvalidError, match='scale: "fair" is not one of balanced, proportional'):
        SpreadConstraintsRanker((), "fair")  # type: ignore[arg-type]


# --- Where constraints come from ----------------------------------------------------------------------------------


def stated(key: str) -> TopologySpreadConstraint:
    """A constraint as a template writes it."""
    return TopologySpreadConstraint(max_skew=1, topology_key=key, when_unsatisfiable="ScheduleAnyway")


@pytest.mark.parametrize(
    ("template", "defaults", "want"),
    [
        pytest.param(
            [ZONE, "rack"], [HOSTNAME], (Constraint(ZONE), Constraint("rack")), id="the template's come first"
        ),
        pytest.param([], [HOSTNAME], (Constraint(HOSTNAME),), id="else the cluster's default constraints"),
        pytest.param([], [], (), id="there may be none"),
    ],
)
def test_constraints(template: list[str], defaults: list[str], want: tuple[Constraint, ...]) -> None:
    """A template that states constraints is taken at its word; one that states none gets the defaults."""
    assert constraints_of(map(stated, template), map(stated, defaults)) == want


@pytest.mark.parametrize("scale", ["balanced", "proportional"])
def test_the_ranker_follows_from_the_constraints(scale: Scale) -> None:
    """Without constraints only the node matters."""
    assert ranker_for((), scale) == SameNodeRanker()
    assert ranker_for((Constraint(ZONE),), scale) == SpreadConstraintsRanker((Constraint(ZONE),), scale)


# --- The twin -----------------------------------------------------------------------------------------------------

LABELS: Mapping[str, Mapping[str, str]] = {"a": {ZONE: "z1", HOSTNAME: "a"}, "b": {ZONE: "z2", "rack": "r"}}
KEYS = st.lists(
    st.tuples(st.sampled_from([ZONE, HOSTNAME, "rack", "missing"]), st.sampled_from([(), ("z1",), ("z1", "r")])),
    max_size=3,
)


@given(pod_lists(size=8, alike=False), KEYS)
@settings(deadline=None)
def test_ranks_are_those_of_the_slow_twin(pods: list[Pod], keys: list[tuple[str, tuple[str, ...]]]) -> None:
    """Pod by pod and domain by domain, as upstream works them out."""
    view = view_of(pods, LABELS)
    ranker = SpreadConstraintsRanker(tuple(Constraint(key, limited) for key, limited in keys))
    spread, _ = ranked(view, pods, ranker)
    same, _ = ranked(view, pods, SameNodeRanker())
    by_key = {pod.metadata.name: pod.key for pod in pods}
    want = twins.spread_ranks(pods, LABELS, keys)
    assert np.allclose(list(spread.values()), [want[by_key[name]] for name in spread], rtol=1e-14)
    assert json.dumps(same) == json.dumps({p.metadata.name: twins.same_node_ranks(pods)[p.key] for p in pods})


@pytest.mark.parametrize(
    ("stated", "want"), [("proportional", "proportional"), ("balanced", "balanced"), ("other", None), (None, None)]
)
def test_a_cloneset_may_state_its_scale(stated: str | None, want: str | None) -> None:
    """By an annotation; any other value is ignored."""
    annotations = {} if stated is None else {RANK: stated}
    for usual in SCALES:
        assert RankSettings(scale=usual).scale_for(annotations) == (want or usual)


def test_templates_without_constraints_have_none_unless_the_settings_say_otherwise() -> None:
    """So that their pods are ranked by their nodes, and not by what a plan keeps level."""
    assert RankSettings().defaults("default-scheduler") == ()
