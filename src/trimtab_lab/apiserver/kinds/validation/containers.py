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


def containers(given: Sequence[Tree] | None, context: ContainerContext, causes: Causes, path: str) -> None:
    """The containers of a pod."""
    if not given:
        causes.append(required(path))
        return
    seen: set[str] = set()
    for index, container in enumerate(given):
        at = f"{path}[{index}]"
        _shared(container, context, causes, at)
        name = container.get("name", "")
        if name in seen:
            causes.append(duplicate(f"{at}.name", name))
        seen.add(name)
        hooks(container, context, causes, at)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _restart_policy(container, causes, at)
    _host_ports(given, causes, path)


def init_containers(
    given: Sequence[Tree], others: Sequence[Tree], context: ContainerContext, causes: Causes, path: str
) -> None:
    """Init containers; `others` are the containers, whose names are taken."""
    seen = {container.get("name", "") for container in others}
    for index, container in enumerate(given):
        at = f"{path}[{index}]"
        _shared(container, context, causes, at)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _restart_policy(container, causes, at)
        restartable = container.get("restartPolicy") == "Always"
        name = container.get("name", "")
        if name in seen:
            causes.append(duplicate(f"{at}.name", name))
        elif name:
            seen.add(name)
        _host_ports([container], causes, path)
        if restartable:
            hooks(container, context, causes, at)
        else:
            _no_hooks(container, causes, at)


def _no_hooks(container: Tree, causes: Causes, path: str) -> None:
    for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        if field in container:
            fault = "may not be set for init containers without restartPolicy=Always"
            causes.append(forbidden(f"{path}.{field}", fault))


_DEBUG_FORBIDDEN = ("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


def ephemeral_containers(
    given: Sequence[Tree], others: Sequence[Tree], context: ContainerContext, causes: Causes, path: str
) -> None:
    """Ephemeral containers."""
    taken = {container.get("name", "") for container in others}
    seen = set(taken)
    for index, container in enumerate(given):
        at = f"{path}[{index}]"
        _shared(container, context, causes, at)
        name, target = container.get("name", ""), container.get("targetContainerName", "")
        if name in seen:
            causes.append(duplicate(f"{at}.name", name))
        seen.add(name)
        if target and target not in taken:
            causes.append(not_found(f"{at}.targetContainerName", target))
        for field in _DEBUG_FORBIDDEN:
            if container.get(field):
                causes.append(forbidden(f"{at}.{field}", "cannot be set for an Ephemeral Container"))


def _shared(container: Tree, context: ContainerContext, causes: Causes, path: str) -> None:
    """The checks for all three."""
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{path}.name"))
    else:
        faults = names.label(name)
        if faults:
            causes += each(f"{path}.name", name, faults)
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy", "")
    if policy not in ("File", "FallbackToLogsOnError"):
        _one_of(policy, ("File", "FallbackToLogsOnError"), causes, f"{path}.terminationMessagePolicy")
    _inputs(container, context, causes, path)
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        _one_of(container.get("imagePullPolicy", ""), _PULL_POLICIES, causes, f"{path}.imagePullPolicy")
    if container.get("resources"):
        resources.container(container["resources"], context.claims, causes, f"{path}.resources")
    if "resizePolicy" in container:
        _resize_policy(container["resizePolicy"], context.restart_policy, causes, f"{path}.resizePolicy")
    if container.get("securityContext"):
        at = f"{path}.securityContext"
        security.container(container["securityContext"], causes, at, host_users=context.host_users)


def _inputs(container: Tree, context: ContainerContext, causes: Causes, path: str) -> None:
    """Ports, variables and mounts."""
    if "ports" in container:
        _ports(container["ports"], causes, f"{path}.ports")
    if "env" in container:
        variables(container["env"], causes, f"{path}.env")
    if "envFrom" in container:
        variable_groups(container["envFrom"], causes, f"{path}.envFrom")
    if "volumeMounts" in container:
        mounts(container, context.volumes, causes, f"{path}.volumeMounts")
    if "volumeDevices" in container:
        devices(container, context.volumes, causes, f"{path}.volumeDevices")


def _one_of(value: str, supported: Sequence[str], causes: Causes, path: str) -> None:
    causes.append(unsupported(path, value, supported) if value else required(path))


def _ports(ports: Sequence[Tree], causes: Causes, path: str) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        if "name" in port:
            _port_name(port["name"], seen, causes, f"{at}.name")
        number = port.get("containerPort", 0)
        if not number:
            causes.append(required(f"{at}.containerPort"))
        elif not 1 <= number <= 65535:
            causes += each(f"{at}.containerPort", number, names.port_number(number))
        if not 0 <= port.get("hostPort", 0) <= 65535:
            causes += each(f"{at}.hostPort", port["hostPort"], names.port_number(port["hostPort"]))
        if port.get("protocol") not in PROTOCOLS:
            _one_of(port.get("protocol", ""), PROTOCOLS, causes, f"{at}.protocol")


def _port_name(name: str, seen: set[str], causes: Causes, path: str) -> None:
    faults = names.port_name(name)
    if faults:
        causes += each(path, name, faults)
    elif name in seen:
        causes.append(duplicate(path, name))
    else:
        seen.add(name)


def _host_ports(containers: Sequence[Tree], causes: Causes, path: str) -> None:
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            shown = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if shown in taken:
                causes.append(duplicate(f"{path}[{index}].ports[{place}].hostPort", shown))
            taken.add(shown)


def _resize_policy(policies: Sequence[Tree], pod_policy: str, causes: Causes, path: str) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            causes.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        if resource not in ("cpu", "memory"):
            _one_of(resource, ("cpu", "memory"), causes, path)
        if restart not in ("NotRequired", "RestartContainer"):
            _one_of(restart, ("NotRequired", "RestartContainer"), causes, path)
        if pod_policy == "Never" and restart != "NotRequired":
            causes.append(invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))


def _restart_policy(container: Tree, causes: Causes, path: str) -> None:
    rules = container.get("restartPolicyRules") or ()
    policy = container.get("restartPolicy")
    if policy is None:
        if rules:
            fault = "must specify restartPolicy when restart rules are used"
            causes.append(required(f"{path}.restartPolicy", fault))
    elif policy not in _RESTART_POLICIES:
        causes.append(unsupported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > 20:
        causes.append(too_many(f"{path}.restartPolicyRules", len(rules), 20))
    for index, rule in enumerate(rules):
        at = f"{path}.restartPolicyRules[{index}]"
        if rule.get("action", "") not in _RULE_ACTIONS:
            causes.append(unsupported(f"{at}.action", rule.get("action", ""), _RULE_ACTIONS))
        if "exitCodes" not in rule:
            causes.append(required(f"{at}.exitCodes", "must be specified"))
        elif rule["exitCodes"].get("operator", "") not in ("In", "NotIn"):
            operator = rule["exitCodes"].get("operator", "")
            causes.append(unsupported(f"{at}.exitCodes.operator", operator, ("In", "NotIn")))
