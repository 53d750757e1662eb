"""The reconcile loop of one CloneSet: observe, decide, act, report.

While something that was written has not been observed yet (created or deleted pods, our own status), nothing is created
or deleted, because the decision would be made from outdated data. Reports continue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

from trimtab.api import cloneset as rules
from trimtab.api.annotations import MANAGED_BY
from trimtab.api.cloneset import REVISION_HASH, CloneSet
from trimtab.api.pods import Pod
from trimtab.api.selectors import Selector
from trimtab.cloneset import conflicts, observation
from trimtab.cloneset import status as statuses
from trimtab.cloneset.decisions import Decider, PolicyOf
from trimtab.cloneset.history import History, NameCollision
from trimtab.cloneset.metrics import Metrics
from trimtab.cloneset.observation import CLONESETS
from trimtab.cloneset.plan import Plan, Step
from trimtab.cloneset.pods import PodControl, is_without_namespace
from trimtab.cloneset.reporter import RETRYABLE, UNSEEN, Reporter
from trimtab.cloneset.settings import Settings
from trimtab.cloneset.status import Decision
from trimtab.cloneset.view import View
from trimtab.kube import ownership
from trimtab.kube.adoption import Adopter
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, NotFound
from trimtab.kube.events import Recorder
from trimtab.kube.expectations import Expectations
from trimtab.kube.resources import Key, Resource
from trimtab.kube.runners import Result

_POLICY_RECHECK = 5.0
"""Seconds after which a scale-down that waits for ranks is requeued: its policy may have changed."""

log = logging.getLogger(__name__)


class Reconciler:
    """Brings CloneSets to their desired state."""

    def __init__(
        self,
        client: Client,
        view: View,
        *,
        recorder: Recorder,
        metrics: Metrics,
        settings: Settings,
        policy_of: PolicyOf,
        requeue: Callable[[Key, float], None],
        executor: Executor | None = None,
    ) -> None:
        """`requeue` has a CloneSet reconciled in so many seconds, also if this reconcile fails; `executor` has the
        thread in which many pods are decided on, without it there is one of its own."""
        self._client = client
        self._clock = client.clock
        self._view = view
        self._metrics = metrics
        self._settings = settings
        self._requeue = requeue
        thread = executor or ThreadPoolExecutor(1, thread_name_prefix="clonesets")
        self._decider = Decider(view, client.clock, settings, policy_of, executor=thread)
        self._adopter = Adopter(client, CLONESETS, Resource.of(Pod))
        self._history = History(client)
        self._pods = PodControl(client, recorder, parallel_deletions=settings.parallel_deletions)
        self._reporter = Reporter(client, recorder, metrics, requeue)
        self.expectations: Expectations[Key] = Expectations(client.clock)

    async def reconcile(self, key: Key) -> Result:
        """Take one step towards the desired state of a CloneSet."""
        cloneset = self._view.clonesets.get(key)
        if cloneset is None or not self._is_ours(cloneset):
            self.forget(key)
            return Result()
        version = self._reporter.status_versions.get(key)
        if version is not None and not self._view.clonesets.has_seen(key, version):
            return Result(UNSEEN)
        problems = list(rules.problems(cloneset))
        if problems:
            await self._reporter.report_invalid(cloneset, problems)
            return Result()
        return await self._reconcile_valid(key, cloneset, conflicts.selector_of(cloneset))

    def _is_ours(self, cloneset: CloneSet) -> bool:
        name = self._settings.name
        return cloneset.metadata.annotations.get(MANAGED_BY, name) == name

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a CloneSet: another one of the same name starts without expectations."""
        self.expectations.forget(key)
        self._reporter.status_versions.pop(key, None)

    async def _reconcile_valid(self, key: Key, cloneset: CloneSet, selector: Selector) -> Result:
        conflicting = conflicts.conflicting(cloneset, self._view.clonesets_in(cloneset.metadata.namespace))
        try:
            adopted = await self._claim(cloneset, selector, conflicting)
            revision = await self._revision(cloneset)
        except NameCollision:
            await self._reporter.report_collision(cloneset)
            return Result()
        except ApiError as error:
            await self._reporter.report_failure(cloneset, error)
            raise
        if self._is_outdated(key, cloneset):
            return Result()  # the change has queued it again
        decision = await self._decide(key, cloneset, selector, revision, adopted)
        if self._is_outdated(key, cloneset):
            return Result()
        self._reporter.record_events(cloneset, decision.plan, conflicting)
        failure, step = await self._act(key, cloneset, revision, decision.plan), decision.plan.step
        if failure is not None and not is_without_namespace(failure) and not isinstance(failure, RETRYABLE):
            decision = await self._try_other_steps(key, cloneset, selector, revision, adopted, step)
        if failure is not None or not statuses.is_soon_outdated(cloneset, decision):
            finding = None if failure is None else statuses.failure(step, failure.message)
            now = self._clock.now()
            status = statuses.after(cloneset, selector, revision, decision, conflicting, finding, now)
            await self._reporter.write(cloneset, status)
        if failure is not None and not is_without_namespace(failure):
            self._requeue_for_time(key, decision)
            raise failure
        await self._truncate_history(cloneset, revision)
        return Result(_requeue_after(decision))

    def _is_outdated(self, key: Key, cloneset: CloneSet) -> bool:
        """Whether the CloneSet was changed or deleted during the API calls."""
        current = self._view.clonesets.get(key)
        return current is None or (current.metadata.uid, current.metadata.generation) != (
            cloneset.metadata.uid,
            cloneset.metadata.generation,
        )

    async def _try_other_steps(
        self, key: Key, cloneset: CloneSet, selector: Selector, revision: str, adopted: Sequence[str], step: Step
    ) -> Decision:
        """After a step has failed (a quota refuses new pods, say), do what else is needed: it may make room."""
        failed = frozenset({step})
        while True:
            decision = await self._decide(key, cloneset, selector, revision, adopted, failed)
            plan = decision.plan
            self._reporter.record_events(cloneset, plan, ())
            if await self._act(key, cloneset, revision, plan) is None:
                return decision
            failed |= {plan.step}

    def _requeue_for_time(self, key: Key, decision: Decision) -> None:
        """Failures are retried with back-off; what depends on time alone must not wait for that."""
        seconds = _requeue_after(decision)
        if seconds is not None:
            self._requeue(key, seconds)

    # Observe.

    async def _claim(self, cloneset: CloneSet, selector: Selector, conflicting: Sequence[CloneSet]) -> tuple[str, ...]:
        """Adopt and release pods; the UIDs of those adopted. Orphans are left to an older conflicting CloneSet."""
        metadata = cloneset.metadata
        claims = ownership.claims(
            metadata, selector, observation.claimable(self._view.snapshot.pods, metadata, selector)
        )
        if conflicts.defers_adoption(cloneset, conflicting):
            claims = ownership.Claims(claims.owned, (), claims.released)
        settled = await self._adopter.settle(metadata, claims)
        return tuple(pod.metadata.uid for pod in settled)

    async def _revision(self, cloneset: CloneSet) -> str:
        metadata = cloneset.metadata
        if metadata.deletion_timestamp is not None:
            return cloneset.status.update_revision
        owner = ownership.controller_reference(CLONESETS, metadata)
        return await self._history.ensure(cloneset, self._view.revisions_of(metadata), owner)

    # Decide.

    async def _decide(
        self,
        key: Key,
        cloneset: CloneSet,
        selector: Selector,
        revision: str,
        adopted: Sequence[str],
        failed: frozenset[Step] = frozenset(),
    ) -> Decision:
        may_act = cloneset.metadata.deletion_timestamp is None and self.expectations.satisfied(key)
        return await self._decider.decide(cloneset, selector, revision, adopted, failed, may_act=may_act)

    def _expect(self, key: Key, plan: Plan) -> None:
        """Record expectations before the first write, and before another reconcile can start."""
        if plan.creations or plan.victims:
            victims = [pod.metadata.uid for pod in plan.victims]
            self.expectations.expect(key, creations=len(plan.creations), deletions=victims)

    # Act.

    async def _act(self, key: Key, cloneset: CloneSet, revision: str, plan: Plan) -> ApiError | None:
        self._expect(key, plan)
        try:
            if plan.creations:
                return await self._create(key, cloneset, revision, plan)
            if plan.victims:
                return await self._delete(key, cloneset, plan)
        except BaseException:
            self.expectations.forget(key)  # what was done is unknown, so nothing can be expected
            raise
        return None

    async def _create(self, key: Key, cloneset: CloneSet, revision: str, plan: Plan) -> ApiError | None:
        missing = 0

        def failed(count: int) -> None:
            nonlocal missing
            missing = count
            self.expectations.created(key, count)

        try:
            exists = await self._exists(cloneset)
        except ApiError as error:
            failed(len(plan.creations))
            return error
        if not exists:
            failed(len(plan.creations))
            self._requeue(key, UNSEEN)
            return None
        owner = ownership.controller_reference(CLONESETS, cloneset.metadata)
        failure = await self._pods.create(cloneset, revision, plan.creations, owner, failed)
        self._metrics.created.inc(len(plan.creations) - missing)
        return failure

    async def _exists(self, cloneset: CloneSet) -> bool:
        """Whether the CloneSet still exists, by an uncached read.

        A cache that has not seen its deletion yet shows its pods going, and the controller would create them again for
        the garbage collector to delete.
        """
        metadata = cloneset.metadata
        try:
            current = await self._client.get(CLONESETS, metadata.name, namespace=metadata.namespace)
        except NotFound:
            return False
        return current.metadata.uid == metadata.uid and current.metadata.deletion_timestamp is None

    async def _delete(self, key: Key, cloneset: CloneSet, plan: Plan) -> ApiError | None:
        def deleted(pod: Pod) -> None:
            self._metrics.deleted.labels(plan.step).inc()
            ratio = plan.age_ratios.get(pod.metadata.uid)
            if ratio is not None:
                self._metrics.age_ratio.observe(ratio)

        def failed(pod: Pod) -> None:
            self.expectations.deleted(key, pod.metadata.uid)

        return await self._pods.delete(cloneset, plan.victims, deleted=deleted, failed=failed)

    async def _truncate_history(self, cloneset: CloneSet, revision: str) -> None:
        metadata = cloneset.metadata
        known = self._view.revisions_of(metadata)
        if metadata.deletion_timestamp is not None or len(known) <= cloneset.spec.revision_history_limit:
            return
        table = self._view.snapshot.pods
        pods = (table.objects[row] for row in table.owned_by(metadata.uid).tolist())
        used = {pod.metadata.labels.get(REVISION_HASH, "") for pod in pods if pod is not None}
        live = {revision, cloneset.status.current_revision, *used} - {""}
        await self._history.truncate(known, live, cloneset.spec.revision_history_limit)


def _requeue_after(decision: Decision) -> float | None:
    """In how many seconds to reconcile again, if time alone changes something."""
    plan = decision.plan
    waits = [decision.group.next_available, None if decision.is_current else UNSEEN]
    if plan.recheck_in is not None:
        waits.append(min(plan.recheck_in, _POLICY_RECHECK))
    known = [seconds for seconds in waits if seconds is not None]
    return min(known) if known else None
