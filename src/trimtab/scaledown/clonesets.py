"""How a CloneSet's controller chooses, as far as that differs from a ReplicaSet's. Pure.

1. Pods that are named for deletion, in `scaleStrategy.podsToDelete` or by a label, are deleted before all others: a
   plan counts them as gone.
2. Of pods of two revisions the older are deleted first, so costs order pods within their revision. Which revision is
   the newest is in the status; until the controller has observed the spec, and where a partition keeps old pods, the
   CloneSet is left to its rollout. A rollout in progress goes on with the pods that are left.
3. Pods that are ready but not available yet go before those that are.
4. Instead of crowded nodes it compares ranks, by the constraints that the template states, or else by the defaults if
   it is configured to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from trimtab.api.cloneset import REVISION_HASH, SPECIFIED_DELETE, CloneSet
from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND
from trimtab.ranking.defaulted import admitted_constraints
from trimtab.ranking.plan import Workload as RankedWorkload
from trimtab.ranking.rankers import RankSettings, constraints_of
from trimtab.scaledown.constraints import scheduler_name, template_constraints
from trimtab.scaledown.view import Workload


def is_named(workload: Workload | None, pod: Pod) -> bool:
    """Whether a pod is named for deletion: the label is enough, whatever its value."""
    if not isinstance(workload, CloneSet):
        return False
    return SPECIFIED_DELETE in pod.metadata.labels or pod.metadata.name in workload.spec.scale_strategy.pods_to_delete


def ranked(
    cloneset: CloneSet, workload: RankedWorkload, settings: RankSettings, pods: Collection[Pod]
) -> RankedWorkload:
    """A CloneSet's pods as its controller ranks them."""
    stated = constraints_of(template_constraints(cloneset.spec.template) or admitted_constraints(pods))
    newest = newest_revision(cloneset)
    outdated = frozenset(pod.key for pod in pods if revision(pod) != newest)
    return replace(
        workload,
        kind="CloneSet",
        min_ready=cloneset.spec.min_ready_seconds * SECOND,
        ranked_by=stated or settings.defaults(scheduler_name(cloneset.spec.template)),
        scale=settings.scale_for(cloneset.metadata.annotations),
        outdated=outdated if len(outdated) < len(pods) else frozenset(),
    )


def newest_revision(cloneset: CloneSet) -> str:
    """The hash of the newest revision, as far as the controller has reported it."""
    return cloneset.status.update_revision.rpartition("-")[2]


def is_left_to_rollout(workload: Workload, pods: Iterable[Pod]) -> bool:
    """Whether pods are of several revisions, and which of them are deleted first is not known."""
    if not isinstance(workload, CloneSet) or not is_rolling(workload, pods):
        return False
    is_observed = workload.status.observed_generation >= workload.metadata.generation
    keeps_old = workload.spec.update_strategy.partition not in (None, 0, "0%")
    return keeps_old or not is_observed or not newest_revision(workload)


def revision(pod: Pod) -> str:
    """The hash of a pod's revision: its label has the revision's name, or, where that is too long, the hash alone."""
    return pod.metadata.labels.get(REVISION_HASH, "").rpartition("-")[2]


def is_rolling(workload: Workload, pods: Iterable[Pod]) -> bool:
    """Whether a CloneSet has pods of several revisions, not counting those that are named for deletion."""
    staying = (pod for pod in pods if pod.active and not is_named(workload, pod))
    return isinstance(workload, CloneSet) and len(set(map(revision, staying))) > 1
