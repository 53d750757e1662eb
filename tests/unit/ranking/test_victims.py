"""Which pod goes first, criterion by criterion; numbers in names and comments are those of the criteria."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.ranking.crowds import NOW, NOW_NS, make, names, pod_lists, rows_of, view_of
from tests.unit.ranking.twins import CloneSetTwin, ReplicaSetTwin, in_order, is_strict_weak_order
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.ranking.contenders import Criterion
from trimtab.ranking.victims import CLONESET, REPLICASET, Options, Order, cloneset_order, replicaset_order

HOUR = timedelta(hours=1)


def ago(seconds: float) -> datetime:
    """So many seconds before now."""
    return NOW - timedelta(seconds=seconds)


def replicaset(pods: Sequence[Pod], now: int | None = NOW_NS, **options: Any) -> tuple[list[str], Order]:
    """The keys of a ReplicaSet's pods in their order, and the order."""
    view = view_of(pods)
    rows = rows_of(view, pods)
    order = replicaset_order(view.pods, rows, rows, now, Options(**options))
    return names(view, order), order


def cloneset(
    pods: Sequence[Pod], ranks: Sequence[float] | None = None, available: Sequence[bool] | None = None
) -> tuple[list[str], Order]:
    """The keys of a CloneSet's pods in their order, and the order."""
    view = view_of(pods)
    mask = None if available is None else np.array(available, dtype=np.bool_)
    given_ranks = np.array(ranks if ranks is not None else [0.0] * len(pods), dtype=np.float64)
    order = cloneset_order(view.pods, rows_of(view, pods), given_ranks, mask)
    return names(view, order), order


REPLICASET_PAIRS = [
    pytest.param({"node": ""}, {"phase": "Pending"}, Criterion.UNASSIGNED, id="1 unassigned before assigned"),
    pytest.param({"phase": "Pending"}, {"phase": "Unknown"}, Criterion.PHASE, id="2 Pending before Unknown"),
    pytest.param({"phase": "Unknown"}, {"ready": False}, Criterion.PHASE, id="2 Unknown before Running"),
    pytest.param({"phase": "Odd"}, {"phase": "Unknown"}, Criterion.PHASE, id="2 an unheard-of phase counts as Pending"),
    pytest.param({"phase": "Failed"}, {"phase": "Unknown"}, Criterion.PHASE, id="2 a finished pod counts as Pending"),
    pytest.param({"ready": False, "cost": "9"}, {}, Criterion.READY, id="3 not ready before ready"),
    pytest.param({"cost": "-1", "node": "a"}, {"node": "b"}, Criterion.COST, id="4 the lower cost first"),
    pytest.param({"cost": "+9"}, {"cost": "1"}, Criterion.COST, id="4 a badly written cost counts as 0"),
    pytest.param({"cost": "-05"}, {"cost": "-0"}, Criterion.COST, id="4 zeros after a minus are read"),
    pytest.param({"since": None}, {"since": ago(1)}, Criterion.READY_TIME, id="6 an unknown ready time first"),
    pytest.param({"since": ago(30)}, {"since": ago(40)}, Criterion.READY_TIME, id="6 the shorter ready time first"),
    pytest.param({"since": ago(60)}, {"since": ago(40)}, Criterion.READY_SHUFFLE, id="6 by UID within a scale"),
    pytest.param({"since": ago(-9)}, {"since": ago(0)}, Criterion.READY_SHUFFLE, id="6 the future is one scale"),
    pytest.param({"restarts": 2, "sidecar_restarts": 0}, {"restarts": 1, "sidecar_restarts": 5}, Criterion.RESTARTS,
                 id="7 more restarts first"),
    pytest.param({"sidecar_restarts": 2}, {"created": ago(1)}, Criterion.SIDECAR_RESTARTS, id="7 then sidecars'"),
    pytest.param({"created": None}, {"created": ago(1)}, Criterion.CREATION, id="8 an unknown creation first"),
    pytest.param({"created": ago(30)}, {"created": ago(40)}, Criterion.CREATION, id="8 the younger first"),
    pytest.param({"created": ago(60)}, {"created": ago(40)}, Criterion.CREATION_SHUFFLE, id="8 by UID within a scale"),
    pytest.param({}, {}, Criterion.UID, id="9 by UID where all else is equal"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "by"), REPLICASET_PAIRS)
