"""The pods of a workload, counted. Pure.

A workload is counted whenever one of its pods changes, so this scans the columns of the snapshot instead of objects.
Objects are read only for the few pods to adopt or release.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trimtab.api.meta import ObjectMeta
from trimtab.api.pods import Pod
from trimtab.api.selectors import Selector
from trimtab.kube.clocks import SECOND
from trimtab.snapshot.columns import IntColumn
from trimtab.snapshot.pods import NEVER, NOWHERE, PHASES, PodTable


@dataclass(frozen=True, slots=True)
class PodCounts:
    """The pod counts of a workload."""

    active: int
    ready: int
    available: int
    """Pods that have been ready for `minReadySeconds`."""
    fully_labeled: int
    """Pods that have all labels of the template."""
    terminating: int
    """Terminating pods that still run; they are not active."""
    next_available: float | None
    """Seconds until the next pod becomes available by the passing of time."""


def claim_candidates(table: PodTable, owner: ObjectMeta, selector: Selector) -> list[Pod]:
    """Active pods to adopt or release: matching ones without an owner, and owned ones that do not match."""
    matching = table.matching(owner.namespace, selector)
    owners = table.owner[matching]
    rows: list[int] = matching[owners == NOWHERE].tolist()
    owned = table.owned_by(owner.uid)
    if len(owned) > (owners == _number(table, owner)).sum():
        rows += sorted(set(owned.tolist()).difference(matching.tolist()))
    found = (table.objects[row] for row in rows)
    return [pod for pod in found if pod is not None and pod.active]


def owned_rows(table: PodTable, owner: ObjectMeta, selector: Selector, adopted: Iterable[Pod] = ()) -> IntColumn:
    """The rows of a workload's pods, including adopted ones that the informer has not shown."""
    matching = table.matching(owner.namespace, selector)
    owned = table.owner[matching] == _number(table, owner)
    for pod in adopted:
        owned |= matching == _row(table, pod)
    found: IntColumn = matching[owned]
    return found


def _number(table: PodTable, owner: ObjectMeta) -> int:
    """The number of an owner in the column of owners; one that no pod has if it owns nothing."""
    number = table.owners.get(owner.uid)
    return NOWHERE - 1 if number is None else number


def _row(table: PodTable, pod: Pod) -> int:
    """The row of a pod, if it still exists with the same UID; otherwise -1."""
    row = table.rows.index.get(pod.key, -1)
    found = table.objects[row] if row >= 0 else None
    return row if found is not None and found.metadata.uid == pod.metadata.uid else -1


def active(table: PodTable, rows: IntColumn) -> IntColumn:
    """The rows whose pods are active."""
    return rows[table.active[rows]]


def count(table: PodTable, rows: IntColumn, labels: Selector, min_ready_seconds: int, now: int) -> PodCounts:
    """Count the pods of these rows; `labels` are the template's."""
    counting = active(table, rows)
    ready = counting[table.ready[counting]]
    since = table.column("ready_since")[ready]
    due = since[since != NEVER] + min_ready_seconds * SECOND
    waiting = due[due > now]
    running = table.column("phase")[rows] <= PHASES["Running"]
    return PodCounts(
        active=len(counting),
        ready=len(ready),
        available=len(ready) if min_ready_seconds == 0 else int((due <= now).sum()),
        fully_labeled=_fully_labeled(table, counting, labels),
        terminating=int((table.terminating[rows] & running).sum()),
        next_available=(int(waiting.min()) - now) / SECOND if len(waiting) else None,
    )


def _fully_labeled(table: PodTable, rows: IntColumn, labels: Selector) -> int:
    """Count matching pods; the selector is evaluated once for each distinct set of labels."""
    sets = table.label_set[rows]
    known = {number: table.labels.rows[number] for number in set(sets.tolist())}
    fitting = [number for number, row in known.items() if row is not None and labels.matches(row[1])]
    return sum(int((sets == number).sum()) for number in fitting)
