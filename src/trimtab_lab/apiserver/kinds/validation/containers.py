"""Checks of a pod's containers: the ordinary ones, those that run before them, and those added for debugging.

An ordinary container passes through here in a few microseconds: nothing is built for a check that finds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimtab_lab.apiserver.kinds.validation import names, resources, security
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    Tree,
    duplicate,
    each,
    forbidden,
    invalid,
    not_found,
    required,
    too_many,
    unsupported,
)
from trimtab_lab.apiserver.kinds.validation.volumes import (
    descending,
    field_reference,
    no_steps_back,
    resource_reference,
)

PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RULE_ACTIONS = ("Restart", "RestartAllContainers")
_NO_CLAIMS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What of the pod matters to a container."""

    volumes: dict[str, Tree]
    claims: frozenset[str] = _NO_CLAIMS
    grace: int | None = None
    restart_policy: str = "Always"
    host_users: bool = True
    os: str = ""


def ordinary(given: Sequence[Tree] | None, around: Surroundings, found: Causes, path: str) -> None:
    """The containers that run side by side."""
    if not given:
        found.append(required(path))
        return
    seen: set[str] = set()
    for index, container in enumerate(given):
        at = f"{path}[{index}]"
        _shared(container, around, found, at)
        name = container.get("name", "")
        if name in seen:
            found.append(duplicate(f"{at}.name", name))
        seen.add(name)
        _hooks(container, around, found, at)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _restart_policy(container, found, at)
    _host_ports(given, found, path)


def before(given: Sequence[Tree], others: Sequence[Tree], around: Surroundings, found: Causes, path: str) -> None:
    """Init containers; `others` are the ordinary ones, whose names are taken."""
    seen = {container.get("name", "") for container in others}
    for index, container in enumerate(given):
        at = f"{path}[{index}]"
        _shared(container, around, found, at)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _restart_policy(container, found, at)
        stays = container.get("restartPolicy") == "Always"
        name = container.get("name", "")
        if name in seen:
            found.append(duplicate(f"{at}.name", name))
        elif name:
            seen.add(name)
        _host_ports([container], found, path)
        if stays:
            _hooks(container, around, found, at)
        else:
            _no_hooks(container, found, at)


def _no_hooks(container: Tree, found: Causes, path: str) -> None:
    for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        if field in container:
            fault = "may not be set for init containers without restartPolicy=Always"
            found.append(forbidden(f"{path}.{field}", fault))


