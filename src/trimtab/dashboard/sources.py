"""The cluster that is shown: followed by list and watch, or read from a file."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from trimtab.dashboard.decisions import DecisionLog
from trimtab.dashboard.parts import Parts
from trimtab.inspection.cluster import Cluster
from trimtab.inspection.following import ClusterFollower
from trimtab.inspection.observing import FOLLOWED, ObservedScaleDown, ScaleDownObserver
from trimtab.inspection.settings import Settings
from trimtab.kube.clocks import Clock, SystemClock
from trimtab.kube.components import run_together


class ClusterSource(Protocol):
    """Where the cluster comes from."""

    decisions: DecisionLog
    parts: Parts
    """What callers see, by their rights."""
    changed: asyncio.Event
    """Set when something changes; whoever shows it clears it."""
    clock: Clock
    is_live: bool

    @property
    def problems(self) -> list[str]:
        """Why what is shown may be out of date."""
        ...

    async def run(self) -> None:
        """Keep it current until cancelled."""
        ...

    async def wait_ready(self) -> None:
        """Wait until there is something to show."""
        ...


class FileSource:
    """A cluster that does not change."""

    is_live = False

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self.clock: Clock = SystemClock()
        self.decisions = DecisionLog()
        self.changed = asyncio.Event()
        self.parts = Parts(lambda: cluster, settings, self.clock)

    @property
    def problems(self) -> list[str]:
        """None: a file is as it is."""
        return []

    async def run(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()

    async def wait_ready(self) -> None:
        """Return at once."""


class LiveSource:
    """A cluster that is followed."""

    is_live = True

    def __init__(self, follower: ClusterFollower, settings: Settings, *, namespace: str = "") -> None:
        self._follower = follower
        self.clock = follower.client.clock
        self.decisions = DecisionLog(follower.client.server_time.now)
        self.changed = asyncio.Event()
        self.parts = Parts(follower.now, settings, self.clock)
        kinds = [kind for kind in FOLLOWED if kind in follower.caches]
        self._observer = ScaleDownObserver(
            follower.client,
            settings,
            self._observed,
            namespace=namespace,
            kinds=kinds,
            caches=follower.caches,
            snapshot=follower.snapshot,
        )
        self._is_noting = False
        follower.subscribe(self._note)

    @property
    def problems(self) -> list[str]:
        """Why what is shown may be out of date."""
        return self._follower.problems

    @property
    def synced(self) -> bool:
        """Whether the first lists are complete."""
        return self._follower.synced

    async def run(self) -> None:
        """Follow the cluster and its scale-downs until cancelled; an error of either ends both."""
        await run_together([self._observe()], [self._follower.run()])

    async def wait_ready(self) -> None:
        """Wait until the first lists are complete."""
        await self._follower.wait_known()

    async def _observe(self) -> None:
        """Note decisions and scale-downs once the first lists are complete: what these show was decided earlier."""
        await self._follower.wait_known()
        self._is_noting = True
        self.changed.set()
        await self._observer.run()

    def _note(self, old: Any, new: Any) -> None:
        if self._is_noting:
            self.decisions.note(old, new)
        if self.parts.note(old, new):
            self.changed.set()

    def _observed(self, record: ObservedScaleDown) -> None:
        self.decisions.observe(record)
        self.changed.set()
