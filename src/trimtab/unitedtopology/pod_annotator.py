"""Writes annotations to pods: several at a time, each for the version of the pod that was decided from."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, Conflict, IncompleteSweep, NotFound
from trimtab.unitedtopology import costs
from trimtab.unitedtopology.costs import Change
from trimtab.unitedtopology.metrics import Metrics

CONCURRENCY = 16
"""How many pods are written at a time."""

log = logging.getLogger(__name__)


class PodAnnotator:
    """Applies changes of annotations to pods."""

    def __init__(self, client: Client, metrics: Metrics, *, concurrency: int = CONCURRENCY) -> None:
        self._client = client
        self._metrics = metrics
        self._concurrency = concurrency

    async def write(self, changes: Iterable[tuple[Pod, Change]], *, reason: str) -> list[Pod]:
        """Apply changes, and return the pods that were written, as they are now.

        A pod that has changed since, or is gone, is skipped: its event requeues it. Raises IncompleteSweep, if there
        are other failures, after all pods have been tried.
        """
        waiting = iter([(pod, change) for pod, change in changes if change])
        written: list[Pod] = []
        failures: dict[str, str] = {}

        async def work() -> None:
            for pod, change in waiting:
                await self._write_one(pod, change, written, failures)

        await asyncio.gather(*(work() for _ in range(self._concurrency)))
        self._metrics.record_pods(len(written), reason)
        if failures:
            raise IncompleteSweep(failures, count=len(written))
        return written

    async def _write_one(self, pod: Pod, change: Change, written: list[Pod], failures: dict[str, str]) -> None:
        patch = costs.patch(pod, change)
        if patch is None:
            return
        try:
            answer = await self._client.patch(Pod, pod.metadata.name, patch, namespace=pod.metadata.namespace)
        except (Conflict, NotFound) as error:
            log.debug("%s is skipped: %s", pod.key, error)
        except ApiError as error:
            failures[f"pod {pod.key}"] = str(error)
        else:
            written.append(answer)
