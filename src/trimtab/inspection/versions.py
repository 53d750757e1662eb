"""Recent versions of objects, so that a cluster can be put together as it was at a resource version.

A scale-down is seen in one watch and its deletions in another, in any order. But an API server numbers all changes of
its store with one counter, so the versions of a workload and of its pods say what came first. Pods, nodes and workloads
are in that one store on every Kubernetes; only events may be kept in another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from trimtab.kube import versions
from trimtab.kube.resources import Key
from trimtab.kube.stores import Object, key_of

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Version(Generic[T]):
    """An object from one resource version on; None where it is deleted."""

    number: int
    seen: int
    """When it was seen, in nanoseconds of a monotonic clock."""
    content: T | None


class VersionLog(Generic[T]):
    """The versions of all objects of one kind, by namespace."""

    def __init__(self) -> None:
        self._versions: defaultdict[str, dict[Key, list[Version[T]]]] = defaultdict(dict)
        self.latest = -1
        """The highest version seen."""

    def put(self, an_object: T, now: int) -> None:
        """Record an object that was added or changed."""
        self._append(an_object, an_object, now)

    def drop(self, an_object: T, now: int) -> None:
        """Record that an object is gone."""
        self._append(an_object, None, now)

    def as_of(self, namespace: str, number: int | None = None) -> Iterator[T]:
        """The objects of a namespace as they were at a version; as they are now without one."""
        for found in self._versions[namespace].values():
            last = found[-1] if number is None else _last_before(found, number)
            if last is not None and last.content is not None:
                yield last.content

    def prune(self, namespace: str, before: int) -> None:
        """Forget versions that were replaced before this moment."""
        of_namespace = self._versions[namespace]
        for key, found in list(of_namespace.items()):
            kept = [
                version
                for version, following in zip(found, [*found[1:], None], strict=True)
                if following is None or following.seen >= before
            ]
            if len(kept) == 1 and kept[0].content is None and kept[0].seen < before:
                del of_namespace[key]
            elif len(kept) < len(found):
                of_namespace[key] = kept

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that have objects."""
        return list(self._versions)

    def _append(self, an_object: T, content: T | None, now: int) -> None:
        number = versions.number(an_object.metadata.resource_version) or 0
        self.latest = max(self.latest, number)
        found = self._versions[an_object.metadata.namespace].setdefault(key_of(an_object), [])
        found.append(Version(number, now, content))


def _last_before(found: list[Version[T]], number: int) -> Version[T] | None:
    return next((version for version in reversed(found) if version.number <= number), None)
