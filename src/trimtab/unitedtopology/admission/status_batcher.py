"""Group commit: all admissions of one UnitedTopology in this process share its conditional writes.

    wishes that wait  →  read  →  decide all of them, in order  →  one conditional write  →  answer all

While a write is under way, others gather for the next round; so the more come, the fewer writes each of them costs. A
conflict means that another process has written: the round is repeated with what the watch has brought since, or with
what is read live, together with whoever has come meanwhile. What is decided, and why it is safe, is in
`trimtab.subsets`; what must be read live for it is in `lookups`.

**Who has given up.** An admission that is out of time is cancelled, and its pod goes on without a place. If its place
was reserved by then, or might have been (a write without an answer), the reservation is withdrawn with the next round:
no pod will ever come for it. If this process dies, the controller lets it go when it is overdue.

**The size.** Percentages are of the workload's size, which is often why pods come. It is read after they have come,
while the status is written with the size that was found last. If it is another, nobody has been answered yet: all is
withdrawn and decided anew.

**Who has ended unasked.** A pod that finished, or was released by its workload, is replaced at once, and no webhook was
asked about it. Where a subset is full, this process's own view of the pods is asked whether it has seen any such that
was not counted out yet. That decides nothing: it only makes the pods be counted live, as for a first count.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram

from trimtab.api import times
from trimtab.api.annotations import subset_annotations
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology, UnitedTopologyStatus
from trimtab.kube import versions
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, Clock, cancel
from trimtab.kube.errors import ApiError, Conflict, NotFound
from trimtab.kube.resources import Key, split
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.stores import key_of
from trimtab.subsets import allocation, statuses
from trimtab.subsets.allocation import Applicant, Leaving
from trimtab.subsets.members import revision_of
from trimtab.subsets.recount import Recount, recount
from trimtab.unitedtopology.admission.lookups import Lookups

T = TypeVar("T")

_OTHERS = 2
"""How many writes are left to others between two of our own, where there are others."""
_WRITES_OF_OTHERS = 8.0
"""For how many writes' time others are let write, at most, if they do not."""
_LONGEST_PAUSE = 0.4
"""Seconds for which others are let write, at most."""
_LOTS = 2.0
"""Over how many writes' time those who lost a race are spread."""
_LONGEST_LOT = 0.15
"""Seconds for which one who lost waits, at most."""
_FRESH = 0.3
"""How much the latest write says about how long writes take."""
_GLANCE = 0.01
"""Seconds between two looks at whether others have written."""
_AFTER_FAILURE = 0.1
"""Seconds that are waited after a failure, times the failures in a row."""
_MOST_FAILURES = 20
"""After so many failures in a row, what is left to withdraw is left to the controller."""
_MOST_DOUBTFUL = 200
"""How many pods are looked at at once."""
_LONGEST_LOOK = 0.3
"""Seconds that a round may look for nodes; nobody else is answered meanwhile."""
_ROUND_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)

Ended = Callable[[Key], Mapping[str, str]]
"""The pods with the mark of a UnitedTopology that were seen to have finished or to belong to nobody, as last seen:
their versions by name."""

log = logging.getLogger(__name__)


def nobody_ended(topology: Key) -> Mapping[str, str]:
    """No view of the pods: those that end unasked are noticed when the controller counts."""
    del topology
    return {}


class Patience:
    """How much time is left to look for nodes, in all the decisions of a round together."""

    def __init__(self, clock: Clock, seconds: float = _LONGEST_LOOK) -> None:
        self._clock = clock
        self._left = round(seconds * SECOND)
        self._until = 0

    def __enter__(self) -> Patience:
        self._until = self._clock.monotonic() + self._left
        return self

    def __exit__(self, *_: object) -> None:
        self._left = max(0, self._until - self._clock.monotonic())

    def is_over(self) -> bool:
        """Whether what is not known by now is answered in doubt."""
        return self._clock.monotonic() >= self._until


