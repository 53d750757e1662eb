"""Validation of Services."""

from __future__ import annotations

from trimtab_lab.apiserver.kinds.validation import addresses, containers, metadata, names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    duplicate,
    each,
    forbidden,
    invalid,
    required,
    unsupported,
)
from trimtab_lab.apiserver.kinds.validation.probes import port_reference
from trimtab_lab.apiserver.storage.store import Tree

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LONGEST_AFFINITY = 86400


def service(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    if old is None:
        metadata.validate_create(tree["metadata"], causes, namespaced=True, name=names.label)
    else:
        metadata.validate_update(tree["metadata"], old["metadata"], causes)
        _kept_addresses(spec, old["spec"], causes)
    _by_type(spec, causes)
    _ports(spec, causes)
    if "selector" in spec:
        metadata.labels(spec["selector"], causes, "spec.selector")
    _affinity(spec, causes)
    if spec.get("type") != "ExternalName":
        _cluster_addresses(spec, causes)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        addresses.address(address, causes, f"spec.externalIPs[{index}]")
    _type(spec, causes)
    _unique_ports(spec, causes)
    _balancer(spec, causes)
    _traffic(spec, causes)


def _headless(spec: Tree) -> bool:
    return spec.get("clusterIPs") == ["None"]


def _by_type(spec: Tree, causes: Causes) -> None:
    kind = spec.get("type")
    if not spec.get("ports") and not _headless(spec) and kind != "ExternalName":
        causes.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and _headless(spec):
        causes.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field):
                causes.append(forbidden(f"spec.{field}", "may not be set for ExternalName services"))
        name = spec.get("externalName", "").removesuffix(".")
        if name:
            causes += each("spec.externalName", name, names.subdomain(name))
        else:
            causes.append(required("spec.externalName"))


def _ports(spec: Tree, causes: Causes) -> None:
    ports = spec.get("ports") or ()
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            causes += each(f"{path}.name", name, names.label(name))
            if name in seen:
                causes.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            causes.append(required(f"{path}.name"))
        causes += each(f"{path}.port", port.get("port", 0), names.port_number(port.get("port", 0)))
        if port.get("protocol") not in containers.PROTOCOLS:
            causes.append(unsupported(f"{path}.protocol", port.get("protocol", ""), containers.PROTOCOLS))
        port_reference(port.get("targetPort", 0), causes, f"{path}.targetPort")
        if "appProtocol" in port:
            causes += each(f"{path}.appProtocol", port["appProtocol"], names.qualified(port["appProtocol"]))


def _affinity(spec: Tree, causes: Causes) -> None:
    affinity, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    if affinity not in ("ClientIP", "None"):
        causes.append(unsupported("spec.sessionAffinity", affinity, ("ClientIP", "None")))
    if affinity == "ClientIP":
        timeout = ((config or {}).get("clientIP") or {}).get("timeoutSeconds", 0)
        if not 0 < timeout <= _LONGEST_AFFINITY:
            path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            causes.append(invalid(path, timeout, f"must be greater than 0 and less than {_LONGEST_AFFINITY}"))
    elif affinity == "None" and config is not None:
        causes.append(forbidden("spec.sessionAffinityConfig", "must not be set when session affinity is None"))


