"""What pods use on their nodes, computed once for all pods of a template."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from trimtab.api.bounded_caches import BoundedCache
from trimtab.api.pods import Pod
from trimtab.snapshot.requests import Requests, is_infeasible
from trimtab.snapshot.shapes import Shape

_of_spec = operator.attrgetter("containers", "affinity", "init_containers", "resources", "overhead")
_of_status = operator.attrgetter("container_statuses", "init_container_statuses", "resources", "allocated_resources")
"""The parts of a pod that its usage depends on, beside its namespace; first those by whose identity it is found."""
_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True, eq=False)
class Usage:
    """What a pod uses on its node; the same object for all pods with the same parts. It is added to the counts, and
    exactly this is subtracted again."""

    requests: Requests
    shape: Shape
    parts: tuple[Any, ...]
    """The parts of a pod that it was computed from: while they are held, their identities are theirs alone."""
    is_infeasible: bool


class UsageBook:
    """The usages of templates. The parts of a pod are shared by the pods of its template (see `api.pooling`), so a
    usage is found by their identity."""

    __slots__ = ("_cache", "_requests", "_shape")

    def __init__(self, requests: Callable[[Pod], Requests], shape: Callable[[Pod], Shape]) -> None:
        self._requests = requests
        self._shape = shape
        self._cache: BoundedCache[tuple[int, int, str], Usage] = BoundedCache()

    def __len__(self) -> int:
        return len(self._cache)

    def of(self, pod: Pod) -> Usage | None:
        """The usage of a pod on its node; None if it has no node, or has finished."""
        if not pod.spec.node_name or pod.finished:
            return None
        namespace = pod.metadata.namespace
        parts = (_of_spec(pod.spec), _of_status(pod.status), namespace)
        infeasible, identity = is_infeasible(pod), (id(parts[0][0]), id(parts[1][0]), namespace)
        known = self._cache.get(identity)
        if known is None or known.parts != parts or known.is_infeasible != infeasible:
            made = Usage(self._requests(pod), self._shape(pod), parts, infeasible)
            known = self._cache.put(identity, made, len(_pack(parts)))
        return known
