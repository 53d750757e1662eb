"""Validation of probes and lifecycle hooks."""

from __future__ import annotations

from trimtab_lab.apiserver.kinds.validation import names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    each,
    forbidden,
    invalid,
    required,
    unsupported,
)
from trimtab_lab.apiserver.kinds.validation.container_context import ContainerContext
from trimtab_lab.apiserver.storage.store import Tree


def hooks(container: Tree, context: ContainerContext, causes: Causes, path: str) -> None:
    if "lifecycle" in container:
        _lifecycle(container["lifecycle"], context, causes, f"{path}.lifecycle")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _probe(name, container[name], context, causes, f"{path}.{name}")


def _lifecycle(lifecycle: Tree, context: ContainerContext, causes: Causes, path: str) -> None:
    for name in ("postStart", "preStop"):
        if name in lifecycle:
            _handler(lifecycle[name], context, causes, f"{path}.{name}")
    if "stopSignal" in lifecycle and not context.os:
        fault = "may not be set for containers with empty `spec.os.name`"
        causes.append(forbidden(f"{path}.stopSignal", fault))


_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def _probe(name: str, probe: Tree, context: ContainerContext, causes: Causes, path: str) -> None:
    _handler(probe, context, causes, path)
    for count in _COUNTS:
        if probe.get(count, 0) < 0:
            causes.append(invalid(f"{path}.{count}", probe[count], "must be greater than or equal to 0"))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        causes.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    if name == "readinessProbe":
        if grace is not None:
            fault = "must not be set for readinessProbes"
            causes.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, fault))
    elif probe.get("successThreshold") != 1:
        causes.append(invalid(f"{path}.successThreshold", probe.get("successThreshold", 0), "must be 1"))


def _handler(handler: Tree, context: ContainerContext, causes: Causes, path: str) -> None:
    first = ""
    for kind in ("exec", "httpGet", "tcpSocket", "grpc", "sleep"):
        if kind not in handler:
            continue
        if first:
            causes.append(forbidden(f"{path}.{kind}", "may not specify more than 1 handler type"))
            continue
        first = kind
        _action(kind, handler[kind], context, causes, f"{path}.{kind}")
    if not first:
        causes.append(required(path, "must specify a handler type"))


def _action(kind: str, action: Tree, context: ContainerContext, causes: Causes, path: str) -> None:
    match kind:
        case "exec":
            if not action.get("command"):
                causes.append(required(f"{path}.command"))
        case "httpGet":
            _http_get(action, causes, path)
        case "sleep":
            seconds = action.get("seconds", 0)
            if context.grace is not None and not 0 <= seconds <= context.grace:
                fault = f"must be non-negative and less than terminationGracePeriodSeconds ({context.grace})"
                causes.append(invalid(path, seconds, fault))
        case _:
            port_reference(action.get("port", 0), causes, f"{path}.port")


def _http_get(action: Tree, causes: Causes, path: str) -> None:
    if not action.get("path"):
        causes.append(required(f"{path}.path"))
    port_reference(action.get("port", 0), causes, f"{path}.port")
    if action.get("scheme", "") not in ("HTTP", "HTTPS"):
        causes.append(unsupported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        causes += each(f"{path}.httpHeaders", name, names.header(name))


def port_reference(given: int | str, causes: Causes, path: str) -> None:
    """A port by number or by name."""
    faults = names.port_number(given) if isinstance(given, int) else names.port_name(given)
    causes += each(path, given, faults)
