"""Which pods get costs while some pods are not ready: the result is to be level whether or not they become ready.

A controller deletes pods without a node, pending ones and those that are not ready first, whatever they cost. But it
acts a moment later than the plan is made, with a cache of its own: by then, some of these *starting* pods may be ready,
and costs decide about them. Costs for the planned victims alone would then make certain what was planned because it
could not be avoided.

So costs are given in an order that is right in both cases:

- Where all starting pods go anyway, the other victims come first. If no pod becomes ready, costs decide about those
  alone. After them come the pods that complete them to a level result if all are ready.
- Where some starting pods stay, the pods come first that leave a level result if all are ready, and then those starting
  pods that are to go if none is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.ranking.contenders import ALL, Criterion
from trimtab.ranking.keys import packed
from trimtab.ranking.sequences import LAST_BEFORE_PLAN, places_in, removal_sequence, stock_order
from trimtab.ranking.workloads import Policy, Workload, pod_keys
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask

_PASSING = frozenset({Criterion.UNASSIGNED, Criterion.PHASE, Criterion.AVAILABLE, Criterion.READY})
"""The criteria by which a starting pod goes first, which it may meet a moment later."""


def hedged_order(
    workload: Workload, snapshot: Snapshot, policy: Policy | None, victims: Sequence[str], now: int | None
) -> tuple[str, ...]:
    """The pods that are to have costs in place of these victims, the lowest first; the victims, if no pod is starting.

    Not for strategies whose ranks hold for one step only.
    """
    hedge = _Hedge(workload, snapshot, policy, len(victims), now)
    if not hedge.is_starting.any():
        return tuple(victims)
    planned = np.isin(np.array(pod_keys(snapshot, workload.rows)), np.array(victims))
    chosen = hedge.complete(planned) if (planned | ~hedge.is_starting).all() else hedge.both()
    return pod_keys(snapshot, chosen)


class _Hedge:
    """The pods of a workload, some of which are starting; columns are in the order of its rows."""

    def __init__(
        self, workload: Workload, snapshot: Snapshot, policy: Policy | None, count: int, now: int | None
    ) -> None:
        self._workload, self._snapshot, self._policy, self._count, self._now = workload, snapshot, policy, count, now
        self._stock = stock_order(workload, snapshot, now)
        self._places = places_in(self._stock)
        passing = self._keys(is_passing=True)
        self.is_starting = passing < passing.max(initial=0)

    def complete(self, planned: Mask) -> IntColumn:
        """The victims that are not starting, and the pods that complete them if all are ready."""
        first = planned & ~self.is_starting
        return self._first(self._packed(~first, self._keys(is_passing=False)))

    def both(self) -> IntColumn:
        """The victims if all are ready, and the starting pods that go beside them if none becomes ready."""
        first = self._first(self._keys(is_passing=False))
        is_first = np.isin(self._workload.rows, first)
        then = self._first(self._packed(self._keys(is_passing=True), ~is_first, self._keys(is_passing=False)))
        return np.concatenate([first, then[~np.isin(then, first)]])

    def _first(self, standing: IntColumn) -> IntColumn:
        """The rows of the pods that go first, if this comes before the plan."""
        sequence = removal_sequence(
            *(self._workload, self._snapshot, self._policy, self._stock, self._places, self._count, self._now), standing
        )
        return sequence.rows[: self._count]

    def _keys(self, *, is_passing: bool) -> IntColumn:
        """The criteria that come before the plan, those that may change or the others."""
        last = LAST_BEFORE_PLAN[self._workload.foreign_costs]
        levels = [level for level in self._stock.levels if level.criterion.number <= last]
        return self._packed(*(each.keys(ALL) for each in levels if (each.criterion in _PASSING) is is_passing))

    def _packed(self, *columns: npt.NDArray[Any]) -> IntColumn:
        return packed([np.zeros(len(self._workload.rows), dtype=np.int64), *columns]).keys
