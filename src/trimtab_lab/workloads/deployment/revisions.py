"""Revisions of a Deployment: their numbers, their annotations on ReplicaSets, and the history limit. Pure.

The new ReplicaSet's revision is one more than the highest of the old ones, and the Deployment has the same number. A
rollback makes the ReplicaSet of an earlier template the new one, with a new number; its earlier numbers are kept as its
history. `kubectl rollout history` and `undo` read these annotations.
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
"""A Deployment's annotations that are not copied to its ReplicaSets."""
KEEP_ALL = 2**31 - 1
"""A history limit or a deadline that means none."""

_LONGEST_HISTORY = 2000
_WHOLE = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_INT64 = range(-(2**63), 2**63)
_INT32 = range(2**31)


def revision_of(replicaset: ReplicaSet) -> int | None:
    """The revision of a ReplicaSet; 0 if it has none, None if the annotation is not a number."""
    text = replicaset.metadata.annotations.get(REVISION)
    return 0 if text is None else _int64(text)


def next_revision(old: Iterable[ReplicaSet]) -> int:
    """The revision of the new ReplicaSet beside these old ones."""
    return max((0, *(revision_of(each) or 0 for each in old))) + 1


def annotated_number(replicaset: ReplicaSet, name: str) -> int | None:
    """A number of pods in an annotation."""
    text = replicaset.metadata.annotations.get(name, "")
    number = int(text) if _UNSIGNED.fullmatch(text) and len(text) <= 20 else -1
    return number if number in _INT32 else None


def size_annotations(limits: Limits) -> dict[str, str]:
    """The annotations of a resized ReplicaSet about its Deployment."""
    return {DESIRED_REPLICAS: str(limits.desired), MAX_REPLICAS: str(limits.max_pods)}


def new_annotations(deployment: Deployment, has: Mapping[str, str], revision: int) -> dict[str, str]:
    """The annotations to write to the new ReplicaSet, source those it has: its Deployment's, and its revision.

    A ReplicaSet that becomes the new one again keeps its earlier number as history. A revision that is not a number
    stays as it is.
    """
    source = deployment.metadata.annotations
    annotations = {name: value for name, value in source.items() if name not in NOT_COPIED and has.get(name) != value}
    before = has.get(REVISION, "")
    number = _int64(before) if before else 0
    if number is not None and number < revision:
        annotations[REVISION] = str(revision)
        if REVISION in has:
            annotations |= _longer_history(has.get(HISTORY, ""), before)
    return annotations


def _longer_history(history: str, revision: str) -> dict[str, str]:
    """A history with one more revision; the first ones are dropped if it grows too long."""
    if not history or history.startswith(","):
        return {HISTORY: revision}
    parts = [*history.split(","), revision]
    while len(",".join(parts)) > _LONGEST_HISTORY and len(parts) > 1:
        del parts[0]
    text = ",".join(parts)
    return {HISTORY: text} if len(text) <= _LONGEST_HISTORY else {}


def expired(deployment: Deployment, old: Iterable[ReplicaSet]) -> tuple[ReplicaSet, ...]:
    """The old ReplicaSets beyond the history limit, lowest revisions first, without those that may have pods."""
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
    """Compare by revision; by age if a revision is missing or equal."""
    first, second = revision_of(one), revision_of(other)
    if first is None or second is None or first == second:
        return -1 if age_key(one) < age_key(other) else 1
    return -1 if first < second else 1


def _int64(text: str) -> int | None:
    number = int(text) if _WHOLE.fullmatch(text) and len(text) <= 20 else None
    return number if number is not None and number in _INT64 else None
