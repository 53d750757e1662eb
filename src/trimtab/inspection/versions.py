"""Recent versions of objects, so that a cluster can be put together as it was at a resource version.

A scale-down is seen in one watch and its deletions in another, in any order. But an API server numbers all changes of
its store with one counter, so the versions of a workload and of its pods say what came first. Pods, nodes and workloads
are in that one store on every Kubernetes; only events may be kept in another.

Nothing is put together that is not asked for: to look at one workload costs as much as it has pods, whatever their
namespace has. A snapshot is a copy of the one that is kept current, with what has changed since then undone.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from trimtab.api.apps import ReplicaSet
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.workloads import CustomWorkload, ReplicaSetOwners
from trimtab.inspection.cluster import Cluster, Workload
from trimtab.kube import versions
from trimtab.kube.resources import Key, object_key, split
from trimtab.kube.stores import Object, key_of
from trimtab.snapshot import Snapshot

T = TypeVar("T", bound=Object)
K = TypeVar("K")

_NEVER = -1
"""A version before all others."""


@dataclass(frozen=True, slots=True)
class FormerVersion(Generic[T]):
    """What an object was from one resource version until another; None where it did not exist."""

    number: int
    until: int
    content: T | None


@dataclass(slots=True)
class _Namespace(Generic[T]):
    current: dict[Key, T] = field(default_factory=dict)
    former: dict[Key, list[FormerVersion[T]]] = field(default_factory=dict)
    """Of the objects that have changed lately."""
    owned: defaultdict[str, dict[Key, None]] = field(default_factory=lambda: defaultdict(dict))
    """The keys of objects that a controller has, or had, by its UID; of those without one by the empty string."""


class VersionLog(Generic[T]):
    """The versions of all objects of one kind, by namespace."""

    def __init__(self) -> None:
        self._namespaces: defaultdict[str, _Namespace[T]] = defaultdict(_Namespace)
        self._replaced: deque[tuple[int, str, Key]] = deque()
        """When which object was replaced, for each former version: the first are forgotten first."""
        self.latest = _NEVER
        """The highest version seen."""

    def fill(self, listed: T) -> None:
        """Record an object of the first list; what was there before it is not known."""
        within, key = self._namespaces[listed.metadata.namespace], key_of(listed)
        self.latest = max(self.latest, _number(listed))
        within.current[key] = listed
        within.owned[_owner(listed)][key] = None

    def put(self, new: T, now: int) -> None:
        """Record an object that was added or changed."""
        self._replace(new, now)
        self.fill(new)

    def drop(self, gone: T, now: int) -> None:
        """Record that an object is gone."""
        self._replace(gone, now)
        self._namespaces[gone.metadata.namespace].current.pop(key_of(gone), None)

    def get(self, key: Key, number: int | None = None) -> T | None:
        """An object as it was at a version; as it is now without one."""
        within = self._namespaces[split(key)[0]]
        current = within.current.get(key)
        if number is None or (current is not None and _number(current) <= number):
            return current
        last = next((each for each in reversed(within.former.get(key, ())) if each.number <= number), None)
        return last.content if last is not None and number < last.until else None

    def as_of(self, namespace: str, number: int | None = None) -> Iterator[T]:
        """The objects of a namespace as they were at a version; as they are now without one."""
        within = self._namespaces[namespace]
        return self._found(dict.fromkeys((*within.current, *within.former)), number)

    def owned_by(self, uid: str, namespace: str, number: int | None = None) -> list[T]:
        """The objects of a controller, or without one where the UID is empty, as they were at a version."""
        found = self._found(self._namespaces[namespace].owned.get(uid, {}), number)
        return [each for each in found if _owner(each) == uid]

    def changed_since(self, namespace: str, number: int) -> Iterator[tuple[Key, T | None]]:
        """The keys of objects that were others at a version, with what they were; None where they did not exist."""
        for key, found in self._namespaces[namespace].former.items():
            if found[-1].until > number:
                yield key, self.get(key, number)

    def prune(self, before: int) -> None:
        """Forget versions that were replaced before this moment."""
        while self._replaced and self._replaced[0][0] < before:
            _, namespace, key = self._replaced.popleft()
            self._forget_first(self._namespaces[namespace], key)

    def _forget_first(self, within: _Namespace[T], key: Key) -> None:
        first, *left = within.former.pop(key)
        if left:
            within.former[key] = left
        still = (within.current.get(key), *(each.content for each in left))
        uid = None if first.content is None else _owner(first.content)
        if uid is not None and all(each is None or _owner(each) != uid for each in still):
            del within.owned[uid][key]
            if not within.owned[uid]:
                del within.owned[uid]

    def _replace(self, by: T, now: int) -> None:
        """Record that what there is under a key is replaced, or gone, at the version of this object."""
        within, key, number = self._namespaces[by.metadata.namespace], key_of(by), _number(by)
        self.latest = max(self.latest, number)
        found, current = within.former.setdefault(key, []), within.current.get(key)
        since = _number(current) if current is not None else found[-1].until if found else _NEVER
        found.append(FormerVersion(since, number, current))
        self._replaced.append((now, by.metadata.namespace, key))

    def _found(self, keys: Mapping[Key, None], number: int | None) -> Iterator[T]:
        return (each for each in (self.get(key, number) for key in keys) if each is not None)


@dataclass(frozen=True, eq=False)
class PastCluster(Cluster):
    """A cluster as it was at a version, as far as the scale-downs of one namespace look at it.

    Of the kinds without a log, and of other namespaces, it has what there is now: use it before the next `await`.
    """

    logs: Mapping[type[Any], VersionLog[Any]] = field(default_factory=dict)
    version: int | None = None
    """The version; None for what there is now."""
    workload: Workload | None = None
    """A workload that counts in place of the one that has its name."""
    followed: Snapshot = field(default_factory=Snapshot)
    """The snapshot that is kept current."""

    @cached_property
    def snapshot(self) -> Snapshot:
        """The view that decisions scan."""
        if self.version is None:
            return self.followed
        made = self.followed.copy()
        for key, pod in self.logs[Pod].changed_since(self.namespace, self.version):
            made.drop(Pod, *split(key))
            if pod is not None:
                with suppress(InvalidError):  # the snapshot of the process could not take it either
                    made.put(pod)
        return made

    def all(self, kind: type[K]) -> Sequence[K]:
        """All objects of a kind."""
        log = self.logs.get(kind)
        if log is None:
            return super().all(kind)
        return [self._counting(each) for each in log.as_of(self.namespace, self.version)]

    def find(self, kind: type[K], namespace: str, name: str) -> K | None:
        """An object by its name."""
        log = self.logs.get(kind)
        if log is None:
            return super().find(kind, namespace, name)
        found = log.get(object_key(namespace, name), self.version)
        return None if found is None else self._counting(found)

    def pods_of(self, uid: str) -> list[Pod]:
        """The pods that a controller owns."""
        return self.logs[Pod].owned_by(uid, self.namespace, self.version)

    def grouped_pods(self, uid: str) -> list[Pod]:
        """The pods of a controller that belong to a scheduling group."""
        return [pod for pod in self.pods_of(uid) if pod.spec.scheduling_group is not None]

    def sets_owned_by(self, uid: str) -> list[ReplicaSet]:
        """The ReplicaSets of a workload, by its UID."""
        return [self._counting(each) for each in self.logs[ReplicaSet].owned_by(uid, self.namespace, self.version)]

    def orphans_in(self, namespace: str) -> list[Pod]:
        """The pods of a namespace that have no controller."""
        return self.logs[Pod].owned_by("", namespace, self.version)

    @cached_property
    def owners(self) -> ReplicaSetOwners:
        """The kinds that own ReplicaSets: Deployment, and those that a configuration named."""
        return ReplicaSetOwners(tuple(kind for kind in self.logs if issubclass(kind, CustomWorkload)))

    def _counting(self, found: Any) -> Any:
        """The object, or the one that counts in its place."""
        other = self.workload
        if other is None or type(found) is not type(other) or found.metadata.name != other.metadata.name:
            return found
        return other


def _owner(an_object: Object) -> str:
    owner = an_object.metadata.controller
    return "" if owner is None else owner.uid


def _number(an_object: Object) -> int:
    return versions.number(an_object.metadata.resource_version) or 0
