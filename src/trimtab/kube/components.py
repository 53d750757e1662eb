"""Parts of a process that run against a cluster, put together: beside one another, or by turns with other processes.

A component runs until it is cancelled. One that ends by itself is broken, and what depends on it must not go on as if
nothing had happened; so whoever runs several ends them all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

from trimtab.kube.client import Client
from trimtab.kube.errors import LeadershipLost
from trimtab.kube.leases import Elector

log = logging.getLogger(__name__)


class Component(Protocol):
    """A part of Trimtab that runs against a cluster."""

    @property
    def synced(self) -> bool:
        """Whether it has seen the cluster."""
        ...

    @property
    def problems(self) -> list[str]:
        """What keeps it from seeing the cluster as it is."""
        ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...


class Background:
    """Work that sees nothing of its own, and has nothing to say but what it does."""

    synced = True

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work

    @property
    def problems(self) -> list[str]:
        """None: what goes wrong is tried again."""
        return []

    async def run(self) -> None:
        """Work until cancelled."""
        await self._work()


class ComponentGroup:
    """Components that run beside one another, by name."""

    def __init__(self, parts: Mapping[str, Component]) -> None:
        self.parts = parts

    @property
    def synced(self) -> bool:
        """Whether all have seen the cluster."""
        return all(part.synced for part in self.parts.values())

    @property
    def problems(self) -> list[str]:
        """What any of them says."""
        return [f"{name}: {problem}" for name, part in self.parts.items() for problem in part.problems]

    async def run(self) -> None:
        """Run all until cancelled. What one raises ends the others and is raised, and so is an end without a reason."""
        try:
            async with asyncio.TaskGroup() as group:
                for name, part in self.parts.items():
                    group.create_task(_unending(name, part), name=name)
        except BaseExceptionGroup as error:
            raise error.exceptions[0] from error


class LeaderElectedComponent:
    """A component that runs in one process at a time: where this process leads.

    It is made anew for each term: what it has seen before another process led is worth nothing. A process that waits
    for its turn is as ready as it can be.
    """

    def __init__(self, client: Client, elect: Callable[[], Elector], make: Callable[[Client], Component]) -> None:
        """`make` is given a client that writes only while this process leads."""
        self._client = client
        self._elect = elect
        self._make = make
        self._current: Component | None = None

    @property
    def synced(self) -> bool:
        """Whether it has seen the cluster, or need not yet."""
        return self._current is None or self._current.synced

    @property
    def problems(self) -> list[str]:
        """What the component says, while it runs here."""
        return [] if self._current is None else self._current.problems

    async def run(self) -> None:
        """Stand for election, work while leading, and stand again when the lease was lost."""
        while True:
            elector = self._elect()
            self._current = None
            try:
                await elector.run(partial(self._term, elector))
            except LeadershipLost as error:
                log.warning("%s; standing for election again", error)
            finally:
                self._current = None

    async def _term(self, elector: Elector) -> None:
        self._current = self._make(self._client.using(before_write=elector.check))
        await _unending("what is led", self._current)


class Candidate:
    """Says whether this process leads, for work that others do all the time and only the leader writes down."""

    def __init__(self, elect: Callable[[], Elector]) -> None:
        self._elect = elect
        self._elector: Elector | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this process may act at this moment."""
        return self._elector is not None and self._elector.is_leader

    @property
    def synced(self) -> bool:
        """It needs to see nothing."""
        return True

    @property
    def problems(self) -> list[str]:
        """Not to lead is no problem."""
        return []

    async def run(self) -> None:
        """Stand for election, again and again."""
        while True:
            self._elector = self._elect()
            try:
                await self._elector.run(_for_ever)
            except LeadershipLost as error:
                log.warning("%s; standing for election again", error)


async def _for_ever() -> None:
    await asyncio.Event().wait()


async def _unending(name: str, part: Component) -> None:
    await part.run()
    raise RuntimeError(f"{name} ended by itself")
