"""The last plan of a policy, told in its status by whichever process made it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Protocol

from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.kube.client import Client
from trimtab.kube.errors import Conflict, Invalid, NotFound
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key, split
from trimtab.kube.runners import Result, Runner
from trimtab.ranking.plan import Plan
from trimtab.scaledown.policy import statuses
from trimtab.scaledown.policy.effective import Governing


class Made(Protocol):
    """A plan that was made: see `intents`."""

    @property
    def governing(self) -> Governing:
        """Who spoke for the workload."""
        ...

    @property
    def before(self) -> int:
        """The size that the workload had."""
        ...

    @property
    def after(self) -> int:
        """The size that it is to have."""
        ...

    @property
    def plans(self) -> Sequence[Plan]:
        """One, or one for each ReplicaSet."""
        ...

    @property
    def at(self) -> int:
        """The time of day."""
        ...

    @property
    def error(self) -> str:
        """Why not all of its costs could be written, if so."""
        ...


class PlanReports:
    """Writes plans into the statuses of their policies, the last one of each; nobody waits for that."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last: dict[Key, Made] = {}
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.runner = Runner("plan reports", self.reconcile, self.queue)

    def note(self, made: Made) -> None:
        """A plan was made. One by a default of the configuration has no status to be told in."""
        if made.governing.key:
            key = Key(made.governing.key)
            self._last[key] = made
            self.queue.add(key)

    async def run(self) -> None:
        """Write what was noted until cancelled."""
        await self.runner.run()

    async def reconcile(self, key: Key) -> Result:
        """Write the last plan of a policy, if it is still there."""
        made = self._last.get(key)
        if made is None:
            return Result()
        plan = statuses.plan_status(made.plans, made.before, made.after, made.at, made.error)
        namespace, name = split(key)
        patch = {"metadata": {"uid": made.governing.uid}, "status": {"lastPlan": statuses.plan_tree(plan)}}
        with contextlib.suppress(NotFound, Conflict, Invalid):  # the policy is gone, or another has its name
            await self._client.patch(ScaleDownPolicy, name, patch, namespace=namespace, subresource="status")
        if self._last.get(key) is made:
            del self._last[key]
        return Result()
