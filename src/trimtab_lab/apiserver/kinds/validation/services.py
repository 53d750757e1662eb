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


def service(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    if old is None:
        metadata.created(tree["metadata"], found, namespaced=True, name=names.label)
    else:
        metadata.updated(tree["metadata"], old["metadata"], found)
        _kept_addresses(spec, old["spec"], found)
    _by_type(spec, found)
    _ports(spec, found)
    if "selector" in spec:
        metadata.labels(spec["selector"], found, "spec.selector")
    _affinity(spec, found)
    if spec.get("type") != "ExternalName":
        _cluster_addresses(spec, found)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        addresses.address(address, found, f"spec.externalIPs[{index}]")
    _type(spec, found)
    _unique_ports(spec, found)
    _balancer(spec, found)
    _traffic(spec, found)


def _headless(spec: Tree) -> bool:
    return spec.get("clusterIPs") == ["None"]


def _by_type(spec: Tree, found: Causes) -> None:
    kind = spec.get("type")
    if not spec.get("ports") and not _headless(spec) and kind != "ExternalName":
        found.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and _headless(spec):
        found.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field):
                found.append(forbidden(f"spec.{field}", "may not be set for ExternalName services"))
        name = spec.get("externalName", "").removesuffix(".")
        if name:
            found += each("spec.externalName", name, names.subdomain(name))
        else:
            found.append(required("spec.externalName"))


def _ports(spec: Tree, found: Causes) -> None:
    ports = spec.get("ports") or ()
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            found += each(f"{path}.name", name, names.label(name))
            if name in seen:
                found.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            found.append(required(f"{path}.name"))
        found += each(f"{path}.port", port.get("port", 0), names.port_number(port.get("port", 0)))
        if port.get("protocol") not in containers.PROTOCOLS:
            found.append(unsupported(f"{path}.protocol", port.get("protocol", ""), containers.PROTOCOLS))
        port_reference(port.get("targetPort", 0), found, f"{path}.targetPort")
        if "appProtocol" in port:
            found += each(f"{path}.appProtocol", port["appProtocol"], names.qualified(port["appProtocol"]))


def _affinity(spec: Tree, found: Causes) -> None:
    affinity, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    if affinity not in ("ClientIP", "None"):
        found.append(unsupported("spec.sessionAffinity", affinity, ("ClientIP", "None")))
    if affinity == "ClientIP":
        timeout = ((config or {}).get("clientIP") or {}).get("timeoutSeconds", 0)
        if not 0 < timeout <= _LONGEST_AFFINITY:
            path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            found.append(invalid(path, timeout, f"must be greater than 0 and less than {_LONGEST_AFFINITY}"))
    elif affinity == "None" and config is not None:
        found.append(forbidden("spec.sessionAffinityConfig", "must not be set when session affinity is None"))


def _cluster_addresses(spec: Tree, found: Causes) -> None:
    held, first = spec.get("clusterIPs") or [], spec.get("clusterIP", "")
    if first and not held:
        found.append(required("spec.clusterIPs"))
    elif first and held[0] != first:
        found.append(invalid("spec.clusterIPs", held, "first value must match `clusterIP`"))
    elif held and not first:
        found.append(invalid("spec.clusterIPs", held, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies") or ()
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            found.append(unsupported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in families[:index]:
            found.append(duplicate(f"spec.ipFamilies[{index}]", family))
    if spec.get("ipFamilyPolicy", "SingleStack") not in _FAMILY_POLICIES:
        found.append(unsupported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _FAMILY_POLICIES))
    for index, address in enumerate(held):
        if index == 0 and address == "None":
            if len(held) > 1:
                found.append(invalid("spec.clusterIPs", held, "'None' must be the first and only value"))
            continue
        addresses.address(address, found, f"spec.clusterIPs[{index}]")
    if len(held) > 2:
        found.append(invalid("spec.clusterIPs", held, "may only hold up to 2 values"))


def _type(spec: Tree, found: Causes) -> None:
    kind = spec.get("type", "")
    if kind not in _TYPES:
        found.append(unsupported("spec.type", kind, _TYPES))
    if kind == "ClusterIP":
        for index, port in enumerate(spec.get("ports") or ()):
            if port.get("nodePort"):
                fault = "may not be used when `type` is 'ClusterIP'"
                found.append(forbidden(f"spec.ports[{index}].nodePort", fault))


def _unique_ports(spec: Tree, found: Causes) -> None:
    on_nodes: set[tuple[str, int]] = set()
    inside: set[tuple[str, int]] = set()
    ports = spec.get("ports") or ()
    for index, port in enumerate(ports):
        key = port.get("protocol", ""), port.get("nodePort", 0)
        if key[1] and key in on_nodes:
            found.append(duplicate(f"spec.ports[{index}].nodePort", key[1]))
        on_nodes.add(key)
    for index, port in enumerate(ports):
        key = port.get("protocol", ""), port.get("port", 0)
        if key in inside:
            found.append(duplicate(f"spec.ports[{index}]", _port_shown(*key)))
        inside.add(key)


def _port_shown(protocol: str, port: int) -> Tree:
    shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": port}
    return shown | {"TargetPort": 0, "NodePort": 0}


def _balancer(spec: Tree, found: Causes) -> None:
    only = "may only be used when `type` is 'LoadBalancer'"
    if spec.get("type") == "LoadBalancer":
        for index, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
            addresses.network(text.strip(), found, f"spec.LoadBalancerSourceRanges[{index}]")
        if "loadBalancerClass" in spec:
            name = spec["loadBalancerClass"]
            found += each("spec.loadBalancerClass", name, names.qualified(name))
        return
    if spec.get("loadBalancerSourceRanges"):
        found.append(forbidden("spec.LoadBalancerSourceRanges", only))
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if field in spec:
            found.append(forbidden(f"spec.{field}", only))


def _traffic(spec: Tree, found: Causes) -> None:
    kind, external = spec.get("type"), spec.get("externalTrafficPolicy", "")
    reachable = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    path = "spec.externalTrafficPolicy"
    if not reachable:
        if external:
            found.append(invalid(path, external, "may only be set for externally-accessible services"))
    elif external not in ("Cluster", "Local"):
        found.append(unsupported(path, external, ("Cluster", "Local")) if external else required(path))
    if spec.get("healthCheckNodePort") and not (kind == "LoadBalancer" and external == "Local"):
        fault = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        found.append(invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], fault))
    if spec.get("internalTrafficPolicy", "Cluster") not in ("Cluster", "Local"):
        found.append(unsupported("spec.internalTrafficPolicy", spec["internalTrafficPolicy"], ("Cluster", "Local")))
    if spec.get("trafficDistribution", "PreferClose") not in _DISTRIBUTIONS:
        found.append(unsupported("spec.trafficDistribution", spec["trafficDistribution"], _DISTRIBUTIONS))


def _kept_addresses(spec: Tree, before: Tree, found: Causes) -> None:
    """A cluster IP cannot change, unless the Service becomes one without."""
    if "ExternalName" in (spec.get("type"), before.get("type")) or (_headless(spec) and _headless(before)):
        return
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if old and not new:
        found.append(invalid("spec.clusterIPs[0]", new or None, "primary clusterIP can not be unset"))
    for index, (address, past) in enumerate(zip(new, old, strict=False)):
        if address != past:
            found.append(invalid(f"spec.clusterIPs[{index}]", new, "may not change once set"))
