"""A request to shrink is held while costs are put in place: ranks just in time.

    is it so?  →  who speaks for it?  →  plan  →  write  →  seen by the own watch?  →  settle  →  answer

1. *Is it so?* Anyone who reaches the webhook can send it a review. So nothing is believed: the workload is read from
   the API server, and must be of that UID and size; its namespace must be one that is looked after. What is asked for
   too often, or writes too much, is passed. Whoever else has to get ready for the new size (`prepare`: the bands of
   subsets, which need no policy) does so now, in half of the budget at most.
2. *Who speaks for it?* The policy is looked up for the workload that was read: a review of `/scale` has no labels.
3. *Plan*, once the own watch has shown as many pods as the workload counts. For each controller whose pods shrink (see
   `shares`), with the victims of earlier requests that are still being carried out assumed gone. Nothing is written if
   everything goes, or the controller's own choice is as good.
4. *Write*, until there is only the settle time left of the budget (see `deliveries` for the order, `ledger` for how).
5. *Seen and settled.* The controller reads the same stream of events as we do: what we have seen it will see soon.
6. *Answer*, always yes. What becomes of the plan is `aftermath`'s.

**A repeat.** An API server may ask twice for one request, and autoscalers try again on conflict. As long as the
workload's generation is the one that was planned for, nothing that was decided upon has changed: the marks on its pods
tell, in whichever process, and the answer is given at once. One that comes while the first is held waits for that.

**Costs that stand already**, for the same size or of an earlier plan, are relied on instead of being written again.
They must then not be taken back with the plan that wrote them. A plan of this process is overtaken by the new one; what
another process wrote gets a new mark beside the same cost, and is this process's matter from then on.

**One at a time.** Requests for one workload are held one after the other; the budget of each runs from its arrival.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trimtab.api.annotations import PlanAnnotation
from trimtab.api.apps import Deployment
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, within
from trimtab.kube.errors import ApiError, ConfigError
from trimtab.kube.retries import NO_RETRIES
from trimtab.ranking.costs import Side
from trimtab.ranking.plan import Plan, Policy
from trimtab.ranking.plan import Workload as Shrinking
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.strategies import StrategyError
from trimtab.scaledown import clonesets, cost_writer, proportional, replicaset_plans
from trimtab.scaledown.cost_writer import LAST, WRITERS, Entry, Ledger, Written
from trimtab.scaledown.intent.ratelimits import RATES, Limits, Rates, Turns
from trimtab.scaledown.intent.settle_time import INITIAL, LONGEST, Settling
from trimtab.scaledown.metrics import Metrics, Outcome
from trimtab.scaledown.policy import effective
from trimtab.scaledown.policy.effective import Defaults, Governing, WorkloadRef
from trimtab.scaledown.policy.groups import Groups
from trimtab.scaledown.proportional import Share
from trimtab.scaledown.replicaset_plans import Step
from trimtab.scaledown.results.plan_tracker import ABANDONED, Aftermath, Open, Sizes, sizes_of
from trimtab.scaledown.results.verdicts import PATIENCE
from trimtab.scaledown.view import View, Workload, read_live

BUDGET = 2.0
_RESERVE = 0.1
"""Seconds of the budget that are left for answering."""
RESERVE = LAST + _RESERVE
"""Seconds of the budget in which neither a cost is written nor a controller waited for."""
_CATCH_UP = 0.3
"""Seconds that the own watch is given to show pods that the workload counts already."""
_RANK_AGAIN = 0.05
"""Seconds between looks at ranks that are not there yet."""
_RIVALS = 3
"""How many who claim the same pods are named."""
_REMEMBERED = 1024
"""How many last words are remembered."""

log = logging.getLogger(__name__)


class Intent(Protocol):
    """Somebody wants a workload to shrink. Nothing in it has been checked."""

    @property
    def kind(self) -> str:
        """Deployment, ReplicaSet, ReplicationController or CloneSet."""
        ...

    @property
    def namespace(self) -> str:
        """The workload's."""
        ...

    @property
    def name(self) -> str:
        """The workload's."""
        ...

    @property
    def uid(self) -> str:
        """The workload's; reviews of `/scale` have it too."""
        ...

    @property
    def before(self) -> int:
        """The size that the workload is said to have."""
        ...

    @property
    def after(self) -> int:
        """The size that it is to have."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """How requests are held; times in seconds."""

    budget: float = BUDGET
    settle: float = INITIAL
    longest_settle: float = LONGEST
    """No more of the budget is ever learned to wait than is left for writing."""
    patience: float = PATIENCE
    """How long an answered request may take to show before its costs are taken back."""
    abandoned: float = ABANDONED
    """How long the plans of other processes are left to them."""
    writers: int = WRITERS
    rates: Rates = RATES
    constraints: tuple[Constraint, ...] = (Constraint(ZONE), Constraint(HOSTNAME))
    """What workloads that state no spread constraints are kept level on."""


SETTINGS = Settings()


@dataclass(frozen=True, slots=True)
class Made:
    """A plan that was delivered, for whoever reports it."""

    governing: Governing
    kind: str
    namespace: str
    name: str
    before: int
    after: int
    plans: tuple[Plan, ...]
    at: int
    """The time of day, in nanoseconds."""
    error: str = ""
    """Why not all of its costs could be written."""


@dataclass(frozen=True, slots=True)
class Held:
    """What came of a request, and what its user is told."""

    outcome: Outcome
    warnings: tuple[str, ...] = ()
    error: str = ""
    """For the policy's status; what its user is told is shorter."""


