"""Which pods of a ReplicaSet are deleted, in Kubernetes' order (see `trimtab.ranking.victims`). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trimtab.api.pods import Pod
from trimtab.ranking.ages import age_ratios
from trimtab.ranking.victims import Options, replicaset_order
from trimtab.snapshot.columns import IntColumn
from trimtab.snapshot.pods import PodTable


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to delete, in order, and the age ratios of those that were chosen by age."""

    pods: tuple[Pod, ...] = ()
    age_ratios: tuple[float, ...] = ()


def choose(
    table: PodTable, rows: IntColumn, related: Iterable[IntColumn], count: int, now: int, options: Options
) -> Victims:
    """Choose this many of a ReplicaSet's active pods, given by their rows.

    `related` are the rows of the pods of all ReplicaSets of the same owner, its own included: pods on nodes with more
    of them are deleted first. A ReplicaSet without an owner has none.
    """
    if count >= len(rows):
        return Victims(_pods(table, rows.tolist()))
    crowd = {row for some in related for row in some.tolist()}
    order = replicaset_order(table, rows, sorted(crowd), now, options)
    return Victims(_pods(table, order.rows[:count].tolist()), tuple(age_ratios(order, count, now)))


def _pods(table: PodTable, rows: Iterable[int]) -> tuple[Pod, ...]:
    found = (table.objects[row] for row in rows)
    return tuple(pod for pod in found if pod is not None)
