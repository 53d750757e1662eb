"""What Trimtab's plan calls possible, and which pods it names, against the pods that the controller deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from bench.promise.comparison import JSON
from trimtab.api import codec
from trimtab.api.pods import Pod
from trimtab.ranking.certainty import PossibleVictims, Window, possible_victims
from trimtab.ranking.contenders import Contenders
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import node


@dataclass(frozen=True, slots=True)
class Foresight:
    """Whether a plan foresaw the pods that were deleted."""

    is_possible: bool
    """Whether they are one of the sets that it calls possible."""
    is_named: bool | None
    """Whether they are the set that it names; None where it leaves more than one possible."""


def foresight(
    pods: Sequence[JSON],
    deleted: Set[str],
    zones: Mapping[str, str],
    window: tuple[int, int],
    *,
    has_related: bool,
) -> Foresight:
    """Compare the deleted pods (by name) with the plan for these pods, with the costs that they have."""
    snapshot = Snapshot()
    for name, zone in zones.items():
        snapshot.put(node(name, zone=zone).build())
    typed = [codec.decode(codec.encode(pod), Pod) for pod in pods]
    for pod in typed:
        snapshot.put(pod)
    index = snapshot.pods.rows.index
    contenders = Contenders(snapshot.pods, [index[pod.key] for pod in typed])
    related = contenders.rows if has_related else contenders.rows[:0]
    possible = possible_victims(contenders, related, len(deleted), Window(*window))
    rows = {index[pod.key] for pod in typed if pod.metadata.name in deleted}
    is_possible = _is_among(possible, rows)
    return Foresight(is_possible, is_possible if possible.is_unique else None)


def _is_among(possible: PossibleVictims, rows: Set[int]) -> bool:
    for each in possible.outcomes:
        certain, chance = (set(possible.rows[mask].tolist()) for mask in (each.certain, each.open))
        if certain <= rows <= certain | chance and len(rows) == len(certain) + each.take:
            return True
    return False
