"""The part of a cluster that callers with the same rights see, kept current change by change.

To put a part together costs seconds in a large cluster, so it is done once, when someone with these rights comes; after
that every change is applied to it. A part that has not been asked for during a while is dropped.

**Slices.** A part is filled some objects at a time, with other work in between, and one part at a time. Changes that
come meanwhile are applied at once: what has changed since it was listed is left as the change has put it. Callers with
the same rights wait for the same part, and if one of them leaves, another goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from trimtab.api.apps import ReplicaSet
from trimtab.api.errors import InvalidError
from trimtab.dashboard.overview_cache import OverviewCache, StaleWorkloads
from trimtab.dashboard.rights import Rights, visible
from trimtab.inspection.cluster import INFO, Cluster
from trimtab.inspection.settings import Settings
from trimtab.kube.clocks import SECOND, Clock
from trimtab.snapshot import MIRRORED, Snapshot

KEPT_SECONDS = 60.0
"""For how many seconds a part is kept that nobody asks for."""
SLICE = 500
"""How many objects are put into a part before other work goes on: about 15 ms."""


class Part:
    """What callers with some rights see, and the overviews of the workloads in it."""

    def __init__(self, rights: Rights, whole: Callable[[], Cluster], settings: Settings) -> None:
        self._rights = rights
        self._whole = whole
        self._snapshot = None if rights.everything else Snapshot()
        self.stale = StaleWorkloads(lambda namespace, name: whole().find(ReplicaSet, namespace, name))
        self.overviews = OverviewCache(settings)
        self.used = 0
        """When it was asked for last, by the monotonic clock."""
        self.is_complete = rights.everything
        """Whether it has all objects."""
        self.slices = self._fill()
        """Fills it, a slice at each step."""
        self._changed: set[tuple[type[Any], str, str]] = set()
        """The objects that have changed while it is filled: what was listed of them is older."""

    def now(self) -> Cluster:
        """The part at this moment: use it before the next `await`."""
        return visible(self._whole(), self._rights, self._snapshot)

    def note(self, old: Any, new: Any) -> bool:
        """Take a change into account; false for one that is not shown."""
        an_object = old if new is None else new
        kind, metadata = type(an_object), an_object.metadata
        if not self._may_show(an_object):
            return False
        if self._snapshot is not None and kind in MIRRORED:
            if not self.is_complete:
                self._changed.add((kind, metadata.namespace, metadata.name))
            if new is None:
                self._snapshot.drop(kind, metadata.namespace, metadata.name)
            else:
                self._put(new)
        return self.stale.note(old, new)

    def _may_show(self, an_object: Any) -> bool:
        info = INFO.get(type(an_object))
        is_known = info is not None and self._rights.allows(info.plural, an_object.metadata.namespace)
        return is_known or self._rights.everything

    def _fill(self) -> Iterator[None]:
        for kind in () if self._snapshot is None else MIRRORED:
            listed = self._whole().all(kind)
            for start in range(0, len(listed), SLICE):
                for each in listed[start : start + SLICE]:
                    self._put_listed(each)
                yield
        self.is_complete = True
        self._changed.clear()

    def _put_listed(self, an_object: Any) -> None:
        """Put an object as it was listed, unless it has changed since."""
        metadata = an_object.metadata
        is_current = (type(an_object), metadata.namespace, metadata.name) not in self._changed
        if is_current and self._may_show(an_object):
            self._put(an_object)

    def _put(self, an_object: Any) -> None:
        if self._snapshot is not None:
            with suppress(InvalidError):  # the snapshot of the process could not take it either, which was logged
                self._snapshot.put(an_object)


class Parts:
    """All parts that are shown."""

    def __init__(self, whole: Callable[[], Cluster], settings: Settings, clock: Clock) -> None:
        self._whole = whole
        self._settings = settings
        self._clock = clock
        self._parts: dict[Rights, Part] = {}
        self._filling = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._parts)

    async def of(self, rights: Rights) -> Part:
        """The part that callers with these rights see, once it has all objects."""
        part = self.begin(rights) if rights.everything else self._parts.get(rights)
        if part is None or not part.is_complete:
            part = await self._filled(rights)
        part.used = self._clock.monotonic()
        return part

    async def _filled(self, rights: Rights) -> Part:
        """Fill a part, or what is missing of it, with other work between its slices."""
        async with self._filling:
            part = self.begin(rights)
            try:
                for _ in part.slices:
                    part.used = self._clock.monotonic()
                    await asyncio.sleep(0)
            except Exception:
                self._parts.pop(rights, None)  # the next caller begins anew
                raise
            return part

    def begin(self, rights: Rights) -> Part:
        """The part of these rights, complete or not: from now on every change is applied to it."""
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