_DEBUG_FORBIDDEN = ("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


def debugging(given: Sequence[Tree], others: Sequence[Tree], around: Surroundings, found: Causes, path: str) -> None:
    """Ephemeral containers."""
    taken = {container.get("name", "") for container in others}
    seen = set(taken)
    for index, container in enumerate(given):
        at = f"{path}[{index}]"
        _shared(container, around, found, at)
        name, target = container.get("name", ""), container.get("targetContainerName", "")
        if name in seen:
            found.append(duplicate(f"{at}.name", name))
        seen.add(name)
        if target and target not in taken:
            found.append(not_found(f"{at}.targetContainerName", target))
        for field in _DEBUG_FORBIDDEN:
            if container.get(field):
                found.append(forbidden(f"{at}.{field}", "cannot be set for an Ephemeral Container"))


def _shared(container: Tree, around: Surroundings, found: Causes, path: str) -> None:
    """What all three sorts have in common."""
    name = container.get("name", "")
    if not name:
        found.append(required(f"{path}.name"))
    else:
        faults = names.label(name)
        if faults:
            found += each(f"{path}.name", name, faults)
    if not container.get("image"):
        found.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy", "")
    if policy not in ("File", "FallbackToLogsOnError"):
        _one_of(policy, ("File", "FallbackToLogsOnError"), found, f"{path}.terminationMessagePolicy")
    _inputs(container, around, found, path)
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        _one_of(container.get("imagePullPolicy", ""), _PULL_POLICIES, found, f"{path}.imagePullPolicy")
    if container.get("resources"):
        resources.container(container["resources"], around.claims, found, f"{path}.resources")
    if "resizePolicy" in container:
        _resize_policy(container["resizePolicy"], around.restart_policy, found, f"{path}.resizePolicy")
    if container.get("securityContext"):
        at = f"{path}.securityContext"
        security.container(container["securityContext"], found, at, host_users=around.host_users)


def _inputs(container: Tree, around: Surroundings, found: Causes, path: str) -> None:
    """Ports, variables and mounts."""
    if "ports" in container:
        _ports(container["ports"], found, f"{path}.ports")
    if "env" in container:
        _variables(container["env"], found, f"{path}.env")
    if "envFrom" in container:
        _variable_groups(container["envFrom"], found, f"{path}.envFrom")
    if "volumeMounts" in container:
        _mounts(container, around.volumes, found, f"{path}.volumeMounts")
    if "volumeDevices" in container:
        _devices(container, around.volumes, found, f"{path}.volumeDevices")


def _one_of(value: str, supported: Sequence[str], found: Causes, path: str) -> None:
    found.append(unsupported(path, value, supported) if value else required(path))


def _ports(ports: Sequence[Tree], found: Causes, path: str) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        if "name" in port:
            _port_name(port["name"], seen, found, f"{at}.name")
        number = port.get("containerPort", 0)
        if not number:
            found.append(required(f"{at}.containerPort"))
        elif not 1 <= number <= 65535:
            found += each(f"{at}.containerPort", number, names.port_number(number))
        if not 0 <= port.get("hostPort", 0) <= 65535:
            found += each(f"{at}.hostPort", port["hostPort"], names.port_number(port["hostPort"]))
        if port.get("protocol") not in PROTOCOLS:
            _one_of(port.get("protocol", ""), PROTOCOLS, found, f"{at}.protocol")


def _port_name(name: str, seen: set[str], found: Causes, path: str) -> None:
    faults = names.port_name(name)
    if faults:
        found += each(path, name, faults)
    elif name in seen:
        found.append(duplicate(path, name))
    else:
        seen.add(name)


_VARIABLE_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)


def _variables(variables: Sequence[Tree], found: Causes, path: str) -> None:
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            found.append(required(f"{path}[{index}].name"))
        else:
            faults = names.variable(name)
            if faults:
                found += each(f"{path}[{index}].name", name, faults)
        if "valueFrom" in variable:
            _variable_source(variable, found, f"{path}[{index}].valueFrom")


_VARIABLE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _variable_source(variable: Tree, found: Causes, path: str) -> None:
    source = variable["valueFrom"]
    if "fieldRef" in source:
        field_reference(source["fieldRef"], _VARIABLE_FIELDS, found, f"{path}.fieldRef")
    if "resourceFieldRef" in source:
        resource_reference(source["resourceFieldRef"], found, f"{path}.resourceFieldRef", of_file=False)
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            _key_reference(source[kind], found, f"{path}.{kind}")
    if "fileKeyRef" in source:
        _file_reference(source["fileKeyRef"], found, f"{path}.fileKeyRef")
    count = sum(kind in source for kind in _VARIABLE_SOURCES)
    if not count:
        *most, last = (f"`{kind}`" for kind in _VARIABLE_SOURCES)
        found.append(invalid(path, "", f"must specify one of: {', '.join(most)} or {last}"))
    elif variable.get("value"):
        found.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        found.append(invalid(path, "", "may not have more than one field specified at a time"))


def _key_reference(reference: Tree, found: Causes, path: str) -> None:
    found += each(f"{path}.name", reference.get("name", ""), names.subdomain(reference.get("name", "")))
    key = reference.get("key", "")
    if not key:
        found.append(required(f"{path}.key"))
    else:
        found += each(f"{path}.key", key, names.config_key(key))


def _file_reference(reference: Tree, found: Causes, path: str) -> None:
    key, volume, file = (reference.get(field, "") for field in ("key", "volumeName", "path"))
    found += each(f"{path}.key", key, names.variable(key)) if key else [required(f"{path}.key")]
    found += each(f"{path}.volumeName", volume, names.label(volume)) if volume else [required(f"{path}.volumeName")]
    if file:
        no_steps_back(file, found, f"{path}.path")
    else:
        found.append(required(f"{path}.path"))


