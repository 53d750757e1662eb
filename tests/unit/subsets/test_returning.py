"""Pods that return to an earlier subset."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subsets.topologies import NOON, at, counted, member, subset, topology, with_status
from trimtab.api.unitedtopology import (
    MAX_RETURNS,
    AdaptiveStrategy,
    ReturnStrategy,
    ScheduleStrategy,
    Shortage,
    Subset,
    SubsetReturn,
    UnitedTopology,
)
from trimtab.subsets.members import Member
from trimtab.subsets.returning import Returns, plan_returns, pods_at_once, strategy_of
from trimtab.subsets.statuses import Table

OWN, RENTED = subset("own"), subset("rented")
SETTLING = 60


def returning(*subsets: Subset, max_pods: int | str = 1) -> UnitedTopology:
    """A UnitedTopology whose pods return after a minute."""
    back = ReturnStrategy(settling_seconds=SETTLING, max_pods=max_pods)
    adaptive = AdaptiveStrategy(reschedule_critical_seconds=30, return_=back)
    made = topology(*(subsets or (OWN, RENTED)))
    strategy = ScheduleStrategy(type="Adaptive", adaptive=adaptive)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, schedule_strategy=strategy))


def pods(**counts: int) -> list[Member]:
    """So many pods of each subset; those with higher numbers are younger."""
    return [
        member(f"{name}-{number}", name, created=at(number - 100), ready=True)
        for name, count in counts.items()
        for number in range(count)
    ]


def room(**free: int) -> Callable[[int], bool]:
    """Nodes with room for so many pods of each subset, by their order."""
    left = list(free.values())

    def has_room(index: int) -> bool:
        left[index] -= 1
        return left[index] >= 0

    return has_room


def step(
    of: UnitedTopology,
    members: list[Member],
    has_room: Callable[[int], bool],
    now: datetime,
    *,
    is_at_rest: bool = True,
) -> tuple[Returns, UnitedTopology]:
    """What returns, and the UnitedTopology with that in its status."""
    found = plan_returns(of, members, is_at_rest=is_at_rest, has_room=has_room, now=now)
    return found, with_status(of, msgspec.structs.replace(of.status, returns=found.returns, shortages=found.shortages))


def names(found: Returns) -> list[str]:
    """The pods that move."""
    return [each.name for each in found.moves]


def test_a_pod_returns_after_the_settling_time() -> None:
    """Not before; and the youngest of the later subset first."""
    members = pods(own=2, rented=2)
    of = counted(returning(), *members, replicas=4)
    found, of = step(of, members, room(own=1), NOON)
    assert (names(found), found.returns, found.recheck) == ([], (SubsetReturn(name="own", since=NOON),), 15.0)
    found, of = step(of, members, room(own=1), at(59))
    assert (names(found), found.recheck) == ([], 1.0)
    found, of = step(of, members, room(own=1), at(60))
    assert (names(found), found.target) == (["rented-1"], "own")
    assert found.returns == (SubsetReturn(name="own", since=at(60), expected=3, pods=("rented-1",)),)


def test_room_that_was_gone_in_between_starts_anew() -> None:
    """It must have been there all the time."""
    members = pods(own=2, rented=2)
    of = counted(returning(), *members, replicas=4)
    _, of = step(of, members, room(own=1), NOON)
    found, of = step(of, members, room(own=0), at(30))
    assert found.returns == ()
    found, of = step(of, members, room(own=1), at(60))
    assert (names(found), found.returns) == ([], (SubsetReturn(name="own", since=at(60)),))


@pytest.mark.parametrize(
    ("max_pods", "free", "want"),
    [
        pytest.param(1, 9, 1, id="one at a time"),
        pytest.param(3, 9, 3, id="a number"),
        pytest.param(3, 2, 2, id="no more than find a node"),
        pytest.param("50%", 9, 4, id="a share of the replicas"),
        pytest.param("1%", 9, 1, id="at least one"),
        pytest.param(99, 99, 6, id="no more than there are"),
    ],
)
def test_so_many_return_at_once(max_pods: int | str, free: int, want: int) -> None:
    """Never more than the spec says, and each finds a node."""
    members = pods(own=2, rented=6)
    of = counted(returning(max_pods=max_pods), *members, replicas=8)
    _, of = step(of, members, room(own=free), NOON)
    found, _ = step(of, members, room(own=free), at(60))
    assert len(found.moves) == want


def test_a_share_of_very_many_is_limited() -> None:
    """The list of pods in the status is bounded."""
    assert pods_at_once(ReturnStrategy(max_pods="100%"), 5000) == 100


def test_nothing_moves_while_the_workload_changes() -> None:
    """And what was seen before is kept."""
    members = pods(own=2, rented=2)
    of = counted(returning(), *members, replicas=4)
    _, of = step(of, members, room(own=1), NOON)
    found, of = step(of, members, room(own=1), at(90), is_at_rest=False)
    assert (names(found), found.returns) == ([], of.status.returns)
    found, _ = step(of, members, room(own=1), at(91))
    assert names(found) == ["rented-1"]


def test_a_full_subset_a_limit_and_a_floor_are_respected() -> None:
    """No room by the limit; a pod within the minimum stays."""
    limited = counted(returning(subset("own", 2), RENTED), *pods(own=2, rented=2), replicas=4)
    assert plan(limited, pods(own=2, rented=2)).returns == ()
    floored = counted(returning(OWN, subset("rented", minReplicas=2)), *pods(own=2, rented=3), replicas=5)
    _, of = step(floored, pods(own=2, rented=3), room(own=9), NOON)
    found, _ = step(of, pods(own=2, rented=3), room(own=9), at(60))
    assert names(found) == ["rented-2"]
    full = counted(returning(OWN, subset("rented", minReplicas=3)), *pods(own=2, rented=3), replicas=5)
    assert plan(full, pods(own=2, rented=3)).recheck is None


def plan(of: UnitedTopology, members: list[Member]) -> Returns:
    """What returns where all nodes have room."""
    return step(of, members, lambda _: True, NOON)[0]


def test_a_subset_that_was_found_full_waits() -> None:
    """For as long as its shortage lasts."""
    members = pods(own=2, rented=2)
    of = counted(returning(), *members, replicas=4)
    full = Shortage(name="own", until=at(100), times=3)
    of = with_status(of, msgspec.structs.replace(of.status, shortages=(full,)))
    assert step(of, members, room(own=9), at(99))[0].returns == ()
    assert step(of, members, room(own=9), at(100))[0].returns == (SubsetReturn(name="own", since=at(100)),)


def test_a_subset_that_did_not_get_its_pod_waits_and_longer_each_time() -> None:
    """The successor went elsewhere: not back and forth."""
    of, now = counted(returning(), *pods(own=2, rented=2), replicas=4), 0.0
    for times in (1, 2, 3):
        for moved in ([], ["rented-1"]):
            found, of = step(of, pods(own=2, rented=2), room(own=1), at(now))
            assert names(found) == moved
            now += SETTLING
        members = [*pods(own=2, rented=1), member(f"successor-{times}", "rented", created=NOON, ready=True)]
        of = counted(of, *members, replicas=4, now=at(now))
        found, of = step(of, members, room(own=1), at(now))
        (shortage,) = found.shortages
        assert (shortage.name, shortage.times, found.moves, found.returns) == ("own", times, (), ())
        now = (shortage.until - NOON).total_seconds()
        of = counted(of, *pods(own=2, rented=2), replicas=4, now=at(now))


def test_an_eviction_that_was_refused_is_no_failure() -> None:
    """A disruption budget says nothing about room."""
    members = pods(own=2, rented=2)
    of = counted(returning(), *members, replicas=4)
    _, of = step(of, members, room(own=1), NOON)
    _, of = step(of, members, room(own=1), at(60))
    moved = of.status.returns
    found, of = step(of, members, room(own=1), at(61))
    assert (found.returns, found.moves) == (moved, ())
    found, of = step(of, members, room(own=1), at(120))
    assert found.shortages == ()
    assert found.returns == (SubsetReturn(name="own", since=at(120)),)


def test_without_the_setting_nothing_returns() -> None:
    """Off by default; what is left in the status is removed."""
    members = pods(own=2, rented=2)
    of = counted(topology(OWN, RENTED, adaptive=True), *members, replicas=4)
    of = with_status(of, msgspec.structs.replace(of.status, returns=(SubsetReturn(name="own", since=NOON),)))
    found = plan(of, members)
    assert (found.returns, found.moves, found.recheck) == ((), (), None)


def test_a_subset_below_its_minimum_gets_pods_of_any_other() -> None:
    """Before all others, and no more than it lacks."""
    members = pods(own=4, steady=1, rented=1)
    of = counted(returning(OWN, subset("steady", minReplicas=3), RENTED, max_pods=9), *members, replicas=6)
    _, of = step(of, members, room(own=0, steady=9, rented=9), NOON)
    found, _ = step(of, members, room(own=0, steady=9, rented=9), at(60))
    assert (names(found), found.target) == (["rented-0", "own-3"], "steady")


# Bounds, to the second and to the pod.


@pytest.mark.parametrize(
    ("max_pods", "replicas", "want"),
    [(1, 10, 1), (3, 10, 3), ("50%", 9, 4), ("1%", 10, 1), (0, 10, 1), (10_000, 10_000, MAX_RETURNS)],
)
def test_how_many_pods_move_at_once(max_pods: int | str, replicas: int, want: int) -> None:
    """A percentage is rounded down; at least one, and no more than a status lists."""
    assert pods_at_once(ReturnStrategy(settling_seconds=SETTLING, max_pods=max_pods), replicas) == want


def test_pods_of_other_strategies_do_not_return() -> None:
    """Neither by a type that is not Adaptive, nor without settings."""
    made = returning()
    adaptive = made.spec.schedule_strategy.adaptive
    for strategy in (ScheduleStrategy(type="Fixed", adaptive=adaptive), ScheduleStrategy(type="Adaptive")):
        spec = msgspec.structs.replace(made.spec, schedule_strategy=strategy)
        assert strategy_of(msgspec.structs.replace(made, spec=spec)) is None
    assert strategy_of(made) is not None


def test_a_pod_returns_at_the_second_at_which_the_settling_time_ends() -> None:
    """Until then the next check is due when it does, or a part of it later."""
    members = pods(own=1, rented=2)
    of = counted(returning(), *members, replicas=3)
    first, of = step(of, members, room(own=9, rented=9), NOON)
    assert (names(first), first.recheck) == ([], 15.0)
    almost, of = step(of, members, room(own=9, rented=9), at(SETTLING - 3))
    assert (names(almost), almost.recheck) == ([], 3.0)
    moved, of = step(of, members, room(own=9, rented=9), at(SETTLING))
    assert (names(moved), moved.target) == (["rented-1"], "own")
    (entry,) = moved.returns
    assert (entry.since, entry.expected, entry.pods) == (at(SETTLING), 2, ("rented-1",))


def test_an_eviction_is_waited_for_as_long_as_pods_settle() -> None:
    """While the evicted pod is still there nothing else moves; at the end of the settling time it counts as refused."""
    members = pods(own=1, rented=2)
    of = counted(returning(), *members, replicas=3)
    entry = SubsetReturn(name="own", since=NOON, expected=2, pods=("rented-1",))
    of = with_status(of, msgspec.structs.replace(of.status, returns=(entry,)))
    waiting, _ = step(of, members, room(own=9, rented=9), at(SETTLING - 1))
    assert (waiting.returns, names(waiting)) == ((entry,), [])
    over, _ = step(of, members, room(own=9, rented=9), at(SETTLING))
    assert (over.shortages, [each.expected for each in over.returns]) == ((), [0])
    gone = [each for each in members if each.name != "rented-1"]
    missing, _ = step(counted(of, *gone, replicas=3), gone, room(own=9, rented=9), at(1))
    assert [each.name for each in missing.shortages] == ["own"], "it has gone, and none has come"
    terminating = [*gone, member("rented-1", "rented", active=False)]
    missing, _ = step(counted(of, *terminating, replicas=3), terminating, room(own=9, rented=9), at(1))
    assert [each.name for each in missing.shortages] == ["own"], "nor does one count that is terminating"


@pytest.mark.parametrize(
    ("seconds", "returns"), [(9, False), (10, True)], ids=["a second before", "at the second at which that ends"]
)
def test_pods_do_not_return_to_a_subset_that_is_full(seconds: int, returns: bool) -> None:
    """As long as it is recorded as full."""
    members = pods(own=1, rented=2)
    of = counted(returning(), *members, replicas=3)
    shortage = Shortage(name="own", until=at(10), times=1)
    entry = SubsetReturn(name="own", since=at(-SETTLING))
    of = with_status(of, msgspec.structs.replace(of.status, returns=(entry,), shortages=(shortage,)))
    found, _ = step(of, members, room(own=9, rented=9), at(seconds))
    assert bool(found.moves) is returns


@pytest.mark.parametrize(
    ("counts", "recheck"),
    [
        pytest.param({"own": 3, "steady": 1, "rented": 0}, None, id="all are where they belong"),
        pytest.param({"own": 2, "steady": 1, "rented": 1}, 15.0, id="one is in the last subset"),
        pytest.param({"own": 2, "steady": 2, "rented": 0}, 15.0, id="one is above a minimum"),
        pytest.param({"own": 4, "steady": 0, "rented": 0}, 15.0, id="one is missing up to a minimum"),
    ],
)
def test_room_is_looked_for_while_pods_are_elsewhere(counts: dict[str, int], recheck: float | None) -> None:
    """And not otherwise."""
    members = pods(**counts)
    of = counted(returning(OWN, subset("steady", minReplicas=1), RENTED), *members, replicas=4)
    found, _ = step(of, members, room(own=0, steady=0, rented=0), NOON)
    assert (found.recheck, found.moves) == (recheck, ())


def test_a_subset_that_has_just_its_minimum_gets_no_pods_of_earlier_ones() -> None:
    """Wherever there is room."""
    members = pods(own=2, steady=1)
    of = counted(returning(OWN, subset("steady", minReplicas=1)), *members, replicas=3)
    assert plan(of, members) == Returns()


def test_the_youngest_pods_of_a_subset_move_first() -> None:
    """Whatever their names; one whose age is not known counts as the youngest."""
    members = [
        member("a", "rented", created=at(-10)),
        member("b", "rented"),
        member("c", "rented", created=at(-30)),
        member("d", "rented", created=at(-20)),
    ]
    of = counted(returning(max_pods=3), *members, replicas=4)
    of = with_status(of, msgspec.structs.replace(of.status, returns=(SubsetReturn(name="own", since=at(-SETTLING)),)))
    found, _ = step(of, members, room(own=9), NOON)
    assert names(found) == ["b", "a", "d"]


def test_a_limit_takes_no_more_than_are_missing() -> None:
    """Of three that may move at once, one has a place: the other is reserved."""
    members = pods(own=1, rented=4)
    of = counted(returning(subset("own", 3), RENTED, max_pods=3), *members, replicas=5)
    first, second = of.status.subset_statuses
    rows = (msgspec.structs.replace(first, creating={"x": NOON}), second)
    entry = SubsetReturn(name="own", since=at(-SETTLING))
    of = with_status(of, msgspec.structs.replace(of.status, subset_statuses=rows, returns=(entry,)))
    found, _ = step(of, members, room(own=9, rented=9), NOON)
    assert names(found) == ["rented-3"]


def slow_targets(of: UnitedTopology, members: list[Member]) -> list[tuple[str, list[str]]]:
    """The subsets that may take pods of later ones, each with the pods that may move there; as the rules say."""
    rows = Table(of).rows(of.status.revision)
    floors = {row.name: row.floor for row in rows}

    def movable(name: str) -> list[Member]:
        pods = [each for each in members if each.active and each.subset == name]
        pods.sort(key=lambda each: (each.created or at(10**6), each.name), reverse=True)
        return pods[: max(0, len(pods) - floors[name])]

    below = [row for row in rows if row.replicas < floors[row.name]]
    found: list[tuple[str, list[str]]] = []
    for row in [*below, *(each for each in rows if each not in below)]:
        others = [each for each in rows if each is not row and (row in below or rows.index(each) > rows.index(row))]
        pods = [pod.name for other in reversed(others) for pod in movable(other.name)]
        pods = pods[: floors[row.name] - row.replicas] if row in below else pods
        if pods and (row.limit is None or row.limit > row.replicas):
            found.append((row.name, pods))
    return found


_SUBSET = st.tuples(st.integers(0, 3), st.none() | st.integers(0, 5), st.integers(0, 4))
"""Its minimum, its maximum, and how many pods it has."""


@given(st.lists(_SUBSET, min_size=1, max_size=6))
def test_targets_and_their_pods_are_those_of_the_slow_twin(sizes: list[tuple[int, int | None, int]]) -> None:
    """Every subset is asked about that may take a pod, in order, and the same pods move there."""
    subsets = [subset(f"s{index}", most, minReplicas=least) for index, (least, most, _) in enumerate(sizes)]
    members = pods(**{f"s{index}": count for index, (_, _, count) in enumerate(sizes)})
    of = counted(returning(*subsets, max_pods=99), *members, replicas=len(members))
    want = slow_targets(of, members)
    asked: list[str] = []

    def refuse(index: int) -> bool:
        asked.append(f"s{index}")
        return False

    plan_returns(of, members, is_at_rest=True, has_room=refuse, now=NOON)
    assert asked == [name for name, _ in want]
    for name, movable in want:
        since = tuple(SubsetReturn(name=each, since=at(-100)) for each, _ in want)
        due = with_status(of, msgspec.structs.replace(of.status, returns=since))
        found, _ = step(due, members, partial(_is, name), NOON)
        assert found.target == name
        assert names(found) == movable[: len(found.moves)]
        assert len(found.moves) == min(len(movable), _capacity_of(due, name))


def _is(name: str, index: int) -> bool:
    return f"s{index}" == name


def _capacity_of(of: UnitedTopology, name: str) -> int:
    row = Table(of).row(of.status.revision, name)
    assert row is not None
    return 99 if row.limit is None else row.limit - row.replicas
