"""Pods, nodes and clusters in words, for tests of Trimtab and of the strategies that its users write.

    pod("p").on("a").labels(app="web").ready(since="2026-03-01T12:00:00Z").build()
    node("a", zone="z1").taint("dedicated", effect="NoSchedule").build()
    cluster("z1: a b", "z2: x y").running("a", "a", "x").snapshot()

Topology keys have short names here: `zone` and `host`; any other key is taken as it is. Builders keep the raw document,
so that `tree()` is a manifest and `build()` the typed view of the same.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any, Self

from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST
from trimtab.api.nodes import HOSTNAME, REGION, ZONE, Node
from trimtab.api.pods import Pod
from trimtab.snapshot import Snapshot

SHORT_KEYS = {"zone": ZONE, "host": HOSTNAME, "hostname": HOSTNAME, "region": REGION}

Labels = Mapping[str, str]


def topology_key(name: str) -> str:
    """The label key that a short name stands for."""
    return SHORT_KEYS.get(name, name)


def uid_for(name: str) -> str:
    """A UID that looks like one, the same for the same name."""
    digits = hashlib.sha256(name.encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


class _Builder:
    """A raw document under construction. Each word changes it and returns the builder."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self._tree = tree

    def tree(self) -> dict[str, Any]:
        """The manifest, the caller's to change."""
        return copy.deepcopy(self._tree)

    def labels(self, labels: Labels | None = None, **more: str) -> Self:
        """Add labels."""
        self._metadata("labels").update({**(labels or {}), **more})
        return self

    def annotations(self, annotations: Labels | None = None, **more: str) -> Self:
        """Add annotations."""
        self._metadata("annotations").update({**(annotations or {}), **more})
        return self

    def _metadata(self, part: str) -> dict[str, Any]:
        found: dict[str, Any] = self._tree["metadata"].setdefault(part, {})
        return found


