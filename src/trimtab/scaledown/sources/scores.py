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
from trimtab.ranking.strategies.view import UNRANKED, FloatColumn
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn
from trimtab.snapshot.pods import NOWHERE

BEST = 100.0
_STEP = BEST + 1
"""The distance between classes: more than two nodes of one class can differ."""

ProfileOf = Callable[[str], Profile | None]
"""The profile of the scheduler of this name; None where it is not known."""

_template = attrgetter("containers", "affinity", "tolerations", "topology_spread_constraints", "node_selector")


class NodeScores:
    """Scores groups of pods from 0 to 100; a pod that cannot be evaluated, or has no node, gets none (NaN)."""

    def __init__(self, profile_of: ProfileOf) -> None:
        self._profile_of = profile_of

    def __call__(self, snapshot: Snapshot, rows: IntColumn) -> FloatColumn:
        """The scores of these pods."""
        nodes = snapshot.pods.node[rows]
        crowding: list[IntColumn] = []
        scores = np.full(len(rows), UNRANKED)
        for pod, members in _templates(snapshot, rows):
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
    found, classes = np.unique(np.stack(crowding, axis=1), axis=0, return_inverse=True)
    better = len(found) - 1 - classes.reshape(-1)
    return BEST * (_STEP * better + scores) / (_STEP * len(found) - 1)


def _templates(snapshot: Snapshot, rows: IntColumn) -> Iterable[tuple[Pod, IntColumn]]:
    """The pods that have a node, those of one template together: one of them, and the positions of all."""
    pods = snapshot.pods
    placed = np.flatnonzero((pods.node[rows] != NOWHERE) & snapshot.nodes.known[pods.node[rows]])
    chosen = rows[placed]
    common: dict[int, Hashable] = {}
    found: dict[Hashable, tuple[Pod, list[int]]] = {}
    for at, row, labels in zip(placed.tolist(), chosen.tolist(), pods.label_set[chosen].tolist(), strict=True):
        pod = pods.objects[row]
        if pod is not None:
            if labels not in common:
                common[labels] = _common_labels(pod)
            key = (common[labels], pod.spec.scheduler_name, *map(id, _template(pod.spec)))
            found.setdefault(key, (pod, []))[1].append(at)
    return ((pod, np.array(members, dtype=np.int64)) for pod, members in found.values())


def _common_labels(pod: Pod) -> Hashable:
    """The labels that pods of one template have in common."""
    return tuple(sorted((name, value) for name, value in pod.metadata.labels.items() if name != INSTANCE_ID))
