"""Defaults of pods and pod templates."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.api import quantities
from trimtab_lab.apiserver.kinds.defaults.containers import default_container, round_amounts, round_resources
from trimtab_lab.apiserver.kinds.defaults.volumes import default_volume
from trimtab_lab.apiserver.storage.store import Tree


def default_pod_spec(spec: Tree) -> None:
    """Set the defaults that pods and pod templates share."""
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    for container in _all_containers(spec):
        default_container(container)
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
        round_amounts(spec["overhead"])
    if "resources" in spec:
        round_resources(spec["resources"])
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
    """Set the host ports of a pod on the host network: they equal its container ports."""
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        for port in container.get("ports") or ():
            if not port.get("hostPort") and port.get("containerPort"):
                port["hostPort"] = port["containerPort"]


def default_pod(tree: Tree) -> None:
    spec = tree["spec"]
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            _requests_from_limits(container.get("resources"))
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:  # in a template it stays as it is
        spec["terminationGracePeriodSeconds"] = 1
    default_pod_spec(spec)
    if spec.get("resources"):
        _pod_level_requests(spec)
    status = tree.get("status")
    if status:
        sync_first_element(status, "podIP", "podIPs", "ip")


def _requests_from_limits(resources: Tree | None) -> None:
    if resources and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


_POD_LEVEL = ("cpu", "memory")


def _pod_level_requests(spec: Tree) -> None:
    """Set the pod-level requests where only limits are given: to what the containers request, else to the limits."""
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
    """The effective requests of a pod: those of all containers that run together, or the largest of the init
    containers."""
    running: dict[str, quantities.Quantity] = {}
    largest: dict[str, quantities.Quantity] = {}
    for container in spec.get("initContainers") or ():
        requested = _parsed_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(running, requested)
            requested = running
        else:
            requested = _sum(running, requested)
        for name, amount in requested.items():
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


def sync_first_element(holder: Tree, single: str, several: str, field: str = "") -> None:
    """Keep a single-value field equal to the first element of the list that replaced it, for clients that know one of
    them.

    Where the two differ, the single-value field wins.
    """
    one, many = holder.get(single), holder.get(several)
    if one and (not many or (many[0].get(field) if field else many[0]) != one):
        holder[several] = [{field: one} if field else one]
    elif many:
        holder[single] = many[0].get(field, "") if field else many[0]
