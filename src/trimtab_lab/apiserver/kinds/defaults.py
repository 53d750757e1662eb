"""Kubernetes' defaults: what the API server fills in when a field is left out.

`apply_defaults` changes a tree in place. It expects one that `wiretypes.read` has been over (no nulls, no values of the
wrong type, no empty text where Go would have none) and may be run again on its own result, as the API server does
after each webhook that patched the object. Nothing is decided from outside the object: what depends on the cluster (a
service account, a priority class, an address) is in `plugins`.

The functions are ordered as their results depend on one another: containers before the pod, templates before workloads.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from trimtab.api import quantities

Tree = dict[str, Any]


def apply_defaults(kind: str, tree: Tree) -> None:
    """Fill in what is missing in an object of this kind (`apps/v1 Deployment`); kinds without defaults stay as is."""
    fill = _DEFAULTS.get(kind)
    if fill is not None:
        fill(tree)


# --- containers ------------------------------------------------------------------------------------------------------

_NAME_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?:(?P<host>{_HOST})/)?{_NAME_PART}(?:/{_NAME_PART})*(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


@lru_cache(maxsize=4096)
def _pull_policy(image: str) -> str:
    """Always for the tag `latest`, written or implied; a name that cannot be read has no tag."""
    match = _IMAGE.fullmatch(image)
    if match is None or _IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _container(container: Tree) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image") or "")
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            _variable_source(variable["valueFrom"])
    _round_resources(container.get("resources"))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _probe(container[probe])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _http_get(handler)


def _variable_source(source: Tree) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)


def _probe(probe: Tree) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(name):
            probe[name] = value
    _http_get(probe)
    if "grpc" in probe:
        probe["grpc"]["service"] = probe["grpc"].get("service") or ""


def _http_get(handler: Tree) -> None:
    get = handler.get("httpGet")
    if get is not None:
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")


def _round_resources(resources: Tree | None) -> None:
    """Amounts are counted in thousandths: what is finer is rounded up."""
    for amounts in (resources.get("requests"), resources.get("limits")) if resources else ():
        if amounts:
            _round(amounts)


def _round(amounts: dict[str, str]) -> None:
    for name, amount in amounts.items():
        if amount[-1:] in "nu":
            amounts[name] = _rounded(amount)


@lru_cache(maxsize=1024)
def _rounded(amount: str) -> str:
    quantity = quantities.parse(amount)
    return quantities.parse(f"{quantity.milli_value()}m").canonical


# --- pods ------------------------------------------------------------------------------------------------------------

_MODE = 0o644


def _volume(volume: Tree) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for name, source in volume.items():
        fill = _VOLUME_SOURCES.get(name)
        if fill is not None:
            fill(source)


def _mode(source: Tree) -> None:
    source.setdefault("defaultMode", _MODE)


def _downward_items(source: Tree) -> None:
    for item in source.get("items") or ():
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _downward(source: Tree) -> None:
    _mode(source)
    _downward_items(source)


def _projected(source: Tree) -> None:
    _mode(source)
    for part in source.get("sources") or ():
        if "downwardAPI" in part:
            _downward_items(part["downwardAPI"])
        if "serviceAccountToken" in part:
            part["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def _ephemeral(source: Tree) -> None:
    if "volumeClaimTemplate" in source:
        _claim_spec(source["volumeClaimTemplate"].setdefault("spec", {}))


def _claim_spec(spec: Tree) -> None:
    spec.setdefault("volumeMode", "Filesystem")
    _round_resources(spec.get("resources"))


def _image(source: Tree) -> None:
    source.setdefault("pullPolicy", _pull_policy(source.get("reference") or ""))


def _filler(**values: Any) -> Callable[[Tree], None]:
    def fill(source: Tree) -> None:
        for name, value in values.items():
            source.setdefault(name, value)

    return fill


_VOLUME_SOURCES: Mapping[str, Callable[[Tree], None]] = {
    "secret": _mode,
    "configMap": _mode,
    "downwardAPI": _downward,
    "projected": _projected,
    "ephemeral": _ephemeral,
    "image": _image,
    "hostPath": _filler(type=""),
    "iscsi": _filler(iscsiInterface="default"),
    "rbd": _filler(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": _filler(cachingMode="ReadWrite", fsType="ext4", readOnly=False, kind="Shared"),
    "scaleIO": _filler(storageMode="ThinProvisioned", fsType="xfs"),
}


def _pod_spec(spec: Tree) -> None:
    """The defaults that a pod and a template share."""
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for container in _all_containers(spec):
        _container(container)
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if "securityContext" not in spec:
        spec["securityContext"] = {}
    if "terminationGracePeriodSeconds" not in spec:
        spec["terminationGracePeriodSeconds"] = 30
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    if "overhead" in spec:
        _round(spec["overhead"])
    if "resources" in spec:
        _round_resources(spec["resources"])
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name
    if spec.get("hostNetwork"):
        _host_ports(spec)


def _all_containers(spec: Tree) -> Iterable[Tree]:
    containers: list[Tree] = spec.get("containers") or []
    if "initContainers" not in spec and "ephemeralContainers" not in spec:
        return containers
    return [*(spec.get("initContainers") or ()), *containers, *(spec.get("ephemeralContainers") or ())]


def _host_ports(spec: Tree) -> None:
    """On the host's network a container port is a host port."""
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        for port in container.get("ports") or ():
            if not port.get("hostPort") and port.get("containerPort"):
                port["hostPort"] = port["containerPort"]


