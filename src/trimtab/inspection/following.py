"""A cluster that is followed by list and watch: the values that `reading` gives, kept current.

One set of caches serves everything that looks at the cluster. Decisions scan the followed snapshot between events,
as a process of an installation does; nothing is read again, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.workloads import CustomWorkload, ReplicaSetOwners
from trimtab.inspection.cluster import Cluster, Gap, info_of
from trimtab.kube.caches import Cache, Caches
from trimtab.kube.client import Client
from trimtab.kube.components import run_together
from trimtab.kube.resources import object_key
from trimtab.kube.stores import IndexFunction, Store, by_controller, by_namespace, orphans
from trimtab.scaledown.view import GROUPED, grouped
from trimtab.snapshot import MIRRORED, Snapshot

T = TypeVar("T")
Change = Callable[[Any, Any], None]
"""Called with an object before and after a change; None where there was none, or is none any more."""

_BY_CONTROLLER = "controller"
_BY_NAMESPACE = "namespace"
_ORPHANS = "orphans"
_SYNC = 0.05


@dataclass(frozen=True, eq=False)
class LiveCluster(Cluster):
    """The followed cluster at this moment. Its values change with the next event: use it before the next `await`."""

    stores: Mapping[type[Any], Store[Any]] = field(default_factory=dict)
    followed: Snapshot = field(default_factory=Snapshot)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The view that decisions scan."""
        return self.followed

    def all(self, kind: type[T]) -> Sequence[T]:
        """All objects of a kind."""
        store = self.stores.get(kind)
        return () if store is None else list(store)

    def find(self, kind: type[T], namespace: str, name: str) -> T | None:
        """An object by its name."""
        store = self.stores.get(kind)
        found: T | None = None if store is None else store.get(object_key(namespace, name))
        return found

    def pods_of(self, uid: str) -> list[Pod]:
        """The pods that a controller owns."""
        return self._by(Pod, _BY_CONTROLLER, uid)

    def grouped_pods(self, uid: str) -> list[Pod]:
        """The pods of a controller that belong to a scheduling group."""
        return self._by(Pod, GROUPED, uid)

    @cached_property
    def owners(self) -> ReplicaSetOwners:
        """The kinds that own ReplicaSets: Deployment, and those that a configuration named."""
        return ReplicaSetOwners(tuple(kind for kind in self.stores if issubclass(kind, CustomWorkload)))

    def sets_owned_by(self, uid: str) -> list[ReplicaSet]:
        """The ReplicaSets of a workload, by its UID."""
        return self._by(ReplicaSet, _BY_CONTROLLER, uid)

    def orphans_in(self, namespace: str) -> list[Pod]:
        """The pods of a namespace that have no controller."""
        return self._by(Pod, _ORPHANS, namespace)

    def policies_in(self, namespace: str) -> list[ScaleDownPolicy]:
        """The policies of a namespace."""
        return self._by(ScaleDownPolicy, _BY_NAMESPACE, namespace)

    def _by(self, kind: type[T], index: str, value: str) -> list[T]:
        store = self.stores.get(kind)
        return [] if store is None else store.by(index, value)


class ClusterFollower:
    """Keeps a cluster current while `run` runs."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str = "",
        kinds: Iterable[type[Any]],
        gaps: tuple[Gap, ...] = (),
        origin: str = "",
        default_namespace: str = "default",
        caches: Caches[Snapshot] | None = None,
    ) -> None:
        """`namespace` is the only one to follow, if not all are; `caches` are those of a process that follows all."""
        self.client = client
        self.gaps = gaps
        self._origin = origin
        self._default_namespace = default_namespace
        caches = caches or Caches(client, Snapshot(), MIRRORED, namespace=namespace)
        self.snapshot = caches.snapshot
        """The snapshot that the caches keep current."""
        self.caches: dict[type[Any], Cache[Any]] = {kind: caches.open(kind, _indexes(kind)) for kind in kinds}

    async def run(self) -> None:
        """Follow until cancelled."""
        await run_together(each.run() for each in self.caches.values())

    async def wait_known(self) -> None:
        """Wait until the first lists are complete; kinds that are absent or fail are not waited for."""
        while not self.synced:
            await self.client.clock.sleep(_SYNC)

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed, is not installed, or cannot be listed now."""
        return all(each.is_known or each.problem for each in self.caches.values())

    @property
    def problems(self) -> list[str]:
        """Why what is shown may be out of date; a kind that is not installed is no problem."""
        return [f"{each.resource.plural}: {each.problem}" for each in self.caches.values() if _is_failing(each)]

    def now(self) -> LiveCluster:
        """The cluster at this moment."""
        return LiveCluster(
            time=self.client.server_time.now(),
            gaps=self.gaps,
            origin=self._origin,
            namespace=self._default_namespace,
            stores={kind: cache.store for kind, cache in self.caches.items()},
            followed=self.snapshot,
        )

    def subscribe(self, change: Change) -> None:
        """Call a function for every change of any kind; objects that are known already come first."""
        for cache in self.caches.values():
            cache.subscribe(
                added=lambda new: change(None, new),
                updated=change,
                deleted=lambda old: change(old, None),
            )


def _indexes(kind: type[Any]) -> Mapping[str, IndexFunction[Any]]:
    indexes: dict[str, IndexFunction[Any]] = {}
    if kind in (Pod, ReplicaSet):
        indexes[_BY_CONTROLLER] = by_controller
    if kind is Pod:
        indexes[_ORPHANS] = orphans
        indexes[GROUPED] = grouped
    if kind is ScaleDownPolicy:
        indexes[_BY_NAMESPACE] = by_namespace
    return indexes


def _is_failing(cache: Cache[Any]) -> bool:
    return bool(cache.problem) and not (cache.absent and info_of(cache.resource.model).is_optional)
