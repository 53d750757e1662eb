"""Writes the costs of a plan to pods, and reverts them.

**No foreign cost is overwritten.** A patch holds for the version of the pod that it was computed from. If the pod has
changed since, it is read again: if another program has given it a cost meanwhile, or it is terminating, it is skipped.
Where costs of other writers are a tie-break only, such a cost is replaced, and restored when the plan ends.

**In order, until a deadline.** Costs are written in the order given, several at a time. At the deadline no more are
started, and those in progress are given a moment to finish. The rest is left out: the caller orders costs such that
every prefix is the best plan of its length.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from trimtab.api.annotations import SCALE_PLAN, PlanAnnotation
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube import unreadable
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, within
from trimtab.kube.errors import ApiError, ConfigError, IncompleteSweep, Invalid
from trimtab.kube.pod_writer import PodWriter, PodWrites
from trimtab.kube.resources import Key
from trimtab.kube.retries import Backoff, RetryPolicy
from trimtab.kube.stores import key_of
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.pod_costs import apply_plan_patch, cost_without_plan, revert_plan_patch

WRITERS = 32
"""How many costs are written at a time."""
LAST = 0.1
"""Seconds that writes in progress are given after the deadline."""
_EACH = 4
"""How many costs justify another connection: opening one takes as long as a few writes."""
_REREADS = 4
"""How often a pod that keeps changing is read again."""
_HURRIED = RetryPolicy(attempts=3, backoff=Backoff(initial=0.02, cap=0.2, jitter=0.5), patience=0.5)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CostChange:
    """A pod, as it was last seen, and the plan's annotation that it is to get, which has the cost.

    `replaces_foreign` says that a cost of another writer is replaced, and restored with the plan's end.
    """

    pod: Pod
    annotation: PlanAnnotation
    replaces_foreign: bool = False

    def on(self, current: Pod) -> CostChange:
        """The same change of the pod as it is now."""
        annotation = msgspec.structs.replace(self.annotation, before=cost_without_plan(current))
        return replace(self, pod=current, annotation=annotation)


@dataclass(slots=True)
class WriteReport:
    """Which costs were written and which were not."""

    versions: dict[Key, str] = field(default_factory=dict)
    """The resource versions of the pods that were written."""
    gone: list[Key] = field(default_factory=list)
    """Pods that do not exist any more, or are terminating."""
    foreign: list[Key] = field(default_factory=list)
    """Pods to which another program has given a cost meanwhile."""
    failed: dict[Key, str] = field(default_factory=dict)
    """Pods whose write failed, and the error."""
    late: int = 0
    """How many were not written before the deadline."""

    @property
    def is_complete(self) -> bool:
        """Whether every pod that still exists has its cost."""
        return not (self.foreign or self.failed or self.late)


class CostWriter:
    """Writes the costs of plans and reverts them."""

    def __init__(self, client: Client, *, metrics: Metrics | None = None, writers: int = WRITERS) -> None:
        hurried = client.using(retry=_HURRIED, urgent=True)
        self._clock = client.clock
        self._metrics = metrics or Metrics()
        self._writer = PodWriter(hurried, at_once=writers, pods_each=_EACH, rereads=_REREADS)
        self._reverter = PodWriter(hurried, at_once=writers, rereads=_REREADS)

    async def write(self, changes: Sequence[CostChange], *, until: int) -> WriteReport:
        """Write these costs in order; `until` is the moment, on the monotonic clock, after which none is started."""
        report, writes = WriteReport(), PodWrites()
        left = (until - self._clock.monotonic()) / SECOND
        wanted = [(change.pod, functools.partial(_patch, change, report)) for change in changes]
        try:
            await within(self._clock, left + LAST, self._writer.write(wanted, until=until, report=writes))
        except TimeoutError:
            log.info("%d of %d costs were written in time", len(writes.written), len(changes))
        report.versions = {key: pod.metadata.resource_version for key, pod in writes.written.items()}
        report.gone += writes.gone
        report.failed = {key: str(error) for key, error in writes.failed.items()}
        done = len(report.versions) + len(report.gone) + len(report.foreign) + len(report.failed)
        report.late = len(changes) - done
        self._metrics.record_costs_written(len(report.versions))
        return report

    async def revert(self, pods: Iterable[Pod], *, reason: str) -> int:
        """Restore what these pods had before any plan; how many a plan had written to.

        A pod that the API server refuses as invalid is passed over: a retry would not help. Raises another ApiError, if
        there is one, after all pods have been tried: the caller tries again later.
        """
        count, failed = await self._revert_all(pods, reason)
        for key, error in failed.items():
            if not isinstance(error, Invalid):
                raise error
            log.warning("the cost of pod %s cannot be reverted, and is left as it is: %s", key, error)
        return count

    async def sweep(self, pods: Iterable[Pod], failed: dict[str, str]) -> int:
        """Restore what these pods had before any plan, as `revert` does; every failure goes into `failed`."""
        count, errors = await self._revert_all(pods, "sweep")
        failed.update({f"pod {key}": str(error) for key, error in errors.items()})
        return count

    async def _revert_all(self, pods: Iterable[Pod], reason: str) -> tuple[int, dict[Key, ApiError | ConfigError]]:
        planned = [(pod, revert_plan_patch) for pod in pods if SCALE_PLAN in pod.metadata.annotations]
        writes = await self._reverter.write(planned)
        self._metrics.record_costs_reverted(len(writes.written), reason)
        return len(writes.written), writes.failed


def _patch(change: CostChange, report: WriteReport, pod: Pod) -> JSON | None:
    """The patch of a pod as it is now; None where it is left as it is, which is reported."""
    if pod is change.pod:
        return apply_plan_patch(pod, change.annotation)
    if pod.terminating:
        report.gone.append(key_of(pod))
    elif cost_without_plan(pod) != cost_without_plan(change.pod) and not change.replaces_foreign:
        report.foreign.append(key_of(pod))
    else:
        return apply_plan_patch(pod, change.on(pod).annotation)
    return None


async def sweep(
    client: Client, *, includes: Callable[[str], bool] = lambda _: True, metrics: Metrics | None = None
) -> int:
    """Revert every cost that a plan ever wrote, in all namespaces or in those included; how many there were.

    For uninstalling: it reads the cluster alone, needs no running Trimtab, and may be repeated. Raises IncompleteSweep,
    after all pods have been tried.
    """
    writer = CostWriter(client, metrics=metrics)
    count, failed = 0, dict[str, str]()
    async for page in client.pages(Pod):
        failed |= unreadable.sweep_failures("pod", page.rejected, includes)
        pods = [pod for pod in page.items if includes(pod.metadata.namespace)]
        count += await writer.sweep(pods, failed)
    if failed:
        raise IncompleteSweep(failed, count=count)
    return count