def _variable_groups(groups: Sequence[Tree], found: Causes, path: str) -> None:
    for index, group in enumerate(groups):
        prefix = group.get("prefix", "")
        if prefix:
            found += each(f"{path}[{index}].prefix", prefix, names.variable(prefix))
        kinds = [kind for kind in ("configMapRef", "secretRef") if kind in group]
        for kind in kinds:
            name = group[kind].get("name", "")
            at = f"{path}[{index}].{kind}.name"
            found += each(at, name, names.prefix(names.subdomain, name)) if name else [required(at)]
        if not kinds:
            found.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(kinds) > 1:
            found.append(invalid(path, "", "may not have more than one field specified at a time"))


_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")


def _mounts(container: Tree, volumes: dict[str, Tree], found: Causes, path: str) -> None:
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices") or ()}
    places: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        at = f"{path}[{index}]"
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            found.append(required(f"{at}.name"))
        if name not in volumes:
            found.append(not_found(f"{at}.name", name))
        if not place:
            found.append(required(f"{at}.mountPath"))
        if place in places:
            found.append(invalid(f"{at}.mountPath", place, "must be unique"))
        places.add(place)
        if devices:
            _mount_beside_devices(name, place, devices, found, at)
        if len(mount) > 2:
            _mount_options(mount, container, found, path, at)


def _mount_beside_devices(name: str, place: str, devices: dict[str, str], found: Causes, path: str) -> None:
    if name in devices:
        found.append(invalid(f"{path}.name", name, "must not already exist in volumeDevices"))
    if place in devices.values():
        fault = "must not already exist as a path in volumeDevices"
        found.append(invalid(f"{path}.mountPath", place, fault))


def _mount_options(mount: Tree, container: Tree, found: Causes, path: str, at: str) -> None:
    """Kubernetes names the list here, where it means the mount."""
    if "subPath" in mount:
        descending(mount["subPath"], found, f"{path}.subPath")
    if "subPathExpr" in mount:
        if "subPath" in mount:
            fault = "subPathExpr and subPath are mutually exclusive"
            found.append(invalid(f"{at}.subPathExpr", mount["subPathExpr"], fault))
        descending(mount["subPathExpr"], found, f"{path}.subPathExpr")
    if "mountPropagation" in mount:
        mode = mount["mountPropagation"]
        if mode not in _PROPAGATIONS:
            found.append(unsupported(f"{path}.mountPropagation", mode, _PROPAGATIONS))
        if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            fault = "Bidirectional mount propagation is available only to privileged containers"
            found.append(forbidden(f"{path}.mountPropagation", fault))


def _devices(container: Tree, volumes: dict[str, Tree], found: Causes, path: str) -> None:
    for index, device in enumerate(container["volumeDevices"]):
        name = device.get("name", "")
        if not name:
            found.append(required(f"{path}[{index}].name"))
        if name not in volumes:
            found.append(not_found(f"{path}[{index}].name", name))
        if not device.get("devicePath"):
            found.append(required(f"{path}[{index}].devicePath"))


def _host_ports(containers: Sequence[Tree], found: Causes, path: str) -> None:
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            shown = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if shown in taken:
                found.append(duplicate(f"{path}[{index}].ports[{place}].hostPort", shown))
            taken.add(shown)


def _resize_policy(policies: Sequence[Tree], pod_policy: str, found: Causes, path: str) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            found.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        if resource not in ("cpu", "memory"):
            _one_of(resource, ("cpu", "memory"), found, path)
        if restart not in ("NotRequired", "RestartContainer"):
            _one_of(restart, ("NotRequired", "RestartContainer"), found, path)
        if pod_policy == "Never" and restart != "NotRequired":
            found.append(invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))