def test_of_two_pods_of_a_replicaset(first: dict[str, Any], second: dict[str, Any], by: Criterion) -> None:
    """The one goes before the other, by that criterion, whichever comes first in the input."""
    common = {"since": ago(100), "created": ago(100)}
    uids = ("a", "b") if by.name.endswith(("SHUFFLE", "UID")) else ("b", "a")
    one, other = make("one", uid=uids[0], **common | first), make("other", uid=uids[1], **common | second)
    for pods in permutations((one, other)):
        order, why = replicaset(pods)
        assert order == ["default/one", "default/other"]
        assert why.deciding(*why.rows.tolist()) is by
        assert why.decisions(1) == [by]


def test_5_pods_that_share_a_node_go_first() -> None:
    """The pod with more active pods of its group on its node goes first; those of other ReplicaSets count too."""
    pods = [make("alone", node="a", since=ago(1)), make("crowded", node="b", since=ago(9999))]
    siblings = [
        make("sibling", node="b"),
        make("gone", node="a", phase="Failed"),
        make("over", node="a", phase="Succeeded"),
    ]
    view = view_of([*pods, *siblings])
    order = replicaset_order(view.pods, rows_of(view, pods), rows_of(view, [*pods, *siblings]), NOW_NS)
    assert names(view, order) == ["default/crowded", "default/alone"]
    assert order.same_node_ranks.tolist() == [2, 1]
    assert order.decisions(1) == [Criterion.SAME_NODE]


def test_5_pods_without_a_node_count_as_sharing_one() -> None:
    """That is how Kubernetes counts; a pod that is not among the related ones has none with it."""
    pods = [make(name, node="") for name in "abc"]
    view = view_of(pods)
    rows = rows_of(view, pods)
    assert replicaset_order(view.pods, rows, rows, NOW_NS).same_node_ranks.tolist() == [3, 3, 3]
    assert replicaset_order(view.pods, rows, rows[:0], NOW_NS).same_node_ranks.tolist() == [0, 0, 0]


CLONESET_PAIRS = [
    pytest.param({"node": ""}, {"phase": "Pending"}, (0, 9), Criterion.UNASSIGNED, id="1 unassigned before assigned"),
    pytest.param({"phase": "Pending"}, {"phase": "Unknown"}, (0, 9), Criterion.PHASE, id="2 Pending before Unknown"),
    pytest.param({"ready": False, "cost": "9"}, {}, (0, 9), Criterion.READY, id="3 not ready before ready"),
    pytest.param({"cost": "-1"}, {}, (0, 9), Criterion.COST, id="4 the lower cost first"),
    pytest.param({"since": ago(9999)}, {}, (1.5, 1.25), Criterion.RANK, id="5 the higher rank first"),
    pytest.param({"since": ago(40)}, {"since": ago(60)}, (1, 1), Criterion.READY_TIME, id="6 without any scale"),
    pytest.param({"since": None}, {}, (1, 1), Criterion.READY_TIME, id="6 an unknown ready time first"),
    pytest.param({"restarts": 1}, {"sidecar_restarts": 9}, (1, 1), Criterion.RESTARTS, id="7 sidecars do not count"),
    pytest.param({"created": ago(40)}, {"created": ago(60)}, (1, 1), Criterion.CREATION, id="8 without any scale"),
    pytest.param({}, {"sidecar_restarts": 9}, (1, 1), Criterion.UID, id="9 by UID where all else is equal"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "ranks", "by"), CLONESET_PAIRS)
def test_of_two_pods_of_a_cloneset(
    first: dict[str, Any], second: dict[str, Any], ranks: tuple[float, float], by: Criterion
) -> None:
    """The one goes before the other, by that criterion, whichever comes first in the input."""
    common = {"since": ago(100), "created": ago(100)}
    uids = ("a", "b") if by is Criterion.UID else ("b", "a")
    one, other = make("one", uid=uids[0], **common | first), make("other", uid=uids[1], **common | second)
    for pods, given_ranks in (([one, other], ranks), ([other, one], ranks[::-1])):
        order, why = cloneset(pods, given_ranks)
        assert order == ["default/one", "default/other"]
        assert why.decisions(1) == [by]


def test_3_availability_comes_before_readiness() -> None:
    """A ready pod that is not available yet goes before an available one that is not ready now."""
    pods = [make("unready", ready=False), make("unavailable", ready=True, cost="99")]
    order, why = cloneset(pods, available=[True, False])
    assert order == ["default/unavailable", "default/unready"]
    assert why.decisions(1) == [Criterion.AVAILABLE]


