"""What a policy applies to and what keeps it from working, looked up in the view; `statuses` reports it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from trimtab.api.compiled_selectors import compiled
from trimtab.api.scaledown import UNSUPPORTED_KINDS, ScaleDownPolicy
from trimtab.kube.stores import key_of
from trimtab.ranking import explicit
from trimtab.ranking.costs import Carrier
from trimtab.ranking.faults import faults
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.scaledown.continuous.delivery import Continuous
from trimtab.scaledown.policy import effective, rivals
from trimtab.scaledown.policy.groups import Group, Groups
from trimtab.scaledown.policy.statuses import Findings
from trimtab.scaledown.policy.workloads import WorkloadRef
from trimtab.scaledown.view import View

Readers = Mapping[str, frozenset[Carrier]]

BUILT_IN: Readers = {}
"""Which carriers the controllers of a kind read, where that is more than the annotation, which all of them do."""
WITH_POD_COST: Readers = {"CloneSet": frozenset(Carrier)}
"""The same with the feature gate CloneSetPodCost, where CloneSets are Trimtab's."""
_BY_ALL = frozenset({Carrier.ANNOTATION})


@dataclass(slots=True)
class _Tally:
    """Ranks and errors, summed over the groups of a policy."""

    ranked: int = 0
    unranked: dict[str, tuple[str, ...]] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)
    fallback: bool = False
    strategy_fault: str = ""
    problem: str = ""
    error: str = ""
    rivals: dict[str, tuple[str, ...]] = field(default_factory=dict)
    annotated: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)


