"""How a CloneSet's controller chooses, as far as that differs from a ReplicaSet's. Pure.

1. Pods that are named for deletion, in `scaleStrategy.podsToDelete` or by a label, are deleted before all others: a
   plan counts them as gone.
2. Of pods of two revisions the older are deleted first, as far as the rollout's own rules allow. Such a CloneSet is
   left to its rollout.
3. Pods that are ready but not available yet go before those that are.
4. Instead of crowded nodes it compares ranks, by the constraints that the template states or else by the defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trimtab.api.cloneset import REVISION_HASH, SPECIFIED_DELETE, CloneSet
from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND
from trimtab.ranking.defaulted import admitted_constraints
from trimtab.ranking.plan import Workload as RankedWorkload
from trimtab.ranking.rankers import Constraint, constraints_of
from trimtab.scaledown.constraints import template_constraints
from trimtab.scaledown.view import Workload


def is_named(workload: Workload | None, pod: Pod) -> bool:
    """Whether a pod is named for deletion: the label is enough, whatever its value."""
    if not isinstance(workload, CloneSet):
        return False
    return SPECIFIED_DELETE in pod.metadata.labels or pod.metadata.name in workload.spec.scale_strategy.pods_to_delete


def ranked(
    cloneset: CloneSet, workload: RankedWorkload, defaults: Sequence[Constraint], pods: Iterable[Pod] = ()
) -> RankedWorkload:
    """A CloneSet's pods as its controller ranks them; `defaults` are for templates that state no constraints."""
    stated = constraints_of(template_constraints(cloneset.spec.template), admitted_constraints(pods))
    min_ready = cloneset.spec.min_ready_seconds * SECOND
    return replace(workload, kind="CloneSet", min_ready=min_ready, ranked_by=stated or tuple(defaults))


def revision(pod: Pod) -> str:
    """The hash of a pod's revision: its label has the revision's name, or, where that is too long, the hash alone."""
    return pod.metadata.labels.get(REVISION_HASH, "").rpartition("-")[2]


def is_rolling(workload: Workload, pods: Iterable[Pod]) -> bool:
    """Whether a CloneSet has pods of several revisions, not counting those that are named for deletion."""
    staying = (pod for pod in pods if pod.active and not is_named(workload, pod))
    return isinstance(workload, CloneSet) and len(set(map(revision, staying))) > 1
