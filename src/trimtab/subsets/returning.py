"""Adaptive: pods that return to an earlier subset, once that has had room for a while.

1. A pod returns to the first subset before its own that has free capacity, was not found full lately, and in which a
   node can take a pod as that subset shapes it. It must have had that room for the whole settling time. Subsets below
   their minimum come first, and get pods of any other.
2. Nothing moves unless the workload is at rest: as many pods as it wants, all of the newest revision and available,
   none being created or deleted, no scale-down under way.
3. At most `maxPods` move at once, and the next follow when the workload is at rest again and the subset has had room
   for another settling time. Pods of the last subset move first, and of one subset the youngest; pods within the
   minimum of their subset stay.
4. If a subset has not got the pods that were evicted for it, it counts as full, like one whose pod could not be
   scheduled: for a minute, and for twice as long each time (`rescheduling.with_shortage`). Pods whose eviction was
   refused do not count.

What is remembered is in the status (`returns`): since when a subset has had room, and, after a move, how many pods it
is to have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from trimtab.api import percent
from trimtab.api.unitedtopology import MAX_RETURNS, ReturnStrategy, Shortage, SubsetReturn, UnitedTopology
from trimtab.subsets.members import Member
from trimtab.subsets.questions import Questions, answer_all
from trimtab.subsets.rescheduling import with_shortage
from trimtab.subsets.statuses import Row, Table

_LAST = datetime.max.replace(tzinfo=UTC)
_MOST_CHECKS = 4
"""How many times in a settling time it is checked whether a subset still has room."""
_LONGEST_WAIT = 30.0


@dataclass(frozen=True, slots=True)
class Returns:
    """What the status remembers from now on, and the pods to evict."""

    returns: tuple[SubsetReturn, ...] = ()
    shortages: tuple[Shortage, ...] = ()
    moves: tuple[Member, ...] = ()
    target: str = ""
    """The subset that they return to."""
    recheck: float | None = None
    """Seconds until room is to be checked again."""


def strategy_of(topology: UnitedTopology) -> ReturnStrategy | None:
    """How pods return; None where they do not."""
    strategy = topology.spec.schedule_strategy
    return strategy.adaptive.return_ if strategy.type == "Adaptive" and strategy.adaptive is not None else None


def pods_at_once(strategy: ReturnStrategy, replicas: int) -> int:
    """How many pods move at once: at least one."""
    return min(MAX_RETURNS, max(1, percent.scaled(strategy.max_pods, replicas, round_up=False)))


def plan_returns(
    topology: UnitedTopology,
    members: Sequence[Member],
    *,
    is_at_rest: bool,
    has_room: Callable[[int], bool],
    now: datetime,
) -> Returns:
    """The pods that return now, decided at once; see `decide_returns`. `has_room` answers its questions."""
    return answer_all(decide_returns(topology, members, is_at_rest=is_at_rest, now=now), has_room)


def decide_returns(
    topology: UnitedTopology, members: Sequence[Member], *, is_at_rest: bool, now: datetime
) -> Questions[int, Returns]:
    """The pods that return now. Asks, by its index, whether a node can take one more pod as a subset shapes it, those
    included for which the answer was yes before."""
    strategy, status = strategy_of(topology), topology.status
    if strategy is None:
        return Returns((), status.shortages)
    if not is_at_rest:  # an event follows when it is
        return Returns(status.returns, status.shortages)
    rows = Table(topology).rows(status.revision)
    settling = timedelta(seconds=strategy.settling_seconds)
    wait = min(strategy.settling_seconds / _MOST_CHECKS, _LONGEST_WAIT)
    names = {member.name for member in members if member.active}
    if any(now < each.since + settling and names & set(each.pods) for each in status.returns):
        return Returns(status.returns, status.shortages, recheck=wait)  # the evictions have not been seen yet
    shortages = _after_moves(topology, rows, names, now)
    full = {each.name for each in shortages if each.until > now}
    later = _LaterPods(rows, members)
    for index in _targets(rows, full, later):
        if not (yield index):
            continue
        row = rows[index]
        since = next((each.since for each in status.returns if each.name == row.name and not each.expected), now)
        if since + settling > now:
            left = (since + settling - now).total_seconds()
            return Returns((SubsetReturn(name=row.name, since=since),), shortages, recheck=min(wait, left))
        movable = later.movable(index)
        most = min(pods_at_once(strategy, status.replicas), len(movable), _capacity(row))
        count = 1
        while count < most and (yield index):
            count += 1
        moves = tuple(movable[:count])
        evicted = tuple(member.name for member in moves)
        entry = SubsetReturn(name=row.name, since=now, expected=row.replicas + count, pods=evicted)
        return Returns((entry,), shortages, moves, row.name, wait)
    return Returns((), shortages, recheck=wait if _has_misplaced_pods(rows) else None)


def _after_moves(
    topology: UnitedTopology, rows: Sequence[Row], names: Collection[str], now: datetime
) -> tuple[Shortage, ...]:
    """The shortages, with subsets that have not got the pods that were evicted for them."""
    replicas = {row.name: row.replicas for row in rows}
    shortages = topology.status.shortages
    for each in topology.status.returns:
        refused = sum(name in names for name in each.pods)
        if each.expected and replicas.get(each.name, each.expected) < each.expected - refused:
            shortages = with_shortage(shortages, each.name, now)
    return shortages


class _LaterPods:
    """The pods that may return to a subset."""

    def __init__(self, rows: Sequence[Row], members: Sequence[Member]) -> None:
        self._rows = rows
        self._pods: defaultdict[str, list[Member]] = defaultdict(list)
        for member in members:
            if member.active:
                self._pods[member.subset].append(member)
        self.below = {index: None for index, row in enumerate(rows) if row.replicas < row.floor}
        """The subsets below their minimum, in order, which get pods of any other."""
        spare = [index for index, row in enumerate(rows) if len(self._pods[row.name]) > row.floor]
        self._last_spare = spare[-1] if spare else -1

    def has_any_for(self, index: int) -> bool:
        """Whether any pod may return to a subset."""
        return self._last_spare > (-1 if index in self.below else index)

    def movable(self, index: int) -> list[Member]:
        """These pods, the first to move first; as many as a subset lacks, where it is below its minimum."""
        row = self._rows[index]
        others = self._rows if index in self.below else self._rows[index + 1 :]  # one below it has no pods to spare
        pods = [pod for other in reversed(others) for pod in self._of(other)]
        return pods[: row.floor - row.replicas] if index in self.below else pods

    def _of(self, row: Row) -> list[Member]:
        """The pods of a subset above its minimum, the youngest first."""
        pods = sorted(self._pods[row.name], key=lambda each: (each.created or _LAST, each.name), reverse=True)
        return pods[: max(0, len(pods) - row.floor)]


def _targets(rows: Sequence[Row], full: set[str], later: _LaterPods) -> Iterator[int]:
    """The subsets that may take pods of later ones, in order."""
    for index in dict.fromkeys((*later.below, *range(len(rows)))):
        row = rows[index]
        if row.name not in full and _capacity(row) > 0 and later.has_any_for(index):
            yield index


def _capacity(row: Row) -> int:
    return row.missing - len(row.creating) if row.limit is not None else 2**31


def _has_misplaced_pods(rows: Sequence[Row]) -> bool:
    """Whether pods would be elsewhere if all subsets had room."""
    return any(row.replicas > row.floor for row in rows[1:]) or any(row.replicas < row.floor for row in rows)