def _pod(tree: Tree) -> None:
    spec = tree["spec"]
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            _requests_from_limits(container.get("resources"))
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    _pod_spec(spec)
    if spec.get("resources"):
        _pod_level_requests(spec)
    status = tree.get("status")
    if status:
        _first_of(status, "podIP", "podIPs", "ip")


def _requests_from_limits(resources: Tree | None) -> None:
    if resources and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


_POD_LEVEL = ("cpu", "memory")


def _pod_level_requests(spec: Tree) -> None:
    """What a whole pod asks for, where only its limits are given: what its containers ask for, else the limits."""
    resources = spec["resources"]
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    for name, amount in _requested(spec).items():
        if name in _POD_LEVEL:
            requests.setdefault(name, amount)
    for name, amount in limits.items():
        if name in _POD_LEVEL or name.startswith("hugepages-"):
            requests.setdefault(name, amount)
    if requests:
        resources["requests"] = requests


def _requested(spec: Tree) -> dict[str, str]:
    """The effective requests of a pod's containers: all that run together, or the largest of those before them."""
    running: dict[str, quantities.Quantity] = {}
    largest: dict[str, quantities.Quantity] = {}
    for container in spec.get("initContainers") or ():
        asked = _parsed_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(running, asked)
            asked = running
        else:
            asked = _sum(running, asked)
        for name, amount in asked.items():
            largest[name] = max(largest.get(name, amount), amount)
    for container in spec.get("containers") or ():
        _add(running, _parsed_requests(container))
    for name, amount in largest.items():
        running[name] = max(running.get(name, amount), amount)
    return {name: amount.canonical for name, amount in running.items()}


def _parsed_requests(container: Tree) -> dict[str, quantities.Quantity]:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {name: quantities.parse(amount) for name, amount in requests.items()}


