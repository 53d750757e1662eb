"""Costs kept current: for each group, what its policy says now is what stands on its pods, and nothing else does.

| the group's policy | what stands |
|---|---|
| delivers continuously | costs, for as long as it speaks |
| delivers on intent, by another carrier | costs, while the workload is to shrink: its controller waits for them |
| delivers on intent, by `pod-deletion-cost` | nothing of ours: see `intents` |
| there is none, or it is silent, or two workloads claim the pods | nothing of ours |

**Few writes.** A group is looked at once for all that happens within a moment (`settings.batch`). Only costs that must
change are written (see `numbering`), a few at a time, and never faster than `settings.rate` a second in all.

**Pods without a rank.** Built-in controllers wait for nobody. While a policy waits, what stands stays; when its time is
over, or at once where it falls back, the group's costs are taken back, and the controller chooses as it always did.
Controllers that read the other carriers wait by themselves: they see who has a rank, and who has none.

**The end.** What no policy wants any more is taken back from whoever has it, whoever wrote it, also after a crash:
marks on pods and PodGroupCosts tell. Pods that their controller has let go of are found by their marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trimtab.api.annotations import POLICY_COST, RANKED_AMONG
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec, StrategySpec
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.informers import Informer
from trimtab.kube.limits import TokenBucket
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import object_key
from trimtab.kube.runners import Result, Runner
from trimtab.ranking.costs import Band, Carrier
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.scaledown.continuous import assessment
from trimtab.scaledown.continuous.assessment import Assessment, Values
from trimtab.scaledown.continuous.carriers import (
    ANNOTATIONS,
    Author,
    GroupCosts,
    PodCosts,
    Report,
    author,
    erasure,
    is_ours,
    mark_of,
)
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.policy.groups import Group, GroupKey, Groups, strategies_for
from trimtab.scaledown.replicaset_plans import constraints_for
from trimtab.scaledown.view import BY_NAMESPACE, View, is_known

ORPHANS = "Orphans"
"""Stands for the pods of a namespace that belong to no group."""


class Bands(Protocol):
    """How the pods of a workload stand in their subsets."""

    def __call__(
        self, kind: str, namespace: str, name: str, *, replicas: int | None = None
    ) -> Mapping[str, Band] | None:
        """The band of each pod by `namespace/name`; None where there are no subsets."""
        ...


class Finder(Protocol):
    """Who finds out about pods elsewhere."""

    def values(self, strategies: Sequence[StrategySpec], pods: Sequence[Pod]) -> Values:
        """What is known and fresh."""
        ...

    def problem(self, strategies: Sequence[StrategySpec], pods: Sequence[Pod] = ()) -> str:
        """Why something cannot be known."""
        ...


def no_bands(kind: str, namespace: str, name: str, *, replicas: int | None = None) -> None:
    """No workload has subsets."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How costs are kept current."""

    batch: float = 1.0
    """Seconds in which changes to a group are gathered before it is looked at."""
    rate: float = 50.0
    """Writes a second, over time, for all groups together."""
    burst: int = 100
    sampled_every: float = 15.0
    """Seconds between looks at groups and policies whose strategies look at samples."""
    looked_at_every: float = 300.0
    """Seconds between looks at all others: time alone may change ranks."""
    workers: int = 4
    constraints: tuple[Constraint, ...] = (Constraint(ZONE), Constraint(HOSTNAME))
    """What workloads that state no spread constraints are kept level on."""

    def next_look(self, spec: ScaleDownPolicySpec) -> float:
        """Seconds until a policy, or a group that it speaks for, is looked at again if nothing happens."""
        sampled = any(each.name in assessment.SAMPLED for each in spec.strategies)
        return self.sampled_every if sampled else self.looked_at_every


SETTINGS = Settings()


@dataclass(slots=True)
class Outcome:
    """What came of the last look at a group, for reports."""

    theirs: list[str] = field(default_factory=list)
    error: str = ""
    fallback: bool = False