def _restart_policy(container: Tree, found: Causes, path: str) -> None:
    rules = container.get("restartPolicyRules") or ()
    policy = container.get("restartPolicy")
    if policy is None:
        if rules:
            fault = "must specify restartPolicy when restart rules are used"
            found.append(required(f"{path}.restartPolicy", fault))
    elif policy not in _RESTART_POLICIES:
        found.append(unsupported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > 20:
        found.append(too_many(f"{path}.restartPolicyRules", len(rules), 20))
    for index, rule in enumerate(rules):
        at = f"{path}.restartPolicyRules[{index}]"
        if rule.get("action", "") not in _RULE_ACTIONS:
            found.append(unsupported(f"{at}.action", rule.get("action", ""), _RULE_ACTIONS))
        if "exitCodes" not in rule:
            found.append(required(f"{at}.exitCodes", "must be specified"))
        elif rule["exitCodes"].get("operator", "") not in ("In", "NotIn"):
            operator = rule["exitCodes"].get("operator", "")
            found.append(unsupported(f"{at}.exitCodes.operator", operator, ("In", "NotIn")))


# --- probes and lifecycle hooks --------------------------------------------------------------------------------------


def _hooks(container: Tree, around: Surroundings, found: Causes, path: str) -> None:
    if "lifecycle" in container:
        _lifecycle(container["lifecycle"], around, found, f"{path}.lifecycle")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _probe(name, container[name], around, found, f"{path}.{name}")


def _lifecycle(lifecycle: Tree, around: Surroundings, found: Causes, path: str) -> None:
    for name in ("postStart", "preStop"):
        if name in lifecycle:
            _handler(lifecycle[name], around, found, f"{path}.{name}")
    if "stopSignal" in lifecycle and not around.os:
        fault = "may not be set for containers with empty `spec.os.name`"
        found.append(forbidden(f"{path}.stopSignal", fault))


_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def _probe(name: str, probe: Tree, around: Surroundings, found: Causes, path: str) -> None:
    _handler(probe, around, found, path)
    for count in _COUNTS:
        if probe.get(count, 0) < 0:
            found.append(invalid(f"{path}.{count}", probe[count], "must be greater than or equal to 0"))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        found.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    if name == "readinessProbe":
        if grace is not None:
            fault = "must not be set for readinessProbes"
            found.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, fault))
    elif probe.get("successThreshold") != 1:
        found.append(invalid(f"{path}.successThreshold", probe.get("successThreshold", 0), "must be 1"))


def _handler(handler: Tree, around: Surroundings, found: Causes, path: str) -> None:
    first = ""
    for kind in ("exec", "httpGet", "tcpSocket", "grpc", "sleep"):
        if kind not in handler:
            continue
        if first:
            found.append(forbidden(f"{path}.{kind}", "may not specify more than 1 handler type"))
            continue
        first = kind
        _action(kind, handler[kind], around, found, f"{path}.{kind}")
    if not first:
        found.append(required(path, "must specify a handler type"))


def _action(kind: str, action: Tree, around: Surroundings, found: Causes, path: str) -> None:
    match kind:
        case "exec":
            if not action.get("command"):
                found.append(required(f"{path}.command"))
        case "httpGet":
            _http_get(action, found, path)
        case "sleep":
            seconds = action.get("seconds", 0)
            if around.grace is not None and not 0 <= seconds <= around.grace:
                fault = f"must be non-negative and less than terminationGracePeriodSeconds ({around.grace})"
                found.append(invalid(path, seconds, fault))
        case _:
            port(action.get("port", 0), found, f"{path}.port")


def _http_get(action: Tree, found: Causes, path: str) -> None:
    if not action.get("path"):
        found.append(required(f"{path}.path"))
    port(action.get("port", 0), found, f"{path}.port")
    if action.get("scheme", "") not in ("HTTP", "HTTPS"):
        found.append(unsupported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        found += each(f"{path}.httpHeaders", name, names.header(name))


def port(given: int | str, found: Causes, path: str) -> None:
    """A port by number or by name."""
    faults = names.port_number(given) if isinstance(given, int) else names.port_name(given)
    found += each(path, given, faults)