PolicyOf = Callable[[Governing, Sequence[Pod]], Policy]
"""A policy's strategies, made and given what they need to know of these pods from elsewhere.

Raises InvalidError where they cannot work.
"""


Prepare = Callable[[str, str, str, int], Coroutine[Any, Any, int]]
"""Gets ready for a workload, by kind, namespace and name, that is about to have this size; how many writes it took."""


def strategies_of(governing: Governing, _: Sequence[Pod]) -> Policy:
    """The strategies of a policy, with nothing known from elsewhere."""
    return Policy.of(governing.spec.strategies)


class Intents:
    """Holds requests to shrink. A component: plans are seen to their end while `run` runs."""

    def __init__(
        self,
        client: Client,
        view: View,
        *,
        defaults: Defaults = effective.NO_DEFAULTS,
        settings: Settings = SETTINGS,
        metrics: Metrics | None = None,
        policy_of: PolicyOf = strategies_of,
        on_plan: Callable[[Made], None] | None = None,
        prepare: Prepare | None = None,
    ) -> None:
        self.settings = settings
        self.defaults = defaults
        self.metrics = metrics or Metrics()
        self.settling = Settling(settings.settle, min(settings.longest_settle, (settings.budget - RESERVE) / 2))
        self._client = client.using(retry=NO_RETRIES, timeout=settings.budget, urgent=True)
        self._clock = client.clock
        self._view = view
        self._groups = Groups(view, defaults)
        self._policy_of = policy_of
        self._on_plan = on_plan
        self._prepare = prepare
        self._ledger = Ledger(client, metrics=self.metrics, writers=settings.writers)
        self._turns = Turns()
        self._limits = Limits(settings.rates, client.clock)
        self._said: dict[tuple[str, int, int], Held] = {}
        self.aftermath = Aftermath(
            client,
            view,
            self._ledger,
            metrics=self.metrics,
            settling=self.settling,
            patience=settings.patience,
            abandoned=settings.abandoned,
            defaults=lambda: self.defaults,
        )
        self.metrics.watch_settle(lambda: self.settling.seconds)

    @property
    def synced(self) -> bool:
        """Whether the cluster has been seen."""
        return self._view.synced

    @property
    def problems(self) -> list[str]:
        """What keeps it from seeing the cluster as it is."""
        return self._view.problems

    def configure(self, defaults: Defaults) -> None:
        """Go by another configuration from now on: with the switch off, the costs of all plans are taken back."""
        self.defaults = self._groups.defaults = defaults
        self.aftermath.look()

    async def run(self) -> None:
        """See plans to their end until cancelled. The view is run by whoever made it."""
        await self.aftermath.run()

    async def hold(self, intent: Intent) -> Held:
        """Put costs in place for a request, and return when it may go on. Nothing is raised that could stop it."""
        started = self._clock.monotonic()
        held = Held(Outcome.LATE)
        self.metrics.holding(1)
        try:
            held = await self._hold(intent, started)
        except (ApiError, ConfigError, InvalidError, StrategyError) as error:
            log.warning("%s %s/%s is left to its controller: %s", intent.kind, intent.namespace, intent.name, error)
            held = Held(Outcome.FAILED)
        finally:  # those who do not wait any longer are counted too: they were held the longest
            self.metrics.holding(-1)
            self.metrics.planned(held.outcome, (self._clock.monotonic() - started) / SECOND)
        return held

    async def _hold(self, intent: Intent, started: int) -> Held:
        key = _key(intent)
        if not self._view.synced:
            return Held(Outcome.UNREADY)
        if not self._limits.allow(key):
            return Held(Outcome.LIMITED)
        async with self._turns.turn(key):
            live = await read_live(self._client, intent.kind, intent.namespace, intent.name)
            if live is None or not _is_so(intent, live):
                return Held(Outcome.STALE)
            if effective.is_part(live):
                return Held(Outcome.MANAGED)
            if not self.defaults.looks_after(intent.namespace):
                return Held(Outcome.UNGOVERNED)
            await self._make_ready(intent)
            governing = self._governing(live)
            if governing is None:
                return Held(Outcome.UNGOVERNED)
            rivals = self._groups.rivals(effective.workload_ref(live))
            if rivals:
                return Held(Outcome.CONTESTED, (_contest(live, rivals),))
            if not effective.is_held(governing.spec):
                return Held(Outcome.ELSEWHERE)
            if intent.after == 0:
                return Held(Outcome.AS_STOCK)
            return await self._serve(intent, live, governing, started)

    async def _make_ready(self, intent: Intent) -> None:
        if self._prepare is not None:
            with contextlib.suppress(TimeoutError):
                readying = self._prepare(intent.kind, intent.namespace, intent.name, intent.after)
                self._limits.writes.spend(await within(self._clock, self.settings.budget / 2, readying))

    async def _serve(self, intent: Intent, live: Workload, governing: Governing, started: int) -> Held:
        said = (live.metadata.uid, live.metadata.generation, intent.after)
        if self._is_repeat(intent, live):
            await self._renew(intent, live, started)
            known = self._said.get(said, Held(Outcome.REPEATED))
            return Held(Outcome.REPEATED, known.warnings)
        await self._caught_up(intent, live)
        if clonesets.is_rolling(live, self._view.pods_of(live.metadata.uid)):
            return Held(Outcome.ROLLOUT)
        policy = await self._ranked(governing, live, intent.after, started)
        if policy is None:
            return Held(Outcome.UNRANKED)
        planned = self._steps(live, intent.after, policy)
        wanted = [step for step in planned if step.delivery is not None]
        if not any(step.changes for step in wanted):
            if wanted:
                await self._rely(intent, live, wanted, started)
            return Held(replicaset_plans.nothing(planned, policy))
        held = await self._deliver(intent, live, wanted, started)
        self._remember(said, held)
        if self._on_plan is not None:
            plans = tuple(step.plan for step in wanted)
            identity = (intent.kind, intent.namespace, intent.name, intent.before, intent.after)
            self._on_plan(Made(governing, *identity, plans, self._clock.now(), held.error))
        return held

    # Decide.

    def _governing(self, live: Workload) -> Governing | None:
        """Who speaks for a workload."""
        namespace, labels = live.metadata.namespace, self._view.namespace_labels(live.metadata.namespace)
        found = self._view.policies_in(namespace)
        return effective.governing(effective.workload_ref(live), found, self.defaults, labels)

    def _is_repeat(self, intent: Intent, live: Workload) -> bool:
        """Whether costs for this very size stand already, and nothing about the workload has changed since."""
        return bool(self._standing(intent, live))

    def _standing(self, intent: Intent, live: Workload) -> list[tuple[Pod, PlanAnnotation]]:
        metadata = live.metadata
        pods = self._view.marked(intent.namespace, f"{intent.kind}/{intent.name}")
        found = (
            (pod, cost_writer.mark_of(pod)) for pod in pods if pod.active and cost_writer.own_cost(pod) is not None
        )
        asked = (metadata.uid, metadata.generation, intent.after)
        return [(pod, mark) for pod, mark in found if mark and (mark.uid, mark.generation, mark.to) == asked]

    async def _caught_up(self, intent: Intent, live: Workload) -> None:
        """Wait, for a moment at most, until the own watch has shown as many pods as the workload says it has.

        While an earlier request is being carried out, that number is on its way down, and there is nothing to wait for.
        """
        if self._view.marked(intent.namespace, f"{intent.kind}/{intent.name}"):
            return
        owners = [live.metadata.uid]
        if isinstance(live, Deployment):
            owners = [each.metadata.uid for each in self._view.sets_of(live)]

        def shown() -> bool:
            return sum(pod.active for uid in owners for pod in self._view.pods_of(uid)) >= live.status.replicas

        with contextlib.suppress(TimeoutError):
            await within(self._clock, _CATCH_UP, self._view.pods.wait_for(lambda _: shown()))

    async def _ranked(self, governing: Governing, live: Workload, size: int, started: int) -> Policy | None:
        """The policy, once it ranks every pod; None if it does not, and the controller is to choose by itself."""
        waits = governing.spec.when_unranked
        patience = min(float(waits.timeout_seconds), self.settings.budget / 2) if waits.action == "Wait" else 0.0
        while True:
            owners = [share.uid for share in self._shares(live, size)]
            pods = [pod for uid in owners for pod in self._view.pods_of(uid) if pod.active]
            policy = self._policy_of(governing, pods)
            if not policy.combination.strategies or self._ranks_all(policy, owners):
                return policy
            if self._left(started, budget=patience) <= 0:
                return None
            await self._clock.sleep(_RANK_AGAIN)

    def _ranks_all(self, policy: Policy, owners: Sequence[str]) -> bool:
        snapshot = self._view.snapshot
        groups = [Shrinking.owned_by(snapshot, uid).rows for uid in owners]
        ranked = (policy.rank(snapshot, rows, self._clock.now()) for rows in groups if len(rows))
        return not any(each.unranked.any() for each in ranked)

    def _shares(self, live: Workload, size: int) -> tuple[Share, ...]:
        sets = self._view.sets_of(live) if isinstance(live, Deployment) else ()
        return proportional.of_workload(live, size, sets)

    def _steps(self, live: Workload, size: int, policy: Policy) -> list[Step]:
        """What each controller of pods loses. Nobody awaits here: rows hold until the next event."""
        found = []
        for share in self._shares(live, size):
            pods, snapshot, now = self._view.pods_of(share.uid), self._view.snapshot, self._clock.now()
            step = replicaset_plans.step(
                live, share, pods, snapshot, policy, defaults=self.settings.constraints, now=now
            )
            found += [step] if step is not None else []
        return found

    # Act.

    async def _deliver(self, intent: Intent, live: Workload, planned: Sequence[Step], started: int) -> Held:
        key, settle, mark = _key(intent), self.settling.seconds, self._mark(intent, live)
        entries = [*_written(mark, planned), *self._kept(key, mark, planned)]
        opened = _opened(mark.plan, live, intent, planned)
        whole = False
        self.aftermath.begin(key, opened)
        try:
            written = await self._write(entries, started)
            whole = await self._seen(written, started) and written.whole
            await self._clock.sleep(min(settle, self._left(started, budget=self.settings.budget - _RESERVE)))
        finally:
            self.aftermath.answer(key, opened, whole=whole)
        self._observe(planned)
        warnings, error = replicaset_plans.warnings(planned), ""
        if not written.whole:
            error = _told(written, len(entries))
            warnings = (*warnings, _shortfall(written, len(entries)))
        log.info("%s: %d → %d: %s", key, intent.before, intent.after, "; ".join(warnings))
        return Held(Outcome.PLANNED if whole else Outcome.PARTIAL, warnings, error)

    async def _rely(self, intent: Intent, live: Workload, planned: Sequence[Step], started: int) -> None:
        """Costs that stand already bring a plan about: see to it that they stay."""
        key, mark = _key(intent), self._mark(intent, live)
        opened = _opened(mark.plan, live, intent, planned)
        await self._take_over(key, opened, list(self._kept(key, mark, planned)), started)

    async def _renew(self, intent: Intent, live: Workload, started: int) -> None:
        """A request was made again: its costs have as long to be of use as they had at first.

        Those that another process wrote are taken over. Which pods go as planned is counted there.
        """
        key, mark = _key(intent), self._mark(intent, live)
        found = self._standing(intent, live)
        if any(self.aftermath.renew(key, known) for _, known in found):
            return
        opened = Open(mark.plan, live.metadata.uid, intent.after, sizes_of(found), {}, frozenset())
        fields = ("share", "was", "side", "cost")
        entries = [
            Entry(pod, cost_writer.annotation_for(mark, pod, **{name: getattr(known, name) for name in fields}))
            for pod, known in found
        ]
        await self._take_over(key, opened, entries, started)

    async def _take_over(self, key: str, opened: Open, entries: Sequence[Entry], started: int) -> None:
        whole = False
        self.aftermath.begin(key, opened)
        try:
            written = await self._write(entries, started)
            whole = written.whole and bool(opened.victims)
        finally:
            self.aftermath.answer(key, opened, whole=whole)

    def _mark(self, intent: Intent, live: Workload) -> PlanAnnotation:
        return PlanAnnotation(
            plan=uuid.uuid4().hex[:12],
            workload=f"{intent.kind}/{intent.name}",
            uid=live.metadata.uid,
            generation=live.metadata.generation,
            to=intent.after,
            at=self._clock.now() // 1_000_000,
        )

    def _kept(self, key: str, mark: PlanAnnotation, planned: Sequence[Step]) -> Iterable[Entry]:
        """New marks for the costs of other processes that a plan relies on."""
        for step in planned:
            foreign = [pod for pod in step.standing if not self.aftermath.sees_to(key, cost_writer.mark_of(pod))]
            for pod in foreign:
                side = Side.VICTIMS if pod.metadata.uid in step.victims else Side.SURVIVORS
                yield _entry(mark, step, pod, cost_writer.own_cost(pod) or 0, side)

    async def _write(self, entries: Sequence[Entry], started: int) -> Written:
        """Write while there is time, and as many as all requests together may: every beginning is a plan of its own."""
        until = started + round((self.settings.budget - self.settling.seconds - RESERVE) * SECOND)
        allowed = entries[: self._limits.writes.left]
        self._limits.writes.spend(len(allowed))
        written = await self._ledger.write(allowed, until=until)
        written.late += len(entries) - len(allowed)
        return written

    async def _seen(self, written: Written, started: int) -> bool:
        """Whether the own watch has shown every write in time."""
        waiting = list(written.versions.items())
        pods = self._view.pods

        def shown() -> bool:
            while waiting and pods.has_seen(*waiting[-1]):
                waiting.pop()
            return not waiting

        try:
            left = self._left(started, budget=self.settings.budget - _RESERVE)
            await within(self._clock, left, pods.wait_for(lambda _: shown()))
        except TimeoutError:
            return False
        return True

    def _left(self, started: int, *, budget: float) -> float:
        return max(0.0, budget - (self._clock.monotonic() - started) / SECOND)

    def _observe(self, planned: Sequence[Step]) -> None:
        for step in planned:
            for each in step.plan.levelings:
                self.metrics.levelled(each.topology_key, each.skew_before, each.skew_after, each.skew_stock)

    def _remember(self, said: tuple[str, int, int], held: Held) -> None:
        self._said[said] = held
        while len(self._said) > _REMEMBERED:
            del self._said[next(iter(self._said))]


