"""Rows of nodes, Services, Events, role bindings and priority classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trimtab_lab.apiserver.kinds.printers.cells import NONE, age_of, format_labels, name_of, translate_age
from trimtab_lab.apiserver.storage.store import Tree

_ROLE_PREFIX = "node-role.kubernetes.io/"


def node_cells(node: Tree, now: int) -> list[Any]:
    info = node["status"].get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or "<unknown>"
    architecture = info.get("architecture")
    return [
        name_of(node),
        _node_status(node),
        ",".join(_roles(node["metadata"].get("labels") or {})) or NONE,
        age_of(node, now),
        info.get("kubeletVersion", ""),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        f"{kernel} ({architecture})" if architecture else kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _node_status(node: Tree) -> str:
    ready = [c for c in node["status"].get("conditions") or () if c.get("type") == "Ready"]
    parts = [("Ready" if ready[-1].get("status") == "True" else "NotReady") if ready else "Unknown"]
    if node["spec"].get("unschedulable"):
        parts.append("SchedulingDisabled")
    return ",".join(parts)


def _roles(labels: Mapping[str, str]) -> list[str]:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return sorted(role for role in roles if role)


def _address(node: Tree, kind: str) -> str:
    addresses = (a.get("address", "") for a in node["status"].get("addresses") or () if a.get("type") == kind)
    return next(addresses, NONE)


def service_cells(service: Tree, now: int) -> list[Any]:
    spec = service["spec"]
    inside = spec.get("clusterIPs") or [NONE]
    ports = ",".join(map(_port, spec.get("ports") or ())) or NONE
    outside = _external(service)
    return [
        name_of(service),
        spec.get("type", ""),
        inside[0],
        outside,
        ports,
        age_of(service, now),
        format_labels(spec.get("selector")),
    ]


def _port(port: Tree) -> str:
    outside = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{outside}/{port.get('protocol', '')}"


def _external(service: Tree) -> str:
    spec = service["spec"]
    given = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
            balanced = sorted({i.get("ip") or i.get("hostname", "") for i in ingress} - {""})
            return ",".join([*balanced, *given]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return "<unknown>"


def event_cells(event: Tree, now: int) -> list[Any]:
    """An Event of the core group."""
    about, source = event.get("involvedObject") or {}, event.get("source") or {}
    return _event_cells(event, about, source, now, ("firstTimestamp", "lastTimestamp", "count", "message"))


def new_event_cells(event: Tree, now: int) -> list[Any]:
    """An Event of `events.k8s.io`."""
    about, source = event.get("regarding") or {}, event.get("deprecatedSource") or {}
    fields = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "note")
    return _event_cells(event, about, source, now, fields)


def _event_cells(event: Tree, about: Tree, source: Tree, now: int, fields: tuple[str, str, str, str]) -> list[Any]:
    first_field, last_field, count_field, message = fields
    first = translate_age(event.get(first_field) or event.get("eventTime"), now)
    last = translate_age(event[last_field], now) if event.get(last_field) else first
    count, series = event.get(count_field) or 1, event.get("series")
    if series is not None:
        last, count = translate_age(series.get("lastObservedTime"), now), series.get("count", 0)
    kind = about.get("kind", "").lower()
    reporter = event.get("reportingComponent") or event.get("reportingController", "")
    origin = (source.get("component") or reporter, source.get("host") or event.get("reportingInstance", ""))
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        ", ".join(origin) if origin[1] else origin[0],
        event.get(message, "").strip(),
        first,
        count,
        name_of(event),
    ]


def role_binding_cells(tree: Tree, now: int) -> list[Any]:
    reference, subjects = tree["roleRef"], tree.get("subjects") or ()
    accounts = (f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects if s.get("kind") == "ServiceAccount")
    return [
        name_of(tree),
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        age_of(tree, now),
        ", ".join(_subjects(subjects, "User")),
        ", ".join(_subjects(subjects, "Group")),
        ", ".join(accounts),
    ]


def _subjects(subjects: Iterable[Tree], kind: str) -> list[str]:
    return [subject.get("name", "") for subject in subjects if subject.get("kind") == kind]


def priority_class_cells(tree: Tree, now: int) -> list[Any]:
    policy = tree.get("preemptionPolicy", "")
    return [name_of(tree), tree.get("value", 0), tree.get("globalDefault", False), age_of(tree, now), policy]
