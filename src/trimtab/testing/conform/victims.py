"""The families `active_pods_sort`, `kruise_rank` and `possible_victims`: which pods a controller deletes first.

An order is answered as a flat list of names. With `diff`, the names of the first so many come with it: what the
controller would delete. (It does not sort when all must go; the set is the same.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.api import codec, times
from trimtab.api.nodes import ZONE, Node
from trimtab.api.pods import Pod
from trimtab.ranking import certainty
from trimtab.ranking.certainty import Window
from trimtab.ranking.contenders import Contenders
from trimtab.ranking.rankers import Constraint, Ranker, SameNodeRanker, SpreadConstraintsRanker, domains_of
from trimtab.ranking.victims import Options, Order, order_contenders, replicaset_order
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask

JSON = dict[str, Any]


def active_pods_sort(case: JSON) -> JSON:
    """The order of a ReplicaSet's pods, the pods of its group on each one's node, and who is deleted."""
    question = case["input"]
    view = Snapshot()
    rows, extra = _put(view, question["pods"]), _put(view, question.get("extraRelatedPods") or ())
    related = np.concatenate((extra, rows)) if question.get("relatedIncludesPods") else extra
    gates, now = question.get("featureGates") or {}, question.get("now")
    options = Options(
        logarithmic=gates.get("LogarithmicScaleDown", True), deletion_cost=gates.get("PodDeletionCost", True)
    )
    order = replicaset_order(view.pods, rows, related, None if now is None else times.parse_ns(now), options)
    names = _names(view, order)
    answer: JSON = {"ranks": dict(zip(names, order.same_node_ranks.tolist(), strict=True)), "order": names}
    return answer | {"deleted": names[: question["diff"]]} if "diff" in question else answer


def kruise_rank(case: JSON) -> JSON:
    """The ranks of both rankers and the order of a CloneSet's pods with each."""
    question = case["input"]
    view = Snapshot()
    for node in codec.convert(question.get("nodes") or [], list[Node]):
        view.put(node)
    contenders = Contenders(view.pods, _put(view, question["pods"]))
    spread = SpreadConstraintsRanker(tuple(_constraint(tree) for tree in question.get("constraints") or ()))
    available = _available(view, contenders, question.get("availablePods"))
    return {
        "sameNode": _ranked(view, contenders, SameNodeRanker(), available),
        "spread": _ranked(view, contenders, spread, available),
    }


def possible_victims(case: JSON) -> JSON:
    """Which pods a ReplicaSet's controller may delete in a window, and the zone skew if it is certain."""
    question = case["input"]
    view = Snapshot()
    for node in codec.convert(question.get("nodes") or [], list[Node]):
        view.put(node)
    contenders = Contenders(view.pods, _put(view, question["pods"]))
    related = contenders.rows if question.get("related") else contenders.rows[:0]
    window = Window(int(question["from"]), int(question["to"]))
    found = certainty.possible_victims(contenders, related, question["delete"], window)
    domains = domains_of(contenders, view.nodes, Constraint(ZONE)).astype(np.int64)
    zones = len(view.nodes.label(ZONE).values)
    best, worst = found.skews(domains, np.bincount(domains[domains >= 0], minlength=zones))
    return {
        "always": sorted(_name(view, row) for row in found.always.tolist()),
        "possible": sorted(_name(view, row) for row in found.possible.tolist()),
        "certainSkew": best if best == worst else None,
    }


def _ranked(view: Snapshot, contenders: Contenders, ranker: Ranker, available: Mask | None) -> JSON:
    order = order_contenders(contenders, ranker.ranks(contenders, view.nodes), available)
    names = _names(view, order)
    return {"ranks": dict(zip(names, order.ranks.tolist(), strict=True)), "order": names}


def _constraint(tree: JSON) -> Constraint:
    return Constraint(tree["topologyKey"], tuple(tree.get("limitedValues") or ()))


def _available(view: Snapshot, contenders: Contenders, names: list[str] | None) -> Mask | None:
    if names is None:
        return None
    known = set(names)
    return np.array([_name(view, row) in known for row in contenders.rows.tolist()], dtype=np.bool_)


def _put(view: Snapshot, trees: Any) -> IntColumn:
    """Add pods to a view; their rows."""
    pods = codec.convert(list(trees), list[Pod])
    for pod in pods:
        view.put(pod)
    return np.array([view.pods.rows.index[pod.key] for pod in pods], dtype=np.int64)


def _names(view: Snapshot, order: Order) -> list[str]:
    return [_name(view, row) for row in order.rows.tolist()]


def _name(view: Snapshot, row: int) -> str:
    pod = view.pods.objects[row]
    return "" if pod is None else pod.metadata.name
