"""Scale-downs that are still in progress although no running process tracks them.

A process that admitted a scale-down computes its certainty again for as long as the controller does not act. If that
process ends in the meantime, another one has to: whichever sees, some time later, that a workload still has more pods
than its size takes the scale-down over. This needs no memory of the request: it follows from the cluster alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trimtab.api.workloads import ReplicaSetOwner
from trimtab.kube.clocks import Clock
from trimtab.kube.queues import WorkQueue
from trimtab.kube.runners import Result, Runner
from trimtab.scaledown.view import View, Workload

OVERDUE = 15.0
"""Seconds after which a scale-down that no open plan of this process is about is taken over."""

TakeOver = Callable[[str, Workload], Awaitable[None]]
"""Plans what is left of a scale-down, and writes the costs that it needs."""


class OverdueScaleDowns:
    """Finds scale-downs that are overdue. A component of every process that holds requests."""

    def __init__(
        self,
        view: View,
        clock: Clock,
        *,
        is_tracked: Callable[[str], bool],
        take_over: TakeOver,
        after: float = OVERDUE,
    ) -> None:
        self._view = view
        self._is_tracked = is_tracked
        self._take_over = take_over
        self._after = after
        self.queue: WorkQueue[str] = WorkQueue(clock)
        self._runner = Runner("overdue scale-downs", self.reconcile, self.queue, after=view.required)
        for kind in view.kinds:
            view.cache(kind).subscribe(added=self._changed, updated=lambda _, new: self._changed(new))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._runner.run()

    async def reconcile(self, key: str) -> Result:
        """Take a scale-down over if it is still in progress and untracked."""
        namespace, _, named = key.partition("/")
        kind, _, name = named.partition("/")
        workload = self._view.workload(kind, namespace, name)
        if workload is None or not self._is_shrinking(workload):
            return Result()
        if not self._is_tracked(key):
            await self._take_over(key, workload)
        return Result(self._after)

    def _changed(self, workload: Workload) -> None:
        """Check a workload later whose status has more pods than its size."""
        if workload.status.replicas > workload.desired_replicas:
            metadata = workload.metadata
            key = f"{metadata.namespace}/{type(workload).__name__}/{metadata.name}"
            self.queue.add_after(key, self._after)

    def _is_shrinking(self, workload: Workload) -> bool:
        """Whether a controller has more pods than its size; during a rollout, that is the rollout's business."""
        if not isinstance(workload, ReplicaSetOwner):
            return self._surplus(workload) > 0
        sets = [
            each
            for each in self._view.sets_of(workload)
            if each.desired_replicas or self._view.pods_of(each.metadata.uid)
        ]
        return len(sets) == 1 and self._surplus(sets[0]) > 0

    def _surplus(self, workload: Workload) -> int:
        return sum(pod.active for pod in self._view.pods_of(workload.metadata.uid)) - workload.desired_replicas
