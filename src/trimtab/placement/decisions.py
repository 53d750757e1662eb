"""The result of an attempt to place a pod: its node, or why there is none; and the verdict on every node.

A decision keeps the plugins' arrays and converts them to names and sentences only on demand: thousands of nodes are
evaluated for each pod, and few of the verdicts are ever read. Later events do not change a decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from trimtab.placement.framework import CODE_NAMES, SUCCESS, Codes, Scores
from trimtab.snapshot.columns import IntColumn, Mask

NO_NODES = "no nodes available to schedule pods"
NOT_SUPPORTED = "not supported by Trimtab, leave it to kube-scheduler"


class Outcome(StrEnum):
    """The result of an attempt."""

    PLACED = "Placed"
    UNSCHEDULABLE = "Unschedulable"
    GATED = "SchedulingGated"
    UNSUPPORTED = "Unsupported"


@dataclass(frozen=True, slots=True)
class Placement:
    """A decision in short: the node, or why there is none, as a sentence and as the number of nodes for each reason."""

    pod: str
    outcome: Outcome
    node: str | None
    message: str
    reasons: Mapping[str, int]

    @property
    def placed(self) -> bool:
        """Whether the pod got a node."""
        return self.node is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one node: feasible, or refused by this plugin for these reasons."""

    code: int = SUCCESS
    plugin: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the node is feasible."""
        return self.code == SUCCESS

    @property
    def code_name(self) -> str:
        """The code as Kubernetes writes it."""
        return CODE_NAMES[self.code]


@dataclass(frozen=True, slots=True)
class PluginScore:
    """The score of one node by one plugin: raw, normalized to 0 to 100, and the profile's weight."""

    raw: int
    normalized: int
    weight: int

    @property
    def weighted(self) -> int:
        """The amount that it adds to the node's total."""
        return self.normalized * self.weight


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """The nodes that one plugin refused, without those that an earlier plugin had refused."""

    plugin: str
    codes: Codes
    reasons: tuple[tuple[Mask, str], ...]

    def counts(self) -> Iterator[tuple[str, int]]:
        """Each reason, and the number of nodes that it applies to."""
        for mask, reason in self.reasons:
            yield reason, int(np.count_nonzero(mask))


@dataclass(frozen=True, slots=True, eq=False)
class WeightedScores:
    """The scores of one plugin, and their weight in the profile."""

    weight: int
    scores: Scores


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The node of a pod, or why it has none.

    `problem` concerns the whole pod (a scheduling gate, a field that Trimtab does not support); reasons that concern
    nodes are in `refusals`. Rows of `feasible` and `total` are those of `names`.
    """

    pod: str
    outcome: Outcome
    node: str | None = None
    problem: str = ""
    names: tuple[str | None, ...] = ()
    feasible: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    refusals: tuple[Refusal, ...] = ()
    scores: Mapping[str, WeightedScores] = field(default_factory=dict)
    total: IntColumn = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def placed(self) -> bool:
        """Whether the pod got a node."""
        return self.node is not None

    @property
    def message(self) -> str:
        """The decision as a sentence, in the words of kube-scheduler's events."""
        if self.outcome is Outcome.PLACED:
            return f"Successfully assigned {self.pod} to {self.node}"
        if self.outcome is not Outcome.UNSCHEDULABLE:
            return self.problem
        if not self.nodes:
            return NO_NODES
        reasons = self.problem or ", ".join(sorted(f"{count} {reason}" for reason, count in self.reasons().items()))
        return f"0/{self.nodes} nodes are available:{f' {reasons}.' if reasons else ''}"

    @property
    def nodes(self) -> int:
        """The number of nodes that were evaluated."""
        return int(np.count_nonzero(self._evaluated()))

    def brief(self) -> Placement:
        """The decision without the verdicts on nodes: a few hundred bytes instead of as many kilobytes."""
        return Placement(self.pod, self.outcome, self.node, self.message, self.reasons())

    def reasons(self) -> Counter[str]:
        """Each reason for refusing a node, and the number of nodes that it applies to."""
        counts: Counter[str] = Counter()
        for refusal in self.refusals:
            counts.update({reason: count for reason, count in refusal.counts() if count})
        return counts

    def verdict(self, node: str) -> Verdict:
        """The verdict on one node. Raises LookupError if the node was not evaluated."""
        return self._verdict(self._row(node))

    def verdicts(self) -> dict[str, Verdict]:
        """The verdicts on all nodes."""
        return {str(self.names[row]): self._verdict(row) for row in np.flatnonzero(self._evaluated()).tolist()}

    def score(self, node: str) -> dict[str, PluginScore]:
        """The scores of one node by plugin; empty if nodes were not compared or this one was refused."""
        row = self._row(node)
        if not self.feasible[row]:
            return {}
        return {
            plugin: PluginScore(int(weighted.scores.raw[row]), int(weighted.scores.normalized[row]), weighted.weight)
            for plugin, weighted in self.scores.items()
        }

    def totals(self) -> dict[str, int]:
        """The weighted total of every feasible node; empty if nodes were not compared."""
        if not self.scores:
            return {}
        return {str(self.names[row]): int(self.total[row]) for row in np.flatnonzero(self.feasible).tolist()}

    def _verdict(self, row: int) -> Verdict:
        for refusal in self.refusals:
            if refusal.codes[row] != SUCCESS:
                reasons = tuple(reason for mask, reason in refusal.reasons if mask[row])
                return Verdict(int(refusal.codes[row]), refusal.plugin, reasons)
        return Verdict()

    def _evaluated(self) -> Mask:
        evaluated = self.feasible.copy()
        for refusal in self.refusals:
            evaluated |= refusal.codes != SUCCESS
        return evaluated

    def _row(self, node: str) -> int:
        row = self.names.index(node) if node in self.names else None
        if row is None or not self._evaluated()[row]:
            raise LookupError(f"node {node!r} was not evaluated for pod {self.pod!r}")
        return row
