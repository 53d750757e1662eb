"""Writes annotations to pods: several at a time, each for the version of the pod that was decided from."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.errors import IncompleteSweep
from trimtab.kube.pod_writer import PodWriter
from trimtab.unitedtopology import costs
from trimtab.unitedtopology.costs import Change
from trimtab.unitedtopology.metrics import Metrics

CONCURRENCY = 16
"""How many pods are written at a time."""


class PodAnnotator:
    """Applies changes of annotations to pods."""

    def __init__(self, client: Client, metrics: Metrics, *, concurrency: int = CONCURRENCY) -> None:
        self._metrics = metrics
        self._writer = PodWriter(client, at_once=concurrency)

    async def write(self, changes: Iterable[tuple[Pod, Change]], *, reason: str) -> list[Pod]:
        """Apply changes, and return the pods that were written, as they are now.

        A pod that has changed since, or is gone, is skipped: its event requeues it. Raises IncompleteSweep, if there
        are other failures, after all pods have been tried.
        """
        wanted = [(pod, functools.partial(costs.patch, change=change)) for pod, change in changes if change]
        report = await self._writer.write(wanted)
        self._metrics.record_pods(len(report.written), reason)
        if report.failed:
            failures = {f"pod {key}": str(error) for key, error in report.failed.items()}
            raise IncompleteSweep(failures, count=len(report.written))
        return list(report.written.values())
