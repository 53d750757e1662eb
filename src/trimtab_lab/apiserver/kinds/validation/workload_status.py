"""Validation of the status of workloads."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab_lab.apiserver.kinds.validation import metadata
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    invalid,
)
from trimtab_lab.apiserver.kinds.validation.counts import not_negative
from trimtab_lab.apiserver.storage.store import Tree


def status(tree: Tree, old: Tree, causes: Causes, fields: Sequence[str], *, readies: str = "readyReplicas") -> None:
    """The counts of a status: none negative, none above the number of replicas, none available but not ready."""
    metadata.validate_update(tree["metadata"], old["metadata"], causes)
    counts = tree["status"]
    not_negative(counts, ("observedGeneration", "replicas", *fields), causes, "status")
    replicas = counts.get("replicas", 0)
    for field in fields:
        if field not in _UNBOUND and counts.get(field, 0) > replicas:
            causes.append(invalid(f"status.{field}", counts[field], "cannot be greater than status.replicas"))
    available, ready = counts.get("availableReplicas", 0), counts.get("readyReplicas", 0)
    if available > ready:
        causes.append(invalid("status.availableReplicas", available, f"cannot be greater than {readies}"))


_UNBOUND = ("unavailableReplicas", "terminatingReplicas", "collisionCount")


def deployment_status(tree: Tree, old: Tree, causes: Causes) -> None:
    fields = "updatedReplicas readyReplicas availableReplicas unavailableReplicas terminatingReplicas collisionCount"
    status(tree, old, causes, fields.split())
    _not_decremented(tree, old, causes)


def replica_set_status(tree: Tree, old: Tree, causes: Causes) -> None:
    fields = "fullyLabeledReplicas readyReplicas availableReplicas terminatingReplicas"
    status(tree, old, causes, fields.split())


def stateful_set_status(tree: Tree, old: Tree, causes: Causes) -> None:
    fields = "readyReplicas currentReplicas updatedReplicas availableReplicas collisionCount"
    status(tree, old, causes, fields.split(), readies="status.readyReplicas")
    _not_decremented(tree, old, causes)


def daemon_set_status(tree: Tree, old: Tree, causes: Causes) -> None:
    metadata.validate_update(tree["metadata"], old["metadata"], causes)
    fields = (
        "currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady observedGeneration "
        "updatedNumberScheduled numberAvailable numberUnavailable collisionCount"
    )
    not_negative(tree["status"], fields.split(), causes, "status")
    _not_decremented(tree, old, causes)


def _not_decremented(tree: Tree, old: Tree, causes: Causes) -> None:
    now, before = tree["status"].get("collisionCount"), old["status"].get("collisionCount")
    if before is not None and (now is None or now < before):
        causes.append(invalid("status.collisionCount", now or 0, "cannot be decremented"))
