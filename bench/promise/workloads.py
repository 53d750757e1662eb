"""The objects that scenarios create: namespaces, workloads, the shape of the simulated nodes, and configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.promise.comparison import JSON
from bench.promise.watching import APP
from trimtab.kube.resources import Resource, untyped

ZONE = "topology.kubernetes.io/zone"
CLUSTER = "lab.trimtab.dev/cluster"
"""The label by which the simulated nodes of a run are known."""
SCRIPT = "lab.trimtab.dev/"
"""The prefix of the annotations that tell a simulated kubelet what a pod does."""
TAINT = "promise.trimtab.dev/run"

NAMESPACES = untyped("v1", "Namespace", "namespaces", namespaced=False)
NODES = untyped("v1", "Node", "nodes", namespaced=False)
DEPLOYMENTS = untyped("apps/v1", "Deployment", "deployments")
REPLICA_SETS = untyped("apps/v1", "ReplicaSet", "replicasets")
REPLICATION_CONTROLLERS = untyped("v1", "ReplicationController", "replicationcontrollers")


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload of the run's namespace. Its pods carry its name as their label `app`."""

    kind: Resource[JSON]
    name: str

    @property
    def has_related_pods(self) -> bool:
        """Whether its controller counts related pods on the same node: only ReplicaSets with an owner have some."""
        return self.kind.kind == "Deployment"


def manifest(workload: Workload, run: str, replicas: int, pod: Mapping[str, Any] | None = None) -> JSON:
    """A workload on the nodes of a run; `pod` adds to the pods' spec or replaces parts of it."""
    labels = {APP: workload.name}
    template = {"metadata": {"labels": labels}, "spec": {**pod_spec(run), **(pod or {})}}
    selector = labels if workload.kind is REPLICATION_CONTROLLERS else {"matchLabels": labels}
    spec: JSON = {"replicas": replicas, "selector": selector, "template": template}
    if workload.kind is DEPLOYMENTS:
        spec["revisionHistoryLimit"] = 2
    return {
        "apiVersion": workload.kind.api_version,
        "kind": workload.kind.kind,
        "metadata": {"name": workload.name, "labels": labels},
        "spec": spec,
    }


def pod_spec(run: str) -> JSON:
    """A small pod that runs on the nodes of a run and nowhere else."""
    return {
        "containers": [
            {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
        ],
        "nodeSelector": {CLUSTER: run},
        "tolerations": [{"key": TAINT, "operator": "Exists"}],
        "terminationGracePeriodSeconds": 2,
    }


def zone_constraint(name: str, **more: Any) -> JSON:
    """A hard constraint: the zones of one workload's pods differ by one at most."""
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {APP: name}},
        **more,
    }


def shape(run: str, zones: Mapping[str, int]) -> JSON:
    """The shape file of the simulated nodes. Pods become ready within a second and end within half a second."""
    return {
        "name": run,
        "prefix": f"{run}-",
        "node": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]},
        "zones": [{"name": zone, "nodes": count} for zone, count in zones.items()],
        "pods": {"startSeconds": "0.05-0.6", "initSeconds": 0, "readySeconds": "0-0.35", "stopSeconds": "0.05-0.5"},
    }


def configuration(namespace: str, webhook_port: int, serving_port: int, policy: JSON, scale_down: JSON) -> JSON:
    """Trimtab's configuration: one process, and one default policy for all workloads."""
    return {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "TrimtabConfiguration",
        "namespace": namespace,
        "leaderElection": {"enabled": False},
        "scaleDown": {"defaultPolicies": [{"name": "level", "mode": "Enforce", **policy}], **scale_down},
        "serving": {"host": "127.0.0.1", "port": serving_port},
        "webhooks": {"host": "127.0.0.1", "port": webhook_port, "url": f"https://127.0.0.1:{webhook_port}"},
    }