@dataclass(frozen=True, slots=True)
class Placed:
    """What a pod was given: the UnitedTopology as it was decided by, and a place in its list of subsets, or none."""

    topology: UnitedTopology
    subset: int | None


@dataclass(slots=True)
class _Wishes:
    """What is to be done for one UnitedTopology."""

    arrivals: dict[str, tuple[Applicant, asyncio.Future[Placed | None]]] = field(default_factory=dict)
    departures: dict[str, tuple[str, asyncio.Future[bool]]] = field(default_factory=dict)
    """By pod name, with the UID."""
    returns: set[str] = field(default_factory=set)
    """Pods whose deletion came to nothing, if that is so."""
    withdrawn: set[str] = field(default_factory=set)
    tried: str = ""
    """The version that was decided by last."""
    contended: bool = False
    """Whether others have written since this process did."""
    task: asyncio.Task[None] | None = None

    def take(self) -> _Wishes:
        """Everything that is still wanted, for one round."""
        taken = _Wishes(
            {each: wish for each, wish in self.arrivals.items() if not wish[1].done()},
            {each: wish for each, wish in self.departures.items() if not wish[1].done()},
            self.returns,
            self.withdrawn,
        )
        self.arrivals, self.departures, self.returns, self.withdrawn = {}, {}, set(), set()
        return taken

    def put_back(self, taken: _Wishes) -> None:
        """What was taken, before what has come since."""
        self.arrivals = taken.arrivals | self.arrivals
        self.departures = taken.departures | self.departures
        self.returns |= taken.returns
        self.withdrawn |= taken.withdrawn

    def __bool__(self) -> bool:
        return bool(self.arrivals or self.departures or self.returns or self.withdrawn)


@dataclass(frozen=True, slots=True)
class _Decided:
    """The outcome of a round, before it is written."""

    topology: UnitedTopology
    """With the new status."""
    choices: dict[str, int | None]
    announced: frozenset[str]
    looked: str = ""
    """How far the pods were seen, if they were counted live."""


class _UnsureError(Exception):
    """What was decided by may be old, and there was nothing to write by which that would have been noticed."""


class _ResizedError(Exception):
    """The workload is of another size than was assumed; what was reserved is withdrawn and decided anew."""


