"""Overviews and deletion orders of workloads, computed again only after a change.

A change of a pod makes its workload stale, a change of a node every workload. Stale ones are computed some at a time:
so many rows a tick keep the page current within a moment, and the process responsive while everything changes at once.
Pods of another workload can count for a constraint, too: so the rows that are oldest are computed again in turn. Ages
decide which pods go, so orders are computed again after a while without any change.

What takes long is a generator, which pauses for other work after every few workloads. In a pause the cluster may
change, and another board may compute the same rows: each step looks at what is now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.core import Namespace
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.dashboard.rows import Places, places, workload_key
from trimtab.inspection.cluster import INFO, Cluster, Workload
from trimtab.inspection.overviews import WorkloadOverview, workload_overview
from trimtab.inspection.ranks import rank_workload
from trimtab.inspection.settings import Settings
from trimtab.kube.clocks import SECOND

AT_ONCE = 200
"""How many overviews are computed in one tick."""
STEP = 5
"""After how many overviews other work goes on: about 10 ms with 5,000 nodes."""
RANKED_AT_ONCE = 1000
"""How many pods are ranked in one tick, beside those of chosen workloads."""
RANKED_AGAIN = 20
"""After how many ticks a chosen workload with more pods than that is ranked again."""
RANK_SECONDS = 10.0
"""After how many seconds pods are ranked again without a change: their ages have changed."""
IN_TURN = 4
"""How many overviews are computed again in each tick, stale or not."""

Find = Callable[[str, str], ReplicaSet | None]
"""Finds a ReplicaSet by namespace and name."""
Now = Callable[[], Cluster]
"""The cluster at this moment."""
_KINDS: Mapping[str, type[Any]] = {model.__name__: model for model in INFO}


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
        self.places: dict[str, Places] = {}
        """The deletion orders of workloads."""
        self._pending: dict[str, None] = {}
        self._unranked: dict[str, None] = {}
        self._ranked_at: dict[str, tuple[int, int]] = {}
        """In which tick and at which time each workload was ranked."""
        self._tick = 0

    @property
    def is_behind(self) -> bool:
        """Whether some workloads are still to be computed."""
        return bool(self._pending)

    def update(self, now: Now, everything: bool, keys: Iterable[str], *, limited: bool = True) -> Iterator[None]:
        """Compute stale overviews again, as many as fit into a tick if limited."""
        self._tick += 1
        cluster = now()
        present = dict.fromkeys(workload_key(each) for each in cluster.workloads())
        self._forget([key for key in self.overviews if key not in present])
        stale = dict.fromkeys(present if everything else keys)
        self._unranked.update(stale)
        missing = dict.fromkeys(key for key in present if key not in self.overviews)
        self._pending = {key: None for key in {**missing, **self._pending, **stale} if key in present}
        oldest = list(self.overviews)[:IN_TURN]
        asked = [*list(self._pending)[: AT_ONCE if limited else None], *oldest]
        for number, key in enumerate(dict.fromkeys(asked), start=1):
            if key in self._pending or key in oldest:
                self._pending.pop(key, None)
                self._compute(cluster, key)
            if number % STEP == 0:
                yield
                cluster = now()
        yield

    def rank(self, now: Now, chosen: str, others: Iterable[str]) -> Iterator[None]:
        """Order the pods of stale workloads: of the chosen one, and of as many others as fit into a tick."""
        cluster, left = now(), RANKED_AT_ONCE
        for key in dict.fromkeys((chosen, *others)):
            if not self._is_outdated(cluster, key):
                continue
            size = self.overviews[key].pods if key in self.overviews else 0
            if (key != chosen and size > left) or not self._is_due(key, size):
                self._unranked[key] = None
                continue
            left -= 0 if key == chosen else size
            self._rank(cluster, key)
            yield
            cluster = now()

    def _forget(self, gone: Iterable[str]) -> None:
        for key in gone:
            del self.overviews[key]
            self.places.pop(key, None)
            self._ranked_at.pop(key, None)

    def _compute(self, cluster: Cluster, key: str) -> None:
        workload = find_workload(cluster, key)
        self.overviews.pop(key, None)  # so that the newest are last
        if workload is not None:
            self.overviews[key] = workload_overview(cluster, workload, self._settings)

    def _is_outdated(self, cluster: Cluster, key: str) -> bool:
        """Whether the order of a workload is not known, or may be another one by now."""
        if key in self._unranked or key not in self.places:
            return True
        return cluster.time - self._ranked_at[key][1] >= RANK_SECONDS * SECOND

    def _is_due(self, key: str, size: int) -> bool:
        """Whether a workload may be ranked again: one with very many pods only now and then."""
        at = self._ranked_at.get(key)
        return size <= RANKED_AT_ONCE or at is None or self._tick - at[0] >= RANKED_AGAIN

    def _rank(self, cluster: Cluster, key: str) -> None:
        workload = find_workload(cluster, key)
        self._unranked.pop(key, None)
        if workload is not None:
            self._ranked_at[key] = self._tick, cluster.time
            self.places[key] = _ranked(cluster, workload, self._settings)


def _ranked(cluster: Cluster, workload: Workload, settings: Settings) -> Places:
    """The order in which a workload's pods are deleted; empty for one without pods."""
    try:
        return places(rank_workload(cluster, workload, settings))
    except InvalidError:
        return {}


def find_workload(cluster: Cluster, key: str) -> Workload | None:
    """The workload of a key (`namespace/Kind/name`); None where there is none."""
    namespace, _, rest = key.partition("/")
    kind, _, name = rest.partition("/")
    model = _KINDS.get(kind) or cluster.owners.by_kind.get(kind)
    found = cluster.find(model, namespace, name) if model is not None and name else None
    return found if isinstance(found, Workload) else None


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
