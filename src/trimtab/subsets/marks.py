"""What a pod carries of its subset: three annotations.

The mark says where the pod is counted, so that neither a changed node label nor a changed spec moves it about. The
reservation ties the pod to its entry in `creating`: at admission it has no name yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TOPOLOGY = "trimtab.dev/united-topology"
SUBSET = "trimtab.dev/subset"
RESERVATION = "trimtab.dev/reservation"
COST = "trimtab.dev/subset-cost"
"""Beside a deletion cost that was written because of a subset: what was written."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Whose pod it is, and by which reservation; a pod that was matched afterwards had none."""

    topology: str
    subset: str
    reservation: str = ""


def read(annotations: Mapping[str, str]) -> Mark | None:
    """The mark among a pod's annotations."""
    topology, subset = annotations.get(TOPOLOGY), annotations.get(SUBSET)
    if not topology or not subset:
        return None
    return Mark(topology, subset, annotations.get(RESERVATION, ""))


def written(mark: Mark) -> dict[str, str]:
    """The annotations that say so."""
    annotations = {TOPOLOGY: mark.topology, SUBSET: mark.subset}
    return annotations | ({RESERVATION: mark.reservation} if mark.reservation else {})


def erased() -> dict[str, None]:
    """The annotations of a merge patch that removes a mark."""
    return {TOPOLOGY: None, SUBSET: None, RESERVATION: None}
