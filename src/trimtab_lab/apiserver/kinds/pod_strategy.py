"""The registry strategy of pods: initial status, quality-of-service class, merged label keys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from trimtab.api import quantities
from trimtab_lab.apiserver.storage.store import Tree

_COMPUTE = ("cpu", "memory")


def new_pod(tree: Tree, now: str) -> None:
    spec = tree["spec"]
    status: Tree = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    tree["status"] = status
    labels = tree["metadata"].get("labels") or {}
    _merge_affinity_keys(spec.get("affinity") or {}, labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_keys(constraint, labels)


def qos_class(spec: Tree) -> str:
    """The quality-of-service class of a pod, by the requests and limits of its containers."""
    containers = [spec["resources"]] if spec.get("resources") else _container_resources(spec)
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for resources in containers:
        _add(requests, resources.get("requests") or {})
        guaranteed &= len(_add(limits, resources.get("limits") or {})) == len(_COMPUTE)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _container_resources(spec: Tree) -> list[Tree]:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [container.get("resources") or {} for container in containers]


def _add(total: dict[str, int], amounts: Mapping[str, str]) -> list[str]:
    """Add compute resources to a total; returns the names of those above zero."""
    found = []
    for name in _COMPUTE:
        if name in amounts:
            value = _nano(amounts[name])
            if value > 0:
                total[name] = total.get(name, 0) + value
                found.append(name)
    return found


@lru_cache(maxsize=4096)
def _nano(text: str) -> int:
    """A quantity in billionths, the smallest unit of quantities."""
    quantity = quantities.parse(text)
    exponent = quantity.exponent + 9
    return quantity.unscaled * int(10**exponent) if exponent >= 0 else -(-quantity.unscaled // int(10**-exponent))


def _merge_affinity_keys(affinity: Tree, labels: Mapping[str, str]) -> None:
    for side in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(side) or {}
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_keys(weighted["podAffinityTerm"], labels)
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_keys(term, labels)


def _merge_keys(term: Tree, labels: Mapping[str, str]) -> None:
    """Merge `matchLabelKeys` into the selector beside them, with the values of this pod's labels."""
    if not term.get("matchLabelKeys") and not term.get("mismatchLabelKeys"):
        return
    selector = term.get("labelSelector")
    if selector is None:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field) or ():
            if key in labels:
                expression = {"key": key, "operator": operator, "values": [labels[key]]}
                selector.setdefault("matchExpressions", []).append(expression)


def keep_observed(status: Tree, old: Tree) -> None:
    """Keep observed generations and the QoS class, which a client that does not know them would clear."""
    for field in ("qosClass", "observedGeneration"):
        if not status.get(field) and field in old:
            status[field] = old[field]
    before = {c.get("type"): c.get("observedGeneration") for c in reversed(old.get("conditions") or ())}
    for condition in status.get("conditions") or ():
        if not condition.get("observedGeneration") and before.get(condition.get("type")):
            condition["observedGeneration"] = before[condition["type"]]
