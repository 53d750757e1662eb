"""The workloads of a run, and what is strange: objects that cannot be read, and reviews that are forged."""

from __future__ import annotations

import json
from collections.abc import Mapping

from bench.promise import workloads
from bench.promise.comparison import JSON
from bench.promise.watching import APP
from bench.promise.workloads import TAINT, ZONE
from trimtab.kube.resources import untyped

PLAIN = ("w0", "w1", "w2", "w3")
"""Deployments with a hard zone constraint. Every second one names Trimtab's scheduler."""
UNITED = "united"
"""A Deployment with a UnitedTopology."""
CLONES = "clones"
"""A CloneSet."""
LIMITS: Mapping[str, int] = {"own": 5, "shared": 3}
"""The limits of the UnitedTopology's subsets; a third one has none."""
EXEMPT = "kube-system"
"""A namespace that is exempt from our webhooks, and is watched nevertheless."""
CLONE_SETS = untyped("apps.kruise.io/v1alpha1", "CloneSet", "clonesets")
TOPOLOGIES = untyped("apps.kruise.io/v1alpha1", "UnitedTopology", "unitedtopologies")
POLICIES = untyped("trimtab.dev/v1alpha1", "ScaleDownPolicy", "scaledownpolicies")
_GONE_SECONDS = 5
"""After how many seconds pods leave a node that is lost."""
_HOLE = '"@"'


def pod_fields(name: str) -> JSON:
    """What the pods of a plain workload have besides."""
    lost = [f"node.kubernetes.io/{each}" for each in ("not-ready", "unreachable")]
    tolerations: list[JSON] = [{"key": TAINT, "operator": "Exists"}]
    tolerations += [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _GONE_SECONDS} for key in lost
    ]
    fields: JSON = {"tolerations": tolerations}
    if name in PLAIN and PLAIN.index(name) % 2:
        fields["schedulerName"] = "trimtab"
    return fields if name in PLAIN else {**fields, "topologySpreadConstraints": []}


def united_topology() -> JSON:
    """Subsets by zone: two with a limit, and the rest."""
    zones = {"own": "zone-a", "shared": "zone-b", "rest": "zone-c"}
    subsets = [
        {
            "name": name,
            "nodeSelectorTerm": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]},
            **({"maxReplicas": LIMITS[name]} if name in LIMITS else {}),
        }
        for name, zone in zones.items()
    ]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": UNITED}
    return {
        "apiVersion": TOPOLOGIES.api_version,
        "kind": TOPOLOGIES.kind,
        "metadata": {"name": UNITED},
        "spec": {"targetRef": target, "subsets": subsets},
    }


def clone_set(run: str, replicas: int) -> JSON:
    """A CloneSet on the nodes of a run."""
    labels = {APP: CLONES}
    spec = {**workloads.pod_spec(run), **pod_fields(PLAIN[0])}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "CloneSet",
        "metadata": {"name": CLONES},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def unreadable(kind: str, name: str, value: str) -> tuple[str, bytes]:
    """The collection and the text of an object with a free-form value. Kinds: `UNREADABLE`."""
    path, tree = UNREADABLE[kind]
    whole = json.dumps({**tree, "metadata": {**tree.get("metadata", {}), "name": name}})
    return path, whole.replace(_HOLE, value).encode()


def deep(levels: int) -> str:
    """Nested objects in the form of a set of fields: an API server drops `managedFields` in any other."""
    return '{"f:a":' * levels + "{}" + "}" * levels


def wide(values: int) -> str:
    """Many values in few bytes; no form of `managedFields`."""
    return '{"a":[' + ",".join(["[]"] * values) + "]}"


_CONTAINER = {"name": "main", "image": "example.com/app:1"}
_FIELDS = {"manager": "soak", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "@"}
_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
UNREADABLE: Mapping[str, tuple[str, JSON]] = {
    "pod": (
        "/api/v1/namespaces/{}/pods",
        {
            "metadata": {"managedFields": [_FIELDS]},
            "spec": {"schedulerName": "none", "containers": [_CONTAINER]},
        },
    ),
    "policy": (
        "/apis/trimtab.dev/v1alpha1/namespaces/{}/scaledownpolicies",
        {
            "apiVersion": "trimtab.dev/v1alpha1",
            "kind": "ScaleDownPolicy",
            "spec": {"targetRef": _TARGET, "strategies": [{"name": "Balance", "args": "@"}]},
        },
    ),
    "subset": (
        "/apis/apps.kruise.io/v1alpha1/namespaces/{}/unitedtopologies",
        {
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "UnitedTopology",
            "spec": {"targetRef": _TARGET, "subsets": [{"name": "a", "patch": "@"}]},
        },
    ),
    "cloneset": (
        "/apis/apps.kruise.io/v1alpha1/namespaces/{}/clonesets",
        {
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "CloneSet",
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "none"}},
                "template": {"metadata": {"labels": {"app": "none"}}, "spec": "@"},
            },
        },
    ),
}
"""Where a kind has a free-form field: the collection, and the object with a hole for it."""


def review(namespace: str, request: JSON) -> JSON:
    """An AdmissionReview about an object of a namespace."""
    common: JSON = {"uid": "forged", "namespace": namespace, "dryRun": False, "userInfo": {"username": "eve"}}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**common, **request}}


def forged_scale(name: str, namespace: str, size: int) -> JSON:
    """A decrease of a workload with an invented UID."""
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    tree = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "uid": "invented", "resourceVersion": "1"},
    }
    request = {
        "kind": kind,
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "name": name,
        "operation": "UPDATE",
        "object": {**tree, "spec": {"replicas": size}},
        "oldObject": {**tree, "spec": {"replicas": size + 40}},
    }
    return review(namespace, request)


def forged_pod(namespace: str, owner: str, uid: str = "invented") -> JSON:
    """The creation of a pod of a ReplicaSet; its UID is invented by default."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": uid, "controller": True}
    labels = {APP: UNITED, "pod-template-hash": owner.rpartition("-")[2]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": f"{owner}-", "labels": labels, "ownerReferences": [reference]},
        "spec": {"containers": [_CONTAINER]},
    }
    request = {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "object": pod,
    }
    return review(namespace, request)


def forged_deletion(namespace: str, name: str) -> JSON:
    """The deletion of a pod that does not exist."""
    request = {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": name,
        "operation": "DELETE",
        "oldObject": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}},
    }
    return review(namespace, request)
