"""The pods of a workload, count_status. Pure.

A workload is looked at whenever one of its pods changes, so this is done with scans over the columns of the snapshot,
not pod by pod. Objects are looked at only for the few pods that are not where they belong.
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
    """How many pods a workload has."""

    active: int
    ready: int
    available: int
    """Those that have been ready for long enough."""
    fully_labeled: int
    """Those that have all labels of the template."""
    terminating: int
    """Those that are on their way out, and still run; they are not among the active ones."""
    next_available: float | None
    """In how many seconds the next one will have been ready for long enough, if time alone makes one."""


def claim_candidates(table: PodTable, owner: ObjectMeta, selector: Selector) -> list[Pod]:
    """Active pods that a workload may have to adopt or to release: matching ones of nobody, others of its own."""
    matching = table.matching(owner.namespace, selector)
    owners = table.owner[matching]
    rows: list[int] = matching[owners == NOWHERE].tolist()
    owned = table.owned_by(owner.uid)
    if len(owned) > (owners == _number(table, owner)).sum():
        rows += sorted(set(owned.tolist()).difference(matching.tolist()))
    found = (table.objects[row] for row in rows)
    return [pod for pod in found if pod is not None and pod.active]


def owned_rows(table: PodTable, owner: ObjectMeta, selector: Selector, adopted: Iterable[Pod] = ()) -> IntColumn:
    """The rows of a workload's pods, those included that it has just adopted, which nobody has observed yet."""
    matching = table.matching(owner.namespace, selector)
    mine = table.owner[matching] == _number(table, owner)
    for pod in adopted:
        mine |= matching == _row(table, pod)
    found: IntColumn = matching[mine]
    return found


def _number(table: PodTable, owner: ObjectMeta) -> int:
    """What the column of owners has for this one; where it owns nothing, what no pod has."""
    return table.owners.get(owner.uid, NOWHERE - 1)


def _row(table: PodTable, pod: Pod) -> int:
    """The row of a pod that is still there, and still that one; else one that does not exist."""
    row = table.rows.index.get(pod.key, -1)
    found = table.objects[row] if row >= 0 else None
    return row if found is not None and found.metadata.uid == pod.metadata.uid else -1


def active(table: PodTable, rows: IntColumn) -> IntColumn:
    """Those of these rows whose pods count."""
    return rows[table.active[rows]]


def count(table: PodTable, rows: IntColumn, labels: Selector, min_ready_seconds: int, now: int) -> PodCounts:
    """The pods of these rows; `labels` are the template's."""
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
    """The selector is tried once a set of labels; mostly there is one set."""
    sets = table.label_set[rows]
    known = {number: table.labels.rows[number] for number in set(sets.tolist())}
    fitting = [number for number, row in known.items() if row is not None and labels.matches(row[1])]
    return sum(int((sets == number).sum()) for number in fitting)