def test_the_lists_are_numbered_in_order() -> None:
    """Both lists run to 9, a CloneSet's from its revisions on, and every rule is a sentence of its own."""
    for criteria, first in ((REPLICASET, 1), (CLONESET, 0)):
        numbers = [criterion.number for criterion in criteria]
        assert numbers == sorted(numbers)
        assert set(numbers) == set(range(first, 10))
    assert len({criterion.sentence for criterion in Criterion}) == len(Criterion)
    assert {criterion for criterion in Criterion if criterion.by_age} == {
        Criterion.READY_TIME,
        Criterion.READY_SHUFFLE,
        Criterion.CREATION,
        Criterion.CREATION_SHUFFLE,
    }


@pytest.mark.parametrize(
    ("settings_", "now", "want"),
    [
        pytest.param({}, NOW_NS, "shuffled", id="stock: 40 and 60 seconds are one scale"),
        pytest.param({"logarithmic": False}, NOW_NS, "younger", id="the gate off: the younger first"),
        pytest.param({}, None, "younger", id="no clock: the younger first"),
        pytest.param({"base": "e"}, NOW_NS, "shuffled", id="base e: one scale as well"),
        pytest.param({"base": 10}, NOW_NS, "shuffled", id="base 10: one scale as well"),
    ],
)
def test_the_scale_of_ages_can_be_chosen(settings_: dict[str, Any], now: int | None, want: str) -> None:
    """Gates, bases and a clock that was not read change what criterion 6 says."""
    pods = [make("shuffled", uid="a", since=ago(60)), make("younger", uid="b", since=ago(40))]
    assert replicaset(pods, now, **settings_)[0][0] == f"default/{want}"


@pytest.mark.parametrize(("base", "together"), [(2, False), ("e", False), (10, True)])
def test_wider_bases_hold_more_ages_together(base: Any, together: bool) -> None:
    """150 and 900 seconds are one scale to base 10 alone."""
    pods = [make("old", uid="a", since=ago(900)), make("young", uid="b", since=ago(150))]
    assert replicaset(pods, base=base)[0][0] == ("default/old" if together else "default/young")


def test_the_cost_can_be_switched_off() -> None:
    """Without the gate, costs decide nothing, and are not named as a reason."""
    pods = [make("cheap", uid="b", cost="-9", since=ago(999)), make("young", uid="a", since=ago(9))]
    order, why = replicaset(pods, deletion_cost=False)
    assert order == ["default/young", "default/cheap"]
    assert why.decisions(1) == [Criterion.READY_TIME]


def test_an_unknown_base_is_refused() -> None:
    """The error says what can be written."""
    with pytest.raises(InvalidError, match="base: 3 is not a base of ages"):
        Options(base=3)  # type: ignore[arg-type]


def circle() -> list[Pod]:
    """Three pods that upstream's comparison sends in a circle: x before z, z before y, y before x."""
    return [
        make("x", uid="1", since=ago(40)),
        make("y", uid="3", since=ago(40), restarts=1),
        make("z", uid="2", since=ago(60)),
    ]


def test_a_circle_of_comparisons_still_gives_one_order() -> None:
    """Wherever upstream is inconsistent, every order of the input gives the same answer: x and y swap their slots."""
    assert not is_strict_weak_order(circle(), ReplicaSetTwin(circle(), NOW).compare)
    orders = {tuple(replicaset(pods)[0]) for pods in permutations(circle())}
    assert orders == {("default/y", "default/z", "default/x")}


@given(pod_lists(size=6, alike=True) | pod_lists(size=6, alike=False), st.booleans(), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=250)
def test_upstreams_order_wherever_it_has_one(
    pods: list[Pod], logarithmic: bool, deletion_cost: bool, clock: bool
) -> None:
    """If upstream's comparison is consistent on the pods, ours contradicts none of its answers."""
    twin = ReplicaSetTwin(pods, NOW if clock else None, logarithmic, deletion_cost)
    assume(is_strict_weak_order(pods, twin.compare))
    order, _ = replicaset(pods, NOW_NS if clock else None, logarithmic=logarithmic, deletion_cost=deletion_cost)
    place = {key: index for index, key in enumerate(order)}
    for a, b in permutations(pods, 2):
        if twin.compare(a, b) < 0:
            assert place[a.key] < place[b.key]


