"""The time and memory of decoding pods."""

from __future__ import annotations

import json
import random
import tracemalloc
from typing import Any

from bench.figures import Figure, Limit, best
from trimtab.api import codec

PODS = 5_000
TEMPLATES = 50


def decode_5k() -> Figure:
    """A list of 5,000 pods into typed objects; the calibration is `json.loads` of the same bytes."""
    data = pod_list(PODS, TEMPLATES)
    value = best(lambda: codec.decode_pods(data))
    loads = best(lambda: json.loads(data))
    return Figure(value * 1e3, "ms", loads * 1e3, Limit(1 / 3, "three times as fast as json.loads"))


def decode_5k_memory() -> Figure:
    """The memory of a decoded pod, in KiB; the calibration is the limit of 10 KiB."""
    data = pod_list(PODS, TEMPLATES)
    tracemalloc.start()
    page = codec.decode_pods(data)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return Figure(used / len(page.items) / 1024, "KiB/pod", 10, Limit(1, "10 KiB a pod"))


def pod_list(pods: int, templates: int) -> bytes:
    """A list as an API server sends it, about 4 KB a pod."""
    rng = random.Random(7)
    items = [pod_tree(rng, number, number % templates) for number in range(pods)]
    body = {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items}
    return json.dumps(body, separators=(",", ":")).encode()


def pod_tree(rng: random.Random, number: int, template: int) -> dict[str, Any]:
    """One running pod of a Deployment, as an API server sends it."""
    suffix = "".join(rng.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))
    name = f"web-{template}"
    replica_set = f"{name}-6d4b75cb6d"
    token = f"kube-api-access-{suffix}"
    started = f"2026-03-01T{number % 24:02d}:{number % 60:02d}:35Z"
    return {
        "metadata": {
            "name": f"{replica_set}-{suffix}",
            "generateName": f"{replica_set}-",
            "namespace": f"team-{template % 7}",
            "uid": f"{rng.getrandbits(128):032x}",
            "resourceVersion": str(100_000 + number),
            "creationTimestamp": started,
            "labels": {"app": name, "pod-template-hash": "6d4b75cb6d", "team": f"team-{template % 7}"},
            "annotations": {"prometheus.io/scrape": "true"},
            "ownerReferences": [_owner(replica_set, template)],
            "managedFields": [_managed_fields("kube-controller-manager"), _managed_fields("kubelet")],
        },
        "spec": _spec(rng, name, template, token),
        "status": _status(started, rng),
    }


def _owner(name: str, template: int) -> dict[str, Any]:
    uid = f"{template:032x}"
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _managed_fields(manager: str) -> dict[str, Any]:
    container: dict[str, Any] = {".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {}}
    fields = {"f:spec": {"f:containers": {'k:{"name":"main"}': container}, "f:dnsPolicy": {}, "f:schedulerName": {}}}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-03-01T12:39:35Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def _spec(rng: random.Random, name: str, template: int, token: str) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10}
    container = {
        "name": "main",
        "image": f"example.com/{name}:{template}",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "MODE", "value": "production"}, {"name": "LEVEL", "value": "info"}],
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": f"{100 + template}m", "memory": "128Mi"},
        },
        "volumeMounts": [
            {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    taints = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return {
        "volumes": [{"name": token, "projected": {"sources": [], "defaultMode": 420}}],
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "nodeName": f"node-{rng.randrange(1000):04d}",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for key in taints
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": name}},
            }
        ],
    }


def _status(started: str, rng: random.Random) -> dict[str, Any]:
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    resources = {"cpu": "100m", "memory": "128Mi"}
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": started} for kind in kinds
        ],
        "hostIP": "192.0.2.10",
        "hostIPs": [{"ip": "192.0.2.10"}],
        "podIP": "192.0.2.77",
        "podIPs": [{"ip": "192.0.2.77"}],
        "startTime": started,
        "containerStatuses": [
            {
                "name": "main",
                "state": {"running": {"startedAt": started}},
                "lastState": {},
                "ready": True,
                "restartCount": rng.randrange(3),
                "image": "example.com/web:1",
                "imageID": f"example.com/web@sha256:{rng.getrandbits(256):064x}",
                "containerID": f"containerd://{rng.getrandbits(256):064x}",
                "started": True,
                "allocatedResources": resources,
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": resources},
            }
        ],
        "qosClass": "Burstable",
    }
