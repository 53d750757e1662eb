"""The pods of a CloneSet, as columns. Pure.

Rows are those of the snapshot's table of pods and are valid until the next event: nothing awaits between observing and
deciding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from trimtab.api.cloneset import REVISION_HASH, SPECIFIED_DELETE, CloneSet, CloneSetSpec
from trimtab.api.meta import ObjectMeta
from trimtab.api.pods import Pod
from trimtab.api.selectors import Selector
from trimtab.kube.clocks import SECOND
from trimtab.kube.ownership import refers_to
from trimtab.kube.resources import Resource
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.pods import NEVER, NOWHERE, PHASES, PodTable

CLONESETS = Resource.of(CloneSet)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The active pods of a CloneSet; every column is in the order of `rows`."""

    pods: tuple[Pod, ...]
    rows: IntColumn
    updated: Mask
    """Which pods are of the newest revision."""
    specified: Mask
    """Which pods a user has specified for deletion, by label or in podsToDelete."""
    ready: Mask
    available: Mask
    """Which pods have been ready for minReadySeconds."""
    next_available: float | None = None
    """In how many seconds the next pod becomes available, if it only has to stay ready."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the pods."""
        return tuple(pod.metadata.name for pod in self.pods)

    def positions(self, mask: Mask) -> IntColumn:
        """The positions that a mask selects."""
        return np.flatnonzero(mask).astype(np.int64)


def members(table: PodTable, owner: ObjectMeta, selector: Selector, adopted: Collection[str] = ()) -> list[int]:
    """The rows of a CloneSet's active pods, including those just adopted (by UID) whose update is not observed yet."""
    candidates = list(_owned(table, owner))
    if adopted:
        candidates += [(row, pod) for row, pod in _orphans(table, owner) if pod.metadata.uid in adopted]
    return [row for row, pod in candidates if pod.active and selector.matches(pod.metadata.labels)]


def claimable(table: PodTable, owner: ObjectMeta, selector: Selector) -> list[Pod]:
    """Active pods that a CloneSet may have to adopt or release: matching orphans, and its own that do not match."""
    orphans = [pod for _, pod in _orphans(table, owner) if selector.matches(pod.metadata.labels)]
    strays = [pod for _, pod in _owned(table, owner) if not selector.matches(pod.metadata.labels)]
    return [pod for pod in (*orphans, *strays) if pod.active]


def _owned(table: PodTable, owner: ObjectMeta) -> Iterator[tuple[int, Pod]]:
    """The rows of a CloneSet's pods. The table has the pods of other kinds too, whose references may name any UID."""
    for row in table.owned_by(owner.uid).tolist():
        pod = table.objects[row]
        controller = None if pod is None else pod.metadata.controller
        if pod is not None and controller is not None and refers_to(controller, CLONESETS):
            yield row, pod


def _orphans(table: PodTable, owner: ObjectMeta) -> Iterator[tuple[int, Pod]]:
    present = table.column("present").astype(np.bool_)
    for row in np.flatnonzero(present & (table.owner == NOWHERE)).tolist():
        pod = table.objects[row]
        if pod is not None and pod.metadata.namespace == owner.namespace:
            yield row, pod


def observe(table: PodTable, rows: Iterable[int], spec: CloneSetSpec, revision: str, now: int) -> Group:
    """The pods in these rows; `revision` is the newest."""
    chosen = np.array(list(rows), dtype=np.int64)
    pods = tuple(pod for pod in (table.objects[row] for row in chosen.tolist()) if pod is not None)
    ready = table.ready[chosen] & (table.column("phase")[chosen] == PHASES["Running"])
    since = table.column("ready_since")[chosen]
    due = since + spec.min_ready_seconds * SECOND
    dated = ready & (since != NEVER)  # since when the others are ready is unknown
    waiting = due[dated & (due > now)] if spec.min_ready_seconds else due[:0]
    named = frozenset(spec.scale_strategy.pods_to_delete)
    return Group(
        pods=pods,
        rows=chosen,
        updated=_mask(is_of_revision(pod, revision) for pod in pods),
        specified=_mask(is_specified(pod, named) for pod in pods),
        ready=ready,
        available=dated & (due <= now) if spec.min_ready_seconds else ready,
        next_available=(int(waiting.min()) - now) / SECOND if len(waiting) else None,
    )


def is_of_revision(pod: Pod, revision: str) -> bool:
    """Whether a pod is of a revision: its label is the revision's name, or its hash alone if the name is too long."""
    label = pod.metadata.labels.get(REVISION_HASH, "")
    return bool(label) and label.rpartition("-")[2] == revision.rpartition("-")[2]


def is_specified(pod: Pod, named: Collection[str]) -> bool:
    """Whether a user has specified a pod for deletion, in podsToDelete or by the label, whatever its value."""
    return SPECIFIED_DELETE in pod.metadata.labels or pod.metadata.name in named


def _mask(values: Iterable[bool]) -> Mask:
    return np.array(list(values), dtype=np.bool_)
