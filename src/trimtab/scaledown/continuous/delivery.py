"""Keeps the costs of groups current: each group has the costs that its policy gives now, and no others of ours.

| the group's policy | costs of ours |
|---|---|
| `delivery: Continuous` | while the policy applies |
| `delivery: OnScaleIntent`, another carrier | while the workload is to shrink: its controller waits for them |
| `delivery: OnScaleIntent`, `carrier: Annotation` | none: see `intent` |
| no policy applies, or two workloads select the pods | none |

Explicit ranks that replace the strategies of a default policy are written as deletion costs in its place.

**Few writes.** A group is reconciled once for all events within a moment (`settings.batch`). Only costs that must
change are written (see `numbering`), a few at a time, and never faster than `settings.rate` a second in all.

**Pods without a rank.** Built-in controllers do not wait. While a policy waits, the present costs stay; when its
timeout has passed, or at once with `Fallback`, the group's costs are reverted, and the controller's own order decides.
The costs of a CloneSet's unranked pods are reverted at once: its controller waits for them by itself.
A scale-down that is requested meanwhile does not follow costs that are incomplete: see `intent.kept_costs`.
Controllers that read the other carriers wait by themselves: they see which pods have a rank.

**Reverting.** Costs that no policy gives any more are reverted, whichever process wrote them, also after a crash: they
are found by the annotations of pods and PodGroupCosts. So are those of pods that their controller has released.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.limits import TokenBucket
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import object_key
from trimtab.kube.runners import Result, Runner
from trimtab.ranking.costs import Band, Carrier
from trimtab.ranking.rankers import DefaultsFor
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.scaledown.constraints import zones_and_nodes
from trimtab.scaledown.continuous import assessment
from trimtab.scaledown.continuous.annotation_costs import AnnotationCosts
from trimtab.scaledown.continuous.assessment import Assessment, WantedCosts
from trimtab.scaledown.continuous.assessor import GroupAssessor
from trimtab.scaledown.continuous.carriers import CarrierReport
from trimtab.scaledown.continuous.group_costs import GroupCosts, is_written_by_policy
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.policy.groups import Group, GroupKey, Groups
from trimtab.scaledown.sources import Sources
from trimtab.scaledown.view import View

ORPHANS = "Orphans"
"""The kind of a key that stands for the pods of a namespace that belong to no group."""


class Bands(Protocol):
    """The bands of the costs of pods in subsets."""

    async def __call__(
        self, kind: str, namespace: str, name: str, *, replicas: int | None = None
    ) -> Mapping[str, Band] | None:
        """The band of each pod by `namespace/name`; None where there are no subsets."""
        ...


async def no_bands(kind: str, namespace: str, name: str, *, replicas: int | None = None) -> None:
    """No workload has subsets."""


@dataclass(frozen=True, slots=True)
class ContinuousSettings:
    """How costs are kept current."""

    batch: float = 1.0
    """Seconds in which events of a group are collected before it is reconciled."""
    rate: float = 50.0
    """Writes a second, over time, for all groups together."""
    burst: int = 100
    resync_sampled: float = 15.0
    """Seconds after which groups and policies are requeued whose ranks drift: sampled strategies, and Scheduled."""
    resync: float = 300.0
    """Seconds after which all others are requeued: time alone may change ranks."""
    workers: int = 4
    constraints: DefaultsFor = zones_and_nodes
    """The constraints of workloads whose templates state none."""

    def requeue_after(self, spec: ScaleDownPolicySpec, registry: Mapping[str, Factory] = STRATEGIES) -> float:
        """Seconds after which a policy, or a group that it applies to, is requeued without an event."""
        return self.resync_sampled if assessment.drifts(spec.strategies, registry) else self.resync


SETTINGS = ContinuousSettings()


@dataclass(slots=True)
class GroupResult:
    """The result of the last reconcile of a group, for reports."""

    foreign: list[str] = field(default_factory=list)
    error: str = ""
    fallback: bool = False


class Continuous:
    """Keeps the costs of all groups as their policies give them."""

    def __init__(
        self,
        client: Client,
        view: View,
        groups: Groups,
        sources: Sources,
        *,
        settings: ContinuousSettings = SETTINGS,
        bands: Bands = no_bands,
        metrics: Metrics | None = None,
        registry: Mapping[str, Factory] = STRATEGIES,
        on_reconciled: Callable[[GroupKey], None] | None = None,
        executor: Executor | None = None,
    ) -> None:
        """`executor` has the thread in which many pods are ranked; without it there is one of its own."""
        limit = TokenBucket(settings.rate, settings.burst, client.clock)
        self.results: dict[GroupKey, GroupResult] = {}
        self.kept: set[GroupKey] = set()
        """The groups whose costs are kept current at present."""
        self._clock = client.clock
        self._view = view
        self._groups = groups
        self._settings = settings
        self._bands = bands
        self._registry = registry
        self._on_reconciled = on_reconciled
        self._metrics = metrics or Metrics()
        self.assessor = GroupAssessor(
            *(view, client.clock, groups, sources),
            defaults=settings.constraints,
            registry=registry,
            executor=executor or ThreadPoolExecutor(1, thread_name_prefix="policies"),
        )
        self._pods = AnnotationCosts(client, limit, metrics=metrics)
        self._objects = GroupCosts(client, limit, metrics=metrics)
        self._unranked_since: dict[GroupKey, int] = {}
        self._computed: dict[GroupKey, int] = {}
        """When the costs that are kept current were last computed, on the monotonic clock."""
        self._metrics.watch_ranks(self._oldest)
        self.queue: WorkQueue[GroupKey] = WorkQueue(client.clock)
        self.runner = Runner("policy costs", self.reconcile, self.queue, workers=settings.workers, after=view.required)

    def requeue(self, key: GroupKey) -> None:
        """Reconcile a group soon, once for all events until then."""
        if self._groups.covers(key.namespace):
            self.queue.add_after(key, self._settings.batch)

    async def reconcile(self, key: GroupKey) -> Result:
        """Give a group's pods the costs of its policy. Nothing is written or reverted before policies, and the
        kind of the workload that owns its controller, have synced."""
        if not self._view.policies.is_known or not self._groups.is_owner_known(key):
            return Result(self._settings.batch)
        report = CarrierReport()
        group = self._groups.get(key)
        if group is None:
            await self._sweep(key, report)
            self._notify(key)
            return Result()
        pods = self._groups.pods(group)
        carrier = carrier_for(group, len(pods))
        if carrier is not None:
            self.kept.add(key)  # before costs are written: events of nodes that arrive meanwhile must requeue it
        result = await self._keep(group, pods, carrier, report)
        self._record(key, report, kept=carrier is not None)
        return result

    # Act.

    async def _keep(self, group: Group, pods: Sequence[Pod], carrier: Carrier | None, report: CarrierReport) -> Result:
        """Write the costs that the policy gives, and revert others of ours."""
        if carrier is None or group.spec is None:
            self._unranked_since.pop(group.key, None)
            await self._revert(group, pods, None, report)
            return Result()
        policy, bands, present = str(group.policy), await self._bands(*group.key), self._present_costs(group, carrier)
        assess = self.assessor.prepare(group, pods)
        found = await self.assessor.compute(
            len(pods),
            lambda snapshot: assessment.wanted_costs(pods, assess(snapshot), policy, carrier, bands, present),
        )
        if self._groups.get(group.key) != group:  # it has changed meanwhile, its policy for example
            return Result(self._settings.batch)
        if not found.ranks.is_complete and carrier is Carrier.ANNOTATION:
            return await self._wait_or_fall_back(group, group.spec, pods, found.ranks, report)
        self._unranked_since.pop(group.key, None)
        self._computed[group.key] = self._clock.monotonic()
        await self._revert(group, found.outdated, carrier, report)
        await self._write(group, found, carrier, report)
        return Result(self._settings.requeue_after(group.spec, self._registry))

    async def _wait_or_fall_back(
        self, group: Group, spec: ScaleDownPolicySpec, pods: Sequence[Pod], ranks: Assessment, report: CarrierReport
    ) -> Result:
        """Wait for missing ranks, or fall back. A strategy that cannot work at all is not waited for."""
        now, carrier = self._clock.monotonic(), Carrier.ANNOTATION
        since = self._unranked_since.setdefault(group.key, now)
        patience = assessment.patience(spec.when_unranked, since, now)
        if patience.waits and not ranks.fault:
            outdated = [pod for pod in pods if assessment.is_misplaced(pod, carrier)]
            if group.key.kind == "CloneSet":  # Trimtab's waits by itself, if it sees which pods have no rank
                outdated += [pod for pod in pods if pod.key in ranks.unranked]
            await self._revert(group, outdated, carrier, report)
            return Result(min(patience.seconds, self._settings.requeue_after(spec, self._registry)))
        await self._revert(group, pods, carrier, report, reason="unranked")
        result = self.results.setdefault(group.key, GroupResult())
        if not result.fallback:
            result.fallback = True
            self._metrics.record_unranked_fallback()
        return Result(self._settings.requeue_after(spec, self._registry))

    async def _write(self, group: Group, wanted: WantedCosts, carrier: Carrier, report: CarrierReport) -> None:
        if carrier is Carrier.POD_GROUP_COST:
            named = {key.partition("/")[2]: cost for key, cost in wanted.costs.items()}
            await self._objects.write(group.owner, str(group.policy), named, self._group_cost(group), report)
        else:
            await self._pods.write(wanted.on_pods, report)

    def _present_costs(self, group: Group, carrier: Carrier) -> Mapping[str, int] | None:
        """The costs of a policy that are in the group's PodGroupCost."""
        known = self._group_cost(group) if carrier is Carrier.POD_GROUP_COST else None
        return known.spec.costs if known is not None and is_written_by_policy(known) else None

    async def _revert(
        self,
        group: Group,
        pods: Sequence[Pod],
        carrier: Carrier | None,
        report: CarrierReport,
        *,
        reason: str = "policy",
    ) -> None:
        """Revert our costs on these pods, and our PodGroupCost, unless that is the policy's carrier."""
        await self._pods.revert(pods, report, reason=reason)
        if carrier is not Carrier.POD_GROUP_COST:
            known = self._group_cost(group)
            if known is not None:
                await self._objects.revert(known, report, reason=reason)

    async def _sweep(self, key: GroupKey, report: CarrierReport) -> None:
        """Revert the costs of pods whose group is gone. Its PodGroupCost is garbage-collected with its owner."""
        self.results.pop(key, None)
        self._forget_group(key)
        self._unranked_since.pop(key, None)
        written = self._view.pods_of_policies(key.namespace)
        strays = [pod for pod in written if self._groups.is_stray(pod)]
        await self._pods.revert(strays, report, reason="orphan")

    # Report.

    def _record(self, key: GroupKey, report: CarrierReport, *, kept: bool) -> None:
        previous = self.results.pop(key, GroupResult())
        failed = next((f"{pod}: {reason}" for pod, reason in report.failed.items()), "")
        fallback = previous.fallback and key in self._unranked_since
        self.results[key] = GroupResult(report.foreign, failed, fallback)
        if not kept:
            self._forget_group(key)
        self._notify(key)
        if failed:
            raise RuntimeError(f"{len(report.failed)} costs could not be written; {failed}")

    def _notify(self, key: GroupKey) -> None:
        if self._on_reconciled is not None:
            self._on_reconciled(key)

    def forget(self) -> None:
        """Forget all groups: this process does not keep their costs any more."""
        self.kept.clear()
        self._computed.clear()

    def _forget_group(self, key: GroupKey) -> None:
        self.kept.discard(key)
        self._computed.pop(key, None)

    def _oldest(self) -> float:
        now = self._clock.monotonic()
        return max(((now - at) / SECOND for at in self._computed.values()), default=0.0)

    def _group_cost(self, group: Group) -> PodGroupCost | None:
        return self._view.group_costs.get(object_key(group.key.namespace, group.owner.group_name))


def carrier_for(group: Group, active: int) -> Carrier | None:
    """The carrier in which a group is to have costs now; None where it is to have none."""
    spec = group.spec
    if spec is None or spec.mode == "Observe":
        return None
    carrier = Carrier(spec.carrier)
    if spec.delivery == "Continuous":
        return carrier
    return carrier if carrier is not Carrier.ANNOTATION and active > group.wanted else None
