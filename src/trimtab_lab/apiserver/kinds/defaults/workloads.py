"""Defaults of workloads."""

from __future__ import annotations

from trimtab_lab.apiserver.kinds.defaults.core import default_claim
from trimtab_lab.apiserver.kinds.defaults.pods import default_pod_spec
from trimtab_lab.apiserver.storage.store import Tree


def default_template(spec: Tree) -> None:
    template = spec.get("template")
    if template is not None:
        default_pod_spec(template["spec"])


def default_deployment(tree: Tree) -> None:
    spec = tree["spec"]
    default_template(spec)
    spec.setdefault("replicas", 1)
    strategy = spec["strategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def default_daemon_set(tree: Tree) -> None:
    spec = tree["spec"]
    default_template(spec)
    strategy = spec["updateStrategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def default_stateful_set(tree: Tree) -> None:
    spec = tree["spec"]
    default_template(spec)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec["updateStrategy"]
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if "rollingUpdate" in strategy:
        strategy["rollingUpdate"].pop("maxUnavailable", None)  # behind a feature gate that is off
        if strategy["type"] == "RollingUpdate":
            strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        default_claim(claim)


def default_replica_set(tree: Tree) -> None:
    default_template(tree["spec"])
    tree["spec"].setdefault("replicas", 1)


def default_replication_controller(tree: Tree) -> None:
    spec = tree["spec"]
    default_template(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not tree["metadata"].get("labels"):
            tree["metadata"]["labels"] = dict(labels)
    spec.setdefault("replicas", 1)
