"""Pods as an API server sends them: about 10 KB each, with what a kubelet, a network plugin and two managers write.

Two containers, a projected token, a config map, five conditions, container statuses with granted resources,
annotations of the template and of the pod, `managedFields`. Pods of one ReplicaSet differ in names, nodes, times and
addresses.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_START = datetime(2026, 3, 1, 8, tzinfo=UTC)
_RESTARTS = (0, 0, 0, 0, 0, 0, 0, 1, 1, 2)


def realistic_pod(rng: random.Random, number: int, *, nodes: int, sets: int) -> dict[str, Any]:
    """One running pod of one of so many ReplicaSets, on one of so many nodes."""
    of = number % sets
    name, suffix = f"checkout-service-{of}", "".join(rng.choices(_LETTERS, k=5))
    replica_set = f"{name}-6d4b75cb6d"
    created = _START + timedelta(seconds=rng.randrange(30 * 86_400))
    address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    token = f"kube-api-access-{''.join(rng.choices(_LETTERS, k=5))}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{replica_set}-{suffix}",
            "generateName": f"{replica_set}-",
            "namespace": f"team-{of % 40}",
            "uid": _uid(rng),
            "resourceVersion": str(8_000_000 + number),
            "generation": 1,
            "creationTimestamp": _time(created),
            "labels": {
                "app.kubernetes.io/name": name,
                "app.kubernetes.io/part-of": "shop",
                "app.kubernetes.io/version": "1.42.0",
                "pod-template-hash": "6d4b75cb6d",
                "team": f"team-{of % 40}",
            },
            "annotations": {
                "checksum/config": f"{of:064x}",
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                "cni.projectcalico.org/containerID": f"{rng.getrandbits(256):064x}",
                "cni.projectcalico.org/podIP": f"{address}/32",
                "cni.projectcalico.org/podIPs": f"{address}/32",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": replica_set,
                    "uid": f"{of:08x}-5a43-4d0c-9c1e-1f0c6f0a7b11",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [_created_fields(created), _kubelet_fields(created)],
        },
        "spec": _spec(name, of, token, f"ip-10-20-{rng.randrange(nodes):05d}.eu-central-1.compute.internal"),
        "status": _status(rng, name, created, address),
    }


def node_names(nodes: int) -> list[str]:
    """The names of the nodes that the pods are on."""
    return [f"ip-10-20-{number:05d}.eu-central-1.compute.internal" for number in range(nodes)]


def _uid(rng: random.Random) -> str:
    text = f"{rng.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _spec(name: str, of: int, token: str, node: str) -> dict[str, Any]:
    taints = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return {
        "volumes": [
            {"name": "config", "configMap": {"name": f"{name}-config", "defaultMode": 420}},
            {"name": "tmp", "emptyDir": {}},
            {"name": token, "projected": {"defaultMode": 420, "sources": _TOKEN_SOURCES}},
        ],
        "containers": [_container("main", name, of, token), _container("metrics-proxy", "proxy", 7, token)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": name,
        "serviceAccount": name,
        "nodeName": node,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
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
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": name}},
            }
            for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ],
    }


_TOKEN_SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {
        "downwardAPI": {
            "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
        }
    },
]


def _container(name: str, image: str, of: int, token: str) -> dict[str, Any]:
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    return {
        "name": name,
        "image": f"registry.example.com/shop/{image}:1.42.{of}",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": key, "value": "production"} for key in ("MODE", "REGION", "LOG_LEVEL", "TRACE_ENDPOINT")],
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": f"{100 + of}m", "memory": "128Mi"},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config"},
            {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _status(rng: random.Random, name: str, created: datetime, address: str) -> dict[str, Any]:
    steps = (
        ("PodReadyToStartContainers", 3),
        ("Initialized", 0),
        ("Ready", rng.randrange(5, 60)),
        ("ContainersReady", 5),
        ("PodScheduled", 0),
    )
    host = f"10.20.{rng.randrange(256)}.{rng.randrange(256)}"
    return {
        "observedGeneration": 1,
        "phase": "Running",
        "conditions": [
            {
                "type": kind,
                "observedGeneration": 1,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": _time(created + timedelta(seconds=seconds)),
            }
            for kind, seconds in steps
        ],
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": _time(created),
        "containerStatuses": [_container_status(rng, each, name, created) for each in ("main", "metrics-proxy")],
        "qosClass": "Burstable",
    }


def _container_status(rng: random.Random, name: str, image: str, created: datetime) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "128Mi"}
    return {
        "name": name,
        "state": {"running": {"startedAt": _time(created + timedelta(seconds=4))}},
        "lastState": {},
        "ready": True,
        "restartCount": rng.choice(_RESTARTS),
        "image": f"registry.example.com/shop/{image}:1.42.0",
        "imageID": f"registry.example.com/shop/{image}@sha256:{7:064x}",
        "containerID": f"containerd://{rng.getrandbits(256):064x}",
        "started": True,
        "allocatedResources": requests,
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": requests},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}],
        "user": {"linux": {"uid": 1000, "gid": 1000, "supplementalGroups": [1000]}},
    }


def _created_fields(created: datetime) -> dict[str, Any]:
    container: dict[str, Any] = {
        ".": {},
        **{f"f:{each}": {} for each in ("image", "imagePullPolicy", "name", "resources", "securityContext")},
        "f:env": {
            ".": {},
            **{f'k:{{"name":"{key}"}}': {".": {}, "f:name": {}, "f:value": {}} for key in ("MODE", "REGION")},
        },
        "f:livenessProbe": {".": {}, "f:httpGet": {".": {}, "f:path": {}, "f:port": {}}, "f:periodSeconds": {}},
        "f:ports": {".": {}, 'k:{"containerPort":8080,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
    }
    metadata: dict[str, Any] = {
        "f:generateName": {},
        "f:annotations": {".": {}, "f:checksum/config": {}, "f:prometheus.io/scrape": {}},
        "f:labels": {".": {}, "f:app.kubernetes.io/name": {}, "f:pod-template-hash": {}, "f:team": {}},
        "f:ownerReferences": {".": {}, 'k:{"uid":"0000002a-5a43-4d0c-9c1e-1f0c6f0a7b11"}': {}},
    }
    spec = {
        "f:containers": {'k:{"name":"main"}': container, 'k:{"name":"metrics-proxy"}': container},
        **{f"f:{each}": {} for each in ("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName")},
        "f:volumes": {".": {}, 'k:{"name":"config"}': {".": {}, "f:configMap": {}, "f:name": {}}},
    }
    return _managed("kube-controller-manager", created, {"f:metadata": metadata, "f:spec": spec})


def _kubelet_fields(created: datetime) -> dict[str, Any]:
    kinds = ("ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready")
    fields = ("lastProbeTime", "lastTransitionTime", "status", "type")
    condition: dict[str, Any] = {".": {}, **{f"f:{each}": {} for each in fields}}
    status = {
        "f:conditions": {f'k:{{"type":"{kind}"}}': condition for kind in kinds},
        **{f"f:{each}": {} for each in ("containerStatuses", "hostIP", "hostIPs", "phase", "podIP", "startTime")},
    }
    return {**_managed("kubelet", created, {"f:status": status}), "subresource": "status"}


def _managed(manager: str, moment: datetime, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _time(moment),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
