"""Validation of a pod's containers: containers, init containers and ephemeral containers.

A valid container takes a few microseconds: nothing is built unless a check fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimtab_lab.apiserver.kinds.validation import names, resources, security
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    duplicate,
    each,
    forbidden,
    invalid,
    not_found,
    required,
    too_many,
    unsupported,
)
from trimtab_lab.apiserver.kinds.validation.container_context import ContainerContext
from trimtab_lab.apiserver.kinds.validation.environment import variable_groups, variables
from trimtab_lab.apiserver.kinds.validation.mounts import devices, mounts
from trimtab_lab.apiserver.kinds.validation.probes import hooks
from trimtab_lab.apiserver.storage.store import Tree

PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RULE_ACTIONS = ("Restart", "RestartAllContainers")


def containers(given: Sequence[Tree] | None, around: ContainerContext, found: Causes, path: str) -> None:
    """The containers of a pod."""
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
        hooks(container, around, found, at)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _restart_policy(container, found, at)
    _host_ports(given, found, path)


def init_containers(
    given: Sequence[Tree], others: Sequence[Tree], around: ContainerContext, found: Causes, path: str
) -> None:
    """Init containers; `others` are the containers, whose names are taken."""
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
            hooks(container, around, found, at)
        else:
            _no_hooks(container, found, at)


def _no_hooks(container: Tree, found: Causes, path: str) -> None:
    for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        if field in container:
            fault = "may not be set for init containers without restartPolicy=Always"
            found.append(forbidden(f"{path}.{field}", fault))


_DEBUG_FORBIDDEN = ("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


def ephemeral_containers(
    given: Sequence[Tree], others: Sequence[Tree], around: ContainerContext, found: Causes, path: str
) -> None:
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


def _shared(container: Tree, around: ContainerContext, found: Causes, path: str) -> None:
    """The checks for all three."""
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


def _inputs(container: Tree, around: ContainerContext, found: Causes, path: str) -> None:
    """Ports, variables and mounts."""
    if "ports" in container:
        _ports(container["ports"], found, f"{path}.ports")
    if "env" in container:
        variables(container["env"], found, f"{path}.env")
    if "envFrom" in container:
        variable_groups(container["envFrom"], found, f"{path}.envFrom")
    if "volumeMounts" in container:
        mounts(container, around.volumes, found, f"{path}.volumeMounts")
    if "volumeDevices" in container:
        devices(container, around.volumes, found, f"{path}.volumeDevices")


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
