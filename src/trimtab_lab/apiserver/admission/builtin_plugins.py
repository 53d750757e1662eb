"""Kubernetes' built-in admission plugins, as far as they complete or reject an object by looking at other objects.

1. `NamespaceLifecycle`: objects are created only in a namespace that exists and is not being deleted.
2. `ServiceAccount`: a pod has a service account that exists, and mounts its token.
3. `TaintNodesByCondition`: a new node has the not-ready taint.
4. `Priority`: a pod has the priority of its class; at most one class is the default.
5. `DefaultTolerationSeconds`: a pod tolerates a failed node for five minutes, unless it says otherwise.
6. `PodTopologyLabels`: a pod that is created on a node, or bound to it, gets the zone and region labels of that node.
7. Services get cluster IPs and node ports. (Kubernetes allocates them while storing.)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from trimtab_lab.apiserver.admission.service_allocator import ServiceAllocator
from trimtab_lab.apiserver.kinds.errors import forbidden, not_found
from trimtab_lab.apiserver.kinds.objects import generate_name
from trimtab_lab.apiserver.kinds.registry import Kind, Registry
from trimtab_lab.apiserver.storage.store import Store, Tree, key_of

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")

_TOKEN_PREFIX = "kube-api-access-"  # noqa: S105 – the name of a volume
_TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105
_TOKEN_SOURCES: list[Tree] = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {
        "downwardAPI": {
            "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
        }
    },
]
_POD_SETTINGS = (b"automountServiceAccountToken", b"imagePullSecrets")
_TOLERATION_SECONDS = 300


class BuiltInPlugins:
    """The plugins of a cluster."""

    def __init__(self, store: Store, registry: Registry, rng: random.Random) -> None:
        self._store = store
        self._registry = registry
        self._rng = rng
        self._addresses = ServiceAllocator(store)
        self._create: Mapping[str, Callable[[Kind, str, Tree], None]] = {
            "/pods": self._new_pod,
            "/nodes": self._new_node,
            "/services": self._new_service,
            "/namespaces": self._new_namespace,
            "scheduling.k8s.io/priorityclasses": self._priority_class,
        }
        self._update: Mapping[str, Callable[[Kind, str, Tree, Tree], None]] = {
            "/pods": self._updated_pod,
            "/services": self._updated_service,
            "/namespaces": self._updated_namespace,
            "scheduling.k8s.io/priorityclasses": self._updated_priority_class,
        }

    def admit_create(self, kind: Kind, namespace: str, tree: Tree) -> None:
        """Complete or reject a new object."""
        if namespace:
            self._check_namespace(kind, namespace, tree)
        plugin = self._create.get(kind.collection)
        if plugin is not None:
            plugin(kind, namespace, tree)

    def admit_update(self, kind: Kind, namespace: str, tree: Tree, old: Tree) -> None:
        """Complete or reject an update."""
        plugin = self._update.get(kind.collection)
        if plugin is not None:
            plugin(kind, namespace, tree, old)

    def topology_labels(self, node: str) -> dict[str, str]:
        """The labels that pods inherit from a node."""
        entry = self._store.collection("/nodes").entries.get(node)
        labels = {} if entry is None else entry.labels
        return {name: labels[name] for name in TOPOLOGY_LABELS if name in labels}

    def _check_namespace(self, kind: Kind, namespace: str, tree: Tree) -> None:
        entry = self._store.collection("/namespaces").entries.get(namespace)
        if entry is None:
            raise not_found(self._namespaces(), namespace)
        if entry.deleting:
            name = tree["metadata"].get("name", "")
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(kind, name, message, cause)

    def _namespaces(self) -> Kind:
        kind = self._registry.find("v1", "namespaces")
        assert kind is not None  # noqa: S101 – built in
        return kind

    # pods

    def _new_pod(self, kind: Kind, namespace: str, tree: Tree) -> None:
        self._set_account(kind, namespace, tree)
        self._set_priority(kind, tree)
        _tolerate_failures(tree["spec"])
        self._inherit_topology(tree)

    def _updated_pod(self, _kind: Kind, _namespace: str, tree: Tree, old: Tree) -> None:
        for field in ("priority", "preemptionPolicy"):
            if field not in tree["spec"] and field in old["spec"]:
                tree["spec"][field] = old["spec"][field]
        _tolerate_failures(tree["spec"])

    def _inherit_topology(self, tree: Tree) -> None:
        node = tree["spec"].get("nodeName")
        inherited = self.topology_labels(node) if node else None
        if inherited:
            tree["metadata"].setdefault("labels", {}).update(inherited)

    def _set_account(self, kind: Kind, namespace: str, tree: Tree) -> None:
        spec = tree["spec"]
        name = spec.get("serviceAccountName") or "default"
        entry = self._store.collection("/serviceaccounts").entries.get(key_of(namespace, name))
        if entry is None:
            missing = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise forbidden(kind, tree["metadata"].get("name", ""), missing)
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        # Most accounts have no settings for pods, and need not be decoded.
        account = entry.tree() if any(word in entry.data for word in _POD_SETTINGS) else {}
        mounts = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True))
        if mounts:
            self._mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]

    def _mount_token(self, spec: Tree) -> None:
        volumes = spec.get("volumes") or []
        present = next((v["name"] for v in volumes if v["name"].startswith(_TOKEN_PREFIX)), None)
        name = present or generate_name(_TOKEN_PREFIX, self._rng)
        mounted = False
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            mounts = container.setdefault("volumeMounts", [])
            if all(mount.get("mountPath") != _TOKEN_MOUNT for mount in mounts):
                mounts.append({"name": name, "readOnly": True, "mountPath": _TOKEN_MOUNT})
                mounted = True
        if mounted and present is None:
            volume = {"name": name, "projected": {"sources": _TOKEN_SOURCES, "defaultMode": 420}}
            spec["volumes"] = [*volumes, volume]

    def _set_priority(self, kind: Kind, tree: Tree) -> None:
        spec = tree["spec"]
        name, value, policy = self._priority(kind, tree, spec.get("priorityClassName", ""))
        if name:
            spec["priorityClassName"] = name
        if spec.get("priority", value) != value:
            raise forbidden(
                kind,
                tree["metadata"].get("name", ""),
                _computed_field_message("integer value of priority", spec["priority"], value),
            )
        if spec.get("preemptionPolicy", policy) != policy:
            raise forbidden(
                kind,
                tree["metadata"].get("name", ""),
                _computed_field_message("string value of PreemptionPolicy", spec["preemptionPolicy"], policy),
            )
        spec["priority"], spec["preemptionPolicy"] = value, policy

    def _priority(self, kind: Kind, tree: Tree, name: str) -> tuple[str, int, str]:
        classes = self._store.collection("scheduling.k8s.io/priorityclasses")
        if not name:
            chosen = self._default_class()
        elif name in classes.entries:
            chosen = classes.entries[name].tree()
        else:
            raise forbidden(kind, tree["metadata"].get("name", ""), f"no PriorityClass with name {name} was found")
        if chosen is None:
            return "", 0, "PreemptLowerPriority"
        return chosen["metadata"]["name"], chosen["value"], chosen.get("preemptionPolicy", "PreemptLowerPriority")

    def _default_class(self) -> Tree | None:
        """The default class with the lowest value. Most clusters have the two system classes only, which are no
        defaults."""
        classes = self._store.collection("scheduling.k8s.io/priorityclasses").present()
        trees = [entry.tree() for entry in classes if b'"globalDefault":true' in entry.data]
        return min(trees, key=lambda tree: tree["value"], default=None)

    def _priority_class(self, kind: Kind, _namespace: str, tree: Tree) -> None:
        default = self._default_class() if tree.get("globalDefault") else None
        name = tree["metadata"].get("name", "")
        if default is not None and default["metadata"]["name"] != name:
            taken = default["metadata"]["name"]
            message = f"PriorityClass {taken} is already marked as default. Only one default can exist"
            raise forbidden(kind, name, message)

    def _updated_priority_class(self, kind: Kind, namespace: str, tree: Tree, _old: Tree) -> None:
        self._priority_class(kind, namespace, tree)

    # nodes, namespaces, services

    def _new_node(self, _kind: Kind, _namespace: str, tree: Tree) -> None:
        taints = tree["spec"].setdefault("taints", [])
        if all((taint.get("key"), taint.get("effect")) != (NOT_READY, "NoSchedule") for taint in taints):
            taints.append({"key": NOT_READY, "effect": "NoSchedule"})

    def _new_namespace(self, _kind: Kind, _namespace: str, tree: Tree) -> None:
        name = tree["metadata"].get("name", "")
        if name:
            tree["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name

    def _updated_namespace(self, kind: Kind, namespace: str, tree: Tree, _old: Tree) -> None:
        self._new_namespace(kind, namespace, tree)

    def _new_service(self, kind: Kind, _namespace: str, tree: Tree) -> None:
        self._addresses.assign(kind, tree)

    def _updated_service(self, kind: Kind, _namespace: str, tree: Tree, old: Tree) -> None:
        spec, before = tree["spec"], old["spec"]
        if spec.get("type") != "ExternalName":
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
                if not spec.get(field) and field in before:
                    spec[field] = before[field]
        _keep_node_ports(spec, before)
        self._addresses.assign(kind, tree, old)


def _computed_field_message(what: str, given: Any, computed: Any) -> str:
    return (
        f"the {what} ({given}) must not be provided in pod spec; "
        f"priority admission controller computed {computed} from the given PriorityClass name"
    )


def _tolerate_failures(spec: Tree) -> None:
    tolerations = spec.get("tolerations") or []
    tolerated = {t.get("key", "") for t in tolerations if t.get("effect", "") in ("", "NoExecute")}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for key in (NOT_READY, UNREACHABLE)
        if key not in tolerated and "" not in tolerated
    ]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def _keep_node_ports(spec: Tree, before: Tree) -> None:
    """Keep the node ports of an update that does not state them."""
    known = {(port["port"], port.get("protocol")): port.get("nodePort") for port in before.get("ports") or ()}
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        for port in spec.get("ports") or ():
            kept = known.get((port["port"], port.get("protocol")))
            if not port.get("nodePort") and kept:
                port["nodePort"] = kept