def _add(total: dict[str, quantities.Quantity], more: dict[str, quantities.Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _sum(left: dict[str, quantities.Quantity], right: dict[str, quantities.Quantity]) -> dict[str, quantities.Quantity]:
    total = dict(left)
    _add(total, right)
    return total


# --- workloads -------------------------------------------------------------------------------------------------------


def _template(spec: Tree) -> None:
    template = spec.get("template")
    if template is not None:
        _pod_spec(template["spec"])


def _deployment(tree: Tree) -> None:
    spec = tree["spec"]
    _template(spec)
    spec.setdefault("replicas", 1)
    strategy = spec["strategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _daemon_set(tree: Tree) -> None:
    spec = tree["spec"]
    _template(spec)
    strategy = spec["updateStrategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def _stateful_set(tree: Tree) -> None:
    spec = tree["spec"]
    _template(spec)
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
        _claim(claim)


def _replica_set(tree: Tree) -> None:
    _template(tree["spec"])
    tree["spec"].setdefault("replicas", 1)


def _replication_controller(tree: Tree) -> None:
    spec = tree["spec"]
    _template(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not tree["metadata"].get("labels"):
            tree["metadata"]["labels"] = dict(labels)
    spec.setdefault("replicas", 1)


# --- other core kinds ------------------------------------------------------------------------------------------------


def _service(tree: Tree) -> None:
    spec = tree["spec"]
    spec.setdefault("sessionAffinity", "None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        timeout = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
        if timeout is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    _traffic_policies(spec)


def _traffic_policies(spec: Tree) -> None:
    kind = spec["type"]
    if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _secret(tree: Tree) -> None:
    tree.setdefault("type", "Opaque")
    written = tree.pop("stringData", None)
    if written:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in written.items()}
        tree["data"] = {**(tree.get("data") or {}), **encoded}


def _namespace(tree: Tree) -> None:
    name = tree["metadata"].get("name")
    if name:
        tree["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    tree["status"].setdefault("phase", "Active")


def _node(tree: Tree) -> None:
    _first_of(tree["spec"], "podCIDR", "podCIDRs")
    status = tree["status"]
    for amounts in ("capacity", "allocatable"):
        if amounts in status:
            _round(status[amounts])
    if "allocatable" not in status and status.get("capacity"):
        status["allocatable"] = dict(status["capacity"])


def _first_of(holder: Tree, single: str, several: str, field: str = "") -> None:
    """A field that became a list stays the first element of it, for clients that know the field only.

    Where the two differ, whoever set the field alone is right.
    """
    one, many = holder.get(single), holder.get(several)
    if one and (not many or (many[0].get(field) if field else many[0]) != one):
        holder[several] = [{field: one} if field else one]
    elif many:
        holder[single] = many[0].get(field, "") if field else many[0]


def _lease(tree: Tree) -> None:
    for field in ("strategy", "preferredHolder"):  # behind a feature gate that is off
        tree["spec"].pop(field, None)


def _claim(tree: Tree) -> None:
    tree.setdefault("status", {}).setdefault("phase", "Pending")
    _claim_spec(tree.setdefault("spec", {}))


def _volume_of_cluster(tree: Tree) -> None:
    tree["status"].setdefault("phase", "Pending")
    tree["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    tree["spec"].setdefault("volumeMode", "Filesystem")


def _endpoints(tree: Tree) -> None:
    for subset in tree.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _limit_range(tree: Tree) -> None:
    for limit in tree["spec"].get("limits") or ():
        if limit.get("type") == "Container":
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
            limit |= {name: value for name, value in (("default", default), ("defaultRequest", request)) if value}


# --- other groups ----------------------------------------------------------------------------------------------------


def _webhooks(tree: Tree) -> None:
    for webhook in tree.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = webhook["clientConfig"].get("service")
        if service is not None:
            service.setdefault("port", 443)


def _mutating_webhooks(tree: Tree) -> None:
    _webhooks(tree)
    for webhook in tree.get("webhooks") or ():
        webhook.setdefault("reinvocationPolicy", "Never")


def _custom_definition(tree: Tree) -> None:
    spec = tree["spec"]
    names = spec["names"]
    if not names.get("singular"):
        names["singular"] = names["kind"].lower()
    if names["kind"] and not names.get("listKind"):
        names["listKind"] = f"{names['kind']}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    if not tree["status"].get("storedVersions"):
        stored = [version["name"] for version in spec.get("versions") or () if version.get("storage")]
        tree["status"]["storedVersions"] = stored[:1] or None


def _priority_class(tree: Tree) -> None:
    tree.setdefault("preemptionPolicy", "PreemptLowerPriority")


_RBAC = "rbac.authorization.k8s.io"


def _role_binding(tree: Tree) -> None:
    if not tree["roleRef"].get("apiGroup"):
        tree["roleRef"]["apiGroup"] = _RBAC
    for subject in tree.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", _RBAC)


def _autoscaler(tree: Tree) -> None:
    spec = tree["spec"]
    spec.setdefault("minReplicas", 1)
    spec.setdefault("targetCPUUtilizationPercentage", 80)


_DEFAULTS: Mapping[str, Callable[[Tree], None]] = {
    "v1 Pod": _pod,
    "v1 PodTemplate": _template,
    "v1 ReplicationController": _replication_controller,
    "v1 Service": _service,
    "v1 Secret": _secret,
    "v1 Namespace": _namespace,
    "v1 Node": _node,
    "v1 PersistentVolume": _volume_of_cluster,
    "v1 PersistentVolumeClaim": _claim,
    "v1 Endpoints": _endpoints,
    "v1 LimitRange": _limit_range,
    "apps/v1 Deployment": _deployment,
    "apps/v1 ReplicaSet": _replica_set,
    "apps/v1 StatefulSet": _stateful_set,
    "apps/v1 DaemonSet": _daemon_set,
    "autoscaling/v1 HorizontalPodAutoscaler": _autoscaler,
    "coordination.k8s.io/v1 Lease": _lease,
    "scheduling.k8s.io/v1 PriorityClass": _priority_class,
    "rbac.authorization.k8s.io/v1 RoleBinding": _role_binding,
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": _role_binding,
    "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration": _webhooks,
    "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration": _mutating_webhooks,
    "apiextensions.k8s.io/v1 CustomResourceDefinition": _custom_definition,
}
