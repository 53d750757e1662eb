"""Clusters as values, for the tests of inspection: nodes in zones, and workloads with their pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trimtab.api import codec, times
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.documents import JSON
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.inspection.cluster import Cluster
from trimtab.kube.resources import Resource
from trimtab.testing.builders import node, pod, uid_for

NOW = times.parse_ns("2026-03-01T12:00:00Z")
CREATED = "2026-03-01T00:00:00Z"
ZONE = "topology.kubernetes.io/zone"
HARD: JSON = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
SOFT = {**HARD, "whenUnsatisfiable": "ScheduleAnyway"}


class Builder:
    """A cluster under construction."""

    def __init__(self) -> None:
        self.objects: dict[type[Any], list[Any]] = {Namespace: []}
        self.namespace("default")

    def namespace(self, name: str, **labels: str) -> Builder:
        """A namespace."""
        tree = {"metadata": {"name": name, "uid": uid_for(f"ns/{name}"), "labels": labels}}
        self.objects[Namespace].append(codec.convert(tree, Namespace))
        return self

    def nodes(self, **zones: Sequence[str]) -> Builder:
        """Nodes in zones."""
        made = [node(name, zone=zone).build() for zone, names in zones.items() for name in names]
        self.objects.setdefault(Node, []).extend(made)
        return self

    def deployment(
        self,
        name: str,
        on: Sequence[str],
        *,
        namespace: str = "default",
        constraints: Sequence[JSON] = (),
        annotations: Mapping[int, Mapping[str, str]] | None = None,
        model: type[Any] = Deployment,
        **spec: Any,
    ) -> Builder:
        """A Deployment, or a workload like it, with one ReplicaSet and a ready pod on each of these nodes."""
        set_name = f"{name}-1"
        common = self._common(name, len(on), constraints)
        owner = self._owner(Resource.of(model).api_version, model.__name__, name, namespace)
        self._add(model, name, namespace, {**common, **spec}, status={"replicas": len(on)})
        self._add(ReplicaSet, set_name, namespace, common, owners=[owner])
        pods = self._owner("apps/v1", "ReplicaSet", set_name, namespace)
        self._pods(set_name, namespace, name, on, pods, constraints, annotations or {})
        return self

    def replicaset(self, name: str, on: Sequence[str], *, namespace: str = "default") -> Builder:
        """A standalone ReplicaSet with ready pods."""
        self._add(ReplicaSet, name, namespace, self._common(name, len(on), ()))
        self._pods(name, namespace, name, on, self._owner("apps/v1", "ReplicaSet", name, namespace), (), {})
        return self

    def replication_controller(self, name: str, on: Sequence[str], *, namespace: str = "default") -> Builder:
        """A ReplicationController with ready pods."""
        spec = {**self._common(name, len(on), ()), "selector": {"app": name}}
        self._add(ReplicationController, name, namespace, spec)
        self._pods(name, namespace, name, on, self._owner("v1", "ReplicationController", name, namespace), (), {})
        return self

    def cloneset(self, name: str, on: Sequence[str], *, namespace: str = "default") -> Builder:
        """A CloneSet with ready pods."""
        self._add(CloneSet, name, namespace, self._common(name, len(on), ()))
        owner = self._owner("apps.kruise.io/v1alpha1", "CloneSet", name, namespace)
        self._pods(name, namespace, name, on, owner, (), {})
        return self

    def put(self, *objects: Any) -> Builder:
        """Other objects."""
        for each in objects:
            self.objects.setdefault(type(each), []).append(each)
        return self

    def build(self, **fields: Any) -> Cluster:
        """The cluster."""
        return Cluster(time=NOW, objects=self.objects, origin="test", **fields)

    def _add(
        self, kind: type[Any], name: str, namespace: str, spec: JSON, *, owners: Sequence[JSON] = (), status: Any = None
    ) -> None:
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": uid_for(f"{kind.__name__}/{namespace}/{name}"),
            "creationTimestamp": CREATED,
            "ownerReferences": list(owners),
        }
        tree = {"metadata": metadata, "spec": spec, "status": status or {}}
        self.objects.setdefault(kind, []).append(codec.convert(tree, kind))

    def _common(self, name: str, replicas: int, constraints: Sequence[JSON]) -> JSON:
        environment = [{"name": "PASSWORD", "value": "hunter2"}]
        template = {
            "metadata": {"labels": {"app": name}, "annotations": {"example.com/note": "private"}},
            "spec": {
                "containers": [{"name": "main", "image": "example.com/app:1", "env": environment}],
                "topologySpreadConstraints": list(constraints),
            },
        }
        return {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}

    def _owner(self, api_version: str, kind: str, name: str, namespace: str) -> JSON:
        uid = uid_for(f"{kind}/{namespace}/{name}")
        return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}

    def _pods(
        self,
        prefix: str,
        namespace: str,
        app: str,
        on: Sequence[str],
        owner: JSON,
        constraints: Sequence[JSON],
        annotations: Mapping[int, Mapping[str, str]],
    ) -> None:
        for number, name in enumerate(on):
            made = pod(f"{prefix}-{number:02d}", namespace=namespace).on(name).labels({"app": app})
            tree = codec.to_tree(made.created(CREATED).ready().build())
            tree["metadata"]["ownerReferences"] = [owner]
            tree["metadata"]["annotations"] = dict(annotations.get(number, {}))
            tree["spec"]["topologySpreadConstraints"] = list(constraints)
            self.objects.setdefault(Pod, []).append(codec.convert(tree, Pod))


def three_zones() -> Builder:
    """Six nodes in three zones."""
    return Builder().nodes(z1=["a1", "a2"], z2=["b1", "b2"], z3=["c1", "c2"])
