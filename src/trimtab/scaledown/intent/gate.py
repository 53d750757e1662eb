"""The checks that a request to scale down passes before it is planned.

Anyone who reaches the webhook can send it a review, so nothing in a review is trusted, and nothing is spent on one that
is not verified. In order:

1. An uncached read shows the workload with this UID, size and resourceVersion. The number of such reads is limited.
   (If the workload has changed since the review was made, the API server rejects the write and sends another review.)
   Where nothing would be written, because the policy observes, a cache that shows the same UID and size is enough: the
   request waits for nothing.
2. It is not a ReplicaSet that the workload that owns it resizes.
3. Its namespace may be written to. The rest of Trimtab then prepares for the new size (`prepare`: the bands of subsets,
   which need no policy), in half of the budget at most; if that is not completed, its user, an
   event and a metric say so.
4. A policy applies to the workload that was read: a review of `/scale` has no labels. A workload with subsets that is
   not exempt is planned in any case: by its policy, where that enforces, otherwise by subsets and constraints alone.
5. The policy's costs are written on scale-downs, or its mode is Observe, and some pods are to stay. Costs that are kept
   current must be complete where the controller follows them in any case (see `kept_costs`).
6. The caches have synced, subsets are known, the request is within the rate limits, and no other workload selects the
   same pods. A request that fails here is *skipped*: its user, an event and a metric say so, and its result is checked
   all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.kube.client import Client
from trimtab.kube.clocks import within
from trimtab.kube.errors import ApiError, ConfigError, Timeout
from trimtab.scaledown.intent.kept_costs import is_read_while_incomplete
from trimtab.scaledown.intent.ratelimits import RateLimiter
from trimtab.scaledown.intent.requests import CheckedRequest, HoldResult, ScaleDownRequest, TimeBudget
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.policy.defaults import Defaults
from trimtab.scaledown.policy.effective import EffectivePolicy, is_on_scale_intent
from trimtab.scaledown.policy.groups import Groups
from trimtab.scaledown.policy.workloads import WorkloadRef, workload_ref
from trimtab.scaledown.view import View, Workload, read_workload

_NAMED = 3
"""How many conflicting workloads a warning names."""

Prepare = Callable[[str, str, str, int], Coroutine[Any, Any, int]]
"""Prepares for a workload, by kind, namespace and name, that is about to have this size; how many writes it took.
Raises ApiError or ConfigError."""
ReportUnprepared = Callable[[ScaleDownRequest, str, str], str]
"""Reports a request for which that was `late` or `failed`, and why; the warning for its user."""
Tiers = Callable[[str, str, str, int], Mapping[str, int] | None]
"""The tiers of the pods of a workload with subsets, by kind, namespace and name, at this size: those of a lower tier go
first. None for a workload without subsets; empty while that is not known yet, which `prepare` waits for: without the
order of its subsets, no plan would be right."""
MatchPods = Callable[[str, str, str], Coroutine[Any, Any, None]]
"""Matches the pods of a workload with its subsets in small steps, before its tiers are asked for."""

BY_SUBSETS = EffectivePolicy(ScaleDownPolicySpec(mode="Enforce"), "", "subsets")
"""What applies to a workload with subsets that no policy enforces anything for."""


def no_tiers(kind: str, namespace: str, name: str, replicas: int) -> None:
    """Without UnitedTopologies, no workload has subsets."""


async def no_match(kind: str, namespace: str, name: str) -> None:
    """Without UnitedTopologies, there is nothing to match."""


class Gate:
    """Decides which requests are planned; the outcome of all others is final."""

    def __init__(
        self,
        client: Client,
        view: View,
        limits: RateLimiter,
        *,
        defaults: Defaults,
        prepare: Prepare | None = None,
        tiers: Tiers = no_tiers,
        report_unprepared: ReportUnprepared,
    ) -> None:
        self._client = client
        self._view = view
        self._limits = limits
        self._groups = Groups(view, defaults)
        self._prepare = prepare
        self._tiers = tiers
        self._report_unprepared = report_unprepared

    @property
    def defaults(self) -> Defaults:
        """The configuration of scale-downs."""
        return self._groups.defaults

    def configure(self, defaults: Defaults) -> None:
        """Use another configuration from now on."""
        self._groups.defaults = defaults

    def may_read(self) -> bool:
        """Whether one more unverified request may be looked up."""
        return self._limits.reads.take()

    async def check(self, request: ScaleDownRequest, budget: TimeBudget) -> CheckedRequest | HoldResult:
        """The request with its workload and policy, or its result."""
        workload, policy = self._observed(request)
        if workload is None:
            workload = await self._verified(request, budget)
        if workload is None:
            return HoldResult(HoldOutcome.STALE)
        if self._view.is_managed(workload):
            return HoldResult(HoldOutcome.MANAGED)
        if not self.defaults.allows_writes(request.namespace):
            return HoldResult(HoldOutcome.NO_POLICY)
        ref = workload_ref(workload, self._view.owners)
        unprepared: tuple[str, ...] = ()
        if policy is None:
            unprepared = await self._prepare_for(request, budget)
            policy = self._policy_of(ref, request.after)
        gaps, notes = self._about_explicit_ranks(ref, policy)
        notes += unprepared
        if policy is None:
            notes += tuple(filter(None, [self._groups.scheduling_group_note(ref)]))
            return HoldResult(HoldOutcome.NO_POLICY if self._view.synced else HoldOutcome.NOT_SYNCED, notes)
        is_unknown = bool(unprepared) and self._tiers(ref.kind, ref.namespace, ref.name, request.after) == {}
        skip, warnings = (HoldOutcome.NOT_SYNCED, ()) if is_unknown else self._why_skipped(request, ref, policy)
        is_held = is_on_scale_intent(policy.spec) or (
            skip is None and is_read_while_incomplete(policy.spec, request.kind)
        )
        if skip is not HoldOutcome.CONFLICT and policy.is_enforced and not is_held:
            return HoldResult(HoldOutcome.OTHER_DELIVERY, notes)
        if request.after == 0:
            return HoldResult(HoldOutcome.AS_STOCK)
        return CheckedRequest(request, workload, policy, _within(budget, policy), skip, (*gaps, *warnings), notes)

    def _observed(self, request: ScaleDownRequest) -> tuple[Workload | None, EffectivePolicy | None]:
        """The workload from the cache and its policy, where it has the review's size and the policy observes.

        Such a workload has no subsets to prepare: those are planned whatever a policy says (see `_policy_of`).
        """
        cached = self._view.workload(request.kind, request.namespace, request.name)
        if cached is None or not _is_described(request, cached):
            return None, None
        policy = self._policy_of(workload_ref(cached, self._view.owners), request.after)
        return (cached, policy) if policy is not None and not policy.is_enforced else (None, None)

    async def is_current(self, request: ScaleDownRequest, budget: TimeBudget) -> bool:
        """Whether an uncached read still shows the workload as the review describes it, perhaps with another status."""
        workload = await self._read(request, budget)
        return workload is not None and _is_described(request, workload)

    async def _verified(self, request: ScaleDownRequest, budget: TimeBudget) -> Workload | None:
        """The workload by an uncached read, if it is as the review says."""
        workload = await self._read(request, budget)
        return workload if workload is not None and _is_current(request, workload) else None

    async def _read(self, request: ScaleDownRequest, budget: TimeBudget) -> Workload | None:
        """The workload by an uncached read. Raises ApiError, also if the budget does not last."""
        kind, left = self._view.kinds.get(request.kind), budget.until_answer()
        try:
            return await within(budget.clock, left, read_workload(self._client, kind, request.namespace, request.name))
        except TimeoutError:
            raise Timeout(f"{request.workload} could not be read in time, within {left:.1f} s") from None

    def _about_explicit_ranks(
        self, ref: WorkloadRef, policy: EffectivePolicy | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Which pods have no explicit rank, and which PodGroupCosts do not count although no ScaleDownPolicy applies.

        A policy that observes warns nobody.
        """
        if policy is not None and not (policy.is_default and policy.is_enforced):
            return (), ()
        found = self._groups.explicit_ranks(ref)
        return tuple(filter(None, [found.gap])), tuple(filter(None, [found.note]))

    def _why_skipped(
        self, request: ScaleDownRequest, ref: WorkloadRef, policy: EffectivePolicy
    ) -> tuple[HoldOutcome | None, tuple[str, ...]]:
        """Why a request is not planned although a policy applies, and warnings with details."""
        if not self._view.synced:
            return HoldOutcome.NOT_SYNCED, ()
        conflicts = self._groups.conflicting_with(ref)
        if conflicts:
            return HoldOutcome.CONFLICT, (_conflict_warning(ref, conflicts),)
        is_allowed = self._limits.allow(request.key) if policy.is_enforced else self._limits.observations.take()
        return (None if is_allowed else HoldOutcome.RATE_LIMITED), ()

    def policy_for(self, workload: Workload) -> EffectivePolicy | None:
        """The policy by which scale-downs of a workload are planned or observed, where one applies."""
        ref = workload_ref(workload, self._view.owners)
        if self._view.is_managed(workload) or not self.defaults.allows_writes(ref.namespace):
            return None
        policy = self._policy_of(ref, workload.desired_replicas)
        if policy is None or self._groups.conflicting_with(ref):
            return None
        return None if policy.is_enforced and not is_on_scale_intent(policy.spec) else policy

    def _policy_of(self, ref: WorkloadRef, size: int) -> EffectivePolicy | None:
        policy = self._groups.policy_for(ref)
        if (policy is not None and policy.is_enforced) or self._groups.exemption(ref):
            return policy
        return policy if self._tiers(ref.kind, ref.namespace, ref.name, size) is None else BY_SUBSETS

    async def _prepare_for(self, request: ScaleDownRequest, budget: TimeBudget) -> tuple[str, ...]:
        """Prepare for the new size; warnings, if that was not completed. It must not prevent the scale-down."""
        if self._prepare is None:
            return ()
        left = min(budget.seconds / 2, budget.until_answer())
        try:
            preparing = self._prepare(request.kind, request.namespace, request.name, request.after)
            self._limits.writes.spend(await within(budget.clock, left, preparing))
        except TimeoutError:
            return (self._report_unprepared(request, "late", "there was no time left"),)
        except (ApiError, ConfigError) as error:
            return (self._report_unprepared(request, "failed", str(error)),)
        return ()


def _within(budget: TimeBudget, policy: EffectivePolicy) -> TimeBudget:
    """The budget, or less of it where the policy says so."""
    wanted = policy.spec.budget_milliseconds / 1000
    return replace(budget, seconds=min(budget.seconds, wanted)) if wanted else budget


def _is_current(request: ScaleDownRequest, workload: Workload) -> bool:
    """Whether a review describes the workload as it is. A user whose request is out of date has to repeat it."""
    is_same = request.resource_version in ("", workload.metadata.resource_version)
    return is_same and _is_described(request, workload)


def _is_described(request: ScaleDownRequest, workload: Workload) -> bool:
    """Whether a review describes the workload, perhaps with another status."""
    metadata, size = workload.metadata, workload.desired_replicas
    is_same = bool(request.uid) and request.uid == metadata.uid
    return is_same and metadata.deletion_timestamp is None and size == request.before > request.after >= 0


def _conflict_warning(ref: WorkloadRef, conflicts: Sequence[WorkloadRef]) -> str:
    others = ", ".join(f"{other.kind} {other.name}" for other in conflicts[:_NAMED])
    return f"{ref.kind} {ref.name} and {others} select the same pods, which are not ranked"
