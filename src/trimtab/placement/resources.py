"""NodeResourcesFit: which nodes have room for a pod's requests, and which fit them best.

**The filter.** A node is refused for each resource of which it has less left than the pod requests; as unresolvable if
its capacity is less than that. Extended resources that other components manage can be ignored.

**The score.** Each resource of the strategy gets a score from 0 to 100, rounded down, for the amount that would be in
use with the pod; their weighted mean, rounded down, is the node's score. A container without a request for CPU or
memory counts with an assumed amount. A resource that a node does not have is left out of that node's mean, and an
extended resource that the pod does not request is left out of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.schedulerconfig import NodeResourcesFitArgs, ScoringStrategy, UtilizationShapePoint
from trimtab.api.selectors import is_key
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.framework import MAX_SCORE, UNRESOLVABLE, Codes, Cycle, PluginKind, Refusals, Scores
from trimtab.placement.hints import HintContext, Hints, hint
from trimtab.placement.utilization import Occupancy, Use, is_counted, is_extended, uses, weighed
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.kept import ALL
from trimtab.snapshot.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Requests, amounts

Scorer = Callable[[list[Use]], IntColumn]

MOST_POINTS = 10
"""The highest score of a shape's point: it is scaled to 100."""

_NEVER_IGNORED = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Resources that no configuration can make the filter ignore."""

_STRATEGY = "scoringStrategy"
_CURVE = f"{_STRATEGY}.requestedToCapacityRatio"


class NodeResourcesFit:
    """Refuses nodes without room for a pod's requests; the strategy decides which node is best."""

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
        """The nodes that have too little left of something, pods included; each with all its reasons."""
        nodes, requests = cycle.snapshot.nodes, requests_of(cycle)
        codes = nodes.kept(
            (self, "filter"), requests, lambda rows, more: self._codes(Occupancy(nodes, requests, rows, more))
        )
        return Refusals(codes, tuple(self._reasons(Occupancy(nodes, requests, ALL, 0))) if codes.any() else ())

    def score(self, cycle: Cycle, feasible: Mask) -> Scores:  # noqa: ARG002 – nodes are scored independently
        """The strategy's score of each node."""
        nodes, requests = cycle.snapshot.nodes, requests_of(cycle)
        raw = nodes.kept(
            (self, "score"), requests, lambda rows, more: self._scored(Occupancy(nodes, requests, rows, more))
        )
        return Scores(raw, raw)

    def _scored(self, occupancy: Occupancy) -> IntColumn:
        in_use = uses(occupancy, self._resources, _scored_amounts(occupancy.requests), assumed=True)
        return self._scorer(in_use) if in_use else np.zeros_like(occupancy.pods)

    def _codes(self, occupancy: Occupancy) -> Codes:
        codes: Codes = _is_full(occupancy).astype(np.int8)
        for name, amount in self._filtered_amounts(occupancy.requests):
            short = _is_short(occupancy, name, amount)
            if short.any():
                np.maximum(codes, short, out=codes)
                codes[short & (occupancy.capacity(name) < amount)] = UNRESOLVABLE
        return codes

    def _reasons(self, occupancy: Occupancy) -> Iterator[tuple[Mask, str]]:
        """Each reason for which nodes are refused, and which these are."""
        full = _is_full(occupancy)
        if full.any():
            yield full, "Too many pods"
        for name, amount in self._filtered_amounts(occupancy.requests):
            short = _is_short(occupancy, name, amount)
            if short.any():
                yield short, f"Insufficient {name}"

    def _filtered_amounts(self, requests: Requests) -> Iterator[tuple[str, int]]:
        for name, amount in requests.stated.items():
            if amount > 0 and is_counted(name) and not self._ignores(name):
                yield name, amount

    def _ignores(self, name: str) -> bool:
        if not self._ignored and not self._ignored_groups:
            return False
        return is_extended(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)


def requests_of(cycle: Cycle) -> Requests:
    """The pod's requests, computed once a cycle."""
    return cycle.once("requests", lambda: cycle.snapshot.requests(cycle.pod))


def _is_full(occupancy: Occupancy) -> Mask:
    full: Mask = occupancy.pods >= occupancy.capacity(PODS)
    return full


def _is_short(occupancy: Occupancy, name: str, amount: int) -> Mask:
    short: Mask = occupancy.capacity(name) - occupancy.requested(name) < amount
    return short


def _scored_amounts(requests: Requests) -> Mapping[str, int]:
    """The requests that the score counts, which leave pod-level requests out."""
    return {**requests.bare, CPU: requests.bare_assumed_cpu, MEMORY: requests.bare_assumed_memory}


# --- strategies ------------------------------------------------------------------------------------------------------


def _least_allocated(strategy: ScoringStrategy) -> Scorer:
    """The more is left, the better."""
    _check_no_curve(strategy)
    return lambda in_use: _mean(in_use, [_percent_left(use) for use in in_use])


def _most_allocated(strategy: ScoringStrategy) -> Scorer:
    """The less is left, the better."""
    _check_no_curve(strategy)
    return lambda in_use: _mean(in_use, [_percent_used(use) for use in in_use])


