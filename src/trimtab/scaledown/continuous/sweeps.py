"""Reverts every cost that a policy keeps current, for uninstalling."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost
from trimtab.kube import unreadable
from trimtab.kube.client import Client
from trimtab.kube.errors import IncompleteSweep, NotFound
from trimtab.kube.limits import TokenBucket
from trimtab.scaledown.continuous.annotation_costs import AnnotationCosts
from trimtab.scaledown.continuous.carriers import CarrierReport
from trimtab.scaledown.continuous.group_costs import GroupCosts

_RATE = 1000
"""Writes a second: nothing else is running any more."""


async def sweep(client: Client, *, includes: Callable[[str], bool] = lambda _: True) -> int:
    """Revert every cost of a policy, in all namespaces or in those included; how many there were.

    It reads the cluster alone, needs no running Trimtab, and may be repeated. Raises IncompleteSweep, after all objects
    have been tried.
    """
    limit = TokenBucket(_RATE, _RATE, client.clock)
    report = CarrierReport()
    pods, groups = AnnotationCosts(client, limit), GroupCosts(client, limit)
    async for page in client.pages(Pod):
        report.failed |= unreadable.sweep_failures("pod", page.rejected, includes)
        included = [pod for pod in page.items if includes(pod.metadata.namespace)]
        await pods.revert(included, report, reason="sweep")
    with contextlib.suppress(NotFound):  # the kind may not be installed
        costs = await client.list(PodGroupCost)
        report.failed |= unreadable.sweep_failures("PodGroupCost", costs.rejected, includes)
        for known in costs.items:
            if includes(known.metadata.namespace):
                await groups.revert(known, report, reason="sweep")
    if report.failed:
        raise IncompleteSweep(report.failed, count=report.reverted)
    return report.reverted