class PolicyInspector:
    """Collects the findings about policies."""

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

    async def inspect(self, policy: ScaleDownPolicy) -> Findings:
        """Everything that the status of a policy reports."""
        settle = self._groups.defaults.settle_milliseconds
        problems = faults(policy, self._registry, self._view.owners, settle_milliseconds=settle)
        wrong = tuple(str(fault) for fault in problems)
        if wrong:
            return Findings(faults=wrong)
        own_key = key_of(policy)
        refs = list(self._referenced(policy))
        exemptions = [reason for ref in refs if (reason := self._groups.exemption(ref))]
        policies = {name_of(ref): found for ref in refs if (found := self._groups.policy_for(ref)) is not None}
        own = {name: ref for ref in refs if (name := name_of(ref)) in policies and policies[name].key == own_key}
        conflicts = {
            name: [name_of(other) for other in self._groups.conflicting_with(ref)] for name, ref in own.items()
        }
        carrier = Carrier(policy.spec.carrier)
        findings = Findings(
            applies_to=tuple(own),
            is_kind_absent=self._is_kind_absent(policy),
            exemptions=tuple(dict.fromkeys(exemptions)),
            unsupported=tuple(self._unsupported(policy)),
            overrides={name: policies[name].overridden for name in own if policies[name].overridden},
            overridden_by={name: str(found) for name, found in policies.items() if name not in own},
            conflicts={name: others for name, others in conflicts.items() if others},
            unread=tuple(name for name, ref in own.items() if carrier not in self._readers.get(ref.kind, _BY_ALL)),
            managed=_managed(own) if effective.is_on_scale_intent(policy.spec) else {},
        )
        return await self._with_ranks(findings, own_key, own.values())

    def _referenced(self, policy: ScaleDownPolicy) -> Iterable[WorkloadRef]:
        """The workloads that a policy refers to; ReplicaSets that have an owner only if a policy names them."""
        named = set(self._named_in(policy.metadata.namespace))
        table = effective.PolicyTable([policy])
        for ref in self._groups.refs_in(policy.metadata.namespace):
            if (not ref.is_managed or ref.identity in named) and table.matching(ref):
                yield ref

    def _is_kind_absent(self, policy: ScaleDownPolicy) -> bool:
        target = policy.spec.target_ref
        informer = None if target is None else self._view.custom.get(target.kind)
        return informer is not None and informer.absent

    def _named_in(self, namespace: str) -> Iterable[tuple[str, str, str]]:
        """The workloads that policies of a namespace name."""
        for each in self._view.policies_in(namespace):
            target = each.spec.target_ref
            if target is not None and each.metadata.deletion_timestamp is None:
                yield (target.api_version, target.kind, target.name)

    def _unsupported(self, policy: ScaleDownPolicy) -> Iterable[str]:
        """Owners of pods that a selector matches, and that do not choose their victims by cost."""
        if policy.spec.selector is None:
            return
        pods = self._view.snapshot.pods
        rows = pods.matching(policy.metadata.namespace, compiled(policy.spec.selector))
        found = (pods.objects[row] for row in rows.tolist())
        owners = {(owner.kind, owner.name) for pod in found if pod is not None and (owner := pod.metadata.controller)}
        for kind, name in sorted(owners):
            if kind in UNSUPPORTED_KINDS:
                yield f"{kind} {name} is not supported: {UNSUPPORTED_KINDS[kind]}"

    async def _with_ranks(self, findings: Findings, own_key: str, refs: Iterable[WorkloadRef]) -> Findings:
        tally = _Tally()
        for ref in refs:
            for key in self._groups.of_workload(ref):
                group = self._groups.get(key)
                policy = None if group is None or group.spec is None else group.policy
                if group is not None and policy is not None and policy.key == own_key:
                    await self._count(group, tally)
                    await asyncio.sleep(0)
        return replace(
            findings,
            ranked=tally.ranked,
            unranked=tally.unranked,
            foreign=tuple(tally.foreign),
            fallback=tally.fallback,
            strategy_fault=tally.strategy_fault,
            problem=tally.problem,
            error=tally.error,
            rivals=tally.rivals,
            annotated=tuple(tally.annotated),
            blocked=tuple(tally.blocked),
        )

    def _count_rivals(self, group: Group, carrier: Carrier, tally: _Tally) -> None:
        """Explicit ranks of other components, which do not count."""
        found = rivals.rivals(self._groups, group)
        if found:
            tally.rivals[name_of(group.top)] = tuple(dict.fromkeys((*tally.rivals.get(name_of(group.top), ()), *found)))
        if carrier is Carrier.POD_GROUP_COST and group.owner.group_name in found:
            tally.blocked.append(group.owner.group_name)
        if carrier is not Carrier.ALPHA_ANNOTATION:
            ranked = explicit.explicit_ranks(self._view.ranked_pods(group.owner.uid), None)
            tally.annotated += [key.partition("/")[2] for key in ranked]

    async def _count(self, group: Group, tally: _Tally) -> None:
        pods = self._groups.pods(group)
        assessment = await self._continuous.assessor.assess(group, pods)
        tally.ranked += len(assessment.ranks)
        tally.unranked |= {key.partition("/")[2]: by for key, by in assessment.unranked.items()}
        tally.strategy_fault = tally.strategy_fault or assessment.fault
        if assessment.unranked:
            missing = [pod for pod in pods if pod.key in assessment.unranked]
            tally.problem = tally.problem or self._continuous.assessor.problem(group, missing)
        if group.spec is not None and group.spec.mode == "Enforce":
            self._count_rivals(group, Carrier(group.spec.carrier), tally)
        result = self._continuous.results.get(group.key)
        if result is not None:
            tally.foreign += result.foreign
            tally.fallback = tally.fallback or result.fallback
            tally.error = tally.error or result.error


def _managed(refs: Mapping[str, WorkloadRef]) -> dict[str, str]:
    """The ReplicaSets that their owners resize, and these (`Deployment web`)."""
    managed = {name: ref.owner for name, ref in refs.items() if ref.owner is not None and ref.is_managed}
    return {name: f"{kind} {owner}" for name, (_, kind, owner) in managed.items()}


def name_of(ref: WorkloadRef) -> str:
    """A workload as messages in its namespace name it."""
    return f"{ref.kind} {ref.name}"
