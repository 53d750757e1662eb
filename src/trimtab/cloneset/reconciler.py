"""The loop for one CloneSet: observe, decide, act, report.

While something that was written has not been seen yet – pods made or deleted, the own status – nothing is made or
deleted: what was decided from is out of date. Reports go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from trimtab.api import cloneset as rules
from trimtab.api import selectors
from trimtab.api.annotations import MANAGED_BY
from trimtab.api.cloneset import REVISION_HASH, CloneSet, CloneSetStatus
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.api.selectors import Selector
from trimtab.cloneset import instances, observation, ranks, reports
from trimtab.cloneset import plan as plans
from trimtab.cloneset import rivals as rivalry
from trimtab.cloneset.history import Collision, History
from trimtab.cloneset.metrics import Metrics
from trimtab.cloneset.observation import Group
from trimtab.cloneset.plan import Circumstances, Plan, Step
from trimtab.cloneset.pods import PodKeeper, is_namespace_terminating
from trimtab.cloneset.ranks import Terms
from trimtab.cloneset.reports import Finding
from trimtab.cloneset.settings import Settings
from trimtab.cloneset.view import CLONESETS, View
from trimtab.kube import ownership
from trimtab.kube.adoption import Adopter
from trimtab.kube.client import Client
from trimtab.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unreachable,
)
from trimtab.kube.events import NORMAL, WARNING, Recorder
from trimtab.kube.expectations import Expectations
from trimtab.kube.resources import Key, Resource
from trimtab.kube.runners import Result
from trimtab.kube.stores import key_of

PolicyOf = Callable[[CloneSet], ScaleDownPolicySpec | None]
"""The policy that speaks for a CloneSet, if one does."""

_UNSEEN = 30.0
"""Seconds after which to look again at what has not been seen: expectations end by themselves, and what is said to be
gone may be there."""
_POLICY = 5.0
"""Seconds after which a scale-down that waits for ranks is looked at again: its policy may have changed."""
_UNDECIDED = frozenset({reports.FAILED_SCALE, reports.FAILED_UPDATE, reports.RANKS_AWAITED})
"""Failures and waits: they stand while nothing new is decided."""
_LATER = (Unreachable, TooManyRequests, ServiceUnavailable, Timeout)
"""Failures after which nothing else is tried at once: it would fare no better."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Decision:
    """What was observed of a CloneSet at one moment, and what follows."""

    group: Group
    plan: Plan
    next_instance: int
    caught_up: bool


