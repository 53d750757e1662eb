"""Validation of PodDisruptionBudgets, Leases and PriorityClasses."""

from __future__ import annotations

from trimtab_lab.apiserver.kinds.validation import counts, metadata, pods
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    forbidden,
    immutable,
    invalid,
    unsupported,
)
from trimtab_lab.apiserver.kinds.validation.cluster import object_metadata
from trimtab_lab.apiserver.storage.store import Tree


def disruption_budget(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    """A PodDisruptionBudget. Of its metadata only the common rules are checked."""
    del old
    spec = tree["spec"]
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        shown = {"MinAvailable": least, "Selector": spec.get("selector"), "MaxUnavailable": most}
        shown |= {"UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy")}
        causes.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for field, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            counts.count_or_percent(value, causes, f"spec.{field}")
            counts.at_most_all(value, causes, f"spec.{field}")
    metadata.selector(spec.get("selector"), causes, "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        causes.append(unsupported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget")))


def disruption_budget_status(tree: Tree, old: Tree, causes: Causes) -> None:
    del old
    status = tree["status"]
    metadata.conditions(status.get("conditions") or (), causes, "status.conditions")
    fields = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    counts.not_negative(status, fields, causes, "status")


def lease(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    object_metadata(tree, old, causes, namespaced=True, finalizers=False)
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        causes.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    strategy = spec.get("strategy")
    if strategy is not None and "/" not in strategy and strategy != "OldestEmulationVersion":
        causes.append(unsupported("spec.strategy", strategy, ("OldestEmulationVersion",)))
    if spec.get("preferredHolder") and not strategy:
        fault = "may only be specified if `strategy` is defined"
        causes.append(forbidden("spec.preferredHolder", fault))


_SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_HIGHEST_PRIORITY = 1000000000


def priority_class(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    object_metadata(tree, old, causes, namespaced=False)
    value = tree.get("value", 0)
    if old is not None:
        if value != old.get("value", 0):
            causes.append(forbidden("value", "may not be changed in an update."))
        causes += immutable("preemptionPolicy", tree.get("preemptionPolicy"), old.get("preemptionPolicy"))
        return
    name = tree["metadata"].get("name", "")
    if name.startswith("system-"):
        _system_priority(name, tree, causes)
    elif value > _HIGHEST_PRIORITY:
        fault = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        causes.append(forbidden("value", fault))
    if "preemptionPolicy" in tree:
        pods.preemption_policy(tree["preemptionPolicy"], causes, "preemptionPolicy")


def _system_priority(name: str, tree: Tree, causes: Causes) -> None:
    known = _SYSTEM_PRIORITIES.get(name)
    if known is None:
        error = f"{name} is not a known system priority class"
    elif tree.get("value", 0) != known:
        error = f"value of {name} PriorityClass must be {known}"
    elif tree.get("globalDefault"):
        error = f"globalDefault of {name} PriorityClass must be false"
    else:
        return
    fault = f"priority class names with 'system-' prefix are reserved for system use only. error: {error}"
    causes.append(forbidden("metadata.name", fault))
