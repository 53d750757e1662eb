"""Validation of resource amounts of containers, pods and nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from trimtab.api import quantities
from trimtab_lab.apiserver.kinds.validation import names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    each,
    forbidden,
    invalid,
    not_found,
    required,
    unsupported,
)
from trimtab_lab.apiserver.storage.store import Tree

_HUGE_PAGES = "hugepages-"
_CONTAINER_RESOURCES = frozenset(["cpu", "memory", "ephemeral-storage"])
_QUOTA_RESOURCES = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
_STANDARD_RESOURCES = _QUOTA_RESOURCES | {"storage", "requests.storage"}
_INTEGER_RESOURCES = frozenset(
    [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ]
)

NameCheck = Callable[[str, Causes, str], None]


def is_huge_page(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own: without a domain, or with one of its domains."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a resource is an extended one: counted in integers, with equal requests and limits."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified(f"requests.{name}")


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_page(name)


def container(resources: Tree, claims: frozenset[str], causes: Causes, path: str) -> None:
    """The requests and limits of a container; `claims` are the names of the pod's resource claims."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if not _is_valid(tuple(limits.items()), tuple(requests.items())):
        _requirements(limits, requests, _container_resource_name, causes, path)
    if "claims" in resources:
        _claims(resources["claims"], claims, causes, f"{path}.claims")


def pod(resources: Tree, causes: Causes, path: str) -> None:
    """The requests and limits of a pod."""
    if "claims" in resources:
        causes.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    _requirements(limits, requests, _pod_resource_name, causes, path)


def amount(name: str, text: str, causes: Causes, path: str) -> None:
    """One amount: not negative, and an integer where the resource is counted."""
    good, whole = _verdict(text)
    if not good:
        causes.append(invalid(path, text, "must be greater than or equal to 0"))
    if not whole and (name in _INTEGER_RESOURCES or is_extended(name)):
        causes.append(invalid(path, text, "must be an integer"))


@lru_cache(maxsize=8192)
def _verdict(text: str) -> tuple[bool, bool]:
    quantity = quantities.parse(text)
    return quantity.sign >= 0, quantity.milli_value() % 1000 == 0


Amounts = tuple[tuple[str, str], ...]


@lru_cache(maxsize=4096)
def _is_valid(limits: Amounts, requests: Amounts) -> bool:
    """Cached, because the containers of a workload are equal."""
    causes: Causes = []
    _requirements(dict(limits), dict(requests), _container_resource_name, causes, "")
    return not causes


def _requirements(limits: Tree, requests: Tree, check_name: NameCheck, causes: Causes, path: str) -> None:
    for name, text in limits.items():
        _named_amount(name, text, check_name, causes, f"{path}.limits[{name}]")
    for name, text in requests.items():
        _named_amount(name, text, check_name, causes, f"{path}.requests[{name}]")
        _within_limit(name, text, limits.get(name), causes, path)
    requested = {*limits, *requests}
    if any(map(is_huge_page, requested)) and not requested & {"cpu", "memory"}:
        causes.append(forbidden(path, "HugePages require cpu or memory"))


def _named_amount(name: str, text: str, check_name: NameCheck, causes: Causes, path: str) -> None:
    check_name(name, causes, path)
    amount(name, text, causes, path)
    if is_huge_page(name) and not _divides(name, text):
        causes.append(invalid(path, text, f"{text} is not positive integer multiple of {name}"))


def _divides(name: str, text: str) -> bool:
    try:
        page = quantities.parse(name.removeprefix(_HUGE_PAGES)).value()
    except ValueError:
        return False
    return page != 0 and quantities.parse(text).value() % page == 0


def _within_limit(name: str, text: str, limit: str | None, causes: Causes, path: str) -> None:
    if limit is None:
        if not may_overcommit(name):
            causes.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        return
    if text == limit:
        return
    requested, most = quantities.parse(text), quantities.parse(limit)
    if requested != most and not may_overcommit(name):
        causes.append(invalid(f"{path}.requests", text, f"must be equal to {name} limit of {limit}"))
    elif requested > most:
        causes.append(invalid(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}"))


def _resource_name(name: str, causes: Causes, path: str) -> None:
    faults = names.qualified(name)
    if faults:
        causes += each(path, name, faults)
    elif "/" not in name and name not in _STANDARD_RESOURCES and not is_huge_page(name):
        causes.append(invalid(path, name, "must be a standard resource type or fully qualified"))


def _container_resource_name(name: str, causes: Causes, path: str) -> None:
    _resource_name(name, causes, path)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not is_huge_page(name):
            causes.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        causes.append(invalid(path, name, "doesn't follow extended resource name standard"))


def _pod_resource_name(name: str, causes: Causes, path: str) -> None:
    before = len(causes)
    _resource_name(name, causes, path)
    if len(causes) == before and name not in ("cpu", "memory") and not is_huge_page(name):
        causes.append(unsupported(path, name, ("cpu", "hugepages-", "memory")))


def _claims(given: list[Tree], known: frozenset[str], causes: Causes, path: str) -> None:
    for index, claim in enumerate(given):
        name = claim.get("name", "")
        if not name:
            causes.append(required(f"{path}[{index}]"))
        elif name not in known:
            rest = f": {', '.join(sorted(known))}" if known else " which is empty"
            fault = f"must be one of the names in pod.spec.resourceClaims{rest}"
            causes.append(not_found(f"{path}[{index}]", name, fault))


_DIVISORS = re.compile(r"1(?:[kMGTPE]|[KMGTPE]i)?")


def divisor_fault(resource: str, divisor: str) -> str:
    """The error of a divisor, the unit in which a container sees a resource; empty if it is valid."""
    if quantities.parse(divisor).sign == 0:
        return ""
    kind = resource.partition(".")[2]
    if kind == "cpu":
        good = divisor in ("1m", "1")
        return "" if good else "only divisor's values 1m and 1 are supported with the cpu resource"
    shown = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind)
    shown = "hugepages" if kind.startswith(_HUGE_PAGES) else shown
    if shown is None or _DIVISORS.fullmatch(divisor):
        return ""
    units = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
    return f"only divisor's values {units} are supported with the {shown} resource"