class Reconciler:
    """Brings CloneSets in line with what is wanted."""

    def __init__(
        self,
        client: Client,
        view: View,
        *,
        recorder: Recorder,
        metrics: Metrics,
        settings: Settings,
        policy_of: PolicyOf,
        later: Callable[[Key, float], None],
    ) -> None:
        """`later` has a CloneSet looked at in so many seconds, also where this time fails."""
        self._client = client
        self._clock = client.clock
        self._view = view
        self._recorder = recorder
        self._metrics = metrics
        self._settings = settings
        self._policy_of = policy_of
        self._later = later
        self._adopter = Adopter(client, CLONESETS, Resource.of(Pod))
        self._history = History(client)
        self._keeper = PodKeeper(client, recorder, at_once=settings.at_once)
        self._reported: dict[Key, str] = {}
        self.expectations: Expectations[Key] = Expectations(client.clock)

    async def reconcile(self, a_key: Key) -> Result:
        """Take a CloneSet one step on."""
        cloneset = self._view.clonesets.get(a_key)
        if cloneset is None or not self._is_ours(cloneset):
            self.forget(a_key)
            return Result()
        reported = self._reported.get(a_key)
        if reported is not None and not self._view.clonesets.has_seen(a_key, reported):
            return Result(_UNSEEN)
        problems = list(rules.problems(cloneset))
        if problems:
            return await self._refuse(cloneset, problems)
        return await self._keep(a_key, cloneset, selectors.compile(cloneset.spec.selector))

    def _is_ours(self, cloneset: CloneSet) -> bool:
        name = self._settings.name
        return cloneset.metadata.annotations.get(MANAGED_BY, name) == name

    def forget(self, a_key: Key) -> None:
        """A successor of the same name starts with nothing expected."""
        self.expectations.forget(a_key)
        self._reported.pop(a_key, None)

    async def _keep(self, a_key: Key, cloneset: CloneSet, selector: Selector) -> Result:
        rivals = rivalry.rivals(cloneset, self._view.neighbours(cloneset.metadata.namespace))
        try:
            adopted = await self._claim(cloneset, selector, rivals)
            revision = await self._revision(cloneset)
        except Collision:
            return await self._note_collision(cloneset)
        except ApiError as error:
            await self._complain(cloneset, error)
            raise
        if self._is_overtaken(a_key, cloneset):
            return Result()  # whoever has changed it has had it looked at again
        decision = self._decide(a_key, cloneset, selector, revision, adopted)
        self._tell(cloneset, decision.plan, rivals)
        failure, step = await self._act(a_key, cloneset, revision, decision.plan), decision.plan.step
        if failure is not None and not is_namespace_terminating(failure) and not isinstance(failure, _LATER):
            decision = await self._do_otherwise(a_key, cloneset, selector, revision, adopted, step)
        if failure is not None or not _soon_outdated(cloneset, decision):
            failed = None if failure is None else reports.failure(step, failure.message)
            await self._report(cloneset, self._status(cloneset, selector, revision, decision, rivals, failed))
        if failure is not None and not is_namespace_terminating(failure):
            self._look_again(a_key, decision)
            raise failure
        await self._forget_revisions(cloneset, revision)
        return Result(_recheck(decision))

    def _is_overtaken(self, a_key: Key, cloneset: CloneSet) -> bool:
        """Whether it has been changed, or has gone, while something was waited for."""
        seen = self._view.clonesets.get(a_key)
        return seen is None or (seen.metadata.uid, seen.metadata.generation) != (
            cloneset.metadata.uid,
            cloneset.metadata.generation,
        )

    async def _do_otherwise(
        self, a_key: Key, cloneset: CloneSet, selector: Selector, revision: str, adopted: Sequence[str], step: Step
    ) -> _Decision:
        """Something is refused, new pods by a quota say: what else is allowed is done, and may make room for it."""
        refused = frozenset({step})
        while True:
            decision = self._decide(a_key, cloneset, selector, revision, adopted, refused)
            plan = decision.plan
            self._tell(cloneset, plan, ())
            if await self._act(a_key, cloneset, revision, plan) is None:
                return decision
            refused |= {plan.step}

    def _look_again(self, a_key: Key, decision: _Decision) -> None:
        """Who fails is tried less and less often; what time alone brings about is not to wait for that."""
        seconds = _recheck(decision)
        if seconds is not None:
            self._later(a_key, seconds)

    # Observe.

    async def _claim(self, cloneset: CloneSet, selector: Selector, rivals: Sequence[CloneSet]) -> tuple[str, ...]:
        """Adopt and release; the UIDs of what was adopted. What belongs to nobody is left to an older rival."""
        metadata = cloneset.metadata
        claims = ownership.claims(
            metadata, selector, observation.misplaced(self._view.snapshot.pods, metadata, selector)
        )
        if rivalry.yields(cloneset, rivals):
            claims = ownership.Claims(claims.owned, (), claims.released)
        settled = await self._adopter.settle(metadata, claims)
        return tuple(pod.metadata.uid for pod in settled)

    async def _revision(self, cloneset: CloneSet) -> str:
        metadata = cloneset.metadata
        if metadata.deletion_timestamp is not None:
            return cloneset.status.update_revision
        owner = ownership.controller_reference(CLONESETS, metadata)
        return await self._history.settle(cloneset, self._view.revisions_of(metadata), owner)

    # Decide. Rows hold until the next event: nobody waits in here.

    def _decide(
        self,
        a_key: Key,
        cloneset: CloneSet,
        selector: Selector,
        revision: str,
        adopted: Sequence[str],
        refused: frozenset[Step] = frozenset(),
    ) -> _Decision:
        metadata, status, now = cloneset.metadata, cloneset.status, self._clock.now()
        table = self._view.snapshot.pods
        rows = observation.members(table, metadata, selector, adopted)
        group = observation.observe(table, rows, cloneset.spec, revision, now)
        if metadata.deletion_timestamp is not None or not self.expectations.satisfied(a_key):
            return _Decision(group, Plan(wait=status.rank_wait), status.next_instance, caught_up=False)
        around = self._circumstances(cloneset, now, refused)
        plan = plans.plan(around, group)
        settled = instances.settled(metadata, status.next_instance, around.taken)
        if plan.victims and settled != status.next_instance:  # first it is written that their names are used up
            return _Decision(group, Plan(wait=status.rank_wait), settled, caught_up=False)
        self._expect(a_key, plan)
        return _Decision(group, plan, settled, caught_up=True)

    def _circumstances(self, cloneset: CloneSet, now: int, refused: frozenset[Step]) -> Circumstances:
        namespace = cloneset.metadata.namespace
        return Circumstances(
            cloneset=cloneset,
            snapshot=self._view.snapshot,
            taken=lambda name: self._view.is_taken(namespace, name),
            now=now,
            settings=self._settings,
            terms=self._terms(cloneset),
            costs=self._view.costs_of(cloneset.metadata),
            waited=cloneset.status.rank_wait,
            refused=refused,
        )

    def _terms(self, cloneset: CloneSet) -> Terms | None:
        """On what terms ranks are honoured. A policy that cannot work says so itself, and asks for nothing here."""
        if not self._settings.pod_cost:
            return None
        try:
            return ranks.terms(self._policy_of(cloneset), self._settings.strategies)
        except InvalidError as error:
            log.warning("CloneSet %s: its policy is ignored: %s", key_of(cloneset), error)
            return None

    def _expect(self, a_key: Key, plan: Plan) -> None:
        """Before anything is written, and before anybody else can look."""
        if plan.births or plan.victims:
            doomed = [pod.metadata.uid for pod in plan.victims]
            self.expectations.expect(a_key, creations=len(plan.births), deletions=doomed)

    # Act.

    async def _act(self, a_key: Key, cloneset: CloneSet, revision: str, plan: Plan) -> ApiError | None:
        try:
            if plan.births:
                return await self._create(a_key, cloneset, revision, plan)
            if plan.victims:
                return await self._delete(a_key, cloneset, plan)
        except BaseException:
            self.expectations.forget(a_key)  # nobody knows what was done, so nothing can be expected
            raise
        return None

    async def _create(self, a_key: Key, cloneset: CloneSet, revision: str, plan: Plan) -> ApiError | None:
        missing = 0

        def failed(count: int) -> None:
            nonlocal missing
            missing = count
            self.expectations.created(a_key, count)

        try:
            to_stay = await self._is_to_stay(cloneset)
        except ApiError as error:
            failed(len(plan.births))
            return error
        if not to_stay:
            failed(len(plan.births))
            self._later(a_key, _UNSEEN)
            return None
        owner = ownership.controller_reference(CLONESETS, cloneset.metadata)
        failure = await self._keeper.create(cloneset, revision, plan.births, owner, failed)
        self._metrics.created.inc(len(plan.births) - missing)
        return failure

    async def _is_to_stay(self, cloneset: CloneSet) -> bool:
        """Whether the server has it still. Who has not seen yet that it is going sees its pods go, and would make them
        anew, for the garbage collector to delete them, and so on."""
        metadata = cloneset.metadata
        try:
            live = await self._client.get(CLONESETS, metadata.name, namespace=metadata.namespace)
        except NotFound:
            return False
        return live.metadata.uid == metadata.uid and live.metadata.deletion_timestamp is None

    async def _delete(self, a_key: Key, cloneset: CloneSet, plan: Plan) -> ApiError | None:
        def failed(pod: Pod) -> None:
            self.expectations.deleted(a_key, pod.metadata.uid)

        self._metrics.deleted.labels(plan.step).inc(len(plan.victims))
        return await self._keeper.delete(cloneset, plan.victims, failed)

    async def _forget_revisions(self, cloneset: CloneSet, revision: str) -> None:
        metadata = cloneset.metadata
        known = self._view.revisions_of(metadata)
        if metadata.deletion_timestamp is not None or len(known) <= cloneset.spec.revision_history_limit:
            return
        table = self._view.snapshot.pods
        pods = (table.objects[row] for row in table.owned_by(metadata.uid).tolist())
        used = {pod.metadata.labels.get(REVISION_HASH, "") for pod in pods if pod is not None}
        live = {revision, cloneset.status.current_revision, *used} - {""}
        await self._history.forget(known, live, cloneset.spec.revision_history_limit)

    # Report.

    def _status(
        self,
        cloneset: CloneSet,
        selector: Selector,
        revision: str,
        decision: _Decision,
        rivals: Sequence[CloneSet],
        failed: Finding | None,
    ) -> CloneSetStatus:
        plan = decision.plan
        made = reports.status(cloneset, decision.group, selector, revision, decision.next_instance, plan.wait)
        found = reports.findings(plan, rivals, failed)
        if not decision.caught_up and failed is None:
            found += _standing(cloneset, found, _UNDECIDED)
        elif plan.step is Step.MARKED and plan.wait is not None:
            found += _standing(cloneset, found, frozenset({reports.RANKS_AWAITED}))
        return reports.with_findings(made, found, self._clock.now())

    async def _report(self, cloneset: CloneSet, status: CloneSetStatus) -> None:
        """What is gone needs no report; whether it is, the watch will tell."""
        if status == cloneset.status:
            return
        metadata = cloneset.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "status": reports.tree(status)}
        try:
            written = await self._client.patch(
                CLONESETS, metadata.name, patch, namespace=metadata.namespace, subresource="status"
            )
        except NotFound:
            self._later(key_of(cloneset), _UNSEEN)
        else:
            self._reported[key_of(cloneset)] = written.metadata.resource_version

    async def _refuse(self, cloneset: CloneSet, problems: Sequence[InvalidError]) -> Result:
        """What cannot be kept is not begun: pods that are there stay."""
        finding = reports.refusal(problems)
        self._warn_once(cloneset, finding)
        seen = msgspec.structs.replace(cloneset.status, observed_generation=cloneset.metadata.generation)
        await self._report(cloneset, reports.with_findings(seen, [finding], self._clock.now()))
        return Result()

    async def _complain(self, cloneset: CloneSet, error: ApiError) -> None:
        """Say what is refused before anything is decided; a race that was lost, or a busy server, is not worth it."""
        if isinstance(error, (*_LATER, AlreadyExists, Conflict)) or is_namespace_terminating(error):
            return
        failed = reports.failure(Step.NOTHING, error.message)
        self._warn_once(cloneset, failed)
        found = [failed, *_standing(cloneset, [failed], _UNDECIDED | {reports.SELECTOR_OVERLAP})]
        await self._report(cloneset, reports.with_findings(cloneset.status, found, self._clock.now()))

    async def _note_collision(self, cloneset: CloneSet) -> Result:
        """The next hash will be another."""
        count = (cloneset.status.collision_count or 0) + 1
        await self._report(cloneset, msgspec.structs.replace(cloneset.status, collision_count=count))
        return Result()

    def _tell(self, cloneset: CloneSet, plan: Plan, rivals: Sequence[CloneSet]) -> None:
        """Events about what people may wonder at."""
        if rivals:
            finding = Finding(reports.SELECTOR_OVERLAP, "Overlap", reports.overlap(rivals))
            self._warn_once(cloneset, finding)
        if plan.births and plan.held_back:
            message = f"{plan.held_back} pods wait: scaleStrategy.maxUnavailable lets {len(plan.births)} be made now"
            self._recorder.record(cloneset, WARNING, "ScaleUpLimited", message)
        if plan.wait is not None and plan.waits_for and plan.wait != cloneset.status.rank_wait:
            self._metrics.waits.inc()
            self._recorder.record(cloneset, NORMAL, "RanksAwaited", f"The scale-down waits: {plan.waits_for}")
        if plan.fell_back:
            self._metrics.fallbacks.inc()
            message = f"Scaled down in the original order: {plan.fell_back}"
            self._recorder.record(cloneset, WARNING, "RanksIgnored", message)

    def _warn_once(self, cloneset: CloneSet, finding: Finding) -> None:
        known = {(each.type, each.message) for each in cloneset.status.conditions}
        if (finding.type, finding.message) not in known:
            self._recorder.record(cloneset, WARNING, finding.type, finding.message)


def _soon_outdated(cloneset: CloneSet, decision: _Decision) -> bool:
    """Whether what was done will be reported when it has been seen, and nothing but numbers is to be said now."""
    plan, status = decision.plan, cloneset.status
    acted = bool(plan.births or plan.victims)
    return acted and status.observed_generation == cloneset.metadata.generation and status.rank_wait == plan.wait


def _standing(cloneset: CloneSet, found: Sequence[Finding], kinds: frozenset[str]) -> list[Finding]:
    """What was reported before and still holds, as nothing new has been decided about it."""
    left = kinds - {finding.type for finding in found}
    return [Finding(each.type, each.reason, each.message) for each in cloneset.status.conditions if each.type in left]


def _recheck(decision: _Decision) -> float | None:
    """When to look again, where time alone changes something."""
    plan = decision.plan
    waits = [decision.group.next_available, None if decision.caught_up else _UNSEEN]
    if plan.recheck_in is not None:
        waits.append(min(plan.recheck_in, _POLICY))
    known = [seconds for seconds in waits if seconds is not None]
    return min(known) if known else None
