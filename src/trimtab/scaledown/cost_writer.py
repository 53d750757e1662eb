"""Costs of a scale-down: written with what it takes to undo them, and taken back.

**One patch a pod** sets the cost and, beside it, a mark that says which plan wrote it, for which workload and size,
and what stood there before. So whoever finds the mark, in whichever process, can tell whether the plan came to
something, and put things back as they were if it did not. Nothing about a plan needs to survive a crash except this.

**Nobody's cost is overwritten.** A patch holds for the version of the pod that was looked at. If the pod has changed
since, it is read again: if somebody has given it a cost meanwhile, or it is going, it is left alone. A cost counts as
ours only while it is exactly what the mark says; whoever changes it afterwards has made it theirs, and then only the
mark is removed.

**In order, until a deadline.** Costs are written in the order given, several at a time. At the deadline no more are
begun, and those under way have a moment to end. What is left out is left out: the caller orders costs such that every
beginning is a good plan of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST, SCALE_PLAN, PlanAnnotation, plan_annotation
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, within
from trimtab.kube.errors import ApiError, ConfigError, Conflict, NotFound
from trimtab.kube.resources import Key
from trimtab.kube.retries import Backoff, RetryPolicy
from trimtab.kube.stores import key_of
from trimtab.scaledown.metrics import Metrics

WRITERS = 32
"""How many costs are written at a time."""
LAST = 0.1
"""Seconds that writes under way are given after the deadline."""
_EACH = 4
"""How many costs a connection is worth: to open one takes as long as a few writes."""
_ATTEMPTS = 4
"""How often a pod that keeps changing is read again."""
_HURRIED = RetryPolicy(attempts=3, backoff=Backoff(initial=0.02, cap=0.2, jitter=0.5), patience=0.5)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """A pod, as it was last seen, and the mark that it is to get."""

    pod: Pod
    mark: PlanAnnotation


@dataclass(slots=True)
class Written:
    """What came of writing. `versions` are those that the API server answered with."""

    versions: dict[Key, str] = field(default_factory=dict)
    gone: list[Key] = field(default_factory=list)
    """Pods that are not there any more, or are going."""
    theirs: list[Key] = field(default_factory=list)
    """Pods that somebody else has given a cost meanwhile."""
    failed: dict[Key, str] = field(default_factory=dict)
    late: int = 0
    """How many were not written before the deadline."""

    @property
    def whole(self) -> bool:
        """Whether every pod that is still there has its cost."""
        return not (self.theirs or self.failed or self.late)


def mark_of(pod: Pod) -> PlanAnnotation | None:
    """The plan that the cost of a pod was written for, if there is one that can be read."""
    return plan_annotation(pod.metadata.annotations)


def annotation_for(made: PlanAnnotation, pod: Pod, *, share: int, was: int, side: str, cost: int) -> PlanAnnotation:
    """The annotation of one pod of the plan."""
    return msgspec.structs.replace(made, share=share, was=was, side=side, cost=cost, before=before_us(pod))


def by_plan(pod: Pod) -> Iterable[str]:
    """An index: pods with a mark, by `namespace/Kind/name` of the workload that it names."""
    mark = mark_of(pod)
    return () if mark is None else (f"{pod.metadata.namespace}/{mark.workload}",)


def own_cost(pod: Pod) -> int | None:
    """The cost that a plan of ours wrote, if it still stands there as written."""
    mark = mark_of(pod)
    if mark is None or pod.metadata.annotations.get(DELETION_COST) != str(mark.cost):
        return None
    return mark.cost


def before_us(pod: Pod) -> str | None:
    """The cost that a pod has by others: what stands there, or stood there before ours."""
    mark = mark_of(pod)
    if mark is not None and own_cost(pod) is not None:
        return mark.before
    return pod.metadata.annotations.get(DELETION_COST)


def inscription(pod: Pod, mark: PlanAnnotation) -> JSON:
    """The patch that writes a cost and its mark, for this version of the pod alone."""
    annotations = {DELETION_COST: str(mark.cost), SCALE_PLAN: codec.encode(mark).decode()}
    return {"metadata": {"resourceVersion": pod.metadata.resource_version, "annotations": annotations}}


def erasure(pod: Pod) -> JSON | None:
    """The patch that puts a pod back as it was before us; None where nothing of ours is on it."""
    if SCALE_PLAN not in pod.metadata.annotations:
        return None
    annotations: JSON = {SCALE_PLAN: None}
    if own_cost(pod) is not None:
        annotations[DELETION_COST] = before_us(pod)
    return {"metadata": {"resourceVersion": pod.metadata.resource_version, "annotations": annotations}}


class Ledger:
    """Writes costs and takes them back."""

    def __init__(self, client: Client, *, metrics: Metrics | None = None, writers: int = WRITERS) -> None:
        self._client = client.using(retry=_HURRIED, urgent=True)
        self._clock = client.clock
        self._metrics = metrics or Metrics()
        self._writers = writers

    async def write(self, entries: Sequence[Entry], *, until: int) -> Written:
        """Write these costs in order; `until` is the moment, on the monotonic clock, after which none is written."""
        written = Written()
        left = (until - self._clock.monotonic()) / SECOND
        if left > 0:
            try:
                await within(self._clock, left + LAST, self._write_all(entries, written, until))
            except TimeoutError:
                log.info("%d of %d costs were written in time", len(written.versions), len(entries))
        done = len(written.versions) + len(written.gone) + len(written.theirs) + len(written.failed)
        written.late = len(entries) - done
        self._metrics.costs_written(len(written.versions))
        return written

    async def _write_all(self, entries: Sequence[Entry], written: Written, until: int) -> None:
        waiting = iter(entries)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._writers, -(-len(entries) // _EACH))):
                group.create_task(self._write_some(waiting, written, until))

    async def _write_some(self, waiting: Iterator[Entry], written: Written, until: int) -> None:
        while self._clock.monotonic() < until:
            entry = next(waiting, None)
            if entry is None:
                return
            await self._write_one(entry, written)

    async def _write_one(self, entry: Entry, written: Written) -> None:
        key, pod, mark = key_of(entry.pod), entry.pod, entry.mark
        expected = before_us(pod)
        for _ in range(_ATTEMPTS):
            try:
                answer = await self._patch(pod, inscription(pod, mark))
            except Conflict:
                fresh = await self._read(pod)
                if fresh is None or fresh.terminating:
                    written.gone.append(key)
                    return
                if before_us(fresh) != expected:
                    written.theirs.append(key)
                    return
                pod = fresh
            except NotFound:
                written.gone.append(key)
                return
            except (ApiError, ConfigError) as error:
                written.failed[key] = str(error)
                return
            else:
                written.versions[key] = answer.metadata.resource_version
                return
        written.failed[key] = "it changes faster than it can be written to"

    async def take_back(self, pods: Iterable[Pod], *, reason: str) -> int:
        """Put these pods back as they were before us; how many had something of ours.

        Raises ApiError if the API server does not let us: the caller comes back.
        """
        waiting = iter([pod for pod in pods if SCALE_PLAN in pod.metadata.annotations])
        results = await asyncio.gather(
            *(self._erase_some(waiting) for _ in range(self._writers)), return_exceptions=True
        )
        counts = [result for result in results if isinstance(result, int)]
        self._metrics.costs_taken_back(sum(counts), reason)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return sum(counts)

    async def _erase_some(self, waiting: Iterator[Pod]) -> int:
        count = 0
        for pod in waiting:
            count += await self._erase(pod)
        return count

    async def _erase(self, pod: Pod) -> bool:
        """Whether something was taken back. A pod that keeps changing is left to the next time."""
        for _ in range(_ATTEMPTS):
            patch = erasure(pod)
            if patch is None:
                return False
            try:
                await self._patch(pod, patch)
            except Conflict:
                fresh = await self._read(pod)
                if fresh is None:
                    return False
                pod = fresh
            except NotFound:
                return False
            else:
                return True
        raise Conflict(f"{pod.key} changes faster than it can be written to")

    async def _patch(self, pod: Pod, patch: JSON) -> Pod:
        metadata = pod.metadata
        return await self._client.patch(Pod, metadata.name, patch, namespace=metadata.namespace)

    async def _read(self, pod: Pod) -> Pod | None:
        """The pod as it is now; None where it is gone, or another has its name."""
        metadata = pod.metadata
        try:
            fresh = await self._client.get(Pod, metadata.name, namespace=metadata.namespace)
        except NotFound:
            return None
        return fresh if fresh.metadata.uid == metadata.uid else None


async def sweep(client: Client, *, namespace: str = "", metrics: Metrics | None = None) -> int:
    """Take back every cost that a scale-down ever wrote, in all namespaces or in one; how many there were.

    For uninstalling: it looks at the cluster alone, needs no running Trimtab, and may be run again.
    """
    ledger = Ledger(client, metrics=metrics)
    count = 0
    async for page in client.pages(Pod, namespace=namespace):
        count += await ledger.take_back(page.items, reason="sweep")
    return count
