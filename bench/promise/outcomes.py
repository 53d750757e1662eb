"""Which pods the controller may delete: a brute force over the moments at which it acts and the orders it lists in.

The controller lists pods in the order of a Go map, which is random, and sorts them with `goes_before` at its own time.
Between two moments at which some age reaches a power of two (in nanoseconds) the comparison does not change, so one
moment of each interval stands for all of it. Inside one age bucket the comparison is not transitive, so the result of
the sort depends on the order of the input. Go sorts up to 12 elements by insertion; larger layouts are sorted here in
the same way, which shows less than all that can happen.

Only pods that the comparison cannot separate reliably change places: criteria 1 to 5 and the age bucket order the
groups, whatever the input order. So it is enough to permute the group in which the last deletion falls.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.promise.comparison import PodFacts, age_scale, goes_before
from bench.promise.levels import skew

SMALL = 12
"""Up to so many pods Go sorts by insertion, and the brute force is exact."""
_PERMUTATIONS = 5040
"""Groups with no more permutations than this are permuted completely; of others so many random orders are tried."""

PodSet = frozenset[str]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What may be deleted, and the zone skews that may be left."""

    sets: frozenset[PodSet]
    skews: frozenset[int]

    @property
    def always(self) -> PodSet:
        """The pods that every outcome deletes."""
        return frozenset.intersection(*self.sets)

    @property
    def sometimes(self) -> PodSet:
        """The pods that some outcomes delete, and others do not."""
        return frozenset.union(*self.sets) - self.always


def possible_outcomes(
    pods: Sequence[PodFacts],
    delete: int,
    zones: Mapping[str, str],
    window: tuple[int, int],
    rng: random.Random | None = None,
) -> Outcomes:
    """All outcomes of deleting so many pods inside a window of nanoseconds. `zones` maps each node to its zone."""
    rng = rng or random.Random(0)
    sets: set[PodSet] = set()
    for moment in moments(pods, *window):
        sets |= victim_sets(pods, delete, moment, rng)
    return Outcomes(frozenset(sets), frozenset(_skew_without(pods, victims, zones) for victims in sets))


def moments(pods: Iterable[PodFacts], start: int, end: int) -> list[int]:
    """The moments of a window after which some comparison may differ, and its beginning."""
    times = {time for pod in pods for time in (pod.ready_at, pod.created_at) if time is not None}
    crossings = {crossing for time in times for crossing in _crossings(time, start, end)}
    return sorted({start, *crossings})


def victim_sets(pods: Sequence[PodFacts], delete: int, now: int, rng: random.Random) -> set[PodSet]:
    """The sets of pods that the controller may choose at one moment, over the orders of its input."""
    if delete >= len(pods):
        return {frozenset(pod.name for pod in pods)}
    certain: PodSet = frozenset()
    for group in _groups(pods, now):
        missing = delete - len(certain)
        if missing < len(group):
            return {certain | chosen for chosen in _choices(group, missing, now, rng)}
        certain |= {pod.name for pod in group}
    return {certain}


def insertion_sorted(pods: Iterable[PodFacts], less: Callable[[PodFacts, PodFacts], bool]) -> list[PodFacts]:
    """Sort as Go sorts up to 12 elements: each element moves forward while it is less than the one before it."""
    result: list[PodFacts] = []
    for pod in pods:
        position = len(result)
        while position > 0 and less(pod, result[position - 1]):
            position -= 1
        result.insert(position, pod)
    return result


def _crossings(time: int, start: int, end: int) -> Iterator[int]:
    """The moments at which the logarithm of the age of `time` changes."""
    yield from (moment for moment in (time, time + 1) if start <= moment <= end)
    exponent = max(0, age_scale(time, start))
    while time + 2**exponent <= end:
        if time + 2**exponent >= start:
            yield time + 2**exponent
        exponent += 1


def _groups(pods: Sequence[PodFacts], now: int) -> list[list[PodFacts]]:
    """Pods that are reliably ordered among one another, first ones first; inside a group the order is open."""
    keys = {pod.name: _reliable_key(pod, now) for pod in pods}
    ordered = sorted(pods, key=lambda pod: keys[pod.name])
    return [list(group) for _, group in itertools.groupby(ordered, key=lambda pod: keys[pod.name])]


def _reliable_key(pod: PodFacts, now: int) -> tuple[int, ...]:
    static = (int(bool(pod.node)), pod.phase, int(pod.ready), pod.cost, -pod.related_on_node)
    if pod.ready:
        return (*static, _scale_key(pod.ready_at, now))
    return (*static, -pod.restarts, -pod.sidecar_restarts, _scale_key(pod.created_at, now))


def _scale_key(time: int | None, now: int) -> int:
    return -2 if time is None else age_scale(time, now)


def _choices(group: Sequence[PodFacts], count: int, now: int, rng: random.Random) -> set[PodSet]:
    """Which `count` of a group may come first."""
    if count == 0:
        return {frozenset()}
    table = {(a.name, b.name): goes_before(a, b, now) for a in group for b in group}
    orders = _orders(group, rng)
    sorted_orders = (insertion_sorted(order, lambda a, b: table[a.name, b.name]) for order in orders)
    return {frozenset(pod.name for pod in order[:count]) for order in sorted_orders}


def _orders(group: Sequence[PodFacts], rng: random.Random) -> Iterator[Sequence[PodFacts]]:
    if math.factorial(len(group)) <= _PERMUTATIONS:
        yield from itertools.permutations(group)
        return
    for _ in range(_PERMUTATIONS):
        yield rng.sample(group, len(group))


def _skew_without(pods: Sequence[PodFacts], victims: PodSet, zones: Mapping[str, str]) -> int:
    left = Counter(zones.get(pod.node, "") for pod in pods if pod.name not in victims)
    return skew({zone: left[zone] for zone in set(zones.values())})
