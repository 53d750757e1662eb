"""How much older than the youngest pod the victims were: the values of the metric `sorting_deletion_age_ratio`.

A victim counts if its age decided: the first criterion that tells it apart from the first pod that stays compares times
(6 or 8; pods of one scale that their UIDs shuffle count as well). Its age is then divided by that of the youngest ready
pod there was. Ages run from the creation. A victim that is not ready is no peer of ready pods, and does not count.

The proposal that brought logarithmic ages hopes for no value above 2. For pods that differ in nothing but their age,
and a base of 2, every victim of the youngest scale keeps that promise: its age is less than twice that of any other pod
of that scale. It can be broken all the same:

1. More pods go than the youngest scale has. One pod of a minute, others of an hour and of a day, two go: the second is
   sixty times as old as the first.
2. The youngest pod differs in something that counts before age. It stays, or goes first, because of its cost, the pods
   on its node, or its restarts; those that go by their age are as old as they are.
3. Criterion 6 looks at the time since a pod became ready, which is short for an old pod that was not ready for a while.
4. To base e or 10, ages of one scale are as far apart as the base is large.

So a value above 2 is no sign of a fault by itself.
"""

from __future__ import annotations

import numpy as np

from trimtab.ranking.victims import Order
from trimtab.snapshot.pods import NEVER


def age_ratios(order: Order, victims: int, now: int) -> list[float]:
    """The ratio for each of the first so many pods that went by their age."""
    return list(age_ratios_by_row(order, victims, now).values())


def age_ratios_by_row(order: Order, victims: int, now: int) -> dict[int, float]:
    """The same, by the rows of the pods.

    None where nothing can be said: no ready pod's creation is known, or the youngest was created just now.
    """
    created = order.column("created")
    peers = order.column("ready").astype(np.bool_) & (created != NEVER)
    if not peers.any():
        return {}
    youngest = now - int(created[peers].max())
    if youngest <= 0:
        return {}
    decided = zip(order.rows.tolist(), order.decisions(victims), created.tolist(), peers.tolist(), strict=False)
    return {row: (now - since) / youngest for row, criterion, since, peer in decided if criterion.by_age and peer}
