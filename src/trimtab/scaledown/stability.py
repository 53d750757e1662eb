"""Whether the pods of a workload are at rest, so that its controller's criteria other than costs can be relied on.

They are not while something else is about to change them: a spec that its controller has not observed yet, a rollout, a
ReplicaSet with more or fewer pods than its size, a pod that is not ready and may become ready, an orphan that the
controller may adopt.
"""

from __future__ import annotations

from typing import Protocol

from trimtab.api import selectors
from trimtab.api.apps import ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.pods import Pod
from trimtab.api.workloads import ReplicaSetOwner
from trimtab.scaledown import clonesets
from trimtab.scaledown.view import Workload


class View(Protocol):
    """The pods of workloads: a view that events keep current, or a cluster as it was at one moment."""

    def pods_of(self, uid: str) -> list[Pod]:
        """The pods that a controller owns."""

    def sets_of(self, owner: ReplicaSetOwner) -> list[ReplicaSet]:
        """The ReplicaSets of a Deployment, or of another workload that owns some."""

    def orphans_in(self, namespace: str) -> list[Pod]:
        """The pods of a namespace that have no controller."""


def is_stable(view: View, workload: Workload) -> bool:
    """Whether nothing but the scale-down itself is changing the pods of a workload."""
    if workload.status.observed_generation < workload.metadata.generation:
        return False
    return _is_at_rest(view, workload) and not _has_orphans(view, workload)


def is_rolling_out(view: View, workload: Workload) -> bool:
    """Whether a workload has pods of several ReplicaSets, or a CloneSet pods of several revisions."""
    if isinstance(workload, ReplicaSetOwner):
        return len(_controllers(view, workload)) > 1
    return clonesets.is_rolling(workload, view.pods_of(workload.metadata.uid))


def _is_at_rest(view: View, workload: Workload) -> bool:
    if isinstance(workload, CloneSet) and not workload.spec.update_strategy.paused and is_rolling_out(view, workload):
        return False
    controllers = _controllers(view, workload)
    return len(controllers) == 1 and all(
        _active(view, each.metadata.uid) == each.desired_replicas for each in controllers
    )


def _controllers(view: View, workload: Workload) -> list[Workload]:
    """The controllers of a workload's pods: of one that owns ReplicaSets, those that have or want any."""
    if not isinstance(workload, ReplicaSetOwner):
        return [workload]
    sets = view.sets_of(workload)
    return [each for each in sets if each.desired_replicas or _active(view, each.metadata.uid)]


def _active(view: View, uid: str) -> int:
    return sum(pod.active for pod in view.pods_of(uid))


def _has_orphans(view: View, workload: Workload) -> bool:
    """Whether an active pod without a controller matches the workload's selector."""
    orphans = [pod for pod in view.orphans_in(workload.metadata.namespace) if pod.active]
    if not orphans:
        return False
    written = workload.spec.selector
    try:
        selector = selectors.compile(
            written if isinstance(written, LabelSelector) or written is None else LabelSelector(match_labels=written)
        )
    except InvalidError:
        return True
    return any(selector.matches(pod.metadata.labels) for pod in orphans)
