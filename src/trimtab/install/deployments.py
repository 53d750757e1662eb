"""The workloads of an installation: a Deployment for each component, two replicas spread over zones, and their parts.

Each component has its own processes, so that a busy scheduler never delays an admission, and its own ServiceAccount, so
that none has the permissions of another. A PodDisruptionBudget keeps one replica through drains, and a NetworkPolicy
admits only API servers (to the webhooks) and scrapers of metrics.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from trimtab.api.annotations import CONFIGURATION_DIGEST
from trimtab.api.documents import JSON
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.install import certificates
from trimtab.install.options import CONTAINER_PORTS, NAME, Options, account, selecting

CONFIGURATION = f"{NAME}-configuration"
CONFIGURATION_FILE = "trimtab.yaml"
_FOLDER = "/etc/trimtab"

_REQUESTS: Mapping[str, Mapping[str, str]] = {
    "scheduler": {"cpu": "200m", "memory": "256Mi"},
    "webhooks": {"cpu": "100m", "memory": "192Mi"},
    "controllers": {"cpu": "100m", "memory": "192Mi"},
    "dashboard": {"cpu": "50m", "memory": "192Mi"},
}
"""For some thousands of pods; no limits, because a throttled or killed component delays requests."""


def namespace(options: Options) -> JSON:
    """Trimtab's namespace. Its pods meet the `restricted` pod security standard."""
    labels = options.labels() | {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options.namespace, "labels": labels}}


def manifests(options: Options) -> Iterator[JSON]:
    """All workloads, and the objects that belong to them."""
    yield _object("v1", "ConfigMap", CONFIGURATION, options, data={CONFIGURATION_FILE: _configuration(options)})
    if "webhooks" in options.components:
        yield _service(options)
    for component in options.components:
        yield _object("v1", "ServiceAccount", account(component), options, component)
        yield _object("apps/v1", "Deployment", account(component), options, component, spec=_spec(options, component))
        yield _budget(options, component)
        yield _network(options, component)


def _object(api_version: str, kind: str, name: str, options: Options, component: str = "", **parts: JSON) -> JSON:
    metadata = {"namespace": options.namespace, "name": name, "labels": options.labels(component)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def _configuration(options: Options) -> str:
    """The configuration as JSON, which is YAML too and is read back exactly."""
    return json.dumps(options.settings(), indent=2) + "\n"


def _service(options: Options) -> JSON:
    port = {"name": "webhooks", "port": 443, "targetPort": "webhooks", "protocol": "TCP"}
    spec = {"selector": selecting("webhooks"), "ports": [port]}
    return _object("v1", "Service", options.read().webhooks.service, options, "webhooks", spec=spec)


def _budget(options: Options, component: str) -> JSON:
    """One pod at a time: of two replicas one stays, and the node of a single replica can still be drained."""
    spec: JSON = {"maxUnavailable": 1, "selector": {"matchLabels": selecting(component)}}
    return _object("policy/v1", "PodDisruptionBudget", account(component), options, component, spec=spec)


def _network(options: Options, component: str) -> JSON:
    """Allowed ingress. Egress is not limited: API servers and probed pods may be anywhere."""
    any_namespace: JSON = {"namespaceSelector": {}}
    ingress: list[JSON] = [{"from": [any_namespace], "ports": [{"protocol": "TCP", "port": "serving"}]}]
    if component == "webhooks":
        callers = [{"ipBlock": {"cidr": cidr}} for cidr in options.api_server_ranges]
        port: JSON = {"ports": [{"protocol": "TCP", "port": "webhooks"}]}
        ingress.insert(0, port | ({"from": callers} if callers else {}))
    spec = {"podSelector": {"matchLabels": selecting(component)}, "policyTypes": ["Ingress"], "ingress": ingress}
    return _object("networking.k8s.io/v1", "NetworkPolicy", account(component), options, component, spec=spec)


def _spec(options: Options, component: str) -> JSON:
    """The configuration is read at the start, so its digest is in the template: a change replaces the pods."""
    digest = hashlib.sha256(_configuration(options).encode()).hexdigest()
    labels = options.labels(component)
    return {
        "replicas": options.replicas,
        "selector": {"matchLabels": selecting(component)},
        "template": {
            "metadata": {"labels": labels, "annotations": {CONFIGURATION_DIGEST: digest[:16]}},
            "spec": _pod(options, component),
        },
    }


def _pod(options: Options, component: str) -> JSON:
    return {
        "serviceAccountName": account(component),
        "terminationGracePeriodSeconds": 30,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "topologySpreadConstraints": [_spread(ZONE, component), _spread(HOSTNAME, component)],
        "containers": [_container(options, component)],
        "volumes": [
            {"name": "configuration", "configMap": {"name": CONFIGURATION}},
            {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            *([certificates.volume(options)] if certificates.are_mounted(options, component) else []),
        ],
    }


def _spread(key: str, component: str) -> JSON:
    """A soft constraint: a cluster of one zone, or of one node, still gets both replicas."""
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selecting(component)},
        "matchLabelKeys": ["pod-template-hash"],
    }


_PRE_STOP: JSON = {"preStop": {"sleep": {"seconds": 5}}}
"""API servers stop calling a terminating replica within seconds; until then it answers."""
_READ_ONLY: JSON = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def _container(options: Options, component: str) -> JSON:
    ports = [{"name": "serving", "containerPort": CONTAINER_PORTS["serving"]}]
    if component == "webhooks":
        ports.append({"name": "webhooks", "containerPort": CONTAINER_PORTS["webhooks"]})
    return {
        "name": component,
        "image": options.image,
        "args": ["run", "--config", f"{_FOLDER}/{CONFIGURATION_FILE}", "--component", component],
        "ports": ports,
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "serving"}, "periodSeconds": 10, "timeoutSeconds": 5},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "serving"}, "periodSeconds": 5, "timeoutSeconds": 5},
        "resources": {"requests": dict(_REQUESTS[component])},
        "securityContext": dict(_READ_ONLY),
        "volumeMounts": [
            {"name": "configuration", "mountPath": _FOLDER, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - all else is read-only; keys pass through it
            *([certificates.MOUNT] if certificates.are_mounted(options, component) else []),
        ],
        **({"lifecycle": _PRE_STOP} if component == "webhooks" else {}),
    }
