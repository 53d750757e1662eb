"""Reports a scale-down whose costs were in place already: what these costs bring about.

Ten thousand pods take a tenth of a second to plan, and many times that if they are ranked again after each removal. So
large workloads are planned in another thread, on a copy of the snapshot as it is when they shrink.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.api.workloads import ReplicaSetOwner
from trimtab.kube.clocks import Clock
from trimtab.ranking.explicit import explicit_policy
from trimtab.ranking.plan import Plan, Policy, plan
from trimtab.ranking.plan import Workload as RankedWorkload
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.strategies import STRATEGIES, Factory, StrategyError
from trimtab.scaledown import proportional
from trimtab.scaledown.continuous.delivery import Continuous
from trimtab.scaledown.intent.plan_reports import PlanReports
from trimtab.scaledown.intent.requests import DeliveredPlan
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.pod_costs import policy_cost
from trimtab.scaledown.policy.effective import EffectivePolicy, is_on_scale_intent
from trimtab.scaledown.policy.groups import Group, GroupKey, Groups
from trimtab.scaledown.sources import Sources
from trimtab.scaledown.view import View, Workload
from trimtab.snapshot import Snapshot

_POD_SECONDS, _RANK_SECONDS = 10e-6, 2.5e-6
"""What one pod takes in a plan, and each time that it is ranked again."""
_IN_LOOP_SECONDS = 0.01
"""What is planned on the event loop."""
_LONGEST_SECONDS = 5.0
"""What is planned at all: a process that stops waits for its threads."""
_MOST_COMPUTING = 8
"""How many large workloads are planned or wait for that at a time: each has a copy of the snapshot."""

_PROBLEMS = {
    "large": f"it would take more than {_LONGEST_SECONDS:g} s to compute",
    "busy": f"{_MOST_COMPUTING} others are being computed",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GroupPlanning:
    """Everything but the snapshot that the plan of a group is computed from."""

    group: Group
    pods: Sequence[Pod]
    policy: Policy
    constraints: tuple[Constraint, ...]
    size: int
    now: int

    @property
    def seconds(self) -> float:
        """About how long planning takes: more, if the pods are ranked again after each removal."""
        pods = len(self.pods)
        removals = max(pods - self.size, 0) if self.policy.combination.recompute else 0
        return pods * (_POD_SECONDS + removals * _RANK_SECONDS)

    def plan(self, snapshot: Snapshot) -> Plan | None:
        """The plan that the present costs bring about."""
        group = self.group
        workload = RankedWorkload.owned_by(snapshot, group.owner.uid, constraints=self.constraints)
        own = {pod.key: 0 for pod in self.pods if policy_cost(pod) is not None}
        workload = replace(workload, kind="CloneSet" if group.key.kind == "CloneSet" else "ReplicaSet", base_costs=own)
        try:
            return plan(workload, snapshot, self.policy, replicas=self.size, now=self.now)
        except (InvalidError, StrategyError):
            return None


class ContinuousPlans:
    """Plans scale-downs of workloads whose costs are kept current, for metrics and statuses."""

    def __init__(
        self,
        view: View,
        clock: Clock,
        groups: Groups,
        continuous: Continuous,
        sources: Sources,
        *,
        reports: PlanReports,
        metrics: Metrics,
        registry: Mapping[str, Factory] = STRATEGIES,
    ) -> None:
        self._view = view
        self._clock = clock
        self._groups = groups
        self._continuous = continuous
        self._sources = sources
        self._reports = reports
        self._metrics = metrics
        self._registry = registry
        self.executor: Executor = ThreadPoolExecutor(1, thread_name_prefix="plan-reports")
        """A thread of its own: ranks, for which controllers wait, are not computed behind reports."""
        self._computing: set[asyncio.Future[list[Plan]]] = set()

    def record(self, workload: Workload, keys: Iterable[GroupKey], before: int, after: int) -> None:
        """Report that a workload with these groups shrinks, if its costs are kept current."""
        found = (self._groups.get(key) for key in keys)
        groups = [group for group in found if group is not None and group.spec is not None]
        policy = next((group.policy for group in groups if _is_kept_current(group)), None)
        if policy is None or after == 0:
            return
        sets = self._view.sets_of(workload) if isinstance(workload, ReplicaSetOwner) else ()
        sizes = {size.uid: size.after for size in proportional.controller_sizes(workload, after, sets)}
        plannings = [self._planning(group, sizes[group.owner.uid]) for group in groups if group.owner.uid in sizes]
        metadata = workload.metadata
        identity = (type(workload).__name__, metadata.namespace, metadata.name, before, after)
        report = partial(self._report, policy, identity, self._clock.now())
        problem = self._plan(tuple(each for each in plannings if each is not None), report)
        if problem:
            self._metrics.record_unreported_plan(problem)
            log.warning("the plan for %s %s/%s from %d to %d pods is not reported: %s", *identity, _PROBLEMS[problem])

    def forget(self) -> None:
        """Report none of the scale-downs that are still being planned."""
        for each in tuple(self._computing):
            each.cancel()

    def _plan(self, plannings: tuple[GroupPlanning, ...], report: Callable[[Sequence[Plan]], None]) -> str:
        """Plan the groups of a workload as they are now: later its controller has begun to delete pods.

        Returns why they are not planned, or nothing.
        """
        snapshot, work = self._view.snapshot, partial(_plans, plannings)
        seconds = sum(each.seconds for each in plannings)
        if seconds <= _IN_LOOP_SECONDS:
            report(work(snapshot))
        elif seconds > _LONGEST_SECONDS:
            return "large"
        elif len(self._computing) >= _MOST_COMPUTING:
            return "busy"
        else:
            computing = asyncio.get_running_loop().run_in_executor(self.executor, work, snapshot.copy())
            self._computing.add(computing)
            computing.add_done_callback(partial(self._computed, report))
        return ""

    def _computed(self, report: Callable[[Sequence[Plan]], None], computing: asyncio.Future[list[Plan]]) -> None:
        self._computing.discard(computing)
        if computing.cancelled():
            return
        error = computing.exception()
        if error is None:
            report(computing.result())
        else:
            log.error("the plan of a scale-down is not reported", exc_info=error)

    def _report(
        self, policy: EffectivePolicy, identity: tuple[str, str, str, int, int], at: int, plans: Sequence[Plan]
    ) -> None:
        for each in plans:
            self._metrics.record_planned_skews(each)
        if plans:
            self._reports.record(DeliveredPlan(policy, *identity, tuple(plans), at))

    def _planning(self, group: Group, size: int) -> GroupPlanning | None:
        """What the plan is computed from that the present costs of a group bring about."""
        if group.spec is None:
            return None
        pods = self._groups.pods(group)
        try:
            policy = self._policy(group, group.spec, pods)
        except (InvalidError, StrategyError):
            return None
        constraints = self._continuous.assessor.constraints(group, pods)
        return GroupPlanning(group, pods, policy, constraints, size, self._clock.now())

    def _policy(self, group: Group, spec: ScaleDownPolicySpec, pods: Sequence[Pod]) -> Policy:
        if group.is_ranked_explicitly:
            return explicit_policy(self._groups.explicit_ranks(group.ref).ranks)
        strategies = self._continuous.assessor.strategies(group, spec, pods)
        return self._sources.values(strategies, pods).apply_to(Policy.of(strategies, self._registry))


def _plans(plannings: Sequence[GroupPlanning], snapshot: Snapshot) -> list[Plan]:
    """The plans of those groups that can be planned."""
    found = (each.plan(snapshot) for each in plannings)
    return [each for each in found if each is not None]


def _is_kept_current(group: Group) -> bool:
    return group.spec is not None and not is_on_scale_intent(group.spec)
