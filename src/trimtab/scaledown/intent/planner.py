"""Plans a checked request: one plan for each controller of pods that shrinks.

Planning begins when our own watches have shown as many pods as the workload counts, and ReplicaSets of that size, and
when the policy ranks every pod; both are waited for, within limits. A watch that is still behind then, as it may be
after an outage of the API server, shows no controller that loses pods: the request is not planned, and that is said.
Explicit ranks (see `policy.explicit_ranks`) are read here, again and again until every pod has one: with one missing,
the controller's own order decides. Victims of earlier requests that are still being deleted are assumed gone (see
`replicaset_plans`).

The plan for twenty young pods takes a twentieth of a second, for ten thousand half a second. So plans are made in
another thread, on a copy of the snapshot, while the event loop goes on; one at a time, so that a burst of them cannot
take all processors. Where nobody waits for a plan, it begins a moment later: an API server whose write conflicts asks
again within milliseconds, and a thread that computes would delay that answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.api.workloads import ReplicaSetOwner, with_template
from trimtab.kube.clocks import Clock, within
from trimtab.kube.server_time import ServerTime
from trimtab.kube.threads import compute_beside
from trimtab.ranking.certainty import Window
from trimtab.ranking.explicit import explicit_policy
from trimtab.ranking.plan import Policy
from trimtab.ranking.plan import Workload as RankedWorkload
from trimtab.ranking.rankers import DefaultsFor, RankSettings
from trimtab.ranking.victims import STOCK, Options
from trimtab.scaledown import clonesets, proportional, replicaset_plans
from trimtab.scaledown.constraints import scheduler_name
from trimtab.scaledown.intent.gate import MatchPods, Tiers, no_match, no_tiers
from trimtab.scaledown.intent.kept_costs import patience
from trimtab.scaledown.intent.requests import CheckedRequest
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.policy.effective import EffectivePolicy
from trimtab.scaledown.policy.explicit_ranks import explicit_ranks
from trimtab.scaledown.policy.workloads import workload_ref
from trimtab.scaledown.proportional import ControllerSize
from trimtab.scaledown.replicaset_plans import ControllerModel, ControllerPlan, ForeignCosts
from trimtab.scaledown.stability import is_rolling_out, is_stable
from trimtab.scaledown.view import View, Workload
from trimtab.snapshot import Snapshot

T = TypeVar("T")

_CATCH_UP = 0.3
"""Seconds that our own watches are given to show pods and ReplicaSets that the workload counts already."""
_RANK_AGAIN = 0.05
"""Seconds between two attempts to rank all pods."""

_MOST_IN_LOOP = 4
"""How many pods are planned in the event loop: that takes about 5 ms."""
_MOST_RANKED_IN_LOOP = 500
"""How many pods are ranked in the event loop: that is quicker than a copy of the snapshot, and done again and again."""
_UNHURRIED = 0.2
"""Seconds after which a plan begins that no request waits for."""

WINDOW = 10.0
"""Seconds in which the controller is assumed to act; if it has not by then, certainty is evaluated again."""
TOLERANCE = 5.0
"""Seconds by which the clocks of the control plane may differ from one another."""

PolicyOf = Callable[[EffectivePolicy, Sequence[Pod]], Policy]
"""A policy's strategies, with the values that they need about these pods.

Raises InvalidError where they cannot work.
"""


def strategies_of(policy: EffectivePolicy, _: Sequence[Pod]) -> Policy:
    """The strategies of a policy, without any values from sources."""
    return Policy.of(policy.spec.strategies)


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """The plans for a request, and the policy with its strategies."""

    policy: Policy
    plans: tuple[ControllerPlan, ...]

    @property
    def deliverable(self) -> list[ControllerPlan]:
        """The plans that are certain, or that costs make certain."""
        return [each for each in self.plans if each.delivery is not None]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What is assumed about the controllers that delete pods; times in seconds."""

    window: float = WINDOW
    tolerance: float = TOLERANCE
    options: Options = STOCK
    foreign_costs: ForeignCosts = "Obey"
    """How costs of other writers count where the policy does not say."""
    rank: RankSettings = field(default_factory=RankSettings)
    """How the CloneSet controller ranks pods."""


