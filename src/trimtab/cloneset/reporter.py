"""Status updates and events of CloneSets, written to the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from trimtab.api.annotations import Reason
from trimtab.api.cloneset import CloneSet, CloneSetStatus
from trimtab.api.errors import InvalidError
from trimtab.cloneset import status as statuses
from trimtab.cloneset.metrics import Metrics
from trimtab.cloneset.observation import CLONESETS
from trimtab.cloneset.plan import Plan, Step
from trimtab.cloneset.pods import is_without_namespace
from trimtab.cloneset.status import Finding
from trimtab.kube.client import Client
from trimtab.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unreachable,
)
from trimtab.kube.events import NORMAL, WARNING, Recorder
from trimtab.kube.resources import Key
from trimtab.kube.stores import key_of

UNSEEN = 30.0
"""Seconds after which to reconcile again while a write has not been observed: expectations expire by themselves, and an
object that an API call did not find may exist."""
RETRYABLE = (Unreachable, TooManyRequests, ServiceUnavailable, Timeout)
"""Failures after which nothing else is tried at once: it would fail too."""


class Reporter:
    """Writes the status of CloneSets, and records events on them."""

    def __init__(
        self, client: Client, recorder: Recorder, metrics: Metrics, requeue: Callable[[Key, float], None]
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._metrics = metrics
        self._requeue = requeue
        self.status_versions: dict[Key, str] = {}
        """The resource version of the last status written, by CloneSet."""

    async def write(self, cloneset: CloneSet, status: CloneSetStatus) -> None:
        """Write a status, if it differs. A deleted CloneSet needs none; the watch will show whether it is deleted."""
        if status == cloneset.status:
            return
        metadata = cloneset.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "status": statuses.tree(status)}
        try:
            updated = await self._client.patch(
                CLONESETS, metadata.name, patch, namespace=metadata.namespace, subresource="status"
            )
        except NotFound:
            self._requeue(key_of(cloneset), UNSEEN)
        else:
            self.status_versions[key_of(cloneset)] = updated.metadata.resource_version

    async def report_invalid(self, cloneset: CloneSet, problems: Sequence[InvalidError]) -> None:
        """Report a spec that is not supported; its existing pods stay."""
        finding = statuses.invalid_spec(problems)
        self._warn_once(cloneset, finding)
        observed = msgspec.structs.replace(cloneset.status, observed_generation=cloneset.metadata.generation)
        await self.write(cloneset, statuses.with_findings(observed, [finding], self._client.clock.now()))

    async def report_failure(self, cloneset: CloneSet, error: ApiError) -> None:
        """Report a request that failed before a decision was made, unless it is retried at once anyway."""
        if isinstance(error, (*RETRYABLE, AlreadyExists, Conflict)) or is_without_namespace(error):
            return
        failure = statuses.failure(Step.NOTHING, error.message)
        self._warn_once(cloneset, failure)
        kept = statuses.standing(cloneset, [failure], statuses.UNDECIDED | {Reason.SELECTOR_OVERLAP})
        status = statuses.with_findings(cloneset.status, [failure, *kept], self._client.clock.now())
        await self.write(cloneset, status)

    async def report_collision(self, cloneset: CloneSet) -> None:
        """Increase the collision count, so that the next hash of the template is different."""
        count = (cloneset.status.collision_count or 0) + 1
        await self.write(cloneset, msgspec.structs.replace(cloneset.status, collision_count=count))

    def record_events(self, cloneset: CloneSet, plan: Plan, conflicting: Sequence[CloneSet]) -> None:
        """Record the events that explain a plan."""
        if conflicting:
            self._warn_once(cloneset, statuses.overlap(conflicting))
        if plan.creations and plan.delayed:
            message = (
                f"{plan.delayed} pods wait: scaleStrategy.maxUnavailable lets {len(plan.creations)} be created now"
            )
            self._recorder.record(cloneset, WARNING, Reason.SCALE_UP_LIMITED, message)
        if plan.wait is not None and plan.wait_reason and plan.wait != cloneset.status.rank_wait:
            self._metrics.waits.inc()
            message = f"The scale-down waits: {plan.wait_reason}"
            self._recorder.record(cloneset, NORMAL, Reason.WAITING_FOR_RANKS, message)
        if plan.fallback_reason:
            self._metrics.fallbacks.inc()
            message = f"Scaled down in the original order: {plan.fallback_reason}"
            self._recorder.record(cloneset, WARNING, Reason.RANKS_IGNORED, message)

    def _warn_once(self, cloneset: CloneSet, finding: Finding) -> None:
        """Record an event, unless the CloneSet has a condition that says the same."""
        known = {(each.type, each.message) for each in cloneset.status.conditions}
        if (finding.type, finding.message) not in known:
            self._recorder.record(cloneset, WARNING, finding.type, finding.message)
