"""Which pods of a ReplicaSet go, in the order that Kubernetes has (see `trimtab.ranking.victims`). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trimtab.api.pods import Pod
from trimtab.api.selectors import Selector
from trimtab.ranking.ages import age_ratios
from trimtab.ranking.victims import Options, replicaset_order
from trimtab.snapshot.pods import PodTable


@dataclass(frozen=True, slots=True)
class Chosen:
    """Those who go, the first one first, and for those decided by age how much older than the youngest pod they are."""

    pods: tuple[Pod, ...] = ()
    age_ratios: tuple[float, ...] = ()


def choose(
    table: PodTable, active: Sequence[Pod], related: Iterable[Selector], count: int, now: int, options: Options
) -> Chosen:
    """So many of a ReplicaSet's active pods, all of one namespace and in the table.

    `related` are the selectors of all ReplicaSets of the same owner, its own included: pods that crowd a node go first,
    whichever of them they belong to. A ReplicaSet without an owner has none: its pods never count as crowded.
    """
    if count >= len(active):
        return Chosen(tuple(active))
    rows = [table.rows.index[pod.key] for pod in active]
    namespace = active[0].metadata.namespace
    crowd = {row for selector in related for row in table.matching(namespace, selector).tolist()}
    order = replicaset_order(table, rows, sorted(crowd), now, options)
    by_row = dict(zip(rows, active, strict=True))
    return Chosen(
        pods=tuple(by_row[row] for row in order.rows[:count].tolist()),
        age_ratios=tuple(age_ratios(order, count, now)),
    )
