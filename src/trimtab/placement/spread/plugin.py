"""The filter and the score of PodTopologySpread; the rules are those of the package."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace

import msgspec
import numpy as np
import numpy.typing as npt

from trimtab.api.schedulerconfig import PodTopologySpreadArgs
from trimtab.placement import defaults
from trimtab.placement.framework import MAX_SCORE, UNRESOLVABLE, UNSCHEDULABLE, Cycle, Refusals, Scores
from trimtab.placement.spread.constraints import SpreadConstraints, compile_constraints
from trimtab.placement.spread.topology import Floats, Topology
from trimtab.snapshot.columns import Mask

SKEWED = "node(s) didn't match pod topology spread constraints"
LACKS_LABEL = f"{SKEWED} (missing required label)"

_MAX_TEMPLATES = 4096
"""How many templates' constraints are kept compiled."""

_pack = msgspec.msgpack.Encoder().encode


class PodTopologySpread:
    """Spreads the pods of a workload over domains, by their own constraints or by the default ones."""

    name = "PodTopologySpread"

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        """Raises InvalidError with the path of an argument that is wrong."""
        args = args or PodTopologySpreadArgs()
        defaults.check(args, any_key=True)
        self._defaults = compile_constraints(defaults.constraints(args), aliases=defaults.ALIASES)
        self._defaults = replace(self._defaults, strict=args.defaulting_type == "List")
        self._cache: dict[Hashable, SpreadConstraints] = {}

    def constraints(self, cycle: Cycle) -> SpreadConstraints:
        """The constraints that apply to the pod, computed once for filter and score."""
        return cycle.once("spread.constraints", lambda: self._constraints(cycle))

    def filter(self, cycle: Cycle) -> Refusals | None:
        """Refuse nodes on which the pod would break a hard constraint."""
        hard = self.constraints(cycle).hard
        if not hard:
            return None
        topologies = [Topology(cycle.snapshot, constraint) for constraint in hard]
        complete = _all(topology.present for topology in topologies)
        first, *others = (topology.codes(cycle, complete) for topology in topologies)
        for codes in others:
            first = np.where(first, first, codes)
        return Refusals(first, _reasons(first))

    def score(self, cycle: Cycle, feasible: Mask) -> Scores | None:
        """Prefer nodes whose domains have few matching pods."""
        constraints = self.constraints(cycle)
        if not constraints.soft:
            return None
        topologies = [Topology(cycle.snapshot, constraint) for constraint in constraints.soft]
        takes_part = (
            _all(topology.present for topology in topologies) if constraints.strict else cycle.snapshot.nodes.known
        )
        scored = feasible & takes_part
        first, *others = (topology.credit(cycle, takes_part, scored) for topology in topologies)
        for credit in others:
            first += credit
        return _scores(first, scored)

    def _constraints(self, cycle: Cycle) -> SpreadConstraints:
        pod = cycle.pod
        own = pod.spec.topology_spread_constraints
        if own:
            labels = {key: pod.metadata.labels.get(key) for c in own for key in c.match_label_keys}
            return self._cached(_pack((own, labels)), lambda: compile_constraints(own, pod.metadata.labels))
        if not self._defaults.hard and not self._defaults.soft:
            return self._defaults
        selector = defaults.deduced_selector(cycle)
        if selector.empty:
            return SpreadConstraints()
        return self._cached(selector, lambda: self._defaults.among(selector))

    def _cached(self, key: Hashable, compute: Callable[[], SpreadConstraints]) -> SpreadConstraints:
        """The constraints that were computed for an earlier pod of the same template or group."""
        known = self._cache.get(key)
        if known is None:
            if len(self._cache) >= _MAX_TEMPLATES:
                self._cache.clear()
            known = self._cache[key] = compute()
        return known


def _all(masks: Iterable[Mask]) -> Mask:
    first, *others = masks
    for mask in others:
        first = first & mask
    return first


def _reasons(codes: npt.NDArray[np.int8]) -> tuple[tuple[Mask, str], ...]:
    if not codes.any():
        return ()
    return ((codes == UNSCHEDULABLE, SKEWED), (codes == UNRESOLVABLE, LACKS_LABEL))


def _scores(total: Floats, scored: Mask) -> Scores:
    """Raw scores as whole numbers; and between 0 and 100, the fewer pods the higher (rules 7 and 9).

    A total is 0 or more than 1, so adding a half and truncating rounds exactly, halves upwards.
    """
    raw = (total + 0.5).astype(np.int64)
    counted = raw
    if not scored.all():
        raw *= scored
        counted = raw.compress(scored)
    if not len(counted):
        return Scores(raw, raw)
    low, high = int(counted.min()), int(counted.max())
    normalized = (high + low - raw) * MAX_SCORE // high if high else np.full_like(raw, MAX_SCORE)
    if counted is not raw:
        normalized *= scored
    return Scores(raw, normalized)
