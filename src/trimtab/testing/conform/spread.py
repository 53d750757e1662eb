"""The family `topology_spread`: one attempt of the PodTopologySpread plugin, filter and score.

The scored nodes are given with the case: a real attempt would have narrowed them by other plugins too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.api import codec
from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.core import ReplicationController, Service
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.schedulerconfig import PodTopologySpreadArgs
from trimtab.placement.framework import CODE_NAMES, Cycle
from trimtab.placement.spread import PodTopologySpread
from trimtab.snapshot import Snapshot

JSON = dict[str, Any]

_WATCHED: tuple[tuple[str, type[Node | Pod | Service | ReplicationController | ReplicaSet | StatefulSet]], ...] = (
    ("nodes", Node),
    ("pods", Pod),
    ("services", Service),
    ("replicationControllers", ReplicationController),
    ("replicaSets", ReplicaSet),
    ("statefulSets", StatefulSet),
)


def answer(case: JSON) -> JSON:
    """What the plugin says of the case's pod."""
    question = case["input"]
    plugin = PodTopologySpread(codec.convert(question.get("args") or {}, PodTopologySpreadArgs))
    cycle = Cycle(codec.convert(question["pod"], Pod), snapshot_of(question))
    return {**_filtered(plugin, cycle), **_scored(plugin, cycle, question.get("scoredNodes") or [])}


def snapshot_of(question: JSON) -> Snapshot:
    """The view of a cluster that a case describes."""
    snapshot = Snapshot()
    for field, kind in _WATCHED:
        for tree in question.get(field) or []:
            snapshot.put(codec.convert(tree, kind))
    return snapshot


def _filtered(plugin: PodTopologySpread, cycle: Cycle) -> JSON:
    nodes = cycle.snapshot.nodes
    refusals = plugin.filter(cycle)
    codes = np.zeros(len(nodes), dtype=np.int8) if refusals is None else refusals.codes
    verdicts = {name: CODE_NAMES[codes[row]] for name, row in nodes.rows.index.items() if nodes.known[row]}
    return {"preFilter": "Skip" if refusals is None else "Success", "filter": verdicts}


def _scored(plugin: PodTopologySpread, cycle: Cycle, names: list[str]) -> JSON:
    nodes = cycle.snapshot.nodes
    if not names:
        return {"preScore": "NotRun", "scores": {}}
    rows = {name: nodes.rows.index[name] for name in names}
    feasible = np.zeros(len(nodes), dtype=np.bool_)
    feasible[list(rows.values())] = True
    scores = plugin.score(cycle, feasible)
    if scores is None:
        return {"preScore": "Skip", "scores": {}}
    both = {
        name: {"raw": int(scores.raw[row]), "normalized": int(scores.normalized[row])} for name, row in rows.items()
    }
    return {"preScore": "Success", "scores": both}
