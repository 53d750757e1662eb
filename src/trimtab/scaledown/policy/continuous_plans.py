"""Reports a scale-down whose costs were in place already: what these costs bring about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.api.workloads import ReplicaSetOwner
from trimtab.kube.clocks import Clock
from trimtab.ranking.explicit import explicit_policy
from trimtab.ranking.plan import Plan, Policy, plan
from trimtab.ranking.plan import Workload as RankedWorkload
from trimtab.ranking.strategies import STRATEGIES, Factory, StrategyError
from trimtab.scaledown import proportional
from trimtab.scaledown.continuous.delivery import Continuous
from trimtab.scaledown.intent.plan_reports import PlanReports
from trimtab.scaledown.intent.requests import DeliveredPlan
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.pod_costs import policy_cost
from trimtab.scaledown.policy.effective import is_on_scale_intent
from trimtab.scaledown.policy.groups import Group, GroupKey, Groups
from trimtab.scaledown.sources import Sources
from trimtab.scaledown.view import View, Workload


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

    def record(self, workload: Workload, keys: Iterable[GroupKey], before: int, after: int) -> None:
        """Report that a workload with these groups shrinks, if its costs are kept current."""
        found = (self._groups.get(key) for key in keys)
        groups = [group for group in found if group is not None and group.spec is not None]
        policy = next((group.policy for group in groups if _is_kept_current(group)), None)
        if policy is None or after == 0:
            return
        sets = self._view.sets_of(workload) if isinstance(workload, ReplicaSetOwner) else ()
        sizes = {size.uid: size.after for size in proportional.controller_sizes(workload, after, sets)}
        made = [self._plan(group, sizes[group.owner.uid]) for group in groups if group.owner.uid in sizes]
        plans = tuple(each for each in made if each is not None)
        if not plans:
            return
        for each in plans:
            self._metrics.record_planned_skews(each)
        metadata = workload.metadata
        name = (type(workload).__name__, metadata.namespace, metadata.name)
        self._reports.record(DeliveredPlan(policy, *name, before, after, plans, self._clock.now()))

    def _plan(self, group: Group, size: int) -> Plan | None:
        """The plan that the present costs bring about."""
        if group.spec is None:
            return None
        pods, snapshot = self._groups.pods(group), self._view.snapshot
        constraints = self._continuous.constraints(group)
        workload = RankedWorkload.owned_by(snapshot, group.owner.uid, constraints=constraints)
        own = {pod.key: 0 for pod in pods if policy_cost(pod) is not None}
        workload = replace(workload, kind="CloneSet" if group.key.kind == "CloneSet" else "ReplicaSet", base_costs=own)
        try:
            policy = self._policy(group, group.spec, pods)
            return plan(workload, snapshot, policy, replicas=size, now=self._clock.now())
        except (InvalidError, StrategyError):
            return None

    def _policy(self, group: Group, spec: ScaleDownPolicySpec, pods: Sequence[Pod]) -> Policy:
        if group.is_ranked_explicitly:
            return explicit_policy(self._groups.explicit_ranks(group.ref).ranks)
        strategies = self._continuous.strategies(group, spec)
        return self._sources.values(strategies, pods).apply_to(Policy.of(strategies, self._registry))


def _is_kept_current(group: Group) -> bool:
    return group.spec is not None and not is_on_scale_intent(group.spec)
