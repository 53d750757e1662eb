"""TaintToleration: taints of nodes, and the pods that tolerate them.

A node is refused for a `NoSchedule` or `NoExecute` taint that is not tolerated; its score falls with each
`PreferNoSchedule` taint that is not. Nodes share few sets of taints, so each set is evaluated once.
"""

from __future__ import annotations

import numpy as np

from trimtab.api.pods import Pod
from trimtab.api.tolerations import count_prefer_no_schedule, untolerated
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.framework import MAX_SCORE, UNRESOLVABLE, Cycle, PluginKind, Refusals, Scores
from trimtab.placement.hints import HintContext, Hints, hint
from trimtab.placement.normalization import in_reverse, largest
from trimtab.snapshot.columns import Mask

_ALL_TOLERATED = "TaintToleration"
"""The key under which the scores are kept that are the same for all nodes."""


class TaintToleration:
    """Refuses nodes with taints that a pod does not tolerate, and prefers nodes with fewer `PreferNoSchedule` ones."""

    name = "TaintToleration"

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The nodes with a `NoSchedule` or `NoExecute` taint that the pod does not tolerate."""
        nodes, tolerations = cycle.snapshot.nodes, cycle.pod.spec.tolerations
        repelled = [untolerated(tolerations, taints) is not None for taints in nodes.taint_sets]
        if not any(repelled):
            return None
        refused = np.array(repelled).take(nodes.taints, mode="clip")
        return Refusals.of(refused, UNRESOLVABLE, "node(s) had untolerated taint(s)")

    def score(self, cycle: Cycle, feasible: Mask) -> Scores:
        """The number of `PreferNoSchedule` taints that the pod does not tolerate."""
        nodes, tolerations = cycle.snapshot.nodes, cycle.pod.spec.tolerations
        by_set = [count_prefer_no_schedule(tolerations, taints) for taints in nodes.taint_sets]
        if not any(by_set):
            return nodes.derived(_ALL_TOLERATED, lambda: _equal_scores(len(nodes)))
        counts = np.array(by_set, dtype=np.int64)
        raw = counts.take(nodes.taints, mode="clip")
        scores = in_reverse(counts, largest(raw, feasible))
        return Scores(raw, scores.take(nodes.taints, mode="clip"))


def _equal_scores(length: int) -> Scores:
    """The scores where no node has a taint that the pod does not tolerate."""
    return Scores(np.zeros(length, dtype=np.int64), np.full(length, MAX_SCORE, dtype=np.int64))


def _is_tolerated_now(_: HintContext, pod: Pod, change: Change) -> bool:
    tolerations = pod.spec.tolerations
    was_refused = change.old is None or untolerated(tolerations, change.old.spec.taints) is not None
    return was_refused and untolerated(tolerations, change.new.spec.taints) is None


HINTS: Hints = (
    hint(Subject.NODE, Action.ADD, Action.NODE_TAINT, condition=_is_tolerated_now),
    hint(Subject.WAITING_POD, Action.POD_TOLERATION),
)

PLUGIN = PluginKind(("filter", "preScore", "score"), needs=("preScore",), make=lambda _: TaintToleration(), hints=HINTS)
