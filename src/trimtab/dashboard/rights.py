"""What a caller may see of a cluster: the kinds that it may list, in all namespaces or in some.

A cluster that is cut down to someone's rights is the cluster that `trimtab plan` would read with these rights: what is
missing is a gap, which says what is shown without it.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.inspection.cluster import KINDS, Cluster, Gap, KindInfo

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


def visible(cluster: Cluster, rights: Rights) -> Cluster:
    """The part of a cluster that may be seen."""
    if rights.everything:
        return cluster
    objects = {
        info.model: [each for each in cluster.all(info.model) if rights.allows(info.plural, each.metadata.namespace)]
        for info in KINDS
    }
    gaps = tuple(_gap(info, rights) for info in KINDS if info.plural not in rights.cluster)
    return Cluster(
        time=cluster.time,
        objects=objects,
        gaps=(*cluster.gaps, *gaps),
        origin=cluster.origin,
        namespace=cluster.namespace,
    )


def _gap(info: KindInfo, rights: Rights) -> Gap:
    namespaces = sorted(namespace for plural, namespace in rights.namespaced if plural == info.plural)
    if not namespaces:
        return Gap(resource=info.plural, scope="cluster", reason=_REASON, effect=info.without)
    effect = f"only those of {', '.join(namespaces)} are considered"
    return Gap(resource=info.plural, scope="other namespaces", reason=_REASON, effect=effect)
