"""How a workload's pods stand, as bands of deletion costs. Pure, but for `Levels`, which looks into a `View`.

| level      | which pods                                                                 | cost     |
|------------|----------------------------------------------------------------------------|----------|
| Guaranteed | of the newest revision, within the maximum of their subset                 | above 0  |
| BestEffort | in a subset without a maximum                                              | none     |
| Redundant  | beyond the maximum of their subset; of an older revision, in one that has a maximum | below 0  |

**Later subsets go before earlier ones**, inside a level.

**Older revisions give way in the reverse order**, earlier subsets first: the newest revision fills the subsets from
the first one on, so that is where the others must make room. Otherwise a rollout into a full subset would end in the
next one, and not where a fresh start would.

**Planned for the size that is aimed at.** Of 9 pods in three thirds, bound for 3, one in each third is Guaranteed and
two are Redundant, so that 3 stay in three thirds. With the sizes of before, all were Guaranteed, and the first third
would stay alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.clocks import SECOND
from trimtab.kube.resources import object_key
from trimtab.ranking.costs import Band, Level
from trimtab.subsets.levels import Standing, standings
from trimtab.subsets.members import Member
from trimtab.unitedtopology import costs
from trimtab.unitedtopology.targets import Target
from trimtab.unitedtopology.verdicts import Verdict
from trimtab.unitedtopology.view import BY_CONTROLLER, View


def bands(topology: UnitedTopology, members: Iterable[Member], *, replicas: int, revision: str) -> dict[str, Band]:
    """The band of each active pod that is in a subset, by its name. `revision` is the newest, `replicas` the size that
    the workload has, or is to have."""
    known = {member.name: member for member in members}
    subsets = topology.spec.subsets
    found = standings(subsets, known.values(), replicas)
    old = {name for name, member in known.items() if revision and member.revision != revision}
    return {name: _band(standing, len(subsets), old=name in old) for name, standing in found.items()}


@functools.lru_cache(maxsize=4096)
def _band(standing: Standing, subsets: int, *, old: bool) -> Band:
    level = Level(standing.level.value)
    if not old or level is Level.BEST_EFFORT:
        return Band(level, standing.subset, subsets)
    return Band(Level.REDUNDANT, subsets - 1 - standing.subset, subsets)


class Levels:
    """How pods stand, for who plans scale-downs or keeps costs current (see `controllers.scaledownpolicy`)."""

    def __init__(self, view: View, *, verdict: Verdict) -> None:
        self._view = view
        self._verdict = verdict

    def __call__(
        self, kind: str, namespace: str, name: str, *, replicas: int | None = None
    ) -> Mapping[str, Band] | None:
        """The bands of a workload's active pods, by `namespace/name`; None if no UnitedTopology divides it.

        `replicas` is the size that is aimed at; without it, the size that costs were written ahead for a moment ago,
        or else the size that the workload has. For a ReplicaSet, it is the Deployment above it that is divided, if one
        is. A pod that is in no subset is in the middle of everything:
        BestEffort. A pod to which somebody else has given a cost is left out: that cost is theirs and stays.
        """
        topology, aimed = self._topology(kind, namespace, name, replicas)
        target = None if topology is None else self._view.target(topology)
        if topology is None or target is None or not self._verdict(topology, self._view).divides:
            return None
        pods = [pod for pod in self._view.pods_of(topology, target) if pod.active]
        size = self._size(target, pods) if aimed is None else aimed
        members = [self._view.member(pod, topology) for pod in pods]
        found = bands(topology, members, replicas=size, revision=target.revision)
        return {
            pod.key: found.get(pod.metadata.name, Band(subsets=len(topology.spec.subsets)))
            for pod in pods
            if not costs.theirs(pod.metadata.annotations)
        }

    def _size(self, target: Target, pods: Iterable[Pod]) -> int:
        now = self._view.now() // SECOND
        aims = [aim for pod in pods if (aim := costs.aim(pod.metadata.annotations)) is not None and aim.until > now]
        return max(aims, key=lambda aim: aim.until).replicas if aims else target.replicas

    def _topology(
        self, kind: str, namespace: str, name: str, replicas: int | None
    ) -> tuple[UnitedTopology | None, int | None]:
        """Who divides the workload, and the size to measure with: of several, whoever was first."""
        found = self._first(kind, namespace, name)
        if found is not None or kind != "ReplicaSet":
            return found, replicas
        replicaset = self._view.sets.get(object_key(namespace, name))
        owner = replicaset.metadata.controller if replicaset is not None else None
        if replicaset is None or owner is None:
            return None, None
        found = self._first(owner.kind, namespace, owner.name)
        return found, replicas if found is not None and self._alone(replicaset) else None

    def _first(self, kind: str, namespace: str, name: str) -> UnitedTopology | None:
        rivals = self._view.topologies_of(kind, namespace, name)
        return next((each for each in rivals if self._verdict(each, self._view).divides), None)

    def _alone(self, replicaset: ReplicaSet) -> bool:
        """Whether a ReplicaSet has all of its Deployment's pods: its size then is the size of the whole."""
        owner = replicaset.metadata.controller
        siblings = self._view.sets.store.by(BY_CONTROLLER, owner.uid) if owner is not None else []
        others = [each for each in siblings if each.metadata.uid != replicaset.metadata.uid]
        return not any(self._view.pods.store.by(BY_CONTROLLER, each.metadata.uid) for each in others)


def size_of(target: Target | None) -> int:
    """What percentages are taken of: nothing, where there is no workload."""
    return 0 if target is None else target.replicas
