"""What there is to say of a policy, looked up in the view: see `reports` for how it is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from trimtab.api import selectors
from trimtab.api.scaledown import UNSUPPORTED_KINDS, ScaleDownPolicy
from trimtab.ranking.costs import Carrier
from trimtab.ranking.faults import faults
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.scaledown.continuous.delivery import Continuous
from trimtab.scaledown.policy import effective
from trimtab.scaledown.policy.effective import WorkloadRef
from trimtab.scaledown.policy.groups import Group, Groups
from trimtab.scaledown.policy.statuses import Findings
from trimtab.scaledown.view import View

Readers = Mapping[str, frozenset[Carrier]]

BUILT_IN: Readers = dict.fromkeys(
    ("Deployment", "ReplicaSet", "ReplicationController", "CloneSet"), frozenset({Carrier.ANNOTATION})
)
"""Which carriers the controllers of each kind read."""
WITH_POD_COST: Readers = {**BUILT_IN, "CloneSet": frozenset(Carrier)}
"""The same with the feature gate CloneSetPodCost, where CloneSets are Trimtab's."""


@dataclass(slots=True)
class _Tally:
    """What is gathered over the groups of a policy."""

    ranked: int = 0
    unranked: dict[str, tuple[str, ...]] = field(default_factory=dict)
    theirs: list[str] = field(default_factory=list)
    fallback: bool = False
    strategy_fault: str = ""
    problem: str = ""
    error: str = ""


class Finder:
    """Finds out about policies."""

    def __init__(
        self,
        view: View,
        groups: Groups,
        continuous: Continuous,
        *,
        readers: Readers = BUILT_IN,
        registry: Mapping[str, Factory] = STRATEGIES,
    ) -> None:
        self._view = view
        self._groups = groups
        self._continuous = continuous
        self._readers = readers
        self._registry = registry

    def find(self, policy: ScaleDownPolicy) -> Findings:
        """Everything there is to say of a policy."""
        wrong = tuple(str(fault) for fault in faults(policy, self._registry))
        if wrong:
            return Findings(faults=wrong)
        own_key = effective.key_of(policy)
        refs = list(self._meant(policy))
        silent = [reason for ref in refs if (reason := self._groups.silence(ref))]
        spoken = {name_of(ref): (ref, found) for ref in refs if (found := self._groups.governing(ref)) is not None}
        speaks = {name: ref for name, (ref, found) in spoken.items() if found.key == own_key}
        rivals = {name: [name_of(other) for other in self._groups.rivals(ref)] for name, ref in speaks.items()}
        carrier = Carrier(policy.spec.carrier)
        gathered = Findings(
            speaks_for=tuple(speaks),
            silent=tuple(dict.fromkeys(silent)),
            refused=tuple(self._refused(policy)),
            beats={name: found.yielding for name, (_, found) in spoken.items() if name in speaks and found.yielding},
            yields_to={name: str(found) for name, (_, found) in spoken.items() if name not in speaks},
            rivals={name: others for name, others in rivals.items() if others},
            unread=tuple(name for name, ref in speaks.items() if carrier not in self._readers.get(ref.kind, ())),
            unasked={
                name: ref.owner[2]
                for name, ref in speaks.items()
                if ref.owner is not None and ref.is_part and effective.is_held(policy.spec)
            },
        )
        return self._with_ranks(gathered, own_key, speaks.values())

    def _meant(self, policy: ScaleDownPolicy) -> Iterable[WorkloadRef]:
        """The workloads that a policy means. A Deployment stands for its ReplicaSets, unless one is meant itself."""
        named = set(self._named_in(policy.metadata.namespace))
        for ref in self._groups.refs_in(policy.metadata.namespace):
            if (not ref.is_part or ref.identity in named) and effective.claimants(ref, [policy]):
                yield ref

    def _named_in(self, namespace: str) -> Iterable[tuple[str, str, str]]:
        """The workloads that policies of a namespace name."""
        for each in self._view.policies_in(namespace):
            target = each.spec.target_ref
            if target is not None and each.metadata.deletion_timestamp is None:
                yield (target.api_version, target.kind, target.name)

    def _refused(self, policy: ScaleDownPolicy) -> Iterable[str]:
        """Owners of pods that a selector matches, and that do not choose by cost."""
        if policy.spec.selector is None:
            return
        pods = self._view.snapshot.pods
        rows = pods.matching(policy.metadata.namespace, selectors.compile(policy.spec.selector))
        found = (pods.objects[row] for row in rows.tolist())
        owners = {(owner.kind, owner.name) for pod in found if pod is not None and (owner := pod.metadata.controller)}
        for kind, name in sorted(owners):
            if kind in UNSUPPORTED_KINDS:
                yield f"{kind} {name} is not supported: {UNSUPPORTED_KINDS[kind]}"

    def _with_ranks(self, found: Findings, own_key: str, refs: Iterable[WorkloadRef]) -> Findings:
        tally = _Tally()
        for ref in refs:
            for a_key in self._groups.of_workload(ref):
                group = self._groups.get(a_key)
                governing = None if group is None or group.spec is None else group.governing
                if group is not None and governing is not None and governing.key == own_key:
                    self._count(group, tally)
        return replace(
            found,
            ranked=tally.ranked,
            unranked=tally.unranked,
            theirs=tuple(tally.theirs),
            fallback=tally.fallback,
            strategy_fault=tally.strategy_fault,
            problem=tally.problem,
            error=tally.error,
        )

    def _count(self, group: Group, tally: _Tally) -> None:
        pods = self._groups.pods(group)
        assessed = self._continuous.assess(group, pods)
        tally.ranked += len(assessed.ranks)
        tally.unranked |= {a_key.partition("/")[2]: by for a_key, by in assessed.unranked.items()}
        tally.strategy_fault = tally.strategy_fault or assessed.fault
        if assessed.unranked:
            missing = [pod for pod in pods if pod.key in assessed.unranked]
            tally.problem = tally.problem or self._continuous.problem(group, missing)
        outcome = self._continuous.outcomes.get(group.key)
        if outcome is not None:
            tally.theirs += outcome.theirs
            tally.fallback = tally.fallback or outcome.fallback
            tally.error = tally.error or outcome.error


def name_of(ref: WorkloadRef) -> str:
    """A workload as people of its namespace call it."""
    return f"{ref.kind} {ref.name}"
