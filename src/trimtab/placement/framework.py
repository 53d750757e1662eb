"""What a plugin is: "no" as a value, over all nodes at once.

A plugin looks at one pod and the whole snapshot. It filters (which nodes will not do, and why), it scores (how good
each of the feasible nodes is), or both. Rows of all arrays are the rows of the snapshot's node table; rows without a
node are the caller's to leave out (`nodes.known`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from trimtab.api.pods import Pod
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask

SUCCESS = 0
UNSCHEDULABLE = 1
"""No, as things are; another pod going might help."""
UNRESOLVABLE = 2
"""No, whoever else goes."""

CODE_NAMES = ("Success", "Unschedulable", "UnschedulableAndUnresolvable")

MAX_SCORE = 100

Codes = npt.NDArray[np.int8]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Refusals:
    """Which nodes a filter refuses: a code for each node, and for each reason the nodes it applies to."""

    codes: Codes
    reasons: tuple[tuple[Mask, str], ...] = ()

    @classmethod
    def of(cls, refused: Mask, code: int, reason: str) -> Refusals:
        """Some nodes, all for one reason. The mask is kept: it must not be one that events change."""
        codes = refused.astype(np.int8)
        codes *= code
        return cls(codes, ((refused, reason),))


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """How good nodes are: as a plugin counts it, and between 0 and 100. Only feasible rows mean anything."""

    raw: IntColumn
    normalized: IntColumn


@dataclass(slots=True, eq=False)
class Cycle:
    """One attempt to place one pod. What a plugin works out once and needs again is kept in `memo`."""

    pod: Pod
    snapshot: Snapshot
    memo: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """The value of that name, worked out when it is first asked for."""
        if name not in self.memo:
            self.memo[name] = compute()
        value: T = self.memo[name]
        return value


class Filter(Protocol):
    """Says which nodes will not do."""

    @property
    def name(self) -> str:
        """The plugin's name, as kube-scheduler's configuration knows it."""

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The refusals; None where the plugin has nothing to say about this pod (every node passes)."""


class Score(Protocol):
    """Says how good the feasible nodes are."""

    @property
    def name(self) -> str:
        """The plugin's name, as kube-scheduler's configuration knows it."""

    def score(self, cycle: Cycle, feasible: Mask) -> Scores | None:
        """The scores of the feasible nodes; None where the plugin has nothing to say about this pod."""
