"""Components of a process that run against a cluster: concurrently, or only while this process is the leader.

A component runs until it is cancelled. One that returns is broken, and the others may depend on it, so a group then
ends all of them.

**Stopping.** A component that is cancelled finishes by itself, within a grace period of its own (`clocks`): a `Runner`
its reconciles, a `Recorder` its events, a server its reviews. Who runs several states their order as stages, each of
which stops when the one before has ended:

    servers → reconciles → reports, paced events → events → caches

So what finishes can still read and report. A process stops within the sum of the grace periods of its stages, which is
less than the termination grace period of its pod. What is left of reports and events is logged with its number.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

from trimtab.kube.caches import Caches, Mirror
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, Clock, cancel
from trimtab.kube.errors import LeadershipLost
from trimtab.kube.leases import Elector
from trimtab.kube.processes import return_free_memory
from trimtab.kube.resources import Resource

M = TypeVar("M", bound=Mirror | None)

_PATIENCE = 30.0
"""Seconds for which a feature with a problem is waited for at the start: most problems do not last."""

log = logging.getLogger(__name__)


class Component(Protocol):
    """A part of Trimtab that runs against a cluster."""

    @property
    def synced(self) -> bool:
        """Whether its caches have synced."""
        ...

    @property
    def problems(self) -> list[str]:
        """What keeps its caches from being up to date."""
        ...

    async def run(self) -> None:
        """Run until cancelled."""
        ...


class Background:
    """A component without caches of its own."""

    synced = True

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work

    @property
    def problems(self) -> list[str]:
        """None: failures are retried by the work itself."""
        return []

    async def run(self) -> None:
        """Run until cancelled."""
        await self._work()


class Watched(Protocol):
    """What a `CacheGroup` is made of: a cache, or an informer."""

    @property
    def resource(self) -> Resource[Any]:
        """The kind."""
        ...

    @property
    def problem(self) -> str:
        """Why it is not up to date; empty if it is."""
        ...

    @property
    def absent(self) -> bool:
        """Whether the API server does not serve the kind."""
        ...

    @property
    def synced(self) -> bool:
        """Whether it has been filled."""
        ...

    @property
    def is_known(self) -> bool:
        """Whether it has been filled, or the kind is not served."""
        ...

    async def run(self) -> None:
        """Keep it current until cancelled."""
        ...


class CacheGroup:
    """Caches as one component. Of the optional ones, the kind may not be installed: then there are no objects."""

    def __init__(self, required: Iterable[Watched], optional: Iterable[Watched] = ()) -> None:
        self._required = tuple(required)
        self._optional = tuple(optional)

    @property
    def synced(self) -> bool:
        """Whether every cache has been filled, those of kinds that are not installed aside."""
        return all(each.synced for each in self._required) and all(each.is_known for each in self._optional)

    @property
    def problems(self) -> list[str]:
        """The failures of the watches, for health pages. A kind that may not be installed, and is not, is none."""
        watched = (*self._required, *(each for each in self._optional if not each.absent))
        return [f"{each.resource.plural}: {each.problem}" for each in watched if each.problem]

    async def run(self) -> None:
        """Keep the caches current until cancelled."""
        await run_together(each.run() for each in (*self._required, *self._optional))


async def run_together(*stages: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all until cancelled; the first that fails or ends, ends all. Then the stages stop one after the other, in
    this order: what the works of one need is in a later one, and runs until they have ended. Another cancellation
    stops those that are left at once."""
    running = [[asyncio.ensure_future(each) for each in stage] for stage in stages]
    try:
        done, _ = await asyncio.wait(list(chain(*running)), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        try:
            for tasks in running:
                await cancel(*tasks)
        finally:
            await cancel(*(task for task in chain(*running) if not task.done()))


class ComponentGroup:
    """Components that run concurrently, by name. They stop stage by stage."""

    def __init__(self, *stages: Mapping[str, Component]) -> None:
        """A component may use those of later stages, which stop after it."""
        self.parts = dict(chain.from_iterable(stage.items() for stage in stages))
        self._stages = stages

    @property
    def synced(self) -> bool:
        """Whether all components have synced."""
        return all(part.synced for part in self.parts.values())

    @property
    def problems(self) -> list[str]:
        """The problems of all components, with their names."""
        return [f"{name}: {problem}" for name, part in self.parts.items() for problem in part.problems]

    async def run(self) -> None:
        """Run all until cancelled. If one raises or returns, the others are cancelled and the error is raised."""
        await run_together(*([_unending(name, part) for name, part in stage.items()] for stage in self._stages))


class FeatureGroup(ComponentGroup):
    """Features that run concurrently in one process, each ready by itself.

    A feature that has not synced yet is waited for; for a while only, if it has a problem. Then its requests are
    admitted without a decision, and the others are served. If all have problems, so has the group.
    """

    def __init__(self, parts: Mapping[str, Component], clock: Clock) -> None:
        super().__init__(parts)
        self._clock = clock
        self._patient_until = clock.monotonic() + round(_PATIENCE * SECOND)

    @property
    def synced(self) -> bool:
        """Whether every feature has synced, or cannot."""
        is_patient = self._clock.monotonic() < self._patient_until
        return all(part.synced or (part.problems and not is_patient) for part in self.parts.values())

    @property
    def problems(self) -> list[str]:
        """The problems, if no feature is without."""
        return super().problems if all(part.problems for part in self.parts.values()) else []

    @property
    def notes(self) -> list[str]:
        """The problems of single features, which do not affect the others."""
        return [] if self.problems else super().problems


class LeaderElectedComponent(Generic[M]):
    """A component that runs only while this process is the leader.

    It is created anew each time the lease is acquired, with caches of that term: older ones may be outdated after
    another process has led. A process that waits for the lease counts as synced.
    """

    def __init__(
        self, caches: Caches[M], elect: Callable[[], Elector], make: Callable[[Client, Caches[M]], Component]
    ) -> None:
        """`make` receives a client that writes only while this process is the leader."""
        self._caches = caches
        self._elect = elect
        self._make = make
        self._current: Component | None = None

    @property
    def synced(self) -> bool:
        """Whether the component has synced, or does not run here."""
        return self._current is None or self._current.synced

    @property
    def problems(self) -> list[str]:
        """The problems of the component, while it runs here."""
        return [] if self._current is None else self._current.problems

    @property
    def notes(self) -> list[str]:
        """What is to be known about the component, and does not affect its readiness."""
        return notes_of(self._current)

    async def run(self) -> None:
        """Acquire the lease, run the component while it is held, and start again when it is lost."""
        while True:
            elector = self._elect()
            self._current = None
            try:
                await elector.run(partial(self._term, elector))
            except LeadershipLost as error:
                log.warning("%s; waiting to acquire the lease again", error)
            finally:
                self._current = None
            gc.collect()  # the parts of a term refer to one another, and the collector runs rarely
            asyncio.get_running_loop().run_in_executor(None, return_free_memory)

    async def _term(self, elector: Elector) -> None:
        caches = self._caches.term()
        try:
            self._current = self._make(caches.client.using(before_write=elector.check), caches)
            await _unending("the leader-elected component", self._current)
        finally:
            caches.close()


class Candidate:
    """Leader election without a component: for work that every replica does and only the leader writes."""

    def __init__(self, elect: Callable[[], Elector]) -> None:
        self._elect = elect
        self._elector: Elector | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this process holds the lease now."""
        return self._elector is not None and self._elector.is_leader

    @property
    def synced(self) -> bool:
        """Always: it has no caches."""
        return True

    @property
    def problems(self) -> list[str]:
        """None: not being the leader is not a problem."""
        return []

    async def run(self) -> None:
        """Acquire the lease, and again whenever it is lost."""
        while True:
            self._elector = self._elect()
            try:
                await self._elector.run(_forever)
            except LeadershipLost as error:
                log.warning("%s; waiting to acquire the lease again", error)


def notes_of(component: Component | None) -> list[str]:
    """What is to be known about a component, and does not affect its readiness."""
    if isinstance(component, (FeatureGroup, LeaderElectedComponent)):
        return component.notes
    if isinstance(component, ComponentGroup):
        return [f"{name}: {note}" for name, part in component.parts.items() for note in notes_of(part)]
    return []


async def _forever() -> None:
    await asyncio.Event().wait()


async def _unending(name: str, part: Component) -> None:
    await part.run()
    raise RuntimeError(f"{name} ended unexpectedly")
