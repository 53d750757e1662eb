"""The part of a cluster that callers with the same rights see, kept current change by change.

To put a part together costs seconds in a large cluster, so it is done once, when someone with these rights comes; after
that every change is applied to it. A part that has not been asked for during a while is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimtab.api.apps import ReplicaSet
from trimtab.dashboard.overview_cache import OverviewCache, StaleWorkloads
from trimtab.dashboard.rights import Rights, visible
from trimtab.inspection.cluster import INFO, Cluster
from trimtab.inspection.settings import Settings
from trimtab.kube.clocks import SECOND, Clock
from trimtab.snapshot import MIRRORED

KEPT_SECONDS = 60.0
"""For how many seconds a part is kept that nobody asks for."""


class Part:
    """What callers with some rights see, and the overviews of the workloads in it."""

    def __init__(self, rights: Rights, whole: Callable[[], Cluster], settings: Settings) -> None:
        self._rights = rights
        self._whole = whole
        self._snapshot = None if rights.everything else visible(whole(), rights).snapshot
        self.stale = StaleWorkloads(lambda namespace, name: whole().find(ReplicaSet, namespace, name))
        self.overviews = OverviewCache(settings)
        self.used = 0
        """When it was asked for last, by the monotonic clock."""

    def now(self) -> Cluster:
        """The part at this moment: use it before the next `await`."""
        return visible(self._whole(), self._rights, self._snapshot)

    def note(self, old: Any, new: Any) -> bool:
        """Take a change into account; false for one that is not shown."""
        an_object = old if new is None else new
        info, metadata = INFO.get(type(an_object)), an_object.metadata
        if not self._rights.everything and (info is None or not self._rights.allows(info.plural, metadata.namespace)):
            return False
        if self._snapshot is not None and type(an_object) in MIRRORED:
            if new is None:
                self._snapshot.drop(type(old), metadata.namespace, metadata.name)
            else:
                self._snapshot.put(new)
        return self.stale.note(old, new)


class Parts:
    """All parts that are shown."""

    def __init__(self, whole: Callable[[], Cluster], settings: Settings, clock: Clock) -> None:
        self._whole = whole
        self._settings = settings
        self._clock = clock
        self._parts: dict[Rights, Part] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def of(self, rights: Rights) -> Part:
        """The part that callers with these rights see."""
        part = self._parts.get(rights)
        if part is None:
            part = self._parts[rights] = Part(rights, self._whole, self._settings)
        part.used = self._clock.monotonic()
        return part

    def note(self, old: Any, new: Any) -> bool:
        """Apply a change to every part; false for one that none of them shows."""
        oldest = self._clock.monotonic() - round(KEPT_SECONDS * SECOND)
        for rights in [rights for rights, part in self._parts.items() if part.used < oldest]:
            del self._parts[rights]
        shown = [part.note(old, new) for part in self._parts.values()]
        return any(shown)
