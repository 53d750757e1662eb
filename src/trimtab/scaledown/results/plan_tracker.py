"""Tracks plans after their requests were answered: counts misses, learns the settle time, and reverts costs.

The annotations on pods have everything that is needed (see `pod_costs`), so this is a controller like any other: a key
is a workload that some pod's annotation names, and it is requeued until no annotation is left. What a process that died
has left behind is found by the next one when its informers list the pods, and by every other process that is running.

**Plans of other processes.** A process remembers its own plans: it reverts their costs, and counts which pods were
deleted as planned. A plan that is followed by another of the same process is superseded by it. The plans of another
process are left to that process for a while: it may be holding a request right now. After that they count as abandoned,
and any process reverts them. The time is measured by the own clock, from when a plan was first seen: the clocks of two
machines differ.

**Annotations of others.** Anyone who may write a pod may annotate it. An annotation counts only on a pod that the
workload owns. On any other pod it decides nothing, and is reverted as one of an abandoned plan is.

**Skipped** are namespaces for which another Trimtab is responsible. Where scale-downs are disabled, no plan is waited
for: its costs are reverted as soon as no request is held for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from trimtab.api.annotations import SCALE_PLAN, PlanAnnotation, plan_annotation
from trimtab.api.meta import OwnerReference
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.queues import WorkQueue
from trimtab.kube.runners import Result, Runner
from trimtab.scaledown import clonesets
from trimtab.scaledown.cost_writer import CostWriter
from trimtab.scaledown.intent.settle_time import SettleTime
from trimtab.scaledown.metrics import HoldOutcome, Metrics
from trimtab.scaledown.pod_costs import by_plan, plan_cost
from trimtab.scaledown.policy.defaults import NO_DEFAULTS, Defaults
from trimtab.scaledown.results.endings import PlanEndings
from trimtab.scaledown.results.evaluation import PATIENCE, ControllerState, PlanState, evaluate
from trimtab.scaledown.results.levels import ExpectedLevel
from trimtab.scaledown.results.open_plans import OpenPlan, PlanResult, PlanTarget, Resize, resizes_of
from trimtab.scaledown.view import BY_NAMESPACE, BY_PLAN, View, read_workload

ABANDONED = 30.0
"""Seconds after which a plan of another process counts as abandoned."""
_POLL = 0.5
"""Seconds between two evaluations while a plan is open."""
_SOON = 0.1
"""Seconds until an evaluation after an annotated pod has changed."""
_MARGIN = 2.0
"""Seconds before the end of its certainty at which a plan is made again."""
_MOST_REWRITES = 3
"""How often the costs of one plan are written again after another writer replaced them."""
_WORKERS = 2

Reassure = Callable[[str, OpenPlan], Awaitable[None]]
"""Extends the certainty of an open plan whose controller has not acted yet."""

_AnnotatedPod = tuple[Pod, PlanAnnotation]

log = logging.getLogger(__name__)


class PlanTracker:
    """Tracks every plan to its end."""

    def __init__(
        self,
        client: Client,
        view: View,
        writer: CostWriter,
        *,
        metrics: Metrics,
        settle_time: SettleTime,
        patience: float = PATIENCE,
        abandoned: float = ABANDONED,
        defaults: Callable[[], Defaults] = lambda: NO_DEFAULTS,
        reassure: Reassure | None = None,
        on_result: Callable[[PlanResult, OpenPlan], None] | None = None,
        on_overwritten: Callable[[OpenPlan, int], None] | None = None,
    ) -> None:
        self._client = client
        self._clock = client.corrected_clock
        self._view = view
        self._writer = writer
        self._endings = PlanEndings(view, metrics, settle_time)
        self._patience = patience
        self._abandoned = abandoned
        self._defaults = defaults
        self._reassure = reassure
        self._on_result = on_result
        self._on_overwritten = on_overwritten
        self._open: dict[str, OpenPlan] = {}
        self._by_owner: dict[str, OpenPlan] = {}
        self._first_seen: dict[str, dict[str, int]] = {}
        """When the annotation of each plan was first seen, by workload, on the monotonic clock."""
        self.results: list[PlanResult] = []
        """The results of the last plans."""
        self.queue: WorkQueue[str] = WorkQueue(client.clock)
        self.runner = Runner("plan tracker", self.reconcile, self.queue, workers=_WORKERS, after=view.required)
        view.pods.subscribe(added=self._requeue, updated=self._pod_changed, deleted=self._pod_deleted)
        metrics.watch_cost_age(self._oldest)

    async def run(self) -> None:
        """Work until cancelled."""
        await self.runner.run()

    def requeue_all(self) -> None:
        """Evaluate all plans again: the configuration has changed."""
        for workload in (*self._view.plans, *self._open):
            self.queue.add(workload)

    # Called while a request is held.

    def begin(self, workload: str, plan: OpenPlan) -> None:
        """Track a plan whose costs are about to be written. It supersedes one that is open for the same workload."""
        earlier = self._open.get(workload)
        if earlier is not None:
            plan.supersede(earlier)
            if earlier.decision != plan.decision:
                self._record(PlanResult(workload, earlier.plan, PlanState.SUPERSEDED, 0, {}), earlier)
        self._open[workload] = plan
        self._by_owner |= dict.fromkeys(plan.resizes, plan)
        self.queue.add(workload)

    def answer(self, workload: str, plan: OpenPlan, *, is_complete: bool, at: int | None = None) -> None:
        """Record that the request is being answered, or was (`at`), and whether all costs are in place."""
        plan.is_complete = is_complete
        plan.answered = self._clock.monotonic() if at is None else at
        self.queue.add(workload)

    def renew(self, workload: str, annotation: PlanAnnotation) -> bool:
        """Record that the request of an open plan was repeated and is being answered: whether there is such a plan."""
        plan = self._open.get(workload)
        if plan is None or plan.to != annotation.to or not plan.covers(annotation):
            return False
        self.answer(workload, plan, is_complete=plan.is_complete)
        return True

    def open_plan(self, workload: str) -> OpenPlan | None:
        """The open plan of this process for a workload."""
        return self._open.get(workload)

    def is_open(self, workload: str) -> bool:
        """Whether this process has an open plan for a workload."""
        return workload in self._open

    def tracks(self, workload: str, annotation: PlanAnnotation | None) -> bool:
        """Whether an annotation is of an open plan of this process."""
        plan = self._open.get(workload)
        return plan is not None and plan.covers(annotation)

    # The control loop.

    async def reconcile(self, workload: str) -> Result:
        """Evaluate the plans for a workload (`namespace/Kind/name`)."""
        namespace, _, named = workload.partition("/")
        annotated, unowned = self._annotated(workload)
        plan = self._open.get(workload)
        if not (annotated or unowned or plan) or not self._defaults().covers(namespace):
            return Result()
        if plan is not None and plan.answered is None:
            return Result(_POLL)
        if not self._defaults().enabled:
            await self._revert(workload, plan, [pod for pod, _ in (*annotated, *unowned)], "disabled")
            return Result()
        await self._revert(workload, None, [pod for pod, _ in self._abandoned_among(workload, unowned)], "not-owned")
        target, pods = self._target(workload, annotated, plan)
        if target is None:
            return Result(_POLL)
        state = self._evaluate(namespace, named, target)
        if state.keeps_costs:
            if plan is not None and (self._is_expiring(plan) or self._is_overwritten(plan)):
                await self._extend(workload, plan)
            return Result(_POLL)
        if state is PlanState.NOT_APPLIED and await self._took_effect(namespace, named, target):
            return Result(_POLL)  # the informer is behind
        await self._revert(workload, plan, pods, state.value, state)
        return Result(_POLL)  # for the pods of other plans, and those that the workload does not own

    def _is_expiring(self, plan: OpenPlan) -> bool:
        """Whether the result of a plan will not be certain any more by the time of the next evaluation."""
        margin = round(_MARGIN * SECOND)
        return plan.relies_until is not None and self._clock.monotonic() + margin >= plan.relies_until

    def _is_overwritten(self, plan: OpenPlan) -> bool:
        """Whether another writer has replaced costs of a plan since the last evaluation; reported each time.

        Costs are written again, a few times at most.
        """
        count, plan.overwritten = plan.overwritten, 0
        if not count:
            return False
        plan.rewrites += 1
        if self._on_overwritten is not None:
            self._on_overwritten(plan, count)
        return plan.rewrites <= _MOST_REWRITES

    async def _extend(self, workload: str, plan: OpenPlan) -> None:
        """Plan again before the certainty of a plan ends; until that has succeeded, try again."""
        if self._reassure is not None:
            await self._reassure(workload, plan)

    async def _revert(
        self,
        workload: str,
        plan: OpenPlan | None,
        pods: Sequence[Pod],
        reason: str,
        state: PlanState = PlanState.NOT_APPLIED,
    ) -> None:
        """Revert costs, and with that end the plan of this process, if there is one."""
        count = await self._writer.revert(pods, reason=reason)
        if count:
            log.info("%s: reverted %d costs (%s)", workload, count, reason)
        if plan is not None and self._open.get(workload) is plan:
            self._end(workload, plan, state)

    def _annotated(self, workload: str) -> tuple[list[_AnnotatedPod], list[_AnnotatedPod]]:
        """The pods with a plan's annotation for a workload that are not terminating: its own, and all others."""
        namespace, _, named = workload.partition("/")
        pods = [pod for pod in self._view.naming_pods(namespace, named) if not pod.terminating]
        found = ((pod, plan_annotation(pod.metadata.annotations)) for pod in pods)
        annotated = [(pod, plan) for pod, plan in found if plan is not None]
        now, known = self._clock.monotonic(), self._first_seen.pop(workload, {})
        if annotated:
            self._first_seen[workload] = {plan.plan: known.get(plan.plan, now) for _, plan in annotated}
        owned = {pod.key for pod, _ in annotated if self._view.plan_of(pod) or self._has_written_to(workload, pod)}
        own = [each for each in annotated if each[0].key in owned]
        return own, [each for each in annotated if each[0].key not in owned]

    def _has_written_to(self, workload: str, pod: Pod) -> bool:
        """Whether the open plan of this process is for the pod's controller, although that is not cached any more."""
        plan, owner = self._open.get(workload), pod.metadata.controller
        if plan is None or owner is None:
            return False
        return owner.uid in plan.resizes and plan.covers(plan_annotation(pod.metadata.annotations))

    def _abandoned_among(self, workload: str, annotated: Sequence[_AnnotatedPod]) -> list[_AnnotatedPod]:
        """The pods whose plans were first seen so long ago that no other process is responsible for them."""
        seen, now = self._first_seen.get(workload, {}), self._clock.monotonic()
        return [(pod, plan) for pod, plan in annotated if now - seen[plan.plan] >= round(self._abandoned * SECOND)]

    def _target(
        self, workload: str, annotated: Sequence[_AnnotatedPod], own_plan: OpenPlan | None
    ) -> tuple[PlanTarget | None, list[Pod]]:
        """What is to be evaluated, and the pods whose costs depend on it: the plan of this process, or else the last of
        those that others have abandoned; nothing, while all of them are left to other processes."""
        seen = self._first_seen.get(workload, {})
        now, abandoned = self._clock.monotonic(), self._abandoned_among(workload, annotated)
        if own_plan is not None:
            own = {pod.key: pod for pod, plan in annotated if own_plan.covers(plan)}
            age = (now - (own_plan.answered or now)) / SECOND
            target = PlanTarget(own_plan.uid, own_plan.to, own_plan.resizes, age, self._patience)
            return target, list((own | {pod.key: pod for pod, _ in abandoned}).values())
        if not abandoned:
            return None, []
        latest = max((plan for _, plan in abandoned), key=lambda plan: (seen[plan.plan], plan.at))
        age = (now - seen[latest.plan]) / SECOND
        return PlanTarget(latest.uid, latest.to, resizes_of(abandoned), age, 0.0), [pod for pod, _ in abandoned]

    def _evaluate(self, namespace: str, named: str, target: PlanTarget) -> PlanState:
        kind, _, name = named.partition("/")
        workload = self._view.workload(kind, namespace, name)
        size = workload.desired_replicas if workload is not None and workload.metadata.uid == target.uid else None
        controllers = [self._controller(uid, each, namespace) for uid, each in target.resizes.items()]
        return evaluate(to=target.to, size=size, controllers=controllers, age=target.age, patience=target.patience)

    def _controller(self, uid: str, resize: Resize, namespace: str) -> ControllerState:
        active = sum(pod.active for pod in self._view.pods_of(uid))
        return ControllerState(resize.before, resize.after, self._size_of(uid, namespace), active)

    def _size_of(self, uid: str, namespace: str) -> int | None:
        """The size of a controller of pods now, by its UID."""
        for kind in self._view.kinds:
            for each in self._view.cache(kind).store.by(BY_NAMESPACE, namespace):
                if each.metadata.uid == uid:
                    size: int = each.desired_replicas
                    return size
        return None

    async def _took_effect(self, namespace: str, named: str, target: PlanTarget) -> bool:
        """Whether an uncached read shows that the workload is as small as planned after all."""
        kind, _, name = named.partition("/")
        workload = await read_workload(self._client, self._view.kinds.get(kind), namespace, name)
        return workload is not None and workload.metadata.uid == target.uid and workload.desired_replicas <= target.to

    # The end of a plan.

    def _end(self, workload: str, plan: OpenPlan, state: PlanState) -> None:
        del self._open[workload]
        for uid in plan.resizes:
            self._by_owner.pop(uid, None)
        replaced = self._carried_out(workload, plan) if state is PlanState.SUPERSEDED else ()
        if state is PlanState.DONE:
            self._record(self._endings.end(workload, plan), plan)
        elif replaced:
            self._record(self._endings.end_replaced(workload, plan, replaced), plan)
        else:
            self._record(PlanResult(workload, plan.plan, state, 0, {}), plan)

    def _carried_out(self, key: str, plan: OpenPlan) -> tuple[ExpectedLevel, ...]:
        """What an earlier plan would have left, which was carried out although this one had replaced it.

        Its request was answered before and stored after the costs of this one were written: nothing else checks it.
        """
        namespace, _, named = key.partition("/")
        kind, _, name = named.partition("/")
        workload = self._view.workload(kind, namespace, name)
        if workload is None or plan.skipped is HoldOutcome.OBSERVED:
            return ()
        return plan.replaced.get(workload.desired_replicas, ())

    def _record(self, result: PlanResult, plan: OpenPlan) -> None:
        self.results = [*self.results[-99:], result]
        if self._on_result is not None:
            self._on_result(result, plan)

    # Events.

    def _requeue(self, pod: Pod) -> None:
        """Requeue the workload of an annotated pod, once for many pods that are deleted one after the other."""
        for workload in by_plan(pod):
            self.queue.add_after(workload, _SOON)

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        self._requeue(new)
        if plan_cost(old) is not None and plan_cost(new) is None and SCALE_PLAN in new.metadata.annotations:
            self._record_overwriting(new)
        if new.terminating and not old.terminating:
            self._record_deletion(old, new)

    def _record_overwriting(self, pod: Pod) -> None:
        """Remember that another writer replaced a cost of an open plan."""
        for workload in by_plan(pod):
            plan = self._open.get(workload)
            if plan is not None and self._has_written_to(workload, pod):
                plan.overwritten += 1

    def _pod_deleted(self, pod: Pod) -> None:
        self._requeue(pod)
        self._record_deletion(pod, pod)

    def _record_deletion(self, before: Pod, pod: Pod) -> None:
        """Remember whether a pod was ready before its deletion, and whether its controller chose it."""
        owner = before.metadata.controller
        if owner is None or (plan := self._by_owner.get(owner.uid)) is None:
            return
        ready = before.status.condition("Ready")
        plan.ready.setdefault(before.metadata.uid, ready is not None and ready.status == "True")
        if self._is_deleted_elsewhere(pod, owner, plan):
            plan.deleted_elsewhere.add(before.metadata.uid)
        if owner.kind == "CloneSet":
            plan.revisions.add(clonesets.revision(before))

    def _is_deleted_elsewhere(self, pod: Pod, owner: OwnerReference, plan: OpenPlan) -> bool:
        """Whether a pod's own state shows that its controller did not choose it by this plan."""
        annotation, disrupted = self._view.plan_of(pod), pod.status.condition("DisruptionTarget")
        is_of_other_plan = annotation is not None and not plan.covers(annotation)
        if (disrupted is not None and disrupted.status == "True") or is_of_other_plan:
            return True
        return clonesets.is_named(self._view.workload(owner.kind, pod.metadata.namespace, owner.name), pod)

    def _oldest(self) -> float:
        now = self._clock.now() / SECOND
        pods = (pod for workload in self._view.plans for pod in self._view.pods.store.by(BY_PLAN, workload))
        plans = (self._view.plan_of(pod) for pod in pods)
        return max((now - plan.at / 1000 for plan in plans if plan is not None), default=0.0)