def _key(intent: Intent) -> str:
    return f"{intent.namespace}/{intent.kind}/{intent.name}"


def _is_so(intent: Intent, live: Workload) -> bool:
    """Whether a review speaks of the workload as it is. One that does not is out of date, and comes again."""
    metadata = live.metadata
    same = bool(intent.uid) and intent.uid == metadata.uid
    return same and metadata.deletion_timestamp is None and live.desired_replicas == intent.before > intent.after >= 0


def _contest(live: Workload, rivals: Sequence[WorkloadRef]) -> str:
    """What the user is told where two owners claim one group of pods."""
    others = ", ".join(f"{other.kind} {other.name}" for other in rivals[:_RIVALS])
    return f"{type(live).__name__} {live.metadata.name} and {others} claim the same pods, which are left alone"


def _written(mark: PlanAnnotation, planned: Sequence[Step]) -> Iterable[Entry]:
    """The costs of a plan that do not stand yet."""
    for step in planned:
        for pod, cost in step.changes:
            yield _entry(mark, step, pod, cost, None if step.delivery is None else step.delivery.side)


def _entry(mark: PlanAnnotation, step: Step, pod: Pod, cost: int, side: Side | None) -> Entry:
    share, text = step.share, "" if side is None else side.value
    return Entry(pod, cost_writer.annotation_for(mark, pod, share=share.size, was=share.before, side=text, cost=cost))


def _opened(plan: str, live: Workload, intent: Intent, planned: Sequence[Step]) -> Open:
    victims: dict[str, str] = {}
    survivors: set[str] = set()
    for step in planned:
        victims |= step.victims
        survivors |= step.survivors
    sizes = {step.share.uid: Sizes(step.share.before, step.share.size) for step in planned}
    return Open(plan, live.metadata.uid, intent.after, sizes, victims, frozenset(survivors))


def _shortfall(written: Written, count: int) -> str:
    reasons = {
        "not in time": written.late,
        "not possible": len(written.failed),
        "somebody else's": len(written.theirs),
    }
    told = ", ".join(f"{number} {reason}" for reason, number in reasons.items() if number)
    return f"{len(written.versions)} of {count} costs were written ({told}); for the rest the controller chooses"


def _told(written: Written, count: int) -> str:
    """The same, and why it was not possible in the words of the API server."""
    return "; ".join([_shortfall(written, count), *(f"{key}: {why}" for key, why in list(written.failed.items())[:1])])