def _cluster_addresses(spec: Tree, causes: Causes) -> None:
    held, first = spec.get("clusterIPs") or [], spec.get("clusterIP", "")
    if first and not held:
        causes.append(required("spec.clusterIPs"))
    elif first and held[0] != first:
        causes.append(invalid("spec.clusterIPs", held, "first value must match `clusterIP`"))
    elif held and not first:
        causes.append(invalid("spec.clusterIPs", held, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies") or ()
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            causes.append(unsupported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in families[:index]:
            causes.append(duplicate(f"spec.ipFamilies[{index}]", family))
    if spec.get("ipFamilyPolicy", "SingleStack") not in _FAMILY_POLICIES:
        causes.append(unsupported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _FAMILY_POLICIES))
    for index, address in enumerate(held):
        if index == 0 and address == "None":
            if len(held) > 1:
                causes.append(invalid("spec.clusterIPs", held, "'None' must be the first and only value"))
            continue
        addresses.address(address, causes, f"spec.clusterIPs[{index}]")
    if len(held) > 2:
        causes.append(invalid("spec.clusterIPs", held, "may only hold up to 2 values"))


def _type(spec: Tree, causes: Causes) -> None:
    kind = spec.get("type", "")
    if kind not in _TYPES:
        causes.append(unsupported("spec.type", kind, _TYPES))
    if kind == "ClusterIP":
        for index, port in enumerate(spec.get("ports") or ()):
            if port.get("nodePort"):
                fault = "may not be used when `type` is 'ClusterIP'"
                causes.append(forbidden(f"spec.ports[{index}].nodePort", fault))


def _unique_ports(spec: Tree, causes: Causes) -> None:
    on_nodes: set[tuple[str, int]] = set()
    inside: set[tuple[str, int]] = set()
    ports = spec.get("ports") or ()
    for index, port in enumerate(ports):
        key = port.get("protocol", ""), port.get("nodePort", 0)
        if key[1] and key in on_nodes:
            causes.append(duplicate(f"spec.ports[{index}].nodePort", key[1]))
        on_nodes.add(key)
    for index, port in enumerate(ports):
        key = port.get("protocol", ""), port.get("port", 0)
        if key in inside:
            causes.append(duplicate(f"spec.ports[{index}]", _port_shown(*key)))
        inside.add(key)


def _port_shown(protocol: str, port: int) -> Tree:
    shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": port}
    return shown | {"TargetPort": 0, "NodePort": 0}


def _balancer(spec: Tree, causes: Causes) -> None:
    only = "may only be used when `type` is 'LoadBalancer'"
    if spec.get("type") == "LoadBalancer":
        for index, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
            addresses.network(text.strip(), causes, f"spec.LoadBalancerSourceRanges[{index}]")
        if "loadBalancerClass" in spec:
            name = spec["loadBalancerClass"]
            causes += each("spec.loadBalancerClass", name, names.qualified(name))
        return
    if spec.get("loadBalancerSourceRanges"):
        causes.append(forbidden("spec.LoadBalancerSourceRanges", only))
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if field in spec:
            causes.append(forbidden(f"spec.{field}", only))


def _traffic(spec: Tree, causes: Causes) -> None:
    kind, external = spec.get("type"), spec.get("externalTrafficPolicy", "")
    reachable = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    path = "spec.externalTrafficPolicy"
    if not reachable:
        if external:
            causes.append(invalid(path, external, "may only be set for externally-accessible services"))
    elif external not in ("Cluster", "Local"):
        causes.append(unsupported(path, external, ("Cluster", "Local")) if external else required(path))
    if spec.get("healthCheckNodePort") and not (kind == "LoadBalancer" and external == "Local"):
        fault = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.append(invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], fault))
    if spec.get("internalTrafficPolicy", "Cluster") not in ("Cluster", "Local"):
        causes.append(unsupported("spec.internalTrafficPolicy", spec["internalTrafficPolicy"], ("Cluster", "Local")))
    if spec.get("trafficDistribution", "PreferClose") not in _DISTRIBUTIONS:
        causes.append(unsupported("spec.trafficDistribution", spec["trafficDistribution"], _DISTRIBUTIONS))


def _kept_addresses(spec: Tree, before: Tree, causes: Causes) -> None:
    """A cluster IP cannot change, unless the Service becomes one without."""
    if "ExternalName" in (spec.get("type"), before.get("type")) or (_headless(spec) and _headless(before)):
        return
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if old and not new:
        causes.append(invalid("spec.clusterIPs[0]", new or None, "primary clusterIP can not be unset"))
    for index, (address, past) in enumerate(zip(new, old, strict=False)):
        if address != past:
            causes.append(invalid(f"spec.clusterIPs[{index}]", new, "may not change once set"))
