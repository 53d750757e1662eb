"""Decides on the next step of a CloneSet: of a few pods on the event loop, of many in another thread.

Rows of the snapshot are valid until the next event. So few pods are decided on without a pause, and many, which take
tens of milliseconds, from a copy of the snapshot. If the CloneSet's pods have changed meanwhile, it is decided again;
where they keep changing, as in a rollout, a decision about the same pods is as good as one from a cache that lags.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import zip_longest
from typing import TypeVar

from trimtab.api.cloneset import CloneSet
from trimtab.api.errors import InvalidError
from trimtab.api.meta import ObjectMeta
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.api.selectors import Selector
from trimtab.cloneset import instances, observation, ranks
from trimtab.cloneset import plan as plans
from trimtab.cloneset.observation import Group
from trimtab.cloneset.plan import Plan, PlanContext, Step
from trimtab.cloneset.ranks import Terms
from trimtab.cloneset.settings import Settings
from trimtab.cloneset.status import Decision
from trimtab.cloneset.view import View
from trimtab.kube.clocks import Clock
from trimtab.kube.stores import key_of
from trimtab.kube.threads import compute_beside
from trimtab.snapshot import Snapshot

T = TypeVar("T")

PolicyOf = Callable[[CloneSet], ScaleDownPolicySpec | None]
"""The policy that applies to a CloneSet, if there is one."""

MOST_IN_LOOP = 1_000
"""How many pods are decided on in the event loop: that takes about 8 ms."""
_ATTEMPTS = 3
"""How often a decision is made beside the event loop while pods keep changing. Then the last one has to do; if it is
about other pods than there are now, the decision is made in the loop."""

log = logging.getLogger(__name__)


class Decider:
    """Decides on the next step of CloneSets."""

    def __init__(
        self, view: View, clock: Clock, settings: Settings, policy_of: PolicyOf, *, executor: Executor
    ) -> None:
        """`executor` has the thread in which many pods are decided on."""
        self._view = view
        self._clock = clock
        self._settings = settings
        self._policy_of = policy_of
        self._executor = executor

    async def decide(
        self,
        cloneset: CloneSet,
        selector: Selector,
        revision: str,
        adopted: Sequence[str],
        failed: frozenset[Step],
        *,
        may_act: bool,
    ) -> Decision:
        """The next step of a CloneSet, of which some have just failed; none, if it may not act."""
        metadata, status, now = cloneset.metadata, cloneset.status, self._clock.now()
        inputs = self._inputs(cloneset, now, failed) if may_act else None

        def compute(snapshot: Snapshot) -> tuple[Group, Plan | None]:
            rows = observation.members(snapshot.pods, metadata, selector, adopted)
            group = observation.observe(snapshot.pods, rows, cloneset.spec, revision, now)
            return group, None if inputs is None else plans.plan(inputs.on(snapshot), group)

        group, plan = await self._compute(metadata, compute)
        if plan is None:
            return Decision(group, Plan(wait=status.rank_wait), status.next_instance, is_current=False)
        settled = instances.settled(metadata, status.next_instance, partial(self._view.has_pod, metadata.namespace))
        if plan.victims and settled != status.next_instance:  # their numbers are recorded as used before they go
            return Decision(group, Plan(wait=status.rank_wait), settled, is_current=False)
        return Decision(group, plan, settled, is_current=True)

    async def _compute(self, owner: ObjectMeta, compute: Callable[[Snapshot], T]) -> T:
        """Compute something about the pods of a CloneSet as they are now; again, if they have changed meanwhile."""
        for left in reversed(range(_ATTEMPTS)):
            pods = self._owned(owner)
            if len(pods) <= MOST_IN_LOOP:
                break
            found = await compute_beside(self._executor, self._view.snapshot, compute)
            pairs = list(zip_longest(pods, self._owned(owner)))
            if all(one is other for one, other in pairs) or (not left and all(_is_same(*pair) for pair in pairs)):
                return found
        return compute(self._view.snapshot)

    def _owned(self, owner: ObjectMeta) -> list[Pod | None]:
        table = self._view.snapshot.pods
        return [table.objects[row] for row in table.owned_by(owner.uid).tolist()]

    def _inputs(self, cloneset: CloneSet, now: int, failed: frozenset[Step]) -> PlanContext:
        return PlanContext(
            cloneset=cloneset,
            snapshot=self._view.snapshot,
            now=now,
            settings=self._settings,
            terms=self._terms(cloneset),
            costs=self._view.costs_of(cloneset.metadata),
            previous_wait=cloneset.status.rank_wait,
            failed=failed,
        )

    def _terms(self, cloneset: CloneSet) -> Terms | None:
        """How ranks are honoured. An invalid policy reports that itself, and is ignored here."""
        policy = self._policy_of(cloneset)
        if not self._settings.pod_cost and (policy is None or policy.carrier != "Annotation"):
            return None
        try:
            return ranks.terms(policy, self._settings.strategies)
        except InvalidError as error:
            log.warning("CloneSet %s: its invalid ScaleDownPolicy is ignored: %s", key_of(cloneset), error)
            return None


def _is_same(one: Pod | None, other: Pod | None) -> bool:
    """Whether these are versions of one pod, of which neither or both are active."""
    if one is None or other is None:
        return one is other
    return one.metadata.uid == other.metadata.uid and one.active == other.active
