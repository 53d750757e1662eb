"""For how long this process has seen each reservation, by its own clock.

A reservation has the time of the webhook that made it, and clocks differ. If it were removed because another clock says
that it is old, its pod might still be created, and the same capacity be assigned twice. So a controller removes a
reservation only after it has seen it itself for as long as an API server takes to end any request. A process that
restarts begins to count anew.
"""

from __future__ import annotations

from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.resources import Key
from trimtab.kube.stores import key_of
from trimtab.subsets.statuses import Table, pod_and_reservation

REQUEST_LIMIT = 60.0
"""Seconds after which an API server ends every request, admission included."""


class ReservationAges:
    """When each reservation was first seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first: dict[Key, dict[str, int]] = {}

    def ages(self, topology: UnitedTopology) -> dict[str, float]:
        """The seconds for which each entry of `creating` has been seen; entries that were removed are forgotten."""
        now = self._clock.monotonic()
        key = key_of(topology)
        before = self._first.get(key, {})
        entries = [entry for _, row in Table(topology).all() for entry in row.creating]
        self._first[key] = {entry: before.get(entry, now) for entry in entries}
        return {entry: (now - first) / SECOND for entry, first in self._first[key].items()}

    def forget(self, key: Key) -> None:
        """Drop the reservations of a UnitedTopology that was deleted."""
        self._first.pop(key, None)


def has_announced_deletion(entry: str) -> bool:
    """Whether the pod of a reservation is known to have existed, because its deletion was announced."""
    return bool(pod_and_reservation(entry)[0])
