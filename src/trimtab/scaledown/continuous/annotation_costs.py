"""Costs that are kept current in annotations of pods: written a few at a time, and no faster than a limit allows."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable
from dataclasses import replace

from trimtab.api.annotations import CARRIER_KEYS, CostOwner, cost_owner
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, ConfigError
from trimtab.kube.limits import TokenBucket
from trimtab.ranking.costs import Carrier
from trimtab.scaledown.continuous.carriers import CarrierReport
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.pod_costs import Change, PolicyCost, apply_change, apply_policy_patch, revert_policy_patch

AT_ONCE = 8
"""How many pods are written to at a time."""
_ATTEMPTS = 3


def carrier_cost_owner(pod: Pod, carrier: Carrier) -> CostOwner:
    """Who owns the cost that a pod has in the annotation of a carrier."""
    return cost_owner(pod.metadata.annotations, CARRIER_KEYS[carrier])


class AnnotationCosts:
    """Writes policies' costs to pods and reverts them."""

    def __init__(self, client: Client, limit: TokenBucket, *, metrics: Metrics | None = None) -> None:
        self._client = client
        self._limit = limit
        self._metrics = metrics or Metrics()

    async def write(self, costs: Iterable[PolicyCost], report: CarrierReport) -> None:
        """Give pods these costs, where they do not have them already."""
        wanted = list(costs)
        report.foreign += [
            cost.pod.key for cost in wanted if carrier_cost_owner(cost.pod, cost.carrier) is CostOwner.OTHER
        ]
        changes = [(cost.pod, functools.partial(_applied, cost)) for cost in wanted]
        count = await self._apply_all(changes, report)
        report.written += count
        self._metrics.record_costs_written(count)

    async def revert(self, pods: Iterable[Pod], report: CarrierReport, *, reason: str) -> None:
        """Restore what these pods had before any policy."""
        count = await self._apply_all([(pod, revert_policy_patch) for pod in pods], report)
        report.reverted += count
        self._metrics.record_costs_reverted(count, reason)

    async def _apply_all(self, changes: Iterable[tuple[Pod, Change]], report: CarrierReport) -> int:
        waiting = iter([(pod, change) for pod, change in changes if change(pod) is not None])

        async def apply_some() -> int:
            return sum([await self._apply(pod, change, report) for pod, change in waiting])

        return sum(await asyncio.gather(*(apply_some() for _ in range(AT_ONCE))))

    async def _apply(self, pod: Pod, change: Change, report: CarrierReport) -> bool:
        """Whether the pod was changed."""
        try:
            needed = functools.partial(_unless_terminating, change)
            return await apply_change(self._client, pod, needed, attempts=_ATTEMPTS, limit=self._limit)
        except (ApiError, ConfigError) as error:
            report.failed[pod.key] = str(error)
            return False


def _applied(cost: PolicyCost, pod: Pod) -> JSON | None:
    return apply_policy_patch(replace(cost, pod=pod))


def _unless_terminating(change: Change, pod: Pod) -> JSON | None:
    return None if pod.terminating else change(pod)