class RoundMetrics:
    """What operators graph of reservations."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._writes = Counter(
            "trimtab_subset_status_writes_total",
            "Conditional writes of a UnitedTopology's status by the webhooks, by how they ended.",
            ("outcome",),
            registry=self.registry,
        )
        self._round = Histogram(
            "trimtab_subset_round_pods",
            "How many pods shared a write.",
            buckets=_ROUND_SIZES,
            registry=self.registry,
        )
        self._withdrawn = Counter(
            "trimtab_subset_reservations_withdrawn_total",
            "Places given up because the admission was out of time.",
            registry=self.registry,
        )

    def wrote(self, outcome: str, pods: int) -> None:
        """A write ended; so many pods were in it."""
        self._writes.labels(outcome).inc()
        if outcome == "written":
            self._round.observe(pods)

    def withdrew(self, count: int) -> None:
        """Reservations were given up."""
        self._withdrawn.inc(count)


class Rounds:
    """Decides and writes for all UnitedTopologies, each in rounds of its own."""

    def __init__(
        self,
        client: Client,
        cached: Callable[[Key], UnitedTopology | None],
        *,
        ended: Ended = nobody_ended,
        metrics: RoundMetrics | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """`cached` is the UnitedTopology as last seen; if that is too old, the first write says so."""
        self._client = client.using(retry=NO_RETRIES, urgent=True)
        self._clock = client.clock
        self._cached = cached
        self._ended = ended
        self._lookups = Lookups(self._client)
        self.metrics = metrics or RoundMetrics()
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._wishes: dict[Key, _Wishes] = {}
        self._written: dict[Key, UnitedTopology] = {}
        self._looked: dict[Key, str] = {}
        self._sizes: dict[Key, int] = {}
        self._paces: dict[Key, float] = {}

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._wishes)

    @property
    def remembered(self) -> set[Key]:
        """The UnitedTopologies of which something is kept in mind."""
        return {*self._written, *self._looked, *self._sizes, *self._paces}

    def forget(self, a_key: Key) -> None:
        """A UnitedTopology is gone."""
        for kept in (self._written, self._looked, self._sizes, self._paces):
            kept.pop(a_key, None)

    @property
    def lookups(self) -> Lookups:
        """The live reads, for those who look before a round."""
        return self._lookups

    # What can be wished.

    async def reserve(self, a_key: Key, applicant: Applicant) -> Placed | None:
        """A place for a pod that is being created; None where the UnitedTopology has nothing to say."""
        future: asyncio.Future[Placed | None] = asyncio.get_running_loop().create_future()
        self._of(a_key).arrivals[applicant.reservation] = (applicant, future)
        self._start(a_key)
        try:
            return await future
        except asyncio.CancelledError:
            self.withdraw(a_key, applicant.reservation)
            raise

    def withdraw(self, a_key: Key, reservation: str) -> None:
        """Nobody will come for this reservation."""
        wishes = self._of(a_key)
        wishes.arrivals.pop(reservation, None)
        wishes.withdrawn.add(reservation)
        self.metrics.withdrew(1)
        self._start(a_key)

    async def leave(self, a_key: Key, name: str, uid: str) -> bool:
        """Announce that a pod is being deleted; whether it was."""
        wishes = self._of(a_key)
        if name not in wishes.departures:
            future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            future.add_done_callback(_retrieved)
            wishes.departures[name] = (uid, future)
        self._start(a_key)
        return await asyncio.shield(wishes.departures[name][1])

    def take_back(self, a_key: Key, name: str) -> None:
        """Look whether a pod whose deletion was announced lives on, and if so forget the announcement."""
        self._of(a_key).returns.add(name)
        self._start(a_key)

    def current(self, a_key: Key) -> UnitedTopology | None:
        """The newest UnitedTopology that this process knows of."""
        seen, written = self._cached(a_key), self._written.get(a_key)
        if seen is None or (written is not None and seen.metadata.uid != written.metadata.uid):
            self._looked.pop(a_key, None)
            self._sizes.pop(a_key, None)
        if seen is None or written is None or seen.metadata.uid != written.metadata.uid:
            self._written.pop(a_key, None)
            return seen
        newer = versions.reached(written.metadata.resource_version, seen.metadata.resource_version)
        return written if newer else seen

    async def close(self) -> None:
        """End what is under way."""
        await cancel(*(wishes.task for wishes in self._wishes.values() if wishes.task is not None))

    # Rounds.

    def _of(self, a_key: Key) -> _Wishes:
        return self._wishes.setdefault(a_key, _Wishes())

    def _start(self, a_key: Key) -> None:
        wishes = self._of(a_key)
        if wishes.task is None or wishes.task.done():
            wishes.task = asyncio.get_running_loop().create_task(self._serve(a_key, wishes))

    async def _serve(self, a_key: Key, wishes: _Wishes) -> None:
        """Rounds until nobody wishes anything."""
        failures = 0
        while wishes:
            try:
                await self._round(a_key, wishes)
                failures = 0
            except Exception as error:
                log.warning("%s: %s", a_key, error, exc_info=not isinstance(error, ApiError))
                failures += 1
                if failures > _MOST_FAILURES:
                    wishes.withdrawn.clear()
                await self._clock.sleep(_AFTER_FAILURE * min(failures, _MOST_FAILURES))
        del self._wishes[a_key]

    async def _round(self, a_key: Key, wishes: _Wishes) -> None:
        """Decide and write for everybody who waits, again after each conflict."""
        topology = self.current(a_key)
        losses = 0
        while wishes:
            taken = wishes.take()
            started = self._clock.monotonic()
            try:
                self._answer(taken, await self._commit(a_key, topology, taken))
            except _UnsureError:
                wishes.put_back(taken)
                topology = None
                continue
            except _ResizedError:
                wishes.withdrawn.update(taken.arrivals)
                wishes.put_back(taken)
                topology = self.current(a_key)
                continue
            except Conflict:
                wishes.put_back(taken)
                wishes.contended = True
                losses += 1
                await self._draw_lots(self._paced(a_key, started), losses)
                topology = self._newer(a_key, wishes.tried)
                continue
            except NotFound:
                _give_up(taken, None)
            except Exception as error:
                wishes.withdrawn.update(taken.withdrawn, taken.arrivals)
                _give_up(taken, error)
                raise
            losses = 0
            await self._step_aside(a_key, wishes, self._paced(a_key, started))
            topology = self.current(a_key)

    def _paced(self, a_key: Key, started: int) -> float:
        """The seconds that a write takes just now, of which the one that has just ended is the latest example: on a
        busy server one may take ten times as long as the next."""
        took = (self._clock.monotonic() - started) / SECOND
        pace = self._paces.get(a_key, took)
        self._paces[a_key] = pace + _FRESH * (took - pace)
        return self._paces[a_key]

    async def _commit(self, a_key: Key, known: UnitedTopology | None, taken: _Wishes) -> _Decided:
        """Decide and write, while the workload's size is read. Raises Conflict if what was decided by is not what is
        stored, and _ResizedError if the size is another: nobody has been answered by then."""
        hint = known or self.current(a_key)
        if hint is None or not taken.arrivals or not allocation.has_percentages(hint):
            return await self._write(a_key, known, taken, None)
        reading = asyncio.ensure_future(self._lookups.size(hint))
        try:
            assumed = self._sizes[a_key] if a_key in self._sizes else await reading
            decided = await self._write(a_key, known, taken, assumed)
            actual = await reading
        finally:
            await cancel(reading)
        if actual is not None:
            self._sizes[a_key] = actual
            if actual != assumed:
                raise _ResizedError
        return decided

    async def _write(self, a_key: Key, known: UnitedTopology | None, taken: _Wishes, replicas: int | None) -> _Decided:
        """Decide by what is known, or else by what is read now, and write it if there is anything to write."""
        namespace, name = split(a_key)
        if known is not None:
            known = self.current(a_key) or known
        topology = known if known is not None else await self._client.get(UnitedTopology, name, namespace=namespace)
        self._of(a_key).tried = topology.metadata.resource_version
        decided = await self._decide(topology, taken, replicas)
        patch = statuses.patch(topology, decided.topology.status)
        if patch is None:
            if known is not None and (taken.arrivals or taken.departures or taken.withdrawn):
                raise _UnsureError
            self._note(a_key, decided)
            return decided
        try:
            written = await self._client.patch(UnitedTopology, name, patch, namespace=namespace, subresource="status")
        except Conflict:
            self.metrics.wrote("conflict", 0)
            raise
        self.metrics.wrote("written", len(taken.arrivals) + len(taken.departures))
        last = self._written.get(a_key)
        others = last is not None and last.metadata.resource_version != topology.metadata.resource_version
        self._of(a_key).contended |= others
        self._written[a_key] = written
        self._note(a_key, decided)
        return decided

    def _note(self, a_key: Key, decided: _Decided) -> None:
        """Up to where the pods were counted live, now that it is stored."""
        if decided.looked:
            self._looked[a_key] = decided.looked

    async def _step_aside(self, a_key: Key, wishes: _Wishes, seconds: float) -> None:
        """Where many come, let other processes write: for as long as a write takes; or, if there are others, until two
        of them have written, but not for longer than a few writes take.

        Who has just written holds the newest version, and would win the next race as well, and the one after that.
        Where there are others, that holds though nobody waits yet: whoever comes next would come out of turn.
        """
        contended, wishes.contended = wishes.contended, False
        if contended:
            pause = min(seconds * _WRITES_OF_OTHERS, _LONGEST_PAUSE) * self._rng.uniform(0.7, 1.3)
            await self._let_write(a_key, self._clock.monotonic() + round(pause * SECOND))
        elif wishes:
            await self._clock.sleep(min(seconds, _LONGEST_PAUSE) * self._rng.uniform(0.7, 1.3))

    async def _let_write(self, a_key: Key, until: int) -> None:
        """Wait until others have written. The controller has no part in taking turns: what it has counted is no turn of
        anybody's."""
        known, turns = self.current(a_key), 0
        while turns < _OTHERS and self._clock.monotonic() < until:
            await self._clock.sleep(_GLANCE)
            before, known = known, self.current(a_key)
            turns += _has_turned(before, known)

    async def _draw_lots(self, seconds: float, losses: int) -> None:
        """After a conflict, wait for chance: all who lost to one writer would otherwise come again together, and all
        but one would lose again. Who has lost more often waits less. Meanwhile others join the round, and the watch
        brings what was written."""
        await self._clock.sleep(min(seconds * _LOTS, _LONGEST_LOT) * self._rng.random() / losses**2)

    def _newer(self, a_key: Key, tried: str) -> UnitedTopology | None:
        """What the watch has brought since, which is as good as reading it; None where it has brought nothing."""
        seen = self.current(a_key)
        return None if seen is None or versions.reached(tried, seen.metadata.resource_version) else seen

    def _answer(self, taken: _Wishes, decided: _Decided) -> None:
        for reservation, (_, arrival) in taken.arrivals.items():
            _settle(arrival, Placed(decided.topology, decided.choices.get(reservation)), None)
        for name, (_, departure) in taken.departures.items():
            _settle(departure, name in decided.announced, None)

    # Decisions.

    async def _decide(self, topology: UnitedTopology, taken: _Wishes, replicas: int | None) -> _Decided:
        arrivals = [applicant for applicant, _ in taken.arrivals.values()]
        if arrivals and not statuses.counted(topology):
            topology = (await self._count(topology, arrivals[0].revision)).topology
        elif not topology.status.subset_statuses:
            return _Decided(topology, {}, frozenset())
        topology = _with(topology, allocation.withdraw(topology, taken.withdrawn))
        topology = await self._returned(topology, taken.returns)
        leaving = await self._leaving(topology, taken)
        topology = _with(topology, allocation.announce(topology, leaving, now=self._now()))
        announced = frozenset(each.name for each in leaving)
        if replicas is None and arrivals and allocation.has_percentages(topology):
            replicas = await self._lookups.size(topology)
        return replace(await self._place(topology, arrivals, replicas), announced=announced)

    async def _place(self, topology: UnitedTopology, arrivals: Sequence[Applicant], replicas: int | None) -> _Decided:
        """Places for those who come; where some subset is full that might not be, after a count."""
        patience = Patience(self._clock)
        made = await self._allocate(topology, arrivals, replicas, patience)
        looked = ""
        if made.doubts.full and self._has_ended(topology):
            with suppress(NotFound):  # the workload is gone, and its last pods go by what was counted
                counted = await self._count(topology, topology.status.revision)
                topology, looked = counted.topology, counted.looked
                made = await self._allocate(topology, arrivals, replicas, patience)
        return _Decided(_with(topology, made.status), dict(made.choices), frozenset(), looked)

    def _has_ended(self, topology: UnitedTopology) -> bool:
        """Whether a pod was seen to have ended, unasked, since the pods were counted."""
        a_key = key_of(topology)
        counted = (topology.status.counted_version, self._looked.get(a_key, ""))
        fresh = {
            name
            for name, version in self._ended(a_key).items()
            if not any(versions.reached(each, version) for each in counted)
        }
        return bool(fresh - allocation.announced(topology).keys()) if fresh else False

    async def _count(self, topology: UnitedTopology, revision: str) -> _Decided:
        """The pods as they are: nobody has counted them for this spec yet, or some have ended since."""
        observed = await self._lookups.observed(topology, revision)
        found = recount(topology, observed, now=self._now())
        counted = _with(topology, found.status) if isinstance(found, Recount) else topology
        return _Decided(counted, {}, frozenset(), observed.version)

    async def _returned(self, topology: UnitedTopology, names: set[str]) -> UnitedTopology:
        announced = {name for _, row in statuses.Table(topology).all() for name in row.deleting}
        if not names & announced:
            return topology
        pods = await self._lookups.pods(sorted(names & announced), namespace=topology.metadata.namespace)
        alive = [name for name, pod in pods.items() if pod.active]
        return _with(topology, allocation.take_back(topology, alive))

    async def _leaving(self, topology: UnitedTopology, taken: _Wishes) -> list[Leaving]:
        """Those who leave and are there still: read after the status was."""
        if not taken.departures:
            return []
        pods = await self._lookups.pods(taken.departures, namespace=topology.metadata.namespace)
        found = (leaving_of(pods.get(name), topology, uid) for name, (uid, _) in taken.departures.items())
        return [each for each in found if each is not None]

    async def _allocate(
        self, topology: UnitedTopology, arrivals: Sequence[Applicant], replicas: int | None, patience: Patience
    ) -> allocation.Allocation:
        """Decide; where that was not certain, read what is in doubt and decide again."""
        namespace = topology.metadata.namespace
        confirmed = self._lookups.known_going(allocation.announced(topology), namespace=namespace)
        looked: set[str] = set()
        while True:
            with patience:
                made = allocation.allocate(
                    topology,
                    arrivals,
                    now=self._now(),
                    confirmed=confirmed,
                    replicas=replicas,
                    hurry=patience.is_over,
                )
            unsure = [entry for entry in made.doubts.leaving.items() if entry[0] not in looked]
            if not unsure:
                return made
            doubtful = dict(unsure[:_MOST_DOUBTFUL])
            looked.update(doubtful)
            confirmed |= await self._lookups.going(doubtful, namespace=namespace)

    def _now(self) -> datetime:
        return times.from_ns(self._clock.now())


