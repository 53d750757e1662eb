"""Costs that are kept current in annotations of pods: written a few at a time, and no faster than a limit allows."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace

from trimtab.api.annotations import CARRIER_KEYS, CostOwner, cost_owner
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.limits import TokenBucket
from trimtab.kube.pod_writer import Change, PodWriter
from trimtab.ranking.costs import Carrier
from trimtab.scaledown.continuous.carriers import CarrierReport
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.pod_costs import PolicyCost, apply_policy_patch, revert_policy_patch

AT_ONCE = 8
"""How many pods are written to at a time."""
_REREADS = 3


def carrier_cost_owner(pod: Pod, carrier: Carrier) -> CostOwner:
    """Who owns the cost that a pod has in the annotation of a carrier."""
    return cost_owner(pod.metadata.annotations, CARRIER_KEYS[carrier])


class AnnotationCosts:
    """Writes policies' costs to pods and reverts them."""

    def __init__(self, client: Client, limit: TokenBucket, *, metrics: Metrics | None = None) -> None:
        self._writer = PodWriter(client, at_once=AT_ONCE, rereads=_REREADS, limit=limit)
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
        writes = await self._writer.write(
            [(pod, functools.partial(_unless_terminating, each)) for pod, each in changes]
        )
        report.failed.update({str(key): str(error) for key, error in writes.failed.items()})
        return len(writes.written)


def _applied(cost: PolicyCost, pod: Pod) -> JSON | None:
    return apply_policy_patch(replace(cost, pod=pod))


def _unless_terminating(change: Change, pod: Pod) -> JSON | None:
    return None if pod.terminating else change(pod)
