"""For how long reservations have been known here, by our own clock.

A reservation carries the time of the webhook that made it, and clocks differ. Were it let go because another clock says
that it is old, its pod might still be on its way, and the place be given away twice. So nobody lets one go who has not
seen it himself for as long as an API server takes to end any request. A process that starts anew begins to count anew.
"""

from __future__ import annotations

from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.resources import Key
from trimtab.kube.stores import key_of
from trimtab.subsets.statuses import Table, pod_and_reservation

REQUEST_LIMIT = 60.0
"""Seconds after which an API server ends every request, admission included."""


class Reservations:
    """When each reservation was first seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first: dict[Key, dict[str, int]] = {}

    def known_for(self, topology: UnitedTopology) -> dict[str, float]:
        """The seconds for which each entry of `creating` has been seen; those that are gone are forgotten."""
        now = self._clock.monotonic()
        a_key = key_of(topology)
        before = self._first.get(a_key, {})
        keys = [key for _, row in Table(topology).all() for key in row.creating]
        self._first[a_key] = {key: before.get(key, now) for key in keys}
        return {key: (now - first) / SECOND for key, first in self._first[a_key].items()}

    def forget(self, a_key: Key) -> None:
        """A UnitedTopology is gone."""
        self._first.pop(a_key, None)


def is_announced(key: str) -> bool:
    """Whether the pod of a reservation is known to have been there, for its deletion was announced."""
    return bool(pod_and_reservation(key)[0])
