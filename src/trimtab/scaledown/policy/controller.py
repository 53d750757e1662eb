"""The controller of ScaleDownPolicies: keeps their costs and statuses current.

    view ──→ events ──→ groups to reconcile (`continuous`) ──→ policies to report on (`findings`, `statuses`)

Needs to list and watch what the view shows; to patch `pods` and `scaledownpolicies/status`; to create, patch and delete
`podgroupcosts`; to create and patch `events`; and, for `Idle`, to list `pods.metrics.k8s.io`.
Runs in one process at a time: the leader. The view, the sources and the recorder are run by their owner, and stop after
the controller.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from trimtab.api.annotations import POLICY_COST
from trimtab.api.core import Namespace
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy, ScaleDownPolicyStatus
from trimtab.api.workloads import ReplicaSetOwner
from trimtab.kube.client import Client
from trimtab.kube.components import run_together
from trimtab.kube.errors import NotFound
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key, split
from trimtab.kube.runners import Result, Runner
from trimtab.kube.stores import Object, key_of
from trimtab.ranking.explicit import annotated_rank
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.scaledown.continuous.delivery import (
    ORPHANS,
    SETTINGS,
    Bands,
    Continuous,
    ContinuousSettings,
    no_bands,
)
from trimtab.scaledown.intent.plan_reports import PlanReports
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.pod_costs import POLICY_KEYS, policy_cost
from trimtab.scaledown.policy import statuses
from trimtab.scaledown.policy.continuous_plans import ContinuousPlans
from trimtab.scaledown.policy.defaults import NO_DEFAULTS, Defaults
from trimtab.scaledown.policy.findings import BUILT_IN, PolicyInspector, Readers
from trimtab.scaledown.policy.groups import GroupKey, Groups
from trimtab.scaledown.policy.ignored_rules import IgnoredRuleReports, OnIgnored
from trimtab.scaledown.policy.namespace_labels import NamespaceLabelReports
from trimtab.scaledown.policy.rivals import RivalReports
from trimtab.scaledown.results.reporter import EventRecorder
from trimtab.scaledown.sources import Sources
from trimtab.scaledown.view import View, Workload

_AT_ONCE = 20
"""How many workloads are compared with all policies of a namespace before other tasks run."""


class ScaleDownPolicies:
    """Keeps the costs and statuses of policies current. A component: `run` works until cancelled."""

    def __init__(
        self,
        client: Client,
        view: View,
        sources: Sources,
        *,
        defaults: Defaults = NO_DEFAULTS,
        settings: ContinuousSettings = SETTINGS,
        readers: Readers = BUILT_IN,
        bands: Bands = no_bands,
        metrics: Metrics | None = None,
        registry: Mapping[str, Factory] = STRATEGIES,
        recorder: EventRecorder | None = None,
        on_ignored: OnIgnored | None = None,
    ) -> None:
        self.groups = Groups(view, defaults)
        self.plans = PlanReports(client)
        self._client = client
        self._clock = client.clock
        self._view = view
        self._settings = settings
        self._metrics = metrics or Metrics()
        self.continuous = Continuous(
            client,
            view,
            self.groups,
            sources,
            settings=settings,
            bands=bands,
            metrics=self._metrics,
            registry=registry,
            on_reconciled=self._report_on_group,
        )
        self._registry = registry
        self._inspector = PolicyInspector(view, self.groups, self.continuous, readers=readers, registry=registry)
        self.continuous_plans = ContinuousPlans(
            view,
            client.clock,
            self.groups,
            self.continuous,
            sources,
            reports=self.plans,
            metrics=self._metrics,
            registry=registry,
        )
        self._rivals = RivalReports(self.groups, recorder)
        self._labels = NamespaceLabelReports(view, recorder)
        self._ignored = IgnoredRuleReports(view, on_ignored)
        self._metrics.watch_rivals(lambda: self._rivals.count)
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.runner = Runner(
            "scaledownpolicies", self.reconcile, self.queue, workers=2, after=(*view.required, view.policies)
        )
        self._counts: dict[Key, tuple[int, int]] = {}
        self._metrics.watch_pods("known", lambda: sum(ranked for ranked, _ in self._counts.values()))
        self._metrics.watch_pods("missing", lambda: sum(unranked for _, unranked in self._counts.values()))
        for source, age in sources.ages().items():
            self._metrics.watch_samples(source, age)
        self._subscribe()

    @property
    def synced(self) -> bool:
        """Whether the caches have synced."""
        return self._view.synced

    @property
    def problems(self) -> list[str]:
        """What keeps the caches from being current."""
        return self._view.problems

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await run_together([self.continuous.runner.run(), self.runner.run()], [self.plans.run()])
        finally:
            self._counts.clear()  # the next leader reports them
            self._rivals.forget()
            self._labels.forget()
            self.continuous.forget()
            self.continuous_plans.forget()

    def configure(self, defaults: Defaults) -> None:
        """Use another configuration from now on: where it disables scale-downs, all costs are reverted at once."""
        self.groups.defaults = defaults
        for key in self.groups.all_keys():
            if self.groups.covers(key.namespace):
                self.continuous.queue.add(key)
        for policy in self._view.policies.store:
            self._requeue_policy(key_of(policy))

    # Statuses.

    async def reconcile(self, key: Key) -> Result:
        """Write the status of a policy."""
        await self._look_policies_up(split(key)[0])
        policy = self._view.policies.get(key)
        if policy is None or policy.metadata.deletion_timestamp is not None:
            self._counts.pop(key, None)
            return Result()
        new = statuses.status(policy, await self._inspector.inspect(policy), self._clock.now())
        self._counts[key] = (new.ranked_pods, new.unranked_pods)
        if not _is_same(policy.status, new):
            with contextlib.suppress(NotFound):
                await self._report(policy, new)
        return Result(self._settings.requeue_after(policy.spec, self._registry))

    async def _look_policies_up(self, namespace: str) -> None:
        """Find the policy of each workload, which is kept, a few at a time: there may be hundreds of both."""
        for at, ref in enumerate(list(self.groups.refs_in(namespace)), start=1):
            self.groups.policy_for(ref)
            if not at % _AT_ONCE:
                await asyncio.sleep(0)

    async def _report(self, policy: ScaleDownPolicy, new: ScaleDownPolicyStatus) -> None:
        metadata = policy.metadata
        patch = {"metadata": {"uid": metadata.uid}, "status": statuses.tree(new)}
        await self._client.patch(
            ScaleDownPolicy, metadata.name, patch, namespace=metadata.namespace, subresource="status"
        )

    def _report_on_group(self, key: GroupKey) -> None:
        group = self.groups.get(key)
        self._rivals.report(key, group)
        self._labels.report(key.namespace)
        if group is not None and group.policy is not None and group.policy.key:
            self._requeue_policy(Key(group.policy.key))

    # Events.

    def _subscribe(self) -> None:
        view = self._view
        view.pods.subscribe(added=self._pod, updated=self._pod_changed, deleted=self._pod)
        view.nodes.subscribe(added=self._node, updated=self._node_changed, deleted=self._node)
        view.namespaces.subscribe(updated=self._namespace_changed)
        view.policies.subscribe(added=self._policy, updated=self._policy_changed, deleted=self._policy)
        for kind in view.kinds:
            view.cache(kind).subscribe(added=self._workload, updated=self._workload_changed, deleted=self._workload)
            view.cache(kind).subscribe(added=self._ignored.report, deleted=self._ignored.drop)
        view.group_costs.subscribe(added=self._costs, updated=self._costs_changed, deleted=self._costs)

    def _pod(self, pod: Pod) -> None:
        key = self.groups.of_pod(pod)
        if key is not None:
            self.continuous.requeue(key)
        elif POLICY_COST in pod.metadata.annotations:
            self.continuous.requeue(GroupKey(ORPHANS, pod.metadata.namespace, ""))

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        if _differs(old, new):
            self._pod(new)
            if old.metadata.controller != new.metadata.controller:
                self._pod(old)

    def _node(self, _: Node) -> None:
        for key in self.continuous.kept:
            self.continuous.requeue(key)

    def _node_changed(self, old: Node, new: Node) -> None:
        if old.metadata.labels != new.metadata.labels or old.spec.taints != new.spec.taints:
            self._node(new)

    def _namespace_changed(self, old: Namespace, new: Namespace) -> None:
        if old.metadata.labels != new.metadata.labels:
            self._requeue_namespace(new.metadata.name)

    def _policy(self, policy: ScaleDownPolicy) -> None:
        self._requeue_policy(key_of(policy))
        self._requeue_namespace(policy.metadata.namespace)

    def _policy_changed(self, old: ScaleDownPolicy, new: ScaleDownPolicy) -> None:
        going = new.metadata.deletion_timestamp != old.metadata.deletion_timestamp
        if old.spec != new.spec or going:
            self._policy(new)
        elif old.metadata.generation != new.metadata.generation or old.status.last_plan != new.status.last_plan:
            self._requeue_policy(key_of(new))

    def _workload(self, workload: Workload) -> None:
        """Requeue what depends on a workload. While workloads are listed, each requeues its own groups, and all of them
        are reconciled later: to compare each with all others would take seconds in a large namespace."""
        metadata = workload.metadata
        in_conflict = self.groups.in_conflict_with(workload) if self._view.synced else ()
        for key in (*self._groups_of(workload), *in_conflict):
            self.continuous.requeue(key)
        if not self._view.is_managed(workload):
            self._requeue_policies(metadata.namespace)

    def _workload_changed(self, old: Workload, new: Workload) -> None:
        before, after = old.desired_replicas, new.desired_replicas
        if after < before and not self._view.is_managed(new):
            self.continuous_plans.record(new, self._groups_of(new), before, after)
        if old.metadata.generation != new.metadata.generation or not _same_labels_and_annotations(old, new):
            self._workload(new)
            self._ignored.report(new)

    def _costs(self, costs: PodGroupCost) -> None:
        namespace, owner = costs.metadata.namespace, costs.spec.owner
        workload = self._view.workload(owner.kind, namespace, owner.name)
        for key in self._groups_of(workload) if workload is not None else ():
            self.continuous.requeue(key)

    def _costs_changed(self, old: PodGroupCost, new: PodGroupCost) -> None:
        self._costs(new)
        if old.spec.owner != new.spec.owner:
            self._costs(old)

    def _groups_of(self, workload: Workload) -> list[GroupKey]:
        namespace, name = workload.metadata.namespace, workload.metadata.name
        if isinstance(workload, ReplicaSetOwner):
            return [GroupKey("ReplicaSet", namespace, each.metadata.name) for each in self._view.sets_of(workload)]
        return [GroupKey(type(workload).__name__, namespace, name)]

    def _requeue_namespace(self, namespace: str) -> None:
        for key in self.groups.keys_in(namespace):
            self.continuous.requeue(key)
        self._requeue_policies(namespace)

    def _requeue_policies(self, namespace: str) -> None:
        for policy in self._view.policies_in(namespace):
            self._requeue_policy(key_of(policy))

    def _requeue_policy(self, key: Key) -> None:
        if self.groups.covers(split(key)[0]):
            self.queue.add_after(key, self._settings.batch)


def _is_same(old: ScaleDownPolicyStatus, new: ScaleDownPolicyStatus) -> bool:
    return statuses.tree(old) == statuses.tree(new)


def _same_labels_and_annotations(old: Object, new: Object) -> bool:
    return (old.metadata.labels, old.metadata.annotations) == (new.metadata.labels, new.metadata.annotations)


def _differs(old: Pod, new: Pod) -> bool:
    """Whether a change to a pod may change ranks, or was made by another program to a policy's cost."""
    if (old.spec.node_name, old.active, old.metadata.controller) != (
        new.spec.node_name,
        new.active,
        new.metadata.controller,
    ):
        return True
    if old.metadata.labels != new.metadata.labels or _other_annotations(old) != _other_annotations(new):
        return True
    if annotated_rank(old.metadata.annotations) != annotated_rank(new.metadata.annotations):
        return True
    return POLICY_COST in new.metadata.annotations and policy_cost(new) is None


def _other_annotations(pod: Pod) -> dict[str, str]:
    """The annotations that policies do not write."""
    return {name: text for name, text in pod.metadata.annotations.items() if name not in POLICY_KEYS}
