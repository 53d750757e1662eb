"""The resource requests of a pod, in whole numbers: milli-CPUs, bytes, pieces.

The sums are exact and rounded up once a pod, as the API defines them: containers and sidecars run together; each
ordinary init container runs beside the sidecars started before it, and the largest such moment counts; pod-level
requests replace the sum; overhead is added. A pod that is being resized counts, once it is on a node, with the larger
of what it requests and what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from trimtab.api.bounded_caches import BoundedCache
from trimtab.api.pods import Container, ContainerStatus, Pod, ResourceList, ResourceRequirements
from trimtab.api.quantities import Quantity, millis, parse, whole

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

# The assumed usage of a container without a request, where nodes are compared by utilization.
_ASSUMED = {CPU: parse("100m"), MEMORY: parse("200Mi")}
_ZERO = parse("0")

_Sums = dict[str, Quantity]
_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """A pod's requests by resource; and with the assumed amounts for containers without a request.

    `stated` are the requests of the spec, without those of a resize: what a node must have room for. `bare` leaves
    pod-level requests out as well, as the score of an incoming pod does and its filter does not.
    """

    amounts: Mapping[str, int]
    assumed_cpu: int
    assumed_memory: int
    stated: Mapping[str, int]
    bare: Mapping[str, int]
    bare_assumed_cpu: int
    bare_assumed_memory: int


class RequestsBook:
    """A cache of requests, computed once for all pods of a template.

    Two pods with the same containers and the same resized amounts have the same requests; there are as many entries as
    templates (times the resizes in progress).
    """

    __slots__ = ("_cache",)

    def __init__(self) -> None:
        self._cache: BoundedCache[bytes, Requests] = BoundedCache()

    def of(self, pod: Pod) -> Requests:
        """The pod's requests."""
        spec = pod.spec
        resized = _resized(pod)
        key = _pack((spec.containers, spec.init_containers, spec.resources, spec.overhead, resized))
        return self._cache.get(key) or self._cache.put(key, compute(pod), len(key))


def compute(pod: Pod) -> Requests:
    """Compute a pod's requests from its spec and, while it is being resized, its status."""
    amounts = _total(pod, {})
    # No amount is assumed for a resource that has a pod-level request.
    missing = {n: q for n, q in _ASSUMED.items() if n not in amounts} if _pod_level(pod, resized=True) else _ASSUMED
    assumed = _total(pod, missing)
    stated = _total(pod, {}, resized=False) if _resized(pod) else amounts
    bare = stated if pod.spec.resources is None else _total(pod, {}, resized=False, pod_level=False)
    bare_assumed = assumed if bare is amounts else _total(pod, _ASSUMED, resized=False, pod_level=False)
    rounded = _rounded(amounts)
    rounded_stated = rounded if stated is amounts else _rounded(stated)
    return Requests(
        amounts=rounded,
        assumed_cpu=assumed.get(CPU, _ZERO).milli_value(),
        assumed_memory=assumed.get(MEMORY, _ZERO).value(),
        stated=rounded_stated,
        bare=rounded_stated if bare is stated else _rounded(bare),
        bare_assumed_cpu=bare_assumed.get(CPU, _ZERO).milli_value(),
        bare_assumed_memory=bare_assumed.get(MEMORY, _ZERO).value(),
    )


def amounts(resources: ResourceList) -> dict[str, int]:
    """A list of quantities as whole numbers: milli-CPUs, and units of everything else."""
    return {name: millis(text) if name == CPU else whole(text) for name, text in resources.items()}


def _rounded(sums: Mapping[str, Quantity]) -> dict[str, int]:
    return {name: total.milli_value() if name == CPU else total.value() for name, total in sums.items()}


def _total(pod: Pod, missing: Mapping[str, Quantity], *, resized: bool = True, pod_level: bool = True) -> _Sums:
    total = _containers(pod, missing, resized=resized)
    if pod_level:
        total |= _pod_level(pod, resized=resized)
    _add(total, _quantities(pod.spec.overhead))
    return total


def _pod_level(pod: Pod, *, resized: bool) -> _Sums:
    """The pod-level requests: CPU, memory and huge pages; other resources are sums of the containers."""
    own = pod.spec.resources
    requested = {} if own is None else _quantities(own.requests)
    names = [name for name in requested if name in (CPU, MEMORY) or name.startswith("hugepages-")]
    given = pod.status.resources
    if names and resized and given is not None:
        requested = _granted(requested, given, pod.status.allocated_resources, infeasible=is_infeasible(pod))
    return {name: requested.get(name, _ZERO) for name in names}


def _containers(pod: Pod, missing: Mapping[str, Quantity], *, resized: bool) -> _Sums:
    statuses = {status.name: status for status in _statuses(pod) if resized and status.resources is not None}
    infeasible = is_infeasible(pod)
    total: _Sums = {}
    for container in pod.spec.containers:
        _add(total, _effective(container, statuses.get(container.name), infeasible, missing))
    sidecars: _Sums = {}
    peak: _Sums = {}
    for container in pod.spec.init_containers:
        sidecar = container.restart_policy == "Always"
        requested = _effective(container, statuses.get(container.name) if sidecar else None, infeasible, missing)
        if sidecar:
            _add(total, requested)
            _add(sidecars, requested)
            moment = {name: sidecars[name] for name in requested}
        else:
            moment = {name: sidecars[name] + own if name in sidecars else own for name, own in requested.items()}
        _raise(peak, moment)  # which has what sidecars before this container request of other resources
    _raise(total, peak)
    return total


def _effective(
    container: Container, status: ContainerStatus | None, infeasible: bool, missing: Mapping[str, Quantity]
) -> _Sums:
    requested = _quantities(container.resources.requests)
    if status is not None and status.resources is not None:
        requested = _granted(requested, status.resources, status.allocated_resources, infeasible=infeasible)
    for name, quantity in missing.items():
        requested.setdefault(name, quantity)
    return requested


def _granted(requested: _Sums, given: ResourceRequirements, allocated: ResourceList, *, infeasible: bool) -> _Sums:
    """The amounts that count during a resize: the largest of the requested, given and allocated ones."""
    largest: _Sums = {} if infeasible else dict(requested)
    _raise(largest, _quantities(given.requests))
    _raise(largest, _quantities(allocated))
    return largest


def _quantities(resources: ResourceList) -> _Sums:
    return {name: parse(text) for name, text in resources.items()}


def _add(total: _Sums, more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _raise(floor: _Sums, other: Mapping[str, Quantity]) -> None:
    for name, quantity in other.items():
        if name not in floor or quantity > floor[name]:
            floor[name] = quantity


def _statuses(pod: Pod) -> Iterable[ContainerStatus]:
    yield from pod.status.container_statuses
    yield from pod.status.init_container_statuses


def is_infeasible(pod: Pod) -> bool:
    """Whether its resize was found infeasible, so that the requested amounts do not count."""
    condition = pod.status.condition("PodResizePending")
    return condition is not None and condition.reason == "Infeasible"


def _resized(pod: Pod) -> list[object]:
    """The part of a status that requests depend on; empty for a pod that reports no resources."""
    given: list[object] = [
        (s.name, s.resources, s.allocated_resources) for s in _statuses(pod) if s.resources is not None
    ]
    if pod.status.resources is not None:
        given.append((pod.status.resources, pod.status.allocated_resources))
    return [given, is_infeasible(pod)] if given else []