def _requested_to_capacity_ratio(strategy: ScoringStrategy) -> Scorer:
    """By a curve over the percentage in use; resources that score 0 are left out of the mean, halves round up."""
    points = curve(_checked_shape(strategy))

    def score(in_use: list[Use]) -> IntColumn:
        total = np.zeros(len(in_use[0].capacity), dtype=np.int64)
        weights = np.zeros_like(total)
        for use in in_use:
            scores = points.take(_percent_used(use), mode="clip")
            if use.counted is not None:
                scores *= use.counted
            total += scores * use.weight
            weights += (scores > 0) * use.weight
        np.maximum(weights, 1, out=weights)
        return (2 * total + weights) // (2 * weights)

    return score


STRATEGIES: Mapping[str, Callable[[ScoringStrategy], Scorer]] = {
    "LeastAllocated": _least_allocated,
    "MostAllocated": _most_allocated,
    "RequestedToCapacityRatio": _requested_to_capacity_ratio,
}
"""The scoring strategies, by the name that a configuration uses."""


def curve(shape: tuple[UtilizationShapePoint, ...]) -> IntColumn:
    """The score for each percentage in use, 0 to 100: linear between the points, constant outside of them."""
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
    left -= use.requested
    np.maximum(left, 0, out=left)
    left *= MAX_SCORE
    left //= use.divisor
    return left


def _percent_used(use: Use) -> IntColumn:
    used = use.used + use.requested
    np.minimum(used, use.capacity, out=used)
    used *= MAX_SCORE
    used //= use.divisor
    return used


def _mean(in_use: list[Use], scores: list[IntColumn]) -> IntColumn:
    """The mean of each node's scores, by the weights of the resources that the node has."""
    total = scores[0] * in_use[0].weight
    for use, score in zip(in_use[1:], scores[1:], strict=True):
        total += score * use.weight
    if all(use.counted is None for use in in_use):
        total //= sum(use.weight for use in in_use)
        return total
    weights = np.zeros_like(total)
    for use in in_use:
        weights += use.weight * (use.capacity != 0)
    return total // np.maximum(weights, 1)


# --- arguments -------------------------------------------------------------------------------------------------------


def _check_ignored(args: NodeResourcesFitArgs) -> None:
    for index, name in enumerate(args.ignored_resources):
        if not is_key(name):
            raise InvalidError(f"ignoredResources[{index}]", f'"{name}" is not the name of a resource')
    for index, group in enumerate(args.ignored_resource_groups):
        if "/" in group or not is_key(group):
            reason = f'"{group}" is not a resource group; write the part before the slash, as in example.com'
            raise InvalidError(f"ignoredResourceGroups[{index}]", reason)


def _check_no_curve(strategy: ScoringStrategy) -> None:
    if strategy.requested_to_capacity_ratio is not None:
        raise InvalidError(_CURVE, f"must be empty: it does not apply to the strategy {strategy.type}")


def _checked_shape(strategy: ScoringStrategy) -> tuple[UtilizationShapePoint, ...]:
    ratio = strategy.requested_to_capacity_ratio
    if ratio is None or not ratio.shape:
        raise InvalidError(f"{_CURVE}.shape", f"is missing: {strategy.type} needs at least one point")
    last = -1
    for index, point in enumerate(ratio.shape):
        path = f"{_CURVE}.shape[{index}]"
        if not last < point.utilization <= 100:
            above = "must be from 0 to 100, and above that of the point before"
            raise InvalidError(f"{path}.utilization", f"{point.utilization} {above}")
        if not 0 <= point.score <= MOST_POINTS:
            raise InvalidError(f"{path}.score", f"{point.score} is not from 0 to {MOST_POINTS}")
        last = point.utilization
    return ratio.shape


# --- requeue hints ---------------------------------------------------------------------------------------------------


def _fits_empty_node(context: HintContext, pod: Pod, change: Change) -> bool:
    """The node, if empty, could take the pod; an updated one also has more of a resource that the pod requests."""
    old: Node | None = change.old
    new: Node = change.new
    after = amounts(new.status.allocatable)
    requested = context.snapshot.requests(pod).stated
    if after.get(PODS, 0) < 1 or any(requested.get(name, 0) > after.get(name, 0) for name in _NEVER_IGNORED):
        return False
    before = amounts(old.status.allocatable) if old else {}
    return old is None or any(after.get(name, 0) > before.get(name, 0) for name in (PODS, *requested))


def _freed_request(context: HintContext, pod: Pod, change: Change) -> bool:
    """The other pod requests less of a resource that the waiting pod requests."""
    before, after = context.snapshot.requests(change.old).amounts, context.snapshot.requests(change.new).amounts
    requested = context.snapshot.requests(pod).stated
    return any(requested.get(name, 0) > 0 and amount > after.get(name, 0) for name, amount in before.items())


HINTS: Hints = (
    hint(Subject.NODE, Action.ADD, Action.NODE_ALLOCATABLE, condition=_fits_empty_node),
    hint(Subject.ASSIGNED_POD, Action.DELETE),
    hint(Subject.ASSIGNED_POD, Action.POD_SCALE_DOWN, condition=_freed_request),
    hint(Subject.WAITING_POD, Action.POD_SCALE_DOWN),
)

PLUGIN = PluginKind(
    ("preFilter", "filter", "preScore", "score", "placementScore"),
    needs=("preFilter",),
    args=NodeResourcesFitArgs,
    make=NodeResourcesFit,
    hints=HINTS,
)
