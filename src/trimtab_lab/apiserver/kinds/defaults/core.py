"""Defaults of the other kinds of the core group, and of Leases."""

from __future__ import annotations

import base64

from trimtab_lab.apiserver.kinds.defaults.containers import round_amounts
from trimtab_lab.apiserver.kinds.defaults.pods import sync_first_element
from trimtab_lab.apiserver.kinds.defaults.volumes import default_claim_spec
from trimtab_lab.apiserver.storage.store import Tree


def default_service(tree: Tree) -> None:
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


def default_secret(tree: Tree) -> None:
    tree.setdefault("type", "Opaque")
    written = tree.pop("stringData", None)
    if written:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in written.items()}
        tree["data"] = {**(tree.get("data") or {}), **encoded}


def default_namespace(tree: Tree) -> None:
    name = tree["metadata"].get("name")
    if name:
        tree["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    tree["status"].setdefault("phase", "Active")


def default_node(tree: Tree) -> None:
    sync_first_element(tree["spec"], "podCIDR", "podCIDRs")
    status = tree["status"]
    for amounts in ("capacity", "allocatable"):
        if amounts in status:
            round_amounts(status[amounts])
    if "allocatable" not in status and status.get("capacity"):
        status["allocatable"] = dict(status["capacity"])


def default_lease(tree: Tree) -> None:
    for field in ("strategy", "preferredHolder"):  # behind a feature gate that is off
        tree["spec"].pop(field, None)


def default_claim(tree: Tree) -> None:
    tree.setdefault("status", {}).setdefault("phase", "Pending")
    default_claim_spec(tree.setdefault("spec", {}))


def default_persistent_volume(tree: Tree) -> None:
    tree["status"].setdefault("phase", "Pending")
    tree["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    tree["spec"].setdefault("volumeMode", "Filesystem")


def default_endpoints(tree: Tree) -> None:
    for subset in tree.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def default_limit_range(tree: Tree) -> None:
    for limit in tree["spec"].get("limits") or ():
        if limit.get("type") == "Container":
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
            limit |= {name: value for name, value in (("default", default), ("defaultRequest", request)) if value}