class Continuous:
    """Keeps the costs of all groups as their policies want them."""

    def __init__(
        self,
        client: Client,
        view: View,
        groups: Groups,
        finder: Finder,
        *,
        group_costs: Informer[PodGroupCost] | None = None,
        settings: Settings = SETTINGS,
        bands: Bands = no_bands,
        metrics: Metrics | None = None,
        registry: Mapping[str, Factory] = STRATEGIES,
        done: Callable[[GroupKey], None] | None = None,
    ) -> None:
        limit = TokenBucket(settings.rate, settings.burst, client.clock)
        self.outcomes: dict[GroupKey, Outcome] = {}
        self.kept: set[GroupKey] = set()
        """The groups whose costs are kept at present."""
        self._clock = client.clock
        self._view = view
        self._groups = groups
        self._finder = finder
        self._known = group_costs
        self._settings = settings
        self._bands = bands
        self._registry = registry
        self._done = done
        self._metrics = metrics or Metrics()
        self._pods = PodCosts(client, limit, metrics=metrics)
        self._objects = GroupCosts(client, limit, metrics=metrics)
        self._unranked_since: dict[GroupKey, int] = {}
        self._worked_out: dict[GroupKey, int] = {}
        """When the costs that are kept at present were last worked out, by the monotonic clock."""
        self._metrics.watch_ranks(self._oldest)
        self.queue: WorkQueue[GroupKey] = WorkQueue(client.clock)
        self.runner = Runner("policy costs", self.reconcile, self.queue, workers=settings.workers, after=view.required)

    def wake(self, a_key: GroupKey) -> None:
        """Look at a group soon, once for all that happens until then."""
        if self._groups.looks_after(a_key.namespace):
            self.queue.add_after(a_key, self._settings.batch)

    async def reconcile(self, a_key: GroupKey) -> Result:
        """Have a group's pods cost what its policy says.

        While it is not known which policies there are, nothing is known to be wanted, or not to be.
        """
        if not is_known(self._view.policies):
            return Result(self._settings.batch)
        report = Report()
        group = self._groups.get(a_key)
        if group is None:
            await self._sweep(a_key, report)
            return Result()
        pods = self._groups.pods(group)
        carrier = carrier_for(group, len(pods))
        result = await self._keep(group, pods, carrier, report)
        self._note(a_key, report, kept=carrier is not None)
        return result

    # Decide.

    def assess(self, group: Group, pods: Sequence[Pod]) -> Assessment:
        """What the group's policy says of its pods."""
        spec = group.spec
        if spec is None:
            return Assessment()
        strategies = self.strategies(group, spec)
        values = self._finder.values(strategies, pods)
        return assessment.assess(pods, strategies, values, self._view.snapshot, self._clock.now(), self._registry)

    def strategies(self, group: Group, spec: ScaleDownPolicySpec) -> tuple[StrategySpec, ...]:
        """The policy's strategies, or those that keep the group level."""
        return strategies_for(spec, self.constraints(group))

    def constraints(self, group: Group) -> tuple[Constraint, ...]:
        """What a group is kept level on."""
        return constraints_for(group.template, self._view.snapshot, self._settings.constraints)

    def problem(self, group: Group, pods: Sequence[Pod]) -> str:
        """Why ranks are missing, as far as that is known."""
        return "" if group.spec is None else self._finder.problem(group.spec.strategies, pods)

    # Act.

    async def _keep(self, group: Group, pods: Sequence[Pod], carrier: Carrier | None, report: Report) -> Result:
        """Write what is wanted, and take back what is not."""
        if carrier is None or group.spec is None:
            self._unranked_since.pop(group.key, None)
            await self._take_back(group, pods, None, report)
            return Result()
        found = self.assess(group, pods)
        waits_itself = carrier.sign > 0
        if not found.whole and not waits_itself:
            return await self._lack(group, pods, found, carrier, report)
        self._unranked_since.pop(group.key, None)
        self._worked_out[group.key] = self._clock.monotonic()
        await self._take_back(group, [pod for pod in pods if pod.key not in found.ranks], carrier, report)
        await self._take_back(group, [pod for pod in pods if _is_misplaced(pod, carrier)], carrier, report)
        await self._write(group, pods, found, carrier, report)
        return Result(self._settings.next_look(group.spec))

    async def _lack(
        self, group: Group, pods: Sequence[Pod], found: Assessment, carrier: Carrier, report: Report
    ) -> Result:
        """Some pods have no rank: wait, or fall back. A strategy that cannot work at all is not waited for."""
        if group.spec is None:
            return Result()
        now = self._clock.monotonic()
        since = self._unranked_since.setdefault(group.key, now)
        patience = assessment.patience(group.spec.when_unranked, since, now)
        if patience.waits and not found.fault:
            await self._take_back(group, [pod for pod in pods if _is_misplaced(pod, carrier)], carrier, report)
            return Result(min(patience.seconds, self._settings.next_look(group.spec)))
        await self._take_back(group, pods, carrier, report, reason="unranked")
        outcome = self.outcomes.setdefault(group.key, Outcome())
        if not outcome.fallback:
            outcome.fallback = True
            self._metrics.fell_back()
        return Result(self._settings.next_look(group.spec))

    async def _write(
        self, group: Group, pods: Sequence[Pod], found: Assessment, carrier: Carrier, report: Report
    ) -> None:
        policy = str(group.governing)
        bands = self._bands(*group.key)
        if carrier is Carrier.POD_GROUP_COST:
            known = self._group_cost(group)
            held = known.spec.costs if known is not None and is_ours(known) else None
            wanted = assessment.costs(pods, found, carrier, bands, held)
            named = {a_key.partition("/")[2]: cost for a_key, cost in wanted.items()}
            await self._objects.write(group.holder, policy, named, known, report)
            return
        wanted = assessment.costs(pods, found, carrier, bands)
        await self._pods.write(assessment.written(pods, wanted, policy, carrier, recompute=found.recompute), report)

    async def _take_back(
        self, group: Group, pods: Sequence[Pod], carrier: Carrier | None, report: Report, *, reason: str = "policy"
    ) -> None:
        """Take our costs from these pods, and our PodGroupCost, unless that is the carrier that is wanted."""
        await self._pods.take_back(pods, report, reason=reason)
        if carrier is not Carrier.POD_GROUP_COST:
            known = self._group_cost(group)
            if known is not None:
                await self._objects.take_back(known, report, reason=reason)

    async def _sweep(self, a_key: GroupKey, report: Report) -> None:
        """The group is gone: whoever it has let go of is put back as it was. Its PodGroupCost goes with its owner."""
        self.outcomes.pop(a_key, None)
        self._let_go_of(a_key)
        self._unranked_since.pop(a_key, None)
        marked = [pod for pod in self._view.pods.store.by(BY_NAMESPACE, a_key.namespace) if erasure(pod) is not None]
        strays = [pod for pod in marked if self._groups.is_stray(pod) and not pod.terminating]
        await self._pods.take_back(strays, report, reason="orphan")

    # Report.

    def _note(self, a_key: GroupKey, report: Report, *, kept: bool) -> None:
        outcome = self.outcomes.pop(a_key, Outcome())
        failed = next((f"{pod}: {reason}" for pod, reason in report.failed.items()), "")
        self.outcomes[a_key] = Outcome(report.theirs, failed, outcome.fallback and a_key in self._unranked_since)
        self.kept.add(a_key) if kept else self._let_go_of(a_key)
        if self._done is not None:
            self._done(a_key)
        if failed:
            raise RuntimeError(f"{len(report.failed)} costs could not be written; {failed}")

    def forget(self) -> None:
        """Nobody is looked after here any more."""
        self.kept.clear()
        self._worked_out.clear()

    def _let_go_of(self, a_key: GroupKey) -> None:
        self.kept.discard(a_key)
        self._worked_out.pop(a_key, None)

    def _oldest(self) -> float:
        now = self._clock.monotonic()
        return max(((now - at) / SECOND for at in self._worked_out.values()), default=0.0)

    def _group_cost(self, group: Group) -> PodGroupCost | None:
        if self._known is None:
            return None
        return self._known.get(object_key(group.key.namespace, group.holder.group_name))


def carrier_for(group: Group, active: int) -> Carrier | None:
    """Where the costs of a group are to stand now; None where nowhere."""
    spec = group.spec
    if spec is None:
        return None
    carrier = Carrier(spec.carrier)
    if spec.delivery == "Continuous":
        return carrier
    return carrier if carrier is not Carrier.ANNOTATION and active > group.wanted else None


def _is_misplaced(pod: Pod, carrier: Carrier) -> bool:
    """Whether a pod bears a mark of ours that is of another carrier, or beside a cost that somebody else set.

    Where its subset has moved the cost to another band, the mark is about to be written anew.
    """
    annotations = pod.metadata.annotations
    if POLICY_COST not in annotations and RANKED_AMONG not in annotations:
        return False
    mark = mark_of(pod)
    if mark is None or mark.carrier != carrier:
        return True
    return carrier in ANNOTATIONS and author(pod, carrier) in (Author.OTHERS, Author.NOBODY)
