"""The interfaces of plugins, which decide over all nodes at once.

A plugin is given one pod and the whole snapshot. It filters (which nodes are refused, and why), it scores (how good
each of the feasible nodes is), or both. Rows of all arrays are the rows of the snapshot's node table; the caller
excludes rows without a node (`nodes.known`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from trimtab.api.pods import Pod
from trimtab.placement.hints import Hints
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask

SUCCESS = 0
UNSCHEDULABLE = 1
"""Refused; the deletion of other pods may help."""
UNRESOLVABLE = 2
"""Refused, whichever pods are deleted."""

CODE_NAMES = ("Success", "Unschedulable", "UnschedulableAndUnresolvable")

MAX_SCORE = 100

Codes = npt.NDArray[np.int8]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Refusals:
    """The nodes that a filter refuses: a code for each node, and for each reason the nodes it applies to."""

    codes: Codes
    reasons: tuple[tuple[Mask, str], ...] = ()

    @classmethod
    def of(cls, refused: Mask, code: int, reason: str) -> Refusals:
        """Refuse these nodes for one reason. The mask is kept: it must not be one that events change."""
        codes = refused.astype(np.int8)
        codes *= code
        return cls(codes, ((refused, reason),))


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The scores of nodes: raw, and normalized to 0 to 100. Only feasible rows have a meaning."""

    raw: IntColumn
    normalized: IntColumn


@dataclass(slots=True, eq=False)
class Cycle:
    """One attempt to place one pod; `memo` keeps what plugins compute once and use again."""

    pod: Pod
    snapshot: Snapshot
    memo: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """The value of that name, computed at the first call."""
        if name not in self.memo:
            self.memo[name] = compute()
        value: T = self.memo[name]
        return value


class Filter(Protocol):
    """A plugin that refuses nodes."""

    @property
    def name(self) -> str:
        """The plugin's name, as kube-scheduler's configuration knows it."""

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The refusals; None where the plugin does not apply to this pod (every node passes)."""


class Score(Protocol):
    """A plugin that scores the feasible nodes."""

    @property
    def name(self) -> str:
        """The plugin's name, as kube-scheduler's configuration knows it."""

    def score(self, cycle: Cycle, feasible: Mask) -> Scores | None:
        """The scores of the feasible nodes; None where the plugin does not apply to this pod."""


@dataclass(frozen=True, slots=True)
class PluginKind:
    """A plugin that a configuration can name.

    `points` are its extension points; `needs` those of them without which it fails where it runs at others. `make`
    takes the arguments, or None where there are none; a plugin without `make` is accepted by name and not run. `hints`
    are the changes after which it may accept a pod that it refused; None means every change.
    """

    points: tuple[str, ...]
    needs: tuple[str, ...] = ()
    args: type[Any] | None = None
    make: Callable[[Any], Any] | None = None
    check: Callable[[Any], None] | None = None
    hints: Hints | None = None
