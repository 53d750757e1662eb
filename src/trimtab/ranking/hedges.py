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

Where no such costs are written although pods are starting, `Unhedged` is the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
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


class Unhedged(StrEnum):
    """Why costs do not take into account that starting pods may become ready."""

    TOO_MANY_COSTS = "too-many-costs"
    """That would take many more costs."""
    RANKS_FOR_ONE_STEP = "ranks-for-one-step"
    """A strategy's ranks hold for the next deletion only: which pods would go instead is not known."""
    NOT_CERTAIN = "not-certain"
    """With such costs, the plan's result would not be certain."""


class Hedge:
    """The pods of a workload, some of which may be starting; columns are in the order of its rows."""

    def __init__(
        self, workload: Workload, snapshot: Snapshot, policy: Policy | None, count: int, now: int | None
    ) -> None:
        self._workload, self._snapshot, self._policy, self._count, self._now = workload, snapshot, policy, count, now
        self._stock = stock_order(workload, snapshot, now)
        self._places = places_in(self._stock)
        last = LAST_BEFORE_PLAN[workload.foreign_costs]
        levels = [level for level in self._stock.levels if level.criterion.number <= last]
        passing = [at for at, level in enumerate(levels) if level.criterion in _PASSING]
        columns = [level.keys(ALL) for level in levels]
        self._before, self._after = columns[: passing[0]], columns[passing[-1] + 1 :]
        """The criteria that come before and after those that may change."""
        self._passing = packed(columns[passing[0] : passing[-1] + 1]).keys
        self._is_starting = self._passing < self._passing.max(initial=0)

    @property
    def has_starting_pods(self) -> bool:
        """Whether a pod is starting."""
        return bool(self._is_starting.any())

    def order(self, victims: Sequence[str]) -> tuple[str, ...]:
        """The pods that are to have costs in place of these victims, the lowest first, where pods are starting.

        Not for strategies whose ranks hold for one step only.
        """
        planned = np.isin(np.array(pod_keys(self._snapshot, self._workload.rows)), np.array(victims))
        chosen = self._complete(planned) if (planned | ~self._is_starting).all() else self._both()
        return pod_keys(self._snapshot, chosen)

    def _complete(self, planned: Mask) -> IntColumn:
        """The victims that are not starting, and the pods that complete them if all are ready."""
        others = ~(planned & ~self._is_starting)
        return self._first([others, *self._before, *self._after])

    def _both(self) -> IntColumn:
        """The victims if all are ready, and the starting pods that go beside them if none becomes ready."""
        first = self._first([*self._before, *self._after])
        others = ~np.isin(self._workload.rows, first)
        then = self._first([*self._before, self._passing, others, *self._after])
        return np.concatenate([first, then[~np.isin(then, first)]])

    def _first(self, columns: Sequence[npt.NDArray[Any]]) -> IntColumn:
        """The rows of the pods that go first, if these columns come before the plan."""
        standing = packed([np.zeros_like(self._passing), *columns]).keys
        sequence = removal_sequence(
            *(self._workload, self._snapshot, self._policy, self._stock, self._places, self._count, self._now), standing
        )
        return sequence.rows[: self._count]