MODEL = ModelSettings()


class Planner:
    """Makes the plans for requests."""

    def __init__(
        self,
        view: View,
        clock: Clock,
        *,
        constraints: DefaultsFor,
        policy_of: PolicyOf = strategies_of,
        server_time: ServerTime | None = None,
        settings: ModelSettings = MODEL,
        tiers: Tiers = no_tiers,
        match_pods: MatchPods = no_match,
        executor: Executor | None = None,
    ) -> None:
        """`executor` has the threads in which plans are made; without it they are made in the event loop."""
        self._view = view
        self._clock = clock
        self._constraints = constraints
        self._policy_of = policy_of
        self._server_time = server_time or ServerTime(clock)
        self.settings = settings
        self._executor = executor
        self._tiers = tiers
        self._match_pods = match_pods

    async def plan(self, checked: CheckedRequest) -> PlannedRequest | HoldOutcome:
        """The plans, or why there are none."""
        await self._wait_for_caches(checked)
        workload, size = checked.workload, checked.request.after
        if self._is_left_to_rollout(workload, size):
            return HoldOutcome.ROLLOUT
        if not self._sizes(workload, size) and max(self._active_pods(workload), workload.status.replicas) > size:
            return HoldOutcome.NOT_SYNCED
        policy = await self._wait_for_ranks(checked)
        if policy is None:
            return HoldOutcome.UNRANKED
        await self._match(checked)
        sizes = self._sizes(workload, size)
        plans = await self._plans(checked, workload, policy, sizes)
        if plans is None:
            return HoldOutcome.NOT_SYNCED
        return PlannedRequest(policy, plans) if plans else self._without_plans(workload, policy, sizes)

    def _without_plans(
        self, workload: Workload, policy: Policy, sizes: Sequence[ControllerSize]
    ) -> PlannedRequest | HoldOutcome:
        """No controller has pods to lose: an outcome, if one of these may have some by the time it is resized."""
        if not any(self._is_to_grow(each) for each in sizes):
            return PlannedRequest(policy, ())
        if is_rolling_out(self._view, workload):
            return HoldOutcome.ROLLOUT
        is_behind = workload.status.replicas > sum(each.after for each in sizes)
        return HoldOutcome.NOT_SYNCED if is_behind else HoldOutcome.CREATING

    def _is_to_grow(self, size: ControllerSize) -> bool:
        return self._active(size.uid) < size.before

    async def replan(self, checked: CheckedRequest, workload: Workload) -> PlannedRequest:
        """The plans for a request that was admitted, as things are now; none if some pods have no rank any more."""
        await self._match(checked)
        sizes = self._remaining(workload, checked.request.after)
        policy = self._policy(checked, workload, sizes)
        if not await self._is_ranked(policy, sizes):
            return PlannedRequest(policy, ())
        return PlannedRequest(policy, await self._plans(checked, workload, policy, sizes) or ())

    async def preview(self, checked: CheckedRequest) -> PlannedRequest | HoldOutcome:
        """The plans for a request that is only observed, as things are now: no pods or ranks are waited for."""
        workload, size = checked.workload, checked.request.after
        await self._match(checked)
        if self._is_left_to_rollout(workload, size):
            return HoldOutcome.ROLLOUT
        sizes = self._sizes(workload, size)
        policy = self._policy(checked, workload, sizes)
        if checked.policy.ranked_by and not await self._is_ranked(policy, sizes):
            return HoldOutcome.UNRANKED
        plans = await self._plans(checked, workload, policy, sizes, is_awaited=False)
        if plans is None:
            return HoldOutcome.NOT_SYNCED
        return PlannedRequest(policy, plans) if plans else self._without_plans(workload, policy, sizes)

    async def outline(self, checked: CheckedRequest) -> tuple[ControllerPlan, ...]:
        """The plans for a request that is not going to be delivered: what would have been possible."""
        await self._match(checked)
        sizes = self._sizes(checked.workload, checked.request.after)
        return await self._plans(checked, checked.workload, Policy.of(()), sizes, is_awaited=False) or ()

    async def _match(self, checked: CheckedRequest) -> None:
        """Match the workload's pods with its subsets. Before sizes are read: events arrive meanwhile."""
        request = checked.request
        await self._match_pods(request.kind, request.namespace, request.name)

    async def _wait_for_caches(self, checked: CheckedRequest) -> None:
        """Wait, for a moment at most, until our own watches have shown as many pods as the workload says it has.

        While an earlier request is being carried out, that number is decreasing, and there is nothing to wait for.
        """
        request, workload = checked.request, checked.workload
        if self._view.planned_pods(request.namespace, request.workload):
            return
        count = workload.status.replicas

        async def until_shown() -> None:
            if isinstance(workload, ReplicaSetOwner):
                sets = self._view.sets
                await sets.wait_for(lambda _: sum(each.desired_replicas for each in self._sets(workload)) >= count)
            await self._view.pods.wait_for(lambda _: self._active_pods(workload) >= count)

        with contextlib.suppress(TimeoutError):
            await within(self._clock, _CATCH_UP, until_shown())

    def _active_pods(self, workload: Workload) -> int:
        """How many active pods of a workload our own watch shows."""
        owners: Sequence[Workload] = self._sets(workload) if isinstance(workload, ReplicaSetOwner) else (workload,)
        return sum(self._active(each.metadata.uid) for each in owners)

    def _active(self, uid: str) -> int:
        """How many active pods of a controller our own watch shows."""
        return sum(pod.active for pod in self._view.pods_of(uid))

    async def _wait_for_ranks(self, checked: CheckedRequest) -> Policy | None:
        """The policy, once it ranks every pod; None if it does not, and the controller's own order is to decide."""
        budget = checked.budget
        seconds = patience(checked.policy.spec.when_unranked, budget)
        while True:
            sizes = self._sizes(checked.workload, checked.request.after)
            policy = self._policy(checked, checked.workload, sizes)
            if not policy.combination.strategies or await self._is_ranked(policy, sizes):
                return policy
            if budget.left(seconds) <= 0:
                return None
            await self._clock.sleep(_RANK_AGAIN)

    def _policy(self, checked: CheckedRequest, workload: Workload, sizes: Sequence[ControllerSize]) -> Policy:
        """The strategies that rank the pods now: the policy's, or the explicit ranks that replace them."""
        if checked.policy.ranked_by:
            return explicit_policy(explicit_ranks(self._view, workload_ref(workload, self._view.owners)).ranks)
        pods = [pod for size in sizes for pod in self._view.pods_of(size.uid) if pod.active]
        return self._policy_of(checked.policy, pods)

    async def _is_ranked(self, policy: Policy, sizes: Sequence[ControllerSize]) -> bool:
        """Whether every pod of these controllers has a rank."""
        owners = [size.uid for size in sizes]
        count = sum(len(self._view.pods_of(uid)) for uid in owners)
        work = partial(_ranks_all, policy, owners, self._clock.now())
        return await self._compute(count, work, most_in_loop=_MOST_RANKED_IN_LOOP)

    def owners(self, checked: CheckedRequest) -> list[str]:
        """The UIDs of the controllers that lose pods."""
        return [size.uid for size in self._sizes(checked.workload, checked.request.after)]

    def _is_left_to_rollout(self, workload: Workload, size: int) -> bool:
        """Whether pods are of several revisions, and which of these lose how many is not known."""
        if proportional.is_left_to_rollout(workload, size, self._sets(workload)):
            return True
        return clonesets.is_left_to_rollout(workload, self._view.pods_of(workload.metadata.uid))

    def _sets(self, workload: Workload) -> Sequence[ReplicaSet]:
        """The ReplicaSets of a workload that owns some."""
        return self._view.sets_of(workload) if isinstance(workload, ReplicaSetOwner) else ()

    def _sizes(self, workload: Workload, size: int) -> tuple[ControllerSize, ...]:
        sets = self._sets(workload)
        return proportional.controller_sizes(workload, size, sets, siblings=self._view.siblings_of(workload))

    def _model(self, workload: Workload) -> ControllerModel:
        """The controller as it is assumed to be, by the clocks of the control plane."""
        now, settings = self._server_time.now(), self.settings
        tolerance = settings.tolerance + self._server_time.error
        window = Window.after(now, seconds=settings.window, tolerance=tolerance)
        return ControllerModel(now, window, is_stable(self._view, workload), settings.options, settings.rank)

    def _remaining(self, workload: Workload, size: int) -> tuple[ControllerSize, ...]:
        """The controllers that are still to lose pods for a request that was admitted, resized already or not."""
        to_resize, sets = self._sizes(workload, size), self._sets(workload)
        known, siblings = {each.uid for each in to_resize}, tuple(each.metadata.uid for each in sets)
        resized = []
        for each in sets:
            metadata, wanted = each.metadata, each.desired_replicas
            active = self._active(metadata.uid)
            if metadata.uid not in known and active > wanted:
                resized.append(ControllerSize(metadata.uid, metadata.name, active, wanted, siblings))
        return (*to_resize, *resized)

    async def _plans(
        self,
        checked: CheckedRequest,
        workload: Workload,
        policy: Policy,
        sizes: Sequence[ControllerSize],
        *,
        is_awaited: bool = True,
    ) -> tuple[ControllerPlan, ...] | None:
        """The plan of each controller that loses pods; None while the order of the subsets is not known, without which
        no plan would be right. `is_awaited` is whether a request is held until the plans are made."""
        planning = self._planning(checked, workload, policy, sizes)
        return None if planning is None else await self._compute(*planning, is_awaited=is_awaited)

    def _planning(
        self, checked: CheckedRequest, workload: Workload, policy: Policy, sizes: Sequence[ControllerSize]
    ) -> tuple[int, Callable[[Snapshot], tuple[ControllerPlan, ...]]] | None:
        """How many pods are to be ranked, those that are ranked again included, and the function that plans them."""
        request, pods = checked.request, {each.uid: self._view.pods_of(each.uid) for each in sizes}
        tiers = self._tiers(request.kind, request.namespace, request.name, request.after)
        if tiers == {} and any(pod.active for owned in pods.values() for pod in owned):
            return None
        workload = with_template(workload, self._sets(workload))
        removals = sum(each.before - each.after for each in sizes if policy.combination.recompute)
        plan = partial(
            replicaset_plans.plan_controller,
            defaults=self._constraints(scheduler_name(workload.spec.template)),
            model=self._model(workload),
            foreign_costs=checked.policy.spec.other_costs or self.settings.foreign_costs,
            tiers=tiers,
        )

        def work(snapshot: Snapshot) -> tuple[ControllerPlan, ...]:
            plans = (plan(workload, each, pods[each.uid], snapshot, policy) for each in sizes)
            return tuple(each for each in plans if each is not None)

        return sum(map(len, pods.values())) * max(removals, 1), work

    async def _compute(
        self,
        pods: int,
        work: Callable[[Snapshot], T],
        *,
        is_awaited: bool = True,
        most_in_loop: int = _MOST_IN_LOOP,
    ) -> T:
        """Compute something from the snapshot as it is now: without an await, or on a copy, which no event changes."""
        executor = None if pods <= most_in_loop and is_awaited else self._executor
        delay = None if is_awaited else partial(self._clock.sleep, _UNHURRIED)
        return await compute_beside(executor, self._view.snapshot, work, delay=delay)


def _ranks_all(policy: Policy, owners: Sequence[str], now: int, snapshot: Snapshot) -> bool:
    groups = [RankedWorkload.owned_by(snapshot, uid).rows for uid in owners]
    ranked = (policy.rank(snapshot, rows, now) for rows in groups if len(rows))
    return not any(each.unranked.any() for each in ranked)
