"""What a caller may see of a cluster: the kinds that it may list, in all namespaces or in some.

A cluster that is cut down to someone's rights is the cluster that `trimtab plan` would read with these rights: what is
missing is a gap, which says what is shown without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.workloads import ReplicaSetOwners
from trimtab.inspection.cluster import INFO, KINDS, Cluster, Gap, KindInfo
from trimtab.snapshot import Snapshot

T = TypeVar("T")

_REASON = "you may not list them"


@dataclass(frozen=True, slots=True)
class Rights:
    """The kinds that a caller may list, by plural."""

    everything: bool = False
    cluster: frozenset[str] = frozenset()
    """In the whole cluster."""
    namespaced: frozenset[tuple[str, str]] = frozenset()
    """In one namespace each: plural and namespace."""

    def allows(self, plural: str, namespace: str = "") -> bool:
        """Whether objects of a kind in a namespace may be seen."""
        return self.everything or plural in self.cluster or (plural, namespace) in self.namespaced


EVERYTHING = Rights(everything=True)


@dataclass(frozen=True, eq=False)
class VisibleCluster(Cluster):
    """The part of another cluster that may be seen, filtered when it is asked for."""

    whole: Cluster = field(default_factory=lambda: Cluster(0))
    rights: Rights = EVERYTHING
    kept: Snapshot | None = None
    """A snapshot of the part that is kept current; without one it is put together."""

    @cached_property
    def snapshot(self) -> Snapshot:
        """The view that decisions scan."""
        return super().snapshot if self.kept is None else self.kept

    def all(self, kind: type[T]) -> Sequence[T]:
        """All objects of a kind that may be seen."""
        return self._seen(kind, self.whole.all(kind))

    def find(self, kind: type[T], namespace: str, name: str) -> T | None:
        """An object by its name."""
        found = self.whole.find(kind, namespace, name)
        return found if found is not None and self._seen(kind, [found]) else None

    def pods_of(self, uid: str) -> list[Pod]:
        """The pods that a controller owns."""
        return list(self._seen(Pod, self.whole.pods_of(uid)))

    def grouped_pods(self, uid: str) -> list[Pod]:
        """The pods of a controller that belong to a scheduling group."""
        return list(self._seen(Pod, self.whole.grouped_pods(uid)))

    def costs_naming(self, kind: str, namespace: str, name: str) -> list[PodGroupCost]:
        """The PodGroupCosts that name this owner."""
        return list(self._seen(PodGroupCost, self.whole.costs_naming(kind, namespace, name)))

    @cached_property
    def owners(self) -> ReplicaSetOwners:
        """The kinds that own ReplicaSets."""
        return self.whole.owners

    def sets_owned_by(self, uid: str) -> list[ReplicaSet]:
        """The ReplicaSets of a workload, by its UID."""
        return list(self._seen(ReplicaSet, self.whole.sets_owned_by(uid)))

    def orphans_in(self, namespace: str) -> list[Pod]:
        """The pods of a namespace that have no controller."""
        return list(self._seen(Pod, self.whole.orphans_in(namespace)))

    def policies_in(self, namespace: str) -> list[ScaleDownPolicy]:
        """The policies of a namespace."""
        return list(self._seen(ScaleDownPolicy, self.whole.policies_in(namespace)))

    def _seen(self, kind: type[Any], objects: Sequence[T]) -> Sequence[T]:
        info = INFO.get(kind)
        if info is None:
            return ()
        if info.plural in self.rights.cluster:
            return objects
        return [each for each in objects if self.rights.allows(info.plural, each.metadata.namespace)]  # type: ignore[attr-defined]


def visible(cluster: Cluster, rights: Rights, kept: Snapshot | None = None) -> Cluster:
    """The part of a cluster that may be seen."""
    if rights.everything:
        return cluster
    gaps = tuple(_gap(info, rights) for info in KINDS if info.plural not in rights.cluster)
    return VisibleCluster(
        time=cluster.time,
        gaps=(*cluster.gaps, *gaps),
        origin=cluster.origin,
        namespace=cluster.namespace,
        whole=cluster,
        rights=rights,
        kept=kept,
    )


def _gap(info: KindInfo, rights: Rights) -> Gap:
    namespaces = sorted(namespace for plural, namespace in rights.namespaced if plural == info.plural)
    if not namespaces:
        return Gap(resource=info.plural, scope="cluster", reason=_REASON, effect=info.without)
    effect = f"only those of {', '.join(namespaces)} are considered"
    return Gap(resource=info.plural, scope="other namespaces", reason=_REASON, effect=effect)
