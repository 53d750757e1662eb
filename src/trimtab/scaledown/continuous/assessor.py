"""Ranks groups by their policies: a few pods on the event loop, many in another thread.

Ten thousand pods take a twentieth of a second to rank, and two more to number. They are ranked on a copy of the
snapshot; what is written afterwards holds for the versions of the pods that were ranked, and a pod, node or policy that
has changed meanwhile requeues the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec, StrategySpec
from trimtab.kube.clocks import Clock
from trimtab.kube.threads import compute_beside
from trimtab.ranking.faults import recomputation_faults
from trimtab.ranking.rankers import Constraint, DefaultsFor
from trimtab.ranking.strategies import Factory
from trimtab.scaledown.constraints import constraints_for, scheduler_name
from trimtab.scaledown.continuous import assessment
from trimtab.scaledown.continuous.assessment import Assessment
from trimtab.scaledown.policy.groups import Group, Groups, strategies_for
from trimtab.scaledown.sources import Sources
from trimtab.scaledown.view import View
from trimtab.snapshot import Snapshot

MOST_IN_LOOP = 1_000
"""How many pods are ranked and numbered on the event loop: that takes about 10 ms, as long as a copy of a snapshot of a
hundred thousand pods."""

T = TypeVar("T")

Assess = Callable[[Snapshot], Assessment]
"""Ranks the pods of a group in a snapshot. Pure: everything else that it needs has been read."""


class GroupAssessor:
    """Ranks groups by their policies."""

    def __init__(
        self,
        view: View,
        clock: Clock,
        groups: Groups,
        sources: Sources,
        *,
        defaults: DefaultsFor,
        registry: Mapping[str, Factory],
        executor: Executor,
    ) -> None:
        """`defaults` are the constraints of workloads whose templates state none."""
        self._view = view
        self._clock = clock
        self._groups = groups
        self._sources = sources
        self._defaults = defaults
        self._registry = registry
        self.executor = executor
        """The thread in which many pods are ranked."""

    async def assess(self, group: Group, pods: Sequence[Pod]) -> Assessment:
        """The ranks of the group's pods by its policy."""
        return await self.compute(len(pods), self.prepare(group, pods))

    async def compute(self, pods: int, work: Callable[[Snapshot], T]) -> T:
        """Compute something about so many pods of the snapshot as it is now."""
        executor = self.executor if pods > MOST_IN_LOOP else None
        return await compute_beside(executor, self._view.snapshot, work)

    def prepare(self, group: Group, pods: Sequence[Pod]) -> Assess:
        """Read what ranking the group's pods by its policy needs besides the snapshot."""
        spec = group.spec
        if spec is None:
            return lambda _: Assessment()
        if group.is_ranked_explicitly:
            ranks = self._groups.explicit_ranks(group.ref).ranks
            return lambda _: assessment.assess_explicit(pods, ranks)
        refusal = next(recomputation_faults(spec, group.key.kind, self._registry), None)
        if refusal is not None:  # it was stored without admission, or before Trimtab was installed
            return lambda _: Assessment(fault=str(refusal))
        strategies = self.strategies(group, spec, pods)
        values = self._sources.values(strategies, pods)
        now, registry = self._clock.now(), self._registry
        return lambda snapshot: assessment.assess(pods, strategies, values, snapshot, now, registry)

    def strategies(self, group: Group, spec: ScaleDownPolicySpec, pods: Sequence[Pod]) -> tuple[StrategySpec, ...]:
        """The policy's strategies, or those that keep the group level."""
        return strategies_for(spec, self.constraints(group, pods))

    def constraints(self, group: Group, pods: Sequence[Pod]) -> tuple[Constraint, ...]:
        """The constraints by which a group is kept level."""
        defaults = self._defaults(scheduler_name(group.template))
        return constraints_for(group.template, self._view.snapshot, defaults, pods=pods)

    def problem(self, group: Group, pods: Sequence[Pod]) -> str:
        """Why ranks are missing, as far as that is known."""
        return "" if group.spec is None else self._sources.problem(group.spec.strategies, pods)
