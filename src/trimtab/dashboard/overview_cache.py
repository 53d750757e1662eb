"""Overviews and deletion orders of workloads, computed again only after a change.

A change of a pod makes its workload stale, a change of a node every workload. Stale ones are computed some at a time:
so many rows a tick keep the page current within a moment, and the process responsive while everything changes at once.
Pods of another workload can count for a constraint, too: so the rows that are oldest are computed again in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.core import Namespace
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.dashboard.rows import Places, places, workload_key
from trimtab.inspection.cluster import Cluster, Workload
from trimtab.inspection.overviews import WorkloadOverview, workload_overview
from trimtab.inspection.ranks import rank_workload
from trimtab.inspection.settings import Settings

AT_ONCE = 200
"""How many overviews are computed in one tick."""
RANKED_AT_ONCE = 1000
"""How many pods are ranked in one tick, beside those of chosen workloads."""
RANKED_AGAIN = 20
"""After how many ticks a chosen workload with more pods than that is ranked again."""
IN_TURN = 4
"""How many overviews are computed again in each tick, stale or not."""

Find = Callable[[str, str], ReplicaSet | None]
"""Finds a ReplicaSet by namespace and name."""


class StaleWorkloads:
    """Which workloads have changed since they were last looked at."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self.keys: dict[str, None] = {}
        self.everything = True

    def note(self, old: Any, new: Any) -> bool:
        """Take a change into account; false for one that no page shows."""
        an_object = old if new is None else new
        if isinstance(an_object, Node):
            if old is not None and new is not None and _shown(old) == _shown(new):
                return False
            self.everything = True
        elif isinstance(an_object, ScaleDownPolicy | Namespace | UnitedTopology):
            self.everything = True
        else:
            self.keys.update(dict.fromkeys(self._touched(an_object)))
        return True

    def take(self) -> tuple[bool, list[str]]:
        """Whether everything is stale, and which workloads are; from now on, none is."""
        found = self.everything, list(self.keys)
        self.everything, self.keys = False, {}
        return found

    def _touched(self, an_object: Any) -> Iterable[str]:
        owner, namespace = an_object.metadata.controller, an_object.metadata.namespace
        if not isinstance(an_object, Pod):
            yield workload_key(an_object)
        if owner is None:
            return
        yield f"{namespace}/{owner.kind}/{owner.name}"
        if isinstance(an_object, Pod) and owner.kind == "ReplicaSet":
            found = self._find(namespace, owner.name)
            above = None if found is None else found.metadata.controller
            if above is not None:
                yield f"{namespace}/{above.kind}/{above.name}"


def _shown(node: Node) -> object:
    """What pages and decisions look at; a heartbeat changes none of it."""
    return node.metadata.labels, node.spec, node.ready, node.status.allocatable


class OverviewCache:
    """The overviews of all workloads, and the orders of those whose pods are shown."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.overviews: dict[str, WorkloadOverview] = {}
        self._places: dict[str, Places] = {}
        self._pending: dict[str, None] = {}
        self._unranked: dict[str, None] = {}
        self._ranked_at: dict[str, int] = {}
        self._tick = 0

    @property
    def is_behind(self) -> bool:
        """Whether some workloads are still to be computed."""
        return bool(self._pending)

    def update(self, cluster: Cluster, everything: bool, keys: Iterable[str]) -> None:
        """Compute stale overviews again, as many as fit into a tick."""
        self._tick += 1
        present = {workload_key(each): each for each in cluster.workloads()}
        for key in [key for key in self.overviews if key not in present]:
            del self.overviews[key]
            self._places.pop(key, None)
            self._ranked_at.pop(key, None)
        stale = dict.fromkeys(present) if everything else dict.fromkeys(keys)
        self._unranked.update(stale)
        self._pending = {**{key: None for key in present if key not in self.overviews}, **self._pending, **stale}
        oldest = list(self.overviews)[:IN_TURN]
        for key in [*list(self._pending)[:AT_ONCE], *oldest]:
            self._pending.pop(key, None)
            if key in present:
                self.overviews.pop(key, None)  # so that the newest are last
                self.overviews[key] = workload_overview(cluster, present[key], self._settings)

    def places_of(self, cluster: Cluster, workloads: Iterable[Workload], *, limited: bool) -> dict[str, Places]:
        """The deletion orders of some workloads; of stale ones only as many as fit into a tick, if limited."""
        found: dict[str, Places] = {}
        left = RANKED_AT_ONCE
        for each in workloads:
            key = workload_key(each)
            if key in self._unranked or key not in self._places:
                size = self.overviews[key].pods if key in self.overviews else 0
                if (limited and size > left) or not self._is_due(key, size):
                    self._unranked[key] = None
                    found[key] = self._places.get(key, {})
                    continue
                left -= size
                self._rank(cluster, each, key)
            found[key] = self._places[key]
        return found

    def _is_due(self, key: str, size: int) -> bool:
        """Whether a workload may be ranked again: one with very many pods only now and then."""
        at = self._ranked_at.get(key)
        return size <= RANKED_AT_ONCE or at is None or self._tick - at >= RANKED_AGAIN

    def _rank(self, cluster: Cluster, workload: Workload, key: str) -> None:
        self._unranked.pop(key, None)
        self._ranked_at[key] = self._tick
        self._places[key] = _ranked(cluster, workload, self._settings)


def _ranked(cluster: Cluster, workload: Workload, settings: Settings) -> Places:
    """The order in which a workload's pods are deleted; empty for one without pods."""
    try:
        return places(rank_workload(cluster, workload, settings))
    except InvalidError:
        return {}


def owner_key(cluster: Cluster, pod: Pod) -> str:
    """The workload (`namespace/Kind/name`) that a pod belongs to: of a Deployment's pod, the Deployment."""
    owner, namespace = pod.metadata.controller, pod.metadata.namespace
    if owner is None:
        return ""
    if owner.kind == "ReplicaSet":
        found = cluster.find(ReplicaSet, namespace, owner.name)
        above = None if found is None else found.metadata.controller
        kind = None if above is None else cluster.owners.find(above) or Deployment
        if above is not None and kind is not None and cluster.find(kind, namespace, above.name) is not None:
            return f"{namespace}/{above.kind}/{above.name}"
    return f"{namespace}/{owner.kind}/{owner.name}"
