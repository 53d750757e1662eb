"""Reports scale-downs in the statuses of their policies: the last plan, counts, and the last ten.

Several processes report about one policy. Counts are added to what the status has, under its resourceVersion: if
another process has written meanwhile, they are added to what that one wrote.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence

from trimtab.api import codec
from trimtab.api.documents import JSON
from trimtab.api.scaledown import ScaleDownCounts, ScaleDownPolicy, ScaleDownPolicyStatus
from trimtab.kube.client import Client
from trimtab.kube.errors import Conflict, Invalid, NotFound
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key, split
from trimtab.kube.runners import Result, Runner
from trimtab.scaledown.intent.requests import DeliveredPlan
from trimtab.scaledown.metrics import FALLBACKS
from trimtab.scaledown.policy import statuses
from trimtab.scaledown.results.history import ScaleDownRecord, summary_tree

RECENT = 10
"""How many scale-downs a status lists."""
_AGAIN = 0.5
"""Seconds after which a report is repeated that another process has overtaken."""
log = logging.getLogger(__name__)
_SKIPPED = frozenset(outcome.value for outcome in FALLBACKS if outcome.value != "partial")


class PlanReports:
    """Writes what became of scale-downs into the statuses of policies, in the background."""

    def __init__(self, client: Client, find: Callable[[Key], ScaleDownPolicy | None] = lambda _: None) -> None:
        self._client = client
        self._find = find
        """Finds a policy in a cache."""
        self._last: dict[Key, DeliveredPlan] = {}
        self._ended: dict[Key, list[ScaleDownRecord]] = {}
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.runner = Runner("plan reports", self.reconcile, self.queue)

    def record(self, delivered: DeliveredPlan) -> None:
        """Queue a plan to be reported. One by a default of the configuration has no status."""
        if delivered.policy.key:
            key = Key(delivered.policy.key)
            self._last[key] = delivered
            self.queue.add(key)

    def record_end(self, record: ScaleDownRecord) -> None:
        """Queue a scale-down that has ended."""
        if record.policy_uid:
            key = Key(record.policy)
            self._ended.setdefault(key, []).append(record)
            self.queue.add(key)

    async def run(self) -> None:
        """Write reports until cancelled, and then those that are left."""
        try:
            await self.runner.run()
        finally:
            if left := len(self._last) + sum(map(len, self._ended.values())):
                log.warning("%d reports of scale-downs could not be written to the statuses of their policies", left)

    async def reconcile(self, key: Key) -> Result:
        """Write what is to be reported about a policy, if the policy still exists."""
        await self._report_plan(key)
        return await self._report_ended(key)

    async def _report_plan(self, key: Key) -> None:
        delivered = self._last.get(key)
        if delivered is None:
            return
        plan = statuses.plan_status(delivered.plans, delivered.before, delivered.after, delivered.at, delivered.error)
        namespace, name = split(key)
        patch = {"metadata": {"uid": delivered.policy.uid}, "status": {"lastPlan": statuses.plan_tree(plan)}}
        with contextlib.suppress(NotFound, Conflict, Invalid):  # the policy is gone, or another has its name
            await self._client.patch(ScaleDownPolicy, name, patch, namespace=namespace, subresource="status")
        if self._last.get(key) is delivered:
            del self._last[key]

    async def _report_ended(self, key: Key) -> Result:
        ended = list(self._ended.get(key, ()))
        if not ended:
            return Result()
        namespace, name = split(key)
        policy = self._find(key)
        if policy is not None:
            own = [record for record in ended if record.policy_uid == policy.metadata.uid]
            patch = {
                "metadata": {"resourceVersion": policy.metadata.resource_version},
                "status": status_patch(policy.status, own),
            }
            try:
                await self._client.patch(ScaleDownPolicy, name, patch, namespace=namespace, subresource="status")
            except Conflict:
                return Result(_AGAIN)
            except NotFound:
                log.debug("policy %s is gone", key)
        left = self._ended.pop(key)[len(ended) :]
        if left:
            self._ended[key] = left
        return Result(_AGAIN if left else None)


def status_patch(status: ScaleDownPolicyStatus, ended: Sequence[ScaleDownRecord]) -> JSON:
    """The counts with scale-downs that have ended added, and the last ten."""
    known = [codec.to_tree(each) for each in status.recent]
    recent = [*(summary_tree(record) for record in reversed(ended)), *known]
    return {"counts": _counts(status.counts, ended), "recent": recent[:RECENT]}


def _counts(counts: ScaleDownCounts, ended: Sequence[ScaleDownRecord]) -> JSON:
    results = [record.result for record in ended]
    outcomes = [record.outcome for record in ended]
    return {
        "total": counts.total + len(ended),
        "level": counts.level + results.count("level"),
        "best": counts.best + results.count("best"),
        "missed": counts.missed + results.count("missed"),
        "skipped": counts.skipped + sum(outcome in _SKIPPED for outcome in outcomes),
        "observed": counts.observed + outcomes.count("observed"),
    }
