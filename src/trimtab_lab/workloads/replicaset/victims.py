"""Which pods of a ReplicaSet go, in the order that Kubernetes has (see `trimtab.ranking.victims`). Pure."""

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
    """Those who go, the first one first, and for those decided by age how much older than the youngest pod they are."""

    pods: tuple[Pod, ...] = ()
    age_ratios: tuple[float, ...] = ()


def choose(
    table: PodTable, rows: IntColumn, related: Iterable[IntColumn], count: int, now: int, options: Options
) -> Victims:
    """So many of a ReplicaSet's active pods, given by their rows.

    `related` are the rows of the pods of all ReplicaSets of the same owner, its own included: pods that crowd a node go
    first, whichever of them they belong to. A ReplicaSet without an owner has none: its pods never count as crowded.
    """
    if count >= len(rows):
        return Victims(_pods(table, rows.tolist()))
    crowd = {row for some in related for row in some.tolist()}
    order = replicaset_order(table, rows, sorted(crowd), now, options)
    return Victims(_pods(table, order.rows[:count].tolist()), tuple(age_ratios(order, count, now)))


def _pods(table: PodTable, rows: Iterable[int]) -> tuple[Pod, ...]:
    found = (table.objects[row] for row in rows)
    return tuple(pod for pod in found if pod is not None)