@given(pod_lists(size=8, alike=True) | pod_lists(size=8, alike=False), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_every_order_is_total_and_does_not_depend_on_the_input(pods: list[Pod], rng: random.Random) -> None:
    """Each pod is there once, in the same order however the pods came, also where upstream has no order at all."""
    ranks = {pod.key: float(rng.randrange(3)) for pod in pods}
    first, first_clones = replicaset(pods)[0], cloneset(pods, [ranks[pod.key] for pod in pods])[0]
    assert sorted(first) == sorted(first_clones) == sorted(pod.key for pod in pods)
    shuffled = rng.sample(pods, len(pods))
    assert replicaset(shuffled)[0] == first
    assert cloneset(shuffled, [ranks[pod.key] for pod in shuffled])[0] == first_clones


@given(pod_lists(size=6, alike=False), st.data())
@settings(deadline=None)
def test_a_cloneset_is_ordered_as_upstream_says(pods: list[Pod], data: st.DataObject) -> None:
    """The same order as comparing pods two at a time, ties by UID."""
    ranks = {pod.key: data.draw(st.sampled_from([0.0, 1.0, 1.1])) for pod in pods}
    available = data.draw(st.none() | st.sets(st.sampled_from([pod.key for pod in pods])))
    mask = None if available is None else [pod.key in available for pod in pods]
    order, _ = cloneset(pods, [ranks[pod.key] for pod in pods], mask)
    assert order == [pod.key for pod in in_order(pods, CloneSetTwin(ranks, available).compare)]


@pytest.mark.parametrize("logarithmic", [False, True])
def test_many_pods_are_ordered_as_few_are(logarithmic: bool) -> None:
    """300 pods of all sorts; no two have a time in common, so that upstream's comparison is consistent."""
    rng = random.Random(7)
    moments = rng.sample(range(1, 100_000), 600)
    pods = [
        make(
            f"pod-{number:03d}",
            uid=f"{rng.getrandbits(12):03x}-{'0' * 16}-{number}",
            node=rng.choice(["", "a", "b", "c"]),
            phase=rng.choice(["Pending", "Unknown", "Running"]),
            ready=rng.random() < 0.7,
            since=ago(moments.pop() / 100),
            created=ago(moments.pop() / 100),
            cost=rng.choice([None, "1", "-2000000000", "2000000000"]),
            restarts=rng.randrange(3),
        )
        for number in range(300)
    ]
    twin = ReplicaSetTwin(pods, NOW, logarithmic)
    order, _ = replicaset(pods, logarithmic=logarithmic)
    assert order == [pod.key for pod in in_order(pods, twin.compare)]


def test_equal_uids_are_told_apart_by_name() -> None:
    """Pods made without UIDs have an order too, by name."""
    pods = [make(name, since=ago(40 + index)) for index, name in enumerate(["c", "a", "b"])]
    assert {tuple(replicaset(some)[0]) for some in permutations(pods)} == {("default/a", "default/b", "default/c")}


def test_no_pods_have_an_order_too() -> None:
    """Nothing in, nothing out."""
    for order, why in (replicaset([]), replicaset([], None), cloneset([])):
        assert order == []
        assert why.decisions(0) == []


def test_any_two_pods_can_be_asked_about() -> None:
    """The criterion is that of the two, wherever they stand; several can be asked about at once."""
    pods = [make("a", uid="a", cost="-1"), make("b", uid="b", restarts=2), make("c", uid="c")]
    _, why = replicaset(pods)
    a, b, c = why.rows.tolist()
    assert why.deciding(a, c) is why.deciding(c, a) is Criterion.COST
    assert why.deciding(b, c) is Criterion.RESTARTS
    assert why.deciding_all(np.array([a, b]), c) == [Criterion.COST, Criterion.RESTARTS]
    assert why.decisions(2) == [Criterion.COST, Criterion.RESTARTS]


def test_nothing_decides_where_all_go() -> None:
    """With no pod left to compare with, there is no deciding criterion."""
    assert replicaset(circle())[1].decisions(3) == []


@pytest.mark.parametrize("victims", [-1, 4])
def test_a_number_of_victims_that_cannot_be(victims: int) -> None:
    """Fewer than none and more than there are make a clear error."""
    with pytest.raises(InvalidError, match="of 3 pods cannot go"):
        replicaset(circle())[1].decisions(victims)


@pytest.mark.parametrize("moment", [datetime(1500, 1, 1, tzinfo=NOW.tzinfo), datetime(9000, 1, 1, tzinfo=NOW.tzinfo)])
def test_times_out_of_this_world_do_not_break_the_order(moment: datetime) -> None:
    """A time of long ago or far ahead is old or young, and nothing worse."""
    pods = [make("odd", since=moment), make("plain", since=ago(50))]
    young = moment > NOW
    assert replicaset(pods)[0][0] == replicaset(pods, None)[0][0] == f"default/{'odd' if young else 'plain'}"


def test_the_epoch_is_a_time_like_any_other() -> None:
    """1970-01-01 is long ago, not unknown."""
    pods = [make("epoch", since=datetime(1970, 1, 1, tzinfo=NOW.tzinfo)), make("plain", since=ago(50))]
    assert replicaset(pods, None)[0] == ["default/plain", "default/epoch"]
