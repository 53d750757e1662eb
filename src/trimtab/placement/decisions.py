"""What came of an attempt to place a pod: where it goes, or why it cannot; and what was said of every node.

A decision keeps the plugins' arrays and turns them into names and sentences only when asked: thousands of nodes are
judged for each pod, and hardly ever does anybody want to read it all. What it keeps is its own: later events do not
change it.
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
LEAVE_IT = "not supported by Trimtab, leave it to kube-scheduler"


class Outcome(StrEnum):
    """How an attempt ended."""

    PLACED = "Placed"
    UNSCHEDULABLE = "Unschedulable"
    GATED = "SchedulingGated"
    UNSUPPORTED = "Unsupported"


@dataclass(frozen=True, slots=True)
class Placement:
    """A decision in short: where a pod goes, or why it cannot, in a sentence and by how many nodes each reason had."""

    pod: str
    outcome: Outcome
    node: str | None
    sentence: str
    reasons: Mapping[str, int]

    @property
    def placed(self) -> bool:
        """Whether a node was found."""
        return self.node is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said of one node: yes, or no by this plugin for these reasons."""

    code: int = SUCCESS
    plugin: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the node will do."""
        return self.code == SUCCESS

    @property
    def code_name(self) -> str:
        """The code as Kubernetes writes it."""
        return CODE_NAMES[self.code]


@dataclass(frozen=True, slots=True)
class PluginScore:
    """What a plugin gave one node: as it counts, from 0 to 100, and with the profile's weight."""

    raw: int
    normalized: int
    weight: int

    @property
    def weighted(self) -> int:
        """What it adds to the node's total."""
        return self.normalized * self.weight


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """The nodes that one plugin refused, of those that no plugin before it had."""

    plugin: str
    codes: Codes
    reasons: tuple[tuple[Mask, str], ...]

    def counts(self) -> Iterator[tuple[str, int]]:
        """Each reason, and of how many nodes it was said."""
        for mask, reason in self.reasons:
            yield reason, int(np.count_nonzero(mask))


@dataclass(frozen=True, slots=True, eq=False)
class WeightedScores:
    """The scores of one plugin, and what they weigh in the profile."""

    weight: int
    scores: Scores


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """Where a pod goes, or why it cannot.

    `problem` stands for the whole pod (a gate, a field that Trimtab leaves to others); reasons that concern nodes are
    in `refusals`. Rows of `feasible` and `total` are those of `names`.
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
        """Whether a node was found."""
        return self.node is not None

    @property
    def sentence(self) -> str:
        """One sentence for people, as kube-scheduler words it in its events."""
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
        """How many nodes were looked at."""
        return int(np.count_nonzero(self._judged()))

    def brief(self) -> Placement:
        """The decision without what was said of every node: a few hundred bytes instead of as many kilobytes."""
        return Placement(self.pod, self.outcome, self.node, self.sentence, self.reasons())

    def reasons(self) -> Counter[str]:
        """Each reason for refusing a node, and of how many nodes it was said."""
        counts: Counter[str] = Counter()
        for refusal in self.refusals:
            counts.update({reason: count for reason, count in refusal.counts() if count})
        return counts

    def verdict(self, node: str) -> Verdict:
        """What was said of one node. Raises LookupError if it was not looked at."""
        return self._verdict(self._row(node))

    def verdicts(self) -> dict[str, Verdict]:
        """What was said of every node."""
        return {str(self.names[row]): self._verdict(row) for row in np.flatnonzero(self._judged()).tolist()}

    def score(self, node: str) -> dict[str, PluginScore]:
        """What each plugin gave one node; nothing, if nodes were not compared or this one was refused."""
        row = self._row(node)
        if not self.feasible[row]:
            return {}
        return {
            plugin: PluginScore(int(given.scores.raw[row]), int(given.scores.normalized[row]), given.weight)
            for plugin, given in self.scores.items()
        }

    def totals(self) -> dict[str, int]:
        """The weighted total of every feasible node; nothing, if nodes were not compared."""
        if not self.scores:
            return {}
        return {str(self.names[row]): int(self.total[row]) for row in np.flatnonzero(self.feasible).tolist()}

    def _verdict(self, row: int) -> Verdict:
        for refusal in self.refusals:
            if refusal.codes[row] != SUCCESS:
                reasons = tuple(reason for mask, reason in refusal.reasons if mask[row])
                return Verdict(int(refusal.codes[row]), refusal.plugin, reasons)
        return Verdict()

    def _judged(self) -> Mask:
        judged = self.feasible.copy()
        for refusal in self.refusals:
            judged |= refusal.codes != SUCCESS
        return judged

    def _row(self, node: str) -> int:
        row = self.names.index(node) if node in self.names else None
        if row is None or not self._judged()[row]:
            raise LookupError(f"node {node!r} was not looked at for pod {self.pod!r}")
        return row