def leaving_of(pod: Pod | None, topology: UnitedTopology, uid: str) -> Leaving | None:
    """What is to be announced of a pod that was just read; None if it is going already, or is not this pod."""
    if pod is None or not pod.active or (uid and pod.metadata.uid != uid):
        return None
    mark = subset_annotations(pod.metadata.annotations)
    if mark is None or mark.topology != topology.metadata.name:
        return None
    return Leaving(pod.metadata.name, revision_of(pod.metadata), mark.subset, mark.reservation)


def _has_turned(before: UnitedTopology | None, after: UnitedTopology | None) -> bool:
    """Whether a webhook has written between two looks: what the controller writes was counted further."""
    if before is None or after is None or before.metadata.resource_version == after.metadata.resource_version:
        return False
    return before.status.counted_version == after.status.counted_version


def _with(topology: UnitedTopology, status: UnitedTopologyStatus) -> UnitedTopology:
    return msgspec.structs.replace(topology, status=status)


def _give_up(taken: _Wishes, error: Exception | None) -> None:
    """There is nothing to decide by any more, or a fault that those who wait are told of."""
    for _, arrival in taken.arrivals.values():
        _settle(arrival, None, error)
    for _, departure in taken.departures.values():
        _settle(departure, False, error)


def _settle(future: asyncio.Future[T], result: T, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _retrieved(future: asyncio.Future[bool]) -> None:
    """Those who shared it may all have given up by now; then nobody asks for its exception."""
    if not future.cancelled():
        future.exception()
