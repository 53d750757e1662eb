"""Fit: where a pod finds room, and which node is the better for it.

**The filter.** A node is refused for each resource of which it has less left than the pod asks for; for good, if it
never had as much. Extended resources that somebody else looks after can be left out.

**The score.** Each resource of the strategy becomes a mark from 0 to 100, rounded down, from what would be in use with
the pod there; their weighted mean, rounded down, is the node's score. A container that asks for no CPU or no memory
counts with an assumed amount. A resource that a node does not have leaves the mean of that node, and an extended
resource that the pod does not ask for leaves the mean of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import NodeResourcesFitArgs, ScoringStrategy, UtilizationShapePoint
from trimtab.api.selectors import is_key
from trimtab.placement.framework import MAX_SCORE, UNRESOLVABLE, Cycle, Refusals, Scores
from trimtab.placement.utilization import Use, is_counted, is_extended, uses, weighed
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.nodes import NodeTable
from trimtab.snapshot.requests import CPU, MEMORY, PODS, Requests

Scorer = Callable[[list[Use]], IntColumn]

MOST_POINTS = 10
"""What a curve may score at most: it is stretched to 100."""

_STRATEGY = "scoringStrategy"
_CURVE = f"{_STRATEGY}.requestedToCapacityRatio"


class NodeResourcesFit:
    """A pod may go where there is room for what it asks for; the strategy says which node is best."""

    name = "NodeResourcesFit"

    def __init__(self, args: NodeResourcesFitArgs | None = None) -> None:
        """Raises InvalidError with the path of an argument that is wrong."""
        args = args or NodeResourcesFitArgs()
        _check_ignored(args)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._resources = weighed(args.scoring_strategy.resources, f"{_STRATEGY}.resources")
        self._scorer = STRATEGIES[args.scoring_strategy.type](args.scoring_strategy)

    def filter(self, cycle: Cycle) -> Refusals:
        """The nodes that have too little left of something, pods included; all reasons are kept."""
        nodes = cycle.snapshot.nodes
        full = nodes.pods >= nodes.allocatable[:, nodes.resources[PODS]]
        reasons = [(full, "Too many pods")] if full.any() else []
        codes = full.astype(np.int8)
        for name, amount in self._asked(cycle):
            capacity, used = _room(nodes, name)
            short = capacity - used < amount
            if short.any():
                reasons.append((short, f"Insufficient {name}"))
                np.maximum(codes, short, out=codes)
                codes[short & (capacity < amount)] = UNRESOLVABLE
        return Refusals(codes, tuple(reasons))

    def score(self, cycle: Cycle, feasible: Mask) -> Scores:  # noqa: ARG002 – each node is judged on its own
        """What the strategy makes of each node."""
        nodes = cycle.snapshot.nodes
        found = uses(nodes, self._resources, _scored(requests_of(cycle)), assumed=True)
        raw = self._scorer(found) if found else np.zeros(len(nodes), dtype=np.int64)
        return Scores(raw, raw)

    def _asked(self, cycle: Cycle) -> Iterator[tuple[str, int]]:
        for name, amount in requests_of(cycle).stated.items():
            if amount > 0 and is_counted(name) and not self._ignores(name):
                yield name, amount

    def _ignores(self, name: str) -> bool:
        if not self._ignored and not self._ignored_groups:
            return False
        return is_extended(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)


def requests_of(cycle: Cycle) -> Requests:
    """What the pod asks for, worked out once a cycle."""
    return cycle.once("requests", lambda: cycle.snapshot.requests(cycle.pod))


def _room(nodes: NodeTable, name: str) -> tuple[IntColumn, IntColumn]:
    """What every node has of a resource, and what is asked of it already."""
    column = nodes.resources.get(name)
    if column is None:
        nothing = np.zeros(len(nodes), dtype=np.int64)
        return nothing, nothing
    return nodes.allocatable[:, column], nodes.requested[:, column]


def _scored(requests: Requests) -> Mapping[str, int]:
    """What the pod adds in the eyes of the score: it does not look at pod-level requests."""
    return {**requests.bare, CPU: requests.bare_assumed_cpu, MEMORY: requests.bare_assumed_memory}


# --- strategies ------------------------------------------------------------------------------------------------------


def _least_allocated(strategy: ScoringStrategy) -> Scorer:
    """The more is left, the better."""
    _check_no_curve(strategy)
    return lambda found: _mean(found, [_percent_left(use) for use in found])


def _most_allocated(strategy: ScoringStrategy) -> Scorer:
    """The less is left, the better."""
    _check_no_curve(strategy)
    return lambda found: _mean(found, [_percent_used(use) for use in found])


def _requested_to_capacity_ratio(strategy: ScoringStrategy) -> Scorer:
    """As a curve over the percentage in use says; resources that score nothing leave the mean, halves round up."""
    marks = curve(_checked_shape(strategy))

    def score(found: list[Use]) -> IntColumn:
        total = np.zeros(len(found[0].capacity), dtype=np.int64)
        weights = np.zeros_like(total)
        for use in found:
            mark = marks.take(_percent_used(use), mode="clip")
            if use.counted is not None:
                mark *= use.counted
            total += mark * use.weight
            weights += (mark > 0) * use.weight
        np.maximum(weights, 1, out=weights)
        return (2 * total + weights) // (2 * weights)

    return score


STRATEGIES: Mapping[str, Callable[[ScoringStrategy], Scorer]] = {
    "LeastAllocated": _least_allocated,
    "MostAllocated": _most_allocated,
    "RequestedToCapacityRatio": _requested_to_capacity_ratio,
}
"""How the room on a node becomes a score, by the name that a configuration uses."""


def curve(shape: tuple[UtilizationShapePoint, ...]) -> IntColumn:
    """The mark for each percentage in use, 0 to 100: straight lines between the points, level outside of them."""
    return np.array([_point(shape, percent) for percent in range(101)], dtype=np.int64)


def _point(shape: tuple[UtilizationShapePoint, ...], percent: int) -> int:
    scale = MAX_SCORE // MOST_POINTS
    before = shape[0]
    for point in shape:
        if percent <= point.utilization:
            run = point.utilization - before.utilization
            rise = (point.score - before.score) * scale * (percent - before.utilization)
            steps = abs(rise) // run if run else 0
            return before.score * scale + (steps if rise >= 0 else -steps)
        before = point
    return before.score * scale


def _percent_left(use: Use) -> IntColumn:
    left = use.capacity - use.used
    left -= use.asked
    np.maximum(left, 0, out=left)
    left *= MAX_SCORE
    left //= use.divisor
    return left


def _percent_used(use: Use) -> IntColumn:
    used = use.used + use.asked
    np.minimum(used, use.capacity, out=used)
    used *= MAX_SCORE
    used //= use.divisor
    return used


def _mean(found: list[Use], marks: list[IntColumn]) -> IntColumn:
    """The mean of each node's marks, by the weights of the resources that the node has."""
    total = marks[0] * found[0].weight
    for use, mark in zip(found[1:], marks[1:], strict=True):
        total += mark * use.weight
    if all(use.counted is None for use in found):
        total //= sum(use.weight for use in found)
        return total
    weights = np.zeros_like(total)
    for use in found:
        weights += use.weight * (use.capacity != 0)
    return total // np.maximum(weights, 1)