class PodBuilder(_Builder):
    """A pod in words. It starts as Pending, unassigned, with one container that asks for nothing."""

    def build(self) -> Pod:
        """The typed pod."""
        return codec.convert(self.tree(), Pod)

    def on(self, node_name: str) -> Self:
        """Assigned to a node, and Running."""
        self._tree["spec"]["nodeName"] = node_name
        return self.phase("Running")

    def phase(self, phase: str) -> Self:
        """In this phase."""
        self._tree["status"]["phase"] = phase
        return self

    def uid(self, uid: str) -> Self:
        """With this UID instead of one made from its name."""
        self._tree["metadata"]["uid"] = uid
        return self

    def created(self, at: str) -> Self:
        """Created at this time."""
        self._tree["metadata"]["creationTimestamp"] = at
        return self

    def ready(self, since: str | None = None) -> Self:
        """Ready, since its creation unless stated otherwise."""
        return self.condition("Ready", "True", since=since or self._tree["metadata"].get("creationTimestamp"))

    def not_ready(self, since: str | None = None) -> Self:
        """Not ready."""
        return self.condition("Ready", "False", since=since)

    def condition(self, kind: str, status: str, *, since: str | None = None, reason: str = "") -> Self:
        """With this condition."""
        conditions = self._tree["status"].setdefault("conditions", [])
        conditions[:] = [c for c in conditions if c["type"] != kind]
        made = {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}
        conditions.append({key: value for key, value in made.items() if value})
        return self

    def terminating(self, since: str = "2026-01-01T00:00:00Z") -> Self:
        """On its way out."""
        self._tree["metadata"]["deletionTimestamp"] = since
        return self

    def cost(self, cost: int | str) -> Self:
        """With this deletion cost."""
        return self.annotations({DELETION_COST: str(cost)})

    def owned_by(self, name: str, *, kind: str = "ReplicaSet", api_version: str = "apps/v1") -> Self:
        """Managed by a workload."""
        owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid_for(f"{kind}/{name}")}
        self._tree["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        return self

    def restarts(self, count: int) -> Self:
        """Whose container was restarted so often."""
        name = self._tree["spec"]["containers"][0]["name"]
        self._tree["status"]["containerStatuses"] = [{"name": name, "restartCount": count}]
        return self

    def requests(self, **resources: str) -> Self:
        """Asking for resources; `_` in a name stands for `-`."""
        named = {name.replace("_", "-"): amount for name, amount in resources.items()}
        container = self._tree["spec"]["containers"][0]
        container.setdefault("resources", {}).setdefault("requests", {}).update(named)
        return self

    def host_port(self, port: int, *, protocol: str = "TCP", ip: str = "") -> Self:
        """Taking a port of its node."""
        made = {"containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": ip}
        self._tree["spec"]["containers"][0].setdefault("ports", []).append(made)
        return self

    def image(self, name: str) -> Self:
        """Running this image."""
        self._tree["spec"]["containers"][0]["image"] = name
        return self

    def node_selector(self, selector: Labels | None = None, **more: str) -> Self:
        """Only on nodes with these labels."""
        self._tree["spec"].setdefault("nodeSelector", {}).update({**(selector or {}), **more})
        return self

    def tolerates(self, key: str = "", *, value: str = "", effect: str = "") -> Self:
        """Tolerating a taint; any taint where no key is given."""
        operator = "Equal" if value else "Exists"
        made = {"key": key, "operator": operator, "value": value, "effect": effect}
        self._tree["spec"].setdefault("tolerations", []).append({k: v for k, v in made.items() if v})
        return self

    def spread(
        self, key: str, *, max_skew: int = 1, hard: bool = True, selector: Labels | None = None, **more: Any
    ) -> Self:
        """Spread over a topology key, among pods with these labels (its own, unless stated otherwise)."""
        chosen = self._tree["metadata"].get("labels", {}) if selector is None else selector
        constraint = {
            "maxSkew": max_skew,
            "topologyKey": topology_key(key),
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": {"matchLabels": dict(chosen)},
            **more,
        }
        self._tree["spec"].setdefault("topologySpreadConstraints", []).append(constraint)
        return self

    def affinity(self, affinity: Mapping[str, Any]) -> Self:
        """With this affinity, as it is written in a manifest."""
        self._tree["spec"].setdefault("affinity", {}).update(affinity)
        return self

    def avoids(self, key: str, *, selector: Labels | None = None) -> Self:
        """Refusing to share a domain with pods of these labels (its own, unless stated otherwise)."""
        chosen = self._tree["metadata"].get("labels", {}) if selector is None else selector
        term = {"topologyKey": topology_key(key), "labelSelector": {"matchLabels": dict(chosen)}}
        return self.affinity({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})

    def spec(self, **fields: Any) -> Self:
        """With these fields of the spec, as they are written in a manifest."""
        self._tree["spec"].update(fields)
        return self


class NodeBuilder(_Builder):
    """A node in words. It starts ready, with room for 110 pods, 8 CPUs and 32 GiB."""

    def build(self) -> Node:
        """The typed node."""
        return codec.convert(self.tree(), Node)

    def taint(self, key: str, *, value: str = "", effect: str = "NoSchedule") -> Self:
        """With a taint."""
        made = {"key": key, "value": value, "effect": effect}
        self._tree["spec"].setdefault("taints", []).append({k: v for k, v in made.items() if v})
        return self

    def cordoned(self) -> Self:
        """Not to be given new pods."""
        self._tree["spec"]["unschedulable"] = True
        return self

    def allocatable(self, **resources: str) -> Self:
        """With these resources; `_` in a name stands for `-`."""
        named = {name.replace("_", "-"): amount for name, amount in resources.items()}
        self._tree["status"]["allocatable"].update(named)
        return self

    def image(self, name: str, size: int) -> Self:
        """With an image that lies there already."""
        self._tree["status"].setdefault("images", []).append({"names": [name], "sizeBytes": size})
        return self


class ClusterBuilder:
    """A cluster in words: zones with their nodes, and the pods that run there."""

    def __init__(self, zones: Mapping[str, list[str]]) -> None:
        self._nodes = {name: node(name, zone=zone) for zone, names in zones.items() for name in names}
        self._pods: list[PodBuilder] = []

    def running(self, *node_names: str, created: str = "2026-01-01T00:00:00Z", **labels: str) -> Self:
        """One more ready pod on each node named; labelled `app=web` unless stated otherwise."""
        for name in node_names:
            self._check(name)
            number = len(self._pods)
            made = pod(f"pod-{number:02d}").on(name).labels(labels or {"app": "web"})
            self._pods.append(made.created(created).ready())
        return self

    def with_pods(self, *pods: PodBuilder) -> Self:
        """Pods made elsewhere."""
        self._pods.extend(pods)
        return self

    def node(self, name: str) -> NodeBuilder:
        """One of the nodes, to say more about it."""
        self._check(name)
        return self._nodes[name]

    def nodes(self) -> list[Node]:
        """The typed nodes."""
        return [made.build() for made in self._nodes.values()]

    def pods(self) -> list[Pod]:
        """The typed pods."""
        return [made.build() for made in self._pods]

    def snapshot(self) -> Snapshot:
        """The view of this cluster."""
        view = Snapshot()
        for a_node in self.nodes():
            view.put(a_node)
        for a_pod in self.pods():
            view.put(a_pod)
        return view

    def _check(self, name: str) -> None:
        if name not in self._nodes:
            raise LookupError(f"there is no node {name!r} in this cluster; it has {', '.join(self._nodes)}")


def pod(name: str, *, namespace: str = "default") -> PodBuilder:
    """A pod of that name."""
    return PodBuilder(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "uid": uid_for(f"{namespace}/{name}")},
            "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]},
            "status": {"phase": "Pending"},
        }
    )


def node(name: str, *, zone: str = "", **labels: str) -> NodeBuilder:
    """A node of that name, in a zone if one is given."""
    known = {HOSTNAME: name} | ({ZONE: zone} if zone else {})
    return NodeBuilder(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": uid_for(f"node/{name}"), "labels": {**known, **labels}},
            "spec": {},
            "status": {
                "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


def cluster(*zones: str) -> ClusterBuilder:
    """A cluster from lines such as `"z1: a b"`: a zone, and the names of its nodes."""
    parsed: dict[str, list[str]] = {}
    for line in zones:
        zone, colon, names = line.partition(":")
        if not colon or not names.split():
            raise ValueError(f'{line!r} is not a zone with its nodes; write "z1: a b"')
        parsed.setdefault(zone.strip(), []).extend(names.split())
    return ClusterBuilder(parsed)
