"""Marks and costs, written to pods: several at a time, each for the version of the pod that was looked at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, Conflict, NotFound
from trimtab.unitedtopology import costs
from trimtab.unitedtopology.costs import Change
from trimtab.unitedtopology.metrics import Metrics

AT_ONCE = 16
"""How many pods are written to at a time."""

log = logging.getLogger(__name__)


class Scribe:
    """Writes what pods are to carry."""

    def __init__(self, client: Client, metrics: Metrics, *, at_once: int = AT_ONCE) -> None:
        self._client = client
        self._metrics = metrics
        self._at_once = at_once

    async def write(self, changes: Iterable[tuple[Pod, Change]], *, reason: str) -> list[Pod]:
        """The pods that were written, as they are now.

        One that has changed since, or is gone, is passed over: it will be seen, and looked at again. Raises the first
        other failure, when all have been tried.
        """
        waiting = iter([(pod, change) for pod, change in changes if change])
        written: list[Pod] = []
        failures: list[ApiError] = []

        async def some() -> None:
            for pod, change in waiting:
                await self._one(pod, change, written, failures)

        await asyncio.gather(*(some() for _ in range(self._at_once)))
        self._metrics.pods_written(len(written), reason)
        if failures:
            raise failures[0]
        return written

    async def _one(self, pod: Pod, change: Change, written: list[Pod], failures: list[ApiError]) -> None:
        patch = costs.patch(pod, change)
        if patch is None:
            return
        try:
            answer = await self._client.patch(Pod, pod.metadata.name, patch, namespace=pod.metadata.namespace)
        except (Conflict, NotFound) as error:
            log.debug("%s is passed over: %s", pod.key, error)
        except ApiError as error:
            failures.append(error)
        else:
            written.append(answer)
