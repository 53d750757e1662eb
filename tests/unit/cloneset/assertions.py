"""Whether a plan has the right victims, computed again: pod by pod, with the slow twin of the order.

Nothing here uses `ranking`, nor the controller's code for ranks; of its numbers only those of `sizes` are used, which
have tests of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tests.unit.ranking.twins import CloneSetTwin, in_order, spread_ranks
from trimtab.api import times
from trimtab.api.annotations import DELETION_COST
from trimtab.api.pods import Pod
from trimtab.cloneset import sizes
from trimtab.cloneset.observation import Group
from trimtab.cloneset.plan import Plan, PlanContext, Step
from trimtab.kube.clocks import SECOND


class PlanChecker:
    """Checks plans of a CloneSet on these nodes, spread over this topology key."""

    def __init__(self, nodes: Mapping[str, Mapping[str, str]], topology_key: str) -> None:
        self._nodes = nodes
        self._key = topology_key

    def faults(self, context: PlanContext, group: Group, plan: Plan) -> Iterator[str]:
        """What is wrong with a plan."""
        if plan.step is Step.SCALE_DOWN and context.terms is not None:
            yield from self._rank_faults(context, group, plan)
        wanted = self._wanted(context, group, plan)
        got = [pod.metadata.name for pod in plan.victims]
        if wanted is not None and got != wanted:
            yield f"{plan.step}: {got} go, and {wanted} should"

    def _wanted(self, context: PlanContext, group: Group, plan: Plan) -> list[str] | None:
        needed = sizes.sizes(sizes.bounds(context.cloneset.spec), sizes.count(group))
        costs = self._costs(context, plan)
        old, new, specified = (_sort(group, sort) for sort in ("old", "new", "specified"))
        match plan.step:
            case Step.SCALE_DOWN:
                count = needed.shrink if not costs or not _recomputes(context) else 1
                queue = [*self._order(group, old, costs), *self._order(group, new, costs)]
            case Step.UPDATE:
                count, queue = needed.replace, self._order(group, old, {})
            case Step.SPECIFIED:
                count, queue = len(specified), self._order(group, specified, {})
            case _:
                return None
        kept_new = {pod.metadata.name for pod in new} if plan.step is Step.SCALE_DOWN else set()
        return list(_spared(queue, _available(group), needed.spare, kept_new, needed.shrink_new))[:count]

    def _order(self, group: Group, pods: Sequence[Pod], costs: Mapping[str, int]) -> list[Pod]:
        """In the order of the twin; costs, of which the higher goes first, take the place of deletion costs."""
        known = {pod.metadata.name: _costing(pod, -costs[pod.metadata.name]) if costs else pod for pod in pods}
        some = list(known.values())
        ranks = spread_ranks(some, self._nodes, [(self._key, ())])
        available = {f"{pod.metadata.namespace}/{name}" for name, pod in known.items() if name in _available(group)}
        return in_order(some, CloneSetTwin(ranks, available).compare)

    @staticmethod
    def _costs(context: PlanContext, plan: Plan) -> Mapping[str, int]:
        if context.terms is None or context.costs.own is None or plan.fallback_reason:
            return {}
        return context.costs.own.spec.costs

    @staticmethod
    def _rank_faults(context: PlanContext, group: Group, plan: Plan) -> Iterator[str]:
        """By rank only if every pod has one, and they are of these very pods; otherwise only after the wait."""
        terms, names = context.terms, set(group.names)
        costs = set() if context.costs.own is None else set(context.costs.own.spec.costs)
        assert terms is not None
        holds = names <= costs and (not terms.recompute or names == costs)
        if holds and plan.fallback_reason:
            yield "ranks were ignored, although there was one for every pod"
        if not holds and terms.is_required:
            since = context.now if context.previous_wait is None else times.to_ns(context.previous_wait.since)
            waited = max(context.now - since, 0)  # a wait begins with the next whole second
            if waited < (terms.recompute_timeout if names <= costs else terms.timeout) * SECOND:
                yield f"pods go after {waited / SECOND:g} s without their ranks"


def _recomputes(context: PlanContext) -> bool:
    return context.terms is not None and context.terms.recompute


def _sort(group: Group, sort: str) -> list[Pod]:
    marks = zip(group.pods, group.updated.tolist(), group.specified.tolist(), strict=True)
    return [pod for pod, new, specified in marks if ("specified" if specified else "new" if new else "old") == sort]


def _available(group: Group) -> set[str]:
    return {name for name, so in zip(group.names, group.available.tolist(), strict=True) if so}


def _spared(queue: Sequence[Pod], available: set[str], spare: int, new: set[str], few: int) -> Iterator[str]:
    """Available pods as far as they can be spared, and of the new ones a few: pods that may not be deleted are
    skipped."""
    for pod in queue:
        name = pod.metadata.name
        if (name in available and spare == 0) or (name in new and few == 0):
            continue
        spare -= name in available
        few -= name in new
        yield name


def _costing(pod: Pod, cost: int) -> Pod:
    annotations = {**pod.metadata.annotations, DELETION_COST: str(cost)}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)
