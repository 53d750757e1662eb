"""ScaleDownPolicies looked after: their costs kept, their statuses told, and what wakes either.

    view ──→ what changed ──→ groups to look at (`continuous`) ──→ policies to report on (`findings`, `reports`)

Needs to list and watch `scaledownpolicies`, `podgroupcosts` and what the view shows; to patch `pods` and
`scaledownpolicies/status`; to create, patch and delete `podgroupcosts`; and, for `Idle`, to list `pods.metrics.k8s.io`.
Runs in one process at a time: the one that leads. The view and the sources are run by whoever made them, for requests
to shrink are held in every process.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trimtab.api.annotations import POLICY_COST
from trimtab.api.apps import Deployment
from trimtab.api.core import Namespace
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy, ScaleDownPolicySpec, ScaleDownPolicyStatus
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, Clock, cancel, within
from trimtab.kube.errors import NotFound
from trimtab.kube.informers import Informer
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key, split
from trimtab.kube.runners import Result, Runner
from trimtab.kube.stores import Object, key_of
from trimtab.placement.profiles import Profile, default_profile
from trimtab.ranking.plan import Plan, Policy, plan
from trimtab.ranking.plan import Workload as Shrinking
from trimtab.ranking.strategies import STRATEGIES, Factory, StrategyError
from trimtab.scaledown import proportional
from trimtab.scaledown.continuous.assessment import SAMPLED
from trimtab.scaledown.continuous.carriers import OWN_ANNOTATIONS, own_cost
from trimtab.scaledown.continuous.delivery import ORPHANS, SETTINGS, Bands, Continuous, Settings, no_bands
from trimtab.scaledown.intent.gate import Made
from trimtab.scaledown.intent.plan_reports import PlanReports
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.policy import statuses
from trimtab.scaledown.policy.effective import NO_DEFAULTS, Defaults, Governing, is_part
from trimtab.scaledown.policy.findings import BUILT_IN, Finder, Readers
from trimtab.scaledown.policy.groups import HOLDERS, Group, GroupKey, Groups
from trimtab.scaledown.sources import Sources, Target
from trimtab.scaledown.sources.scores import ScoreSource
from trimtab.scaledown.view import View, Workload, is_known

GRACE = 2.0
"""Seconds that writes under way are given when the controller ends."""
TARGETS_FOR = 3.0
"""Seconds for which it is remembered who is to be sampled: less than anybody can ask to be."""


def sampled(
    client: Client, view: View, defaults: Callable[[], Defaults], *, profile: Profile | None = None, **settings: Any
) -> Sources:
    """Sources for whatever policies in a view need; `profile` is how pods are scheduled.

    `defaults` are asked for again and again: nobody is sampled whom no policy speaks for any more.
    """
    scores = ScoreSource(client.clock, view.snapshot, profile or default_profile())
    scores.follow((view.sets, view.replicators, view.namespaces))
    targets = Targets(client.clock, view, defaults)
    return Sources(client, targets, scores=scores, **settings)


class Targets:
    """Whom policies with sampled strategies speak for. Looked up every few seconds, and only where there are any."""

    def __init__(self, clock: Clock, view: View, defaults: Callable[[], Defaults]) -> None:
        self._clock = clock
        self._view = view
        self._defaults = defaults
        self._groups = Groups(view, defaults())
        self._found: tuple[Target, ...] = ()
        self._until = 0

    def __call__(self) -> Sequence[Target]:
        now = self._clock.monotonic()
        if now >= self._until:
            self._found = tuple(self._look())
            self._until = now + round(TARGETS_FOR * SECOND)
        return self._found

    def _look(self) -> Iterable[Target]:
        self._groups.defaults = self._defaults()
        for a_key in self._keys():
            group = self._groups.get(a_key)
            if group is not None and group.spec is not None and _is_sampled(group.spec):
                yield Target(group.spec.strategies, self._groups.pods(group))

    def _keys(self) -> Iterable[GroupKey]:
        if any(_is_sampled(each.spec) for each in self._groups.defaults.policies):
            return self._groups.all_keys()
        namespaces = {policy.metadata.namespace for policy in self._view.policies.store if _is_sampled(policy.spec)}
        return [a_key for namespace in sorted(namespaces) for a_key in self._groups.keys_in(namespace)]


def _is_sampled(spec: ScaleDownPolicySpec) -> bool:
    return any(strategy.name in SAMPLED for strategy in spec.strategies)


class ScaleDownPolicies:
    """Keeps costs and tells statuses. A component: `run` works until cancelled."""

    def __init__(
        self,
        client: Client,
        view: View,
        sources: Sources,
        *,
        defaults: Defaults = NO_DEFAULTS,
        settings: Settings = SETTINGS,
        readers: Readers = BUILT_IN,
        bands: Bands = no_bands,
        metrics: Metrics | None = None,
        registry: Mapping[str, Factory] = STRATEGIES,
        rng: random.Random | None = None,
    ) -> None:
        self.groups = Groups(view, defaults)
        self.group_costs: Informer[PodGroupCost] = Informer(client, PodGroupCost, rng=rng)
        self.plans = PlanReports(client)
        self._client = client
        self._clock = client.clock
        self._view = view
        self._sources = sources
        self._settings = settings
        self._registry = registry
        self._metrics = metrics or Metrics()
        self.continuous = Continuous(
            client,
            view,
            self.groups,
            sources,
            group_costs=self.group_costs,
            settings=settings,
            bands=bands,
            metrics=self._metrics,
            registry=registry,
            done=self._looked_at,
        )
        self._finder = Finder(view, self.groups, self.continuous, readers=readers, registry=registry)
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
        """Whether the cluster has been seen."""
        return self._view.synced and (is_known(self.group_costs))

    @property
    def problems(self) -> list[str]:
        """What keeps it from seeing the cluster as it is."""
        return self._view.problems

    async def run(self) -> None:
        """Work until cancelled."""
        parts = (self.group_costs.run(), self.continuous.runner.run(), self.runner.run(), self.plans.run())
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self._end()
            await cancel(*tasks)
            self._counts.clear()  # what another process leads from now on is not for this one's metrics to tell
            self.continuous.forget()

    async def _end(self) -> None:
        """Let writes that are under way finish, within a grace period. What is cut off is found by the next process."""
        if not self._view.synced:  # then nobody has taken anything
            return
        working = (self.continuous.runner, self.runner, self.plans.runner)
        with contextlib.suppress(TimeoutError):
            await within(self._clock, GRACE, _stopped(working))

    def configure(self, defaults: Defaults) -> None:
        """Go by another configuration from now on: with the switch off, everything is taken back at once."""
        self.groups.defaults = defaults
        for a_key in self.groups.all_keys():
            if self.groups.looks_after(a_key.namespace):
                self.continuous.queue.add(a_key)
        for policy in self._view.policies.store:
            self._wake_policy(key_of(policy))

    # Report.

    async def reconcile(self, a_key: Key) -> Result:
        """Tell how a policy is doing."""
        policy = self._view.policies.get(a_key)
        if policy is None or policy.metadata.deletion_timestamp is not None:
            self._counts.pop(a_key, None)
            return Result()
        new = statuses.status(policy, self._finder.find(policy), self._clock.now())
        self._counts[a_key] = (new.ranked_pods, new.unranked_pods)
        if not _same(policy.status, new):
            with contextlib.suppress(NotFound):
                await self._report(policy, new)
        return Result(self._settings.next_look(policy.spec))

    async def _report(self, policy: ScaleDownPolicy, new: ScaleDownPolicyStatus) -> None:
        metadata = policy.metadata
        patch = {"metadata": {"uid": metadata.uid}, "status": statuses.tree(new)}
        await self._client.patch(
            ScaleDownPolicy, metadata.name, patch, namespace=metadata.namespace, subresource="status"
        )

    def _looked_at(self, a_key: GroupKey) -> None:
        group = self.groups.get(a_key)
        if group is not None and group.governing is not None and group.governing.key:
            self._wake_policy(Key(group.governing.key))

    # What wakes it.

    def _subscribe(self) -> None:
        view = self._view
        view.pods.subscribe(added=self._pod, updated=self._pod_changed, deleted=self._pod)
        view.nodes.subscribe(added=self._node, updated=self._node_changed, deleted=self._node)
        view.namespaces.subscribe(updated=self._namespace_changed)
        view.policies.subscribe(added=self._policy, updated=self._policy_changed, deleted=self._policy)
        for kind in ("Deployment", *HOLDERS):
            view.informer(kind).subscribe(added=self._workload, updated=self._workload_changed, deleted=self._workload)
        self.group_costs.subscribe(added=self._costs, updated=lambda _, new: self._costs(new), deleted=self._costs)

    def _pod(self, pod: Pod) -> None:
        a_key = self.groups.of_pod(pod)
        if a_key is not None:
            self.continuous.wake(a_key)
        elif POLICY_COST in pod.metadata.annotations:
            self.continuous.wake(GroupKey(ORPHANS, pod.metadata.namespace, ""))

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        if _differs(old, new):
            self._pod(new)
            if old.metadata.controller != new.metadata.controller:
                self._pod(old)

    def _node(self, _: Node) -> None:
        for a_key in self.continuous.kept:
            self.continuous.wake(a_key)

    def _node_changed(self, old: Node, new: Node) -> None:
        if old.metadata.labels != new.metadata.labels or old.spec.taints != new.spec.taints:
            self._node(new)

    def _namespace_changed(self, old: Namespace, new: Namespace) -> None:
        if old.metadata.labels != new.metadata.labels:
            self._wake_namespace(new.metadata.name)

    def _policy(self, policy: ScaleDownPolicy) -> None:
        self._wake_policy(key_of(policy))
        self._wake_namespace(policy.metadata.namespace)

    def _policy_changed(self, old: ScaleDownPolicy, new: ScaleDownPolicy) -> None:
        going = new.metadata.deletion_timestamp != old.metadata.deletion_timestamp
        if old.spec != new.spec or going:
            self._policy(new)
        elif old.metadata.generation != new.metadata.generation or old.status.last_plan != new.status.last_plan:
            self._wake_policy(key_of(new))

    def _workload(self, workload: Workload) -> None:
        metadata = workload.metadata
        for a_key in (*self._groups_of(workload), *self.groups.contending(workload)):
            self.continuous.wake(a_key)
        if not is_part(workload):
            self._wake_policies(metadata.namespace)

    def _workload_changed(self, old: Workload, new: Workload) -> None:
        before, after = old.desired_replicas, new.desired_replicas
        if after < before and not is_part(new):
            self._shrinks(new, before, after)
        if old.metadata.generation != new.metadata.generation or not _same_marks(old, new):
            self._workload(new)

    def _costs(self, costs: PodGroupCost) -> None:
        owner = costs.spec.owner
        if owner.kind in HOLDERS:
            self.continuous.wake(GroupKey(owner.kind, costs.metadata.namespace, owner.name))

    def _groups_of(self, workload: Workload) -> list[GroupKey]:
        namespace, name = workload.metadata.namespace, workload.metadata.name
        if isinstance(workload, Deployment):
            return [GroupKey("ReplicaSet", namespace, each.metadata.name) for each in self._view.sets_of(workload)]
        return [GroupKey(type(workload).__name__, namespace, name)]

    def _wake_namespace(self, namespace: str) -> None:
        for a_key in self.groups.keys_in(namespace):
            self.continuous.wake(a_key)
        self._wake_policies(namespace)

    def _wake_policies(self, namespace: str) -> None:
        for policy in self._view.policies_in(namespace):
            self._wake_policy(key_of(policy))

    def _wake_policy(self, a_key: Key) -> None:
        if self.groups.looks_after(split(a_key)[0]):
            self.queue.add_after(a_key, self._settings.batch)

    # The last plan, where costs stand already when a workload shrinks.

    def _shrinks(self, workload: Workload, before: int, after: int) -> None:
        found = (self.groups.get(a_key) for a_key in self._groups_of(workload))
        groups = [group for group in found if group is not None and group.spec is not None]
        governing = next((group.governing for group in groups if _is_kept(group)), None)
        if governing is None or after == 0:
            return
        sets = self._view.sets_of(workload) if isinstance(workload, Deployment) else ()
        sizes = {share.uid: share.size for share in proportional.of_workload(workload, after, sets)}
        made = [self._planned(group, sizes[group.holder.uid]) for group in groups if group.holder.uid in sizes]
        plans = tuple(each for each in made if each is not None)
        if plans:
            self._tell(workload, governing, before, after, plans)

    def _tell(self, workload: Workload, governing: Governing, before: int, after: int, plans: tuple[Plan, ...]) -> None:
        for leveling in (each for made in plans for each in made.levelings):
            skews = (leveling.skew_before, leveling.skew_after, leveling.skew_stock)
            self._metrics.levelled(leveling.topology_key, *skews)
        metadata = workload.metadata
        name = (type(workload).__name__, metadata.namespace, metadata.name)
        self.plans.note(Made(governing, *name, before, after, plans, self._clock.now()))

    def _planned(self, group: Group, size: int) -> Plan | None:
        """What the costs that stand will bring about."""
        if group.spec is None:
            return None
        pods, snapshot = self.groups.pods(group), self._view.snapshot
        constraints = self.continuous.constraints(group)
        workload = Shrinking.owned_by(snapshot, group.holder.uid, constraints=constraints)
        own = frozenset(pod.key for pod in pods if own_cost(pod) is not None)
        workload = replace(workload, kind="CloneSet" if group.key.kind == "CloneSet" else "ReplicaSet", own_costs=own)
        strategies = self.continuous.strategies(group, group.spec)
        try:
            policy = self._sources.values(strategies, pods).given_to(Policy.of(strategies, self._registry))
            return plan(workload, snapshot, policy, replicas=size, now=self._clock.now())
        except (InvalidError, StrategyError):
            return None


async def _stopped(runners: Iterable[Runner[Any]]) -> None:
    await asyncio.gather(*(runner.stop() for runner in runners))


def _is_kept(group: Group) -> bool:
    spec = group.spec
    return spec is not None and (spec.delivery == "Continuous" or spec.carrier != "Annotation")


def _same(old: ScaleDownPolicyStatus, new: ScaleDownPolicyStatus) -> bool:
    return statuses.tree(old) == statuses.tree(new)


def _same_marks(old: Object, new: Object) -> bool:
    return (old.metadata.labels, old.metadata.annotations) == (new.metadata.labels, new.metadata.annotations)


def _differs(old: Pod, new: Pod) -> bool:
    """Whether a change to a pod may change somebody's rank, or be one that another has made to our costs."""
    if (old.spec.node_name, old.active, old.metadata.controller) != (
        new.spec.node_name,
        new.active,
        new.metadata.controller,
    ):
        return True
    if old.metadata.labels != new.metadata.labels or _others(old) != _others(new):
        return True
    return POLICY_COST in new.metadata.annotations and own_cost(new) is None


def _others(pod: Pod) -> dict[str, str]:
    """The annotations that are not ours."""
    return {name: text for name, text in pod.metadata.annotations.items() if name not in OWN_ANNOTATIONS}
