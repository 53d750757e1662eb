"""Reports the last plan of a policy in its status, from whichever process made it."""

from __future__ import annotations

import contextlib

from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.kube.client import Client
from trimtab.kube.errors import Conflict, Invalid, NotFound
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key, split
from trimtab.kube.runners import Result, Runner
from trimtab.scaledown.intent.requests import DeliveredPlan
from trimtab.scaledown.policy import statuses


class PlanReports:
    """Writes the last plan of each policy into its status, in the background."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last: dict[Key, DeliveredPlan] = {}
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.runner = Runner("plan reports", self.reconcile, self.queue)

    def record(self, delivered: DeliveredPlan) -> None:
        """Queue a plan to be reported. One by a default of the configuration has no status."""
        if delivered.policy.key:
            key = Key(delivered.policy.key)
            self._last[key] = delivered
            self.queue.add(key)

    async def run(self) -> None:
        """Write plans until cancelled."""
        await self.runner.run()

    async def reconcile(self, key: Key) -> Result:
        """Write the last plan of a policy, if the policy still exists."""
        delivered = self._last.get(key)
        if delivered is None:
            return Result()
        plan = statuses.plan_status(delivered.plans, delivered.before, delivered.after, delivered.at, delivered.error)
        namespace, name = split(key)
        patch = {"metadata": {"uid": delivered.policy.uid}, "status": {"lastPlan": statuses.plan_tree(plan)}}
        with contextlib.suppress(NotFound, Conflict, Invalid):  # the policy is gone, or another has its name
            await self._client.patch(ScaleDownPolicy, name, patch, namespace=namespace, subresource="status")
        if self._last.get(key) is delivered:
            del self._last[key]
        return Result()
