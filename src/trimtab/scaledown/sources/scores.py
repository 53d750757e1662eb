"""How well the pods of a group are placed, by the profile of their own scheduler: for `Scheduled`.

Pods are first divided into classes by how crowded their domains are under the constraints that the profile enforces,
and inside a class compared by their nodes' scores (`placement.standing`). So the pod with the lowest score is one of
the fullest domain: removing it, and scoring the others again, leaves no constraint less level than the controller
alone may leave it.

    score = 100 · (101 · classes that are more crowded + score of the node) / (101 · classes − 1)

Nothing is sampled: each plan scores the pods as things are in its snapshot, and again after each removal. Pods of one
template are evaluated together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter

import numpy as np

from trimtab.api.cloneset import INSTANCE_ID
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.placement.profiles import DEFAULT_SCHEDULER, Profile
from trimtab.placement.standing import Standing, standing
from trimtab.placement.support import unsupported
from trimtab.ranking.keys import packed
from trimtab.ranking.strategies.view import UNRANKED, FloatColumn
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn
from trimtab.snapshot.pods import NOWHERE

BEST = 100.0
_STEP = BEST + 1
"""The distance between classes: more than two nodes of one class can differ."""

ProfileOf = Callable[[str], Profile | None]
"""The profile of the scheduler of this name; None where it is not known."""

_parts = attrgetter("containers", "affinity", "tolerations", "topology_spread_constraints", "node_selector")


class NodeScores:
    """Scores groups of pods from 0 to 100; a pod that cannot be evaluated, or has no node, gets none (NaN).

    Made for one plan: it remembers which template each pod is of.
    """

    def __init__(self, profile_of: ProfileOf) -> None:
        self._profile_of = profile_of
        self._templates: dict[Hashable, int] = {}
        self._seen: dict[int, int] = {}
        """The templates of pods by the identity of the object."""
        self._kept: list[Pod] = []
        """These pods: while they are kept, no other object gets their identity."""

    def __call__(self, snapshot: Snapshot, rows: IntColumn) -> FloatColumn:
        """The scores of these pods."""
        nodes = snapshot.pods.node[rows].astype(np.int64)
        crowding: list[IntColumn] = []
        scores = np.full(len(rows), UNRANKED)
        for pod, members in self._by_template(snapshot, rows):
            found = self._standing(pod, snapshot, nodes[members])
            if found is not None:
                scores[members] = found.scores[nodes[members]]
                for at, column in enumerate(found.crowding):
                    if at == len(crowding):
                        crowding.append(np.zeros(len(rows), dtype=np.int64))
                    crowding[at][members] = column[nodes[members]]
        return in_classes(crowding, scores)

    def problem(self, pods: Iterable[Pod]) -> str:
        """Why one of these pods has no score, as far as that is known."""
        for pod in pods:
            if not pod.spec.node_name:
                continue
            name = scheduler_of(pod)
            if self._profile_of(name) is None:
                return f'{pod.key} is placed by the scheduler "{name}", of which the configuration has no profile'
            need = unsupported(pod)
            if need is not None:
                return f"{pod.key} cannot be scored: {need}"
        return ""

    def _by_template(self, snapshot: Snapshot, rows: IntColumn) -> Iterable[tuple[Pod, IntColumn]]:
        """The pods that have a node, those of one template together: one of them, and the positions of all."""
        nodes = snapshot.pods.node[rows]
        placed = np.flatnonzero(nodes != NOWHERE)
        placed = placed[snapshot.nodes.known[nodes[placed]]]
        pods = [pod for pod in map(snapshot.pods.objects.__getitem__, rows[placed].tolist()) if pod is not None]
        seen = self._seen
        known = [seen.get(id(pod), -1) for pod in pods]
        if -1 in known:
            known = [self._see(pod) for pod in pods]
        templates = np.array(known, dtype=np.int64)
        for template in set(known):
            members = np.flatnonzero(templates == template)
            yield pods[int(members[0])], placed[members]

    def _see(self, pod: Pod) -> int:
        owner = pod.metadata.controller
        parts = map(id, _parts(pod.spec))  # equal parts of pods in a snapshot are one object
        key = (_common_labels(pod), "" if owner is None else owner.uid, pod.spec.scheduler_name, *parts)
        self._kept.append(pod)
        template = self._seen[id(pod)] = self._templates.setdefault(key, len(self._templates))
        return template

    def _standing(self, pod: Pod, snapshot: Snapshot, nodes: IntColumn) -> Standing | None:
        profile = self._profile_of(scheduler_of(pod))
        if profile is None:
            return None
        asked = np.zeros(len(snapshot.nodes), dtype=np.bool_)
        asked[nodes] = True
        try:
            return standing(pod, snapshot, profile, asked)
        except InvalidError:
            return None


def scheduler_of(pod: Pod) -> str:
    """The scheduler that places a pod."""
    return pod.spec.scheduler_name or DEFAULT_SCHEDULER


def in_classes(crowding: Sequence[IntColumn], scores: FloatColumn) -> FloatColumn:
    """Scores that compare crowding first, the first constraint before the others, and then the scores themselves."""
    if not crowding or not len(scores):
        return scores
    found, classes = np.unique(packed(crowding).keys, return_inverse=True)
    better = len(found) - 1 - classes
    return BEST * (_STEP * better + scores) / (_STEP * len(found) - 1)


def _common_labels(pod: Pod) -> Hashable:
    """The labels that pods of one template have in common."""
    return tuple(sorted((name, value) for name, value in pod.metadata.labels.items() if name != INSTANCE_ID))
