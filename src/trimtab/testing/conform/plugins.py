"""The family `scheduler_plugins`: each default plugin on its own, over all nodes, without one stopping another.

A plugin that has nothing to say about a pod has been skipped: its filter passes every node, its score has none. Those
in `ALWAYS` have no such moment in kube-scheduler, and are always asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from trimtab.api import codec, schedulerconfig
from trimtab.api.core import Namespace
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.placement import affinity, interpod
from trimtab.placement.affinity import NodeAffinity
from trimtab.placement.balance import NodeResourcesBalancedAllocation
from trimtab.placement.framework import CODE_NAMES, SUCCESS, UNRESOLVABLE, Cycle, Filter, Refusals, Score
from trimtab.placement.images import ImageLocality
from trimtab.placement.interpod import InterPodAffinity
from trimtab.placement.nodename import NodeName
from trimtab.placement.ports import NodePorts
from trimtab.placement.resources import NodeResourcesFit
from trimtab.placement.taints import TaintToleration
from trimtab.placement.unschedulable import NodeUnschedulable
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import Mask

JSON = dict[str, Any]

ALWAYS = frozenset({"NodeName", "NodeUnschedulable", "TaintToleration"})
"""Filters that are asked about every node without being asked about the pod first."""
UNPREPARED = frozenset({"ImageLocality"})
"""Scores that are asked about every node without being asked about the pod first."""


def answer(case: JSON) -> JSON:
    """The answer of every plugin to a case."""
    question = case["input"]
    cycle = Cycle(codec.convert(question["pod"], Pod), _snapshot(question))
    names = [node["metadata"]["name"] for node in question["nodes"]]
    rows = {name: cycle.snapshot.nodes.rows.index[name] for name in names}
    filters, scores = _plugins(question.get("args") or {})
    refusals = {plugin.name: plugin.filter(cycle) for plugin in filters}
    scored = np.zeros(len(cycle.snapshot.nodes), dtype=np.bool_)
    scored[[rows[name] for name in question["scoredNodes"]]] = True
    return {
        "filters": {name: _filtered(name, found, rows) for name, found in refusals.items()},
        "feasible": [name for name, row in rows.items() if _passes(refusals.values(), row)],
        "scores": {plugin.name: _scored(plugin, cycle, scored, rows) for plugin in scores},
    }


def _snapshot(question: JSON) -> Snapshot:
    snapshot = Snapshot()
    kinds: tuple[type[Namespace | Node | Pod], ...] = (Namespace, Node, Pod)
    for kind in kinds:
        for tree in question.get(f"{kind.__name__.lower()}s") or []:
            snapshot.put(codec.convert(tree, kind))
    return snapshot


def _plugins(args: Mapping[str, Any]) -> tuple[list[Filter], list[Score]]:
    fit = NodeResourcesFit(_args(args, schedulerconfig.NodeResourcesFitArgs))
    chosen = NodeAffinity(_args(args, schedulerconfig.NodeAffinityArgs))
    between = InterPodAffinity(_args(args, schedulerconfig.InterPodAffinityArgs))
    balanced = NodeResourcesBalancedAllocation(_args(args, schedulerconfig.NodeResourcesBalancedAllocationArgs))
    taints = TaintToleration()
    filters: list[Filter] = [fit, chosen, taints, NodeName(), NodeUnschedulable(), NodePorts(), between]
    return filters, [fit, balanced, chosen, taints, between, ImageLocality()]


def _args(args: Mapping[str, Any], kind: type[Any]) -> Any:
    """The arguments of a plugin, where a case has any; their type is named after it."""
    given = args.get(kind.__name__.removesuffix("Args"))
    return None if given is None else codec.convert(given, kind)


def _passes(refusals: Iterable[Refusals | None], row: int) -> bool:
    return all(found is None or found.codes[row] == SUCCESS for found in refusals)


def _filtered(name: str, found: Refusals | None, rows: Mapping[str, int]) -> JSON:
    nodes = {node: _verdict(found, row) for node, row in rows.items()}
    return {"preFilter": _prepared(name, found), "nodes": nodes}


def _prepared(name: str, found: Refusals | None) -> str:
    """What the plugin said before it was asked about any node."""
    if name in ALWAYS:
        return "none"
    if found is None:
        return "Skip"
    about_the_pod = any(text == affinity.CONFLICT or text.startswith(interpod.UNREADABLE) for _, text in found.reasons)
    return CODE_NAMES[UNRESOLVABLE if about_the_pod else SUCCESS]


def _verdict(found: Refusals | None, row: int) -> JSON:
    if found is None:
        return {"code": CODE_NAMES[SUCCESS]}
    reasons = sorted(text for refused, text in found.reasons if refused[row])
    code = CODE_NAMES[found.codes[row]]
    return {"code": code, "reasons": reasons} if reasons else {"code": code}


def _scored(plugin: Score, cycle: Cycle, scored: Mask, rows: Mapping[str, int]) -> JSON:
    found = plugin.score(cycle, scored)
    if found is None:
        return {"preScore": "Skip", "nodes": {}}
    nodes = {
        node: {"raw": int(found.raw[row]), "normalized": int(found.normalized[row])}
        for node, row in rows.items()
        if scored[row]
    }
    return {"preScore": "none" if plugin.name in UNPREPARED else "Success", "nodes": nodes}
