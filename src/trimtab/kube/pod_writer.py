"""Patches of pods: several at a time, each for the version of the pod that it was computed from.

**Conflicts.** A change is a function from a pod to its patch, which names the pod's resourceVersion: what another
writer has written meanwhile is not overwritten. After a conflict the pod is read again, uncached, and its patch is
computed anew; a writer that never reads again skips the pod, whose next event requeues it. A pod that is gone needs
nothing.

**Order and rate.** Pods are taken in the order given, and no faster than the limit allows. After a deadline no more are
started; those in progress finish. What a change reverts is up to it: the writer keeps nothing.

**Failures** of single pods are returned, after all pods have been tried. Anything else, such as a lost lease, ends the
others and is raised.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import ApiError, ConfigError, Conflict, NotFound
from trimtab.kube.limits import TokenBucket
from trimtab.kube.resources import Key
from trimtab.kube.stores import key_of

Change = Callable[[Pod], JSON | None]
"""The patch of a pod as it is now; None where it needs none."""

_WITHOUT_PAUSE = 100
"""How many pods are looked at before other tasks run: of many thousands, most may need no patch."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PodWrites:
    """What became of the changes of pods. Those in none of these needed no patch, or were not started in time."""

    written: dict[Key, Pod] = field(default_factory=dict)
    """The pods that were patched, as they are now."""
    gone: list[Key] = field(default_factory=list)
    """Pods that do not exist any more."""
    skipped: list[Key] = field(default_factory=list)
    """Pods that have changed since, where they are not read again."""
    failed: dict[Key, ApiError | ConfigError] = field(default_factory=dict)


class PodWriter:
    """Applies changes to pods."""

    def __init__(
        self,
        client: Client,
        *,
        at_once: int,
        pods_each: int = 1,
        rereads: int = 0,
        limit: TokenBucket | None = None,
    ) -> None:
        """At most `at_once` pods are written at a time, each connection for `pods_each` of them; a pod that keeps
        changing is read again up to `rereads` times."""
        self._client = client
        self._clock = client.clock
        self._at_once = at_once
        self._pods_each = pods_each
        self._rereads = rereads
        self._limit = limit

    async def write(
        self, changes: Iterable[tuple[Pod, Change]], *, until: int | None = None, report: PodWrites | None = None
    ) -> PodWrites:
        """Apply changes in order; none is started after `until`, a moment on the monotonic clock.

        A given `report` has what was written even if the call is cancelled.
        """
        report = report or PodWrites()
        given = list(changes)
        waiting = iter(given)
        workers = min(self._at_once, -(-len(given) // self._pods_each))
        tasks = [asyncio.ensure_future(self._write_some(waiting, until, report)) for _ in range(workers)]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel(*tasks)
        return report

    async def _write_some(self, waiting: Iterator[tuple[Pod, Change]], until: int | None, report: PodWrites) -> None:
        at = 0
        while until is None or self._clock.monotonic() < until:
            pod, change = next(waiting, (None, None))
            if pod is None or change is None:
                return
            at += 1
            if not at % _WITHOUT_PAUSE:
                await asyncio.sleep(0)
            try:
                await self._write_one(pod, change, report)
            except (ApiError, ConfigError) as error:
                report.failed[key_of(pod)] = error

    async def _write_one(self, pod: Pod, change: Change, report: PodWrites) -> None:
        key = key_of(pod)
        for _ in range(max(self._rereads, 1)):
            patch = change(pod)
            if patch is None:
                return
            if self._limit is not None:
                await self._limit.wait()
            try:
                report.written[key] = await self._patch(pod, patch)
            except NotFound:
                report.gone.append(key)
            except Conflict as error:
                current = await self._read_again(pod, error, report)
                if current is not None:
                    pod = current
                    continue
            return
        raise Conflict(f"{pod.key}: gave up after {self._rereads} conflicting updates")

    async def _patch(self, pod: Pod, patch: JSON) -> Pod:
        return await self._client.patch(Pod, pod.metadata.name, patch, namespace=pod.metadata.namespace)

    async def _read_again(self, pod: Pod, error: Conflict, report: PodWrites) -> Pod | None:
        """The pod as it is now; None where it is skipped, gone, or another pod has its name."""
        if not self._rereads:
            log.debug("%s is skipped: %s", pod.key, error)
            report.skipped.append(key_of(pod))
            return None
        try:
            current = await self._client.get(Pod, pod.metadata.name, namespace=pod.metadata.namespace)
        except NotFound:
            current = None
        if current is None or current.metadata.uid != pod.metadata.uid:
            report.gone.append(key_of(pod))
            return None
        return current
