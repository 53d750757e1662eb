"""What owners want: their reservations never exceed it, and no pod that is wanted goes without one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subsets.topologies import NOON, REVISION, at, counted, member, subset, topology, with_status
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.subsets import statuses
from trimtab.subsets.allocation import Allocation, PodCreation, PodDeletion, allocate, announce
from trimtab.subsets.demand import ABANDONED, Demand, ListedPods, Owner, OwnerRows
from trimtab.subsets.statuses import Row, Table

OPEN = topology(subset("a", 3), subset("b"))
STORED = frozenset({"stored"})


def replicaset(most: int) -> Owner:
    """The usual ReplicaSet, which may have so many pods."""
    return Owner("ReplicaSet", "web-1", REVISION, most)


def newcomers(count: int, most: int, start: int = 0) -> list[PodCreation]:
    """Pods of the usual ReplicaSet, which may have so many."""
    return [PodCreation(f"new-{start + each}", REVISION, owner=replicaset(most)) for each in range(count)]


def entries(of: UnitedTopology) -> list[str]:
    """All reservations of a status."""
    return [key for _, row in Table(of).all() for key in row.creating]


def after(of: UnitedTopology, creations: Sequence[PodCreation], now: datetime = NOON, **more: Demand) -> Allocation:
    """The allocation, with what is known of the usual ReplicaSet."""
    return allocate(of, creations, now=now, demands={REVISION: more["demand"]} if more else None)


@given(
    most=st.integers(0, 12),
    live=st.integers(0, 8),
    outside=st.integers(0, 4),
    rounds=st.lists(st.integers(0, 8), max_size=4),
)
def test_reservations_never_exceed_what_their_owner_wants(
    most: int, live: int, outside: int, rounds: list[int]
) -> None:
    """And all that is wanted is reserved, where some subset has no limit."""
    of = counted(OPEN, *(member(f"p{each}", "b") for each in range(live)))
    made = 0
    for round_ in rounds:
        creations = newcomers(round_, most, made)
        result = after(of, creations, demand=Demand(most, outside))
        of = with_status(of, result.status)
        made += round_
        wanted = max(0, most - live - outside)
        assert len(entries(of)) == min(wanted, made)
        assert bool(result.uncertainty.owners) == bool(result.unwanted)
        assert {name for name, choice in result.choices.items() if choice is None} == result.unwanted


def test_listed_pods_decide_over_counts() -> None:
    """The status counts three pods, of which two have ended since."""
    of = counted(OPEN, *(member(f"p{each}", "b") for each in range(3)))
    assert after(of, newcomers(1, 3)).uncertainty.owners == {REVISION}
    result = after(of, newcomers(3, 3), demand=Demand(3, listed=ListedPods(1)))
    assert (len(result.unwanted), result.uncertainty.owners) == (1, set())


def test_a_reservation_whose_pod_is_listed_counts_once() -> None:
    """The pod has been stored, and the controller has not counted it yet."""
    of = with_status(OPEN, after(counted(OPEN), newcomers(2, 3)).status)
    listed = ListedPods(2, frozenset({"new-0", "new-1"}))
    assert len(after(of, newcomers(2, 3, 5), demand=Demand(3, listed=listed)).unwanted) == 1


@pytest.mark.parametrize(
    ("confirmed", "want"),
    [pytest.param((), {"p0"}, id="in doubt"), pytest.param(("p0",), set(), id="confirmed")],
)
def test_a_confirmed_deletion_makes_its_successor_wanted(confirmed: tuple[str, ...], want: set[str]) -> None:
    """An announced one has to be confirmed first: it may be forged, too."""
    of = counted(OPEN, *(member(f"p{each}", "b") for each in range(2)))
    of = with_status(of, announce(of, [PodDeletion("p0", REVISION, "b", "of-p0")], now=NOON))
    result = allocate(of, newcomers(1, 2), now=NOON, confirmed=confirmed)
    assert (set(result.uncertainty.deleting), len(result.unwanted)) == (want, len(want))


@pytest.mark.parametrize(
    ("age", "stored", "want"),
    [
        pytest.param(ABANDONED, frozenset[str](), ["new-9"], id="an old one makes room"),
        pytest.param(ABANDONED - timedelta(seconds=1), frozenset[str](), ["new-0"], id="a recent one does not"),
        pytest.param(ABANDONED, frozenset({"new-0"}), ["new-0"], id="nor does one whose pod exists"),
    ],
)
def test_a_reservation_without_a_pod_makes_room_for_a_new_attempt(
    age: timedelta, stored: frozenset[str], want: list[str]
) -> None:
    """A quota refused the pod that it was made for."""
    of = with_status(OPEN, after(counted(OPEN), newcomers(1, 1)).status)
    listed = ListedPods(len(stored), stored)
    result = after(of, newcomers(1, 1, 9), NOON + age, demand=Demand(1, listed=listed))
    assert entries(with_status(of, result.status)) == want


def test_only_deletions_in_doubt_are_to_be_confirmed() -> None:
    """Of an owner that wants one pod, and has three of which one has certainly gone."""
    rows = [Row("a", None, replicas=1, deleting={"p0": NOON}), Row("b", None, replicas=2, deleting={"p1": at(1)})]
    owner = OwnerRows(rows, Demand(1), confirmed={"p0"})
    assert (owner.wanted, owner.unconfirmed()) == (-1, {"p1": at(1)})


def test_the_oldest_reservation_without_a_pod_makes_room_first() -> None:
    """For one pod; the others still count."""
    row = Row("a", None, creating={"young": at(-6), "old": at(-8), "stored": at(-9)})
    rows = OwnerRows([Row("b", None, creating={"middle": at(-7)}), row], Demand(4, listed=ListedPods(1, STORED)))
    assert rows.wanted == 0
    assert rows.drop_abandoned(NOON)
    assert (list(row.creating), rows.wanted) == (["young", "stored"], 1)


def test_the_reservations_of_a_cloneset_are_counted_over_all_revisions() -> None:
    """The revision of its pods is a label, which a forged review can invent."""
    owner = Owner("CloneSet", "web", "c1", 3)
    forged = [PodCreation(f"new-{each}", f"invented-{each}", owner=owner) for each in range(9)]
    result = allocate(counted(OPEN), forged, now=NOON)
    assert len(result.unwanted) == 6


def test_replicasets_of_one_deployment_have_their_own_demand() -> None:
    """During a rollout both have pods."""
    of = counted(OPEN, *(member(f"p{each}", "b") for each in range(3)))
    other = Owner("ReplicaSet", "web-2", "r2", 2)
    creations = [PodCreation(f"new-{each}", "r2", owner=other) for each in range(3)]
    assert allocate(of, creations, now=NOON).unwanted == {"new-2"}


def test_a_status_has_a_bounded_number_of_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a workload wants, and whatever is announced."""
    monkeypatch.setattr("trimtab.subsets.allocation.MOST_ENTRIES", 5)
    of = counted(OPEN, *(member(f"p{each}", "b") for each in range(3)))
    of = with_status(of, after(of, newcomers(9, 100)).status)
    assert len(entries(of)) == 5
    assert announce(of, [PodDeletion("p0", REVISION, "b")], now=at(1)) == of.status


def test_a_status_has_a_bounded_number_of_revisions() -> None:
    """A hundred subsets leave space for ten revisions."""
    wide = topology(*(subset(f"s{each}") for each in range(100)))
    creations = [PodCreation(f"new-{each}", f"v{each}") for each in range(20)]
    result = allocate(counted(wide), creations, now=NOON)
    assert len(result.status.other_revisions) == statuses.MOST_ROWS // 100 - 1
    assert len(result.unwanted) == 20 - len(result.status.other_revisions)


def test_at_least_four_revisions_have_space() -> None:
    """However many subsets there are; one that has rows keeps them."""
    table = statuses.Table(topology(*(subset(f"s{number}") for number in range(statuses.MOST_ROWS))))
    for number in range(4):
        assert table.has_space_for(f"r{number}")
        table.rows(f"r{number}")
    assert not table.has_space_for("r4")
    assert table.has_space_for("r0")
