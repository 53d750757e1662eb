"""Revisions of a Deployment: how they are count_status, what ReplicaSets say of them, and which are expired. Pure.

The new ReplicaSet's revision is one more than the highest of the old ones, and the Deployment carries the same number.
Going back to an earlier template makes its ReplicaSet the new one again, under a new number; the numbers that it had
are kept as its history. `kubectl rollout history` and `undo` read these annotations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cmp_to_key

from trimtab.api.apps import Deployment, ReplicaSet
from trimtab_lab.workloads.deployment.replicasets import Limits, age_key

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    }
)
"""A Deployment's annotations that its ReplicaSets do not get."""
KEEP_ALL = 2**31 - 1
"""A history limit, or a deadline, that stands for none."""

_LONGEST_HISTORY = 2000
_WHOLE = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_INT64 = range(-(2**63), 2**63)
_INT32 = range(2**31)


def revision_of(replicaset: ReplicaSet) -> int | None:
    """The revision that a ReplicaSet was last; 0 where it never was one, None where what it says is no number."""
    text = replicaset.metadata.annotations.get(REVISION)
    return 0 if text is None else _int64(text)


def next_revision(old: Iterable[ReplicaSet]) -> int:
    """The revision that the new ReplicaSet has beside these old ones."""
    return max((0, *(revision_of(each) or 0 for each in old))) + 1


def annotated_number(replicaset: ReplicaSet, name: str) -> int | None:
    """A number of pods that an annotation tells."""
    text = replicaset.metadata.annotations.get(name, "")
    number = int(text) if _UNSIGNED.fullmatch(text) and len(text) <= 20 else -1
    return number if number in _INT32 else None


def size_annotations(limits: Limits) -> dict[str, str]:
    """What every ReplicaSet that is resized says about its Deployment."""
    return {DESIRED_REPLICAS: str(limits.desired), MAX_REPLICAS: str(limits.max_pods)}


def new_annotations(deployment: Deployment, has: Mapping[str, str], revision: int) -> dict[str, str]:
    """The annotations that the new ReplicaSet, which has some, is to get: its Deployment's, and its revision.

    One that was the new ReplicaSet before keeps the number it had as history. A revision that somebody else has written
    and that is no number stays as it is.
    """
    given = deployment.metadata.annotations
    made = {name: value for name, value in given.items() if name not in NOT_COPIED and has.get(name) != value}
    before = has.get(REVISION, "")
    number = _int64(before) if before else 0
    if number is not None and number < revision:
        made[REVISION] = str(revision)
        if REVISION in has:
            made |= _longer_history(has.get(HISTORY, ""), before)
    return made


def _longer_history(history: str, revision: str) -> dict[str, str]:
    """A history with one revision more; the first ones are dropped where it grows too long."""
    if not history or history.startswith(","):
        return {HISTORY: revision}
    parts = [*history.split(","), revision]
    while len(",".join(parts)) > _LONGEST_HISTORY and len(parts) > 1:
        del parts[0]
    text = ",".join(parts)
    return {HISTORY: text} if len(text) <= _LONGEST_HISTORY else {}


def expired(deployment: Deployment, old: Iterable[ReplicaSet]) -> tuple[ReplicaSet, ...]:
    """The old ReplicaSets beyond the history limit, lowest revisions first; those that may still have pods are kept."""
    limit = deployment.spec.revision_history_limit
    if limit is None or limit == KEEP_ALL:
        return ()
    staying = [each for each in old if each.metadata.deletion_timestamp is None]
    ordered = sorted(staying, key=cmp_to_key(_by_revision))
    return tuple(each for each in ordered[: max(0, len(ordered) - limit)] if _is_empty(each))


def _is_empty(replicaset: ReplicaSet) -> bool:
    status = replicaset.status
    observed = replicaset.metadata.generation <= status.observed_generation
    return observed and replicaset.desired_replicas == 0 and status.replicas == 0


def _by_revision(one: ReplicaSet, other: ReplicaSet) -> int:
    """Revisions that cannot be compared say nothing; age decides then."""
    first, second = revision_of(one), revision_of(other)
    if first is None or second is None or first == second:
        return -1 if age_key(one) < age_key(other) else 1
    return -1 if first < second else 1


def _int64(text: str) -> int | None:
    number = int(text) if _WHOLE.fullmatch(text) and len(text) <= 20 else None
    return number if number is not None and number in _INT64 else None