# --- arguments -------------------------------------------------------------------------------------------------------


def _check_ignored(args: NodeResourcesFitArgs) -> None:
    for index, name in enumerate(args.ignored_resources):
        if not is_key(name):
            raise InvalidError(f"ignoredResources[{index}]", f'"{name}" is not the name of a resource')
    for index, group in enumerate(args.ignored_resource_groups):
        if "/" in group or not is_key(group):
            reason = f'"{group}" is not the domain of resources; write what stands before the slash, as in example.com'
            raise InvalidError(f"ignoredResourceGroups[{index}]", reason)


def _check_no_curve(strategy: ScoringStrategy) -> None:
    if strategy.requested_to_capacity_ratio is not None:
        raise InvalidError(_CURVE, f"must be left out: it is not for the strategy {strategy.type}")


def _checked_shape(strategy: ScoringStrategy) -> tuple[UtilizationShapePoint, ...]:
    given = strategy.requested_to_capacity_ratio
    if given is None or not given.shape:
        raise InvalidError(f"{_CURVE}.shape", f"is missing: {strategy.type} needs at least one point")
    last = -1
    for index, point in enumerate(given.shape):
        path = f"{_CURVE}.shape[{index}]"
        if not last < point.utilization <= 100:
            above = "must be from 0 to 100, and above that of the point before"
            raise InvalidError(f"{path}.utilization", f"{point.utilization} {above}")
        if not 0 <= point.score <= MOST_POINTS:
            raise InvalidError(f"{path}.score", f"{point.score} is not from 0 to {MOST_POINTS}")
        last = point.utilization
    return given.shape
