"""Groups of pods that shrink together, and the policy that applies to each.

A group is the pods of one controller: a ReplicaSet, a ReplicationController or a CloneSet. A Deployment has a group for
each of its ReplicaSets, because each ReplicaSet chooses its victims among its own pods; the Deployment's policy applies
to all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from trimtab.api.documents import Document
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec, StrategySpec
from trimtab.api.selectors import Selector, is_key
from trimtab.ranking.explicit import GroupCosts, group_cost_name
from trimtab.ranking.rankers import Constraint
from trimtab.scaledown.policy import conflicts, effective, explicit_ranks
from trimtab.scaledown.policy.applied_policies import AppliedPolicies
from trimtab.scaledown.policy.defaults import Defaults
from trimtab.scaledown.policy.effective import EffectivePolicy
from trimtab.scaledown.policy.explicit_ranks import ExplicitRanks
from trimtab.scaledown.policy.workloads import WorkloadRef, workload_ref
from trimtab.scaledown.view import BY_CONTROLLER, BY_NAMESPACE, OWNER_KINDS, View, Workload

_FINE = 99
"""Pods on a node that are distinguished where zones come first: more than a kubelet runs."""
_COARSE = 9999
"""Pods in a zone that are distinguished then."""


class GroupKey(NamedTuple):
    """Names a group by its controller."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class GroupOwner:
    """The controller that owns the pods of a group."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def group_name(self) -> str:
        """The name of its PodGroupCost."""
        return group_cost_name(self.kind, self.name)


@dataclass(frozen=True, slots=True)
class Group:
    """A group, and the policy that applies to it."""

    key: GroupKey
    owner: GroupOwner
    ref: WorkloadRef
    """The controller of its pods, as policies refer to it."""
    top: WorkloadRef
    """The workload that users scale: the owner of a ReplicaSet, where that resizes it."""
    wanted: int
    template: Document | None
    policy: EffectivePolicy | None = None
    conflicts: tuple[WorkloadRef, ...] = ()
    """Other workloads that select its pods."""

    @property
    def spec(self) -> ScaleDownPolicySpec | None:
        """The spec of the policy that applies to it; None where two workloads select its pods."""
        return None if self.policy is None or self.conflicts else self.policy.spec

    @property
    def is_ranked_explicitly(self) -> bool:
        """Whether ranks of another component replace the strategies of a default policy."""
        return self.policy is not None and bool(self.policy.ranked_by)


class Groups:
    """The groups of a cluster, looked up in a view on each call."""

    def __init__(self, view: View, defaults: Defaults) -> None:
        self.defaults = defaults
        self._view = view
        self._policies = AppliedPolicies(view)
        self._refs: dict[str, tuple[str, WorkloadRef]] = {}
        self._conflicts: dict[str, Mapping[str, tuple[WorkloadRef, ...]]] = {}
        for kind in view.kinds:
            # Two handlers, as in `AppliedPolicies`: a change that is reported as an addition has no earlier version.
            view.cache(kind).subscribe(added=self._drop_conflicts)
            view.cache(kind).subscribe(updated=self._changed, deleted=self._gone)

    def covers(self, namespace: str) -> bool:
        """Whether this Trimtab is responsible for a namespace."""
        return self.defaults.covers(namespace)

    def get(self, key: GroupKey) -> Group | None:
        """A group; None where its controller is gone."""
        found = self._view.workload(key.kind, key.namespace, key.name)
        return None if found is None or key.kind not in OWNER_KINDS else self._group(key, found)

    def is_owner_known(self, key: GroupKey) -> bool:
        """Whether the owner of a group's controller would be cached: kinds that the configuration names may not have
        synced yet, and the policy of a ReplicaSet depends on them."""
        found = self._view.workload(*key)
        owner = None if found is None else found.metadata.controller
        informer = None if owner is None else self._view.custom.get(owner.kind)
        return informer is None or informer.is_known

    def of_pod(self, pod: Pod) -> GroupKey | None:
        """The group that a pod belongs to, by its owner."""
        owner = pod.metadata.controller
        if owner is None or owner.kind not in OWNER_KINDS:
            return None
        key = GroupKey(owner.kind, pod.metadata.namespace, owner.name)
        found = self._view.workload(*key)
        return key if found is not None and found.metadata.uid == owner.uid else None

    def is_stray(self, pod: Pod) -> bool:
        """Whether a pod belongs to no group, as far as is known: CloneSets may not have synced yet."""
        owner = pod.metadata.controller
        if owner is not None and owner.kind == "CloneSet" and not self._view.clonesets.synced:
            return False
        return self.of_pod(pod) is None

    def keys_in(self, namespace: str) -> list[GroupKey]:
        """The groups of a namespace."""
        return [
            GroupKey(kind, namespace, each.metadata.name)
            for kind in OWNER_KINDS
            for each in self._view.cache(kind).store.by(BY_NAMESPACE, namespace)
        ]

    def all_keys(self) -> Iterator[GroupKey]:
        """All groups."""
        for kind in OWNER_KINDS:
            for each in self._view.cache(kind).store:
                yield GroupKey(kind, each.metadata.namespace, each.metadata.name)

    def pods(self, group: Group) -> list[Pod]:
        """The active pods of a group."""
        return [pod for pod in self._view.pods_of(group.owner.uid) if pod.active]

    def in_conflict_with(self, workload: Workload) -> list[GroupKey]:
        """The groups of the workloads that select the same pods as a workload, which may be gone already."""
        if self._view.is_managed(workload):
            return []
        ref = workload_ref(workload, self._view.owners)
        found = conflicts.conflicting_workloads(ref, self._tops_in(ref.namespace))
        return [key for other in found for key in self.of_workload(other)]

    def conflicting_with(self, top: WorkloadRef) -> tuple[WorkloadRef, ...]:
        """The workloads that select the same pods, or some of them (see `conflicts`); computed once for a namespace,
        until the selector, the owner or the labels of the pods of a workload change, or it is gone."""
        if top.uid not in self._refs:
            return conflicts.conflicting_workloads(top, self._tops_in(top.namespace))
        if top.is_managed:  # and its owner is gone
            return ()
        known = self._conflicts.get(top.namespace)
        if known is None:
            known = self._conflicts[top.namespace] = conflicts.conflicts_by_uid(self._tops_in(top.namespace))
        return known.get(top.uid, ())

    def policy_for(self, ref: WorkloadRef) -> EffectivePolicy | None:
        """The policy that applies to a workload. Explicit ranks replace the strategies of a default policy."""
        found = self._effective_policy(self._with_pods(ref))
        source = self.explicit_ranks(ref).source if found is not None and found.is_default else ""
        if found is None or not source:
            return found
        return replace(found, spec=explicit_ranks.delivered_as_costs(found.spec), ranked_by=source)

    def explicit_ranks(self, ref: WorkloadRef) -> ExplicitRanks:
        """The ranks that another component gives to the pods of a workload."""
        return explicit_ranks.explicit_ranks(self._view, self._top(ref))

    def costs_naming(self, group: Group) -> GroupCosts:
        """The PodGroupCosts that name a group's controller, or the workload that owns it."""
        owner = (group.owner.kind, group.owner.name, group.owner.uid)
        return explicit_ranks.group_costs(self._view, owner, group.top)

    def exemption(self, ref: WorkloadRef) -> str:
        """Why no policy applies to a workload."""
        return effective.exemption(self._with_pods(ref), self.defaults, self._view.namespace_labels(ref.namespace))

    def scheduling_group_note(self, ref: WorkloadRef) -> str:
        """Why a policy that would apply to a workload does not, if that is the scheduling group of its pods."""
        reason = effective.scheduling_group_reason(self._with_pods(ref))
        otherwise = replace(ref, in_scheduling_group=False)
        if not reason or self._effective_policy(otherwise) is None:
            return ""
        return reason

    def refs_in(self, namespace: str) -> Iterator[WorkloadRef]:
        """All workloads of a namespace as policies refer to them."""
        for kind in self._view.kinds:
            for each in self._view.cache(kind).store.by(BY_NAMESPACE, namespace):
                yield self._inherited(self._ref(each))

    def of_workload(self, ref: WorkloadRef) -> list[GroupKey]:
        """The groups of a workload: its own, or those of its ReplicaSets that have pods, or will."""
        if ref.kind in OWNER_KINDS:
            return [GroupKey(ref.kind, ref.namespace, ref.name)]
        found = self._view.sets.store.by(BY_CONTROLLER, ref.uid)
        alive = [each for each in found if each.desired_replicas or self._view.pods_of(each.metadata.uid)]
        return [GroupKey("ReplicaSet", ref.namespace, each.metadata.name) for each in alive]

    def _group(self, key: GroupKey, found: Workload) -> Group:
        ref = self._inherited(self._ref(found))
        top = self._top(ref)
        policy = self.policy_for(ref)
        return Group(
            key=key,
            owner=GroupOwner(ref.api_version, key.kind, key.namespace, key.name, ref.uid),
            ref=ref,
            top=top,
            wanted=found.desired_replicas,
            template=found.spec.template,
            policy=policy,
            conflicts=self.conflicting_with(top) if policy is not None else (),
        )

    def _effective_policy(self, ref: WorkloadRef) -> EffectivePolicy | None:
        labels = self._view.namespace_labels(ref.namespace)
        return effective.effective_policy_by(self._find_policy, ref, self.defaults, labels)

    def _find_policy(self, ref: WorkloadRef) -> EffectivePolicy | None:
        return self._policies.find(ref, keep=ref.uid in self._refs)

    def _with_pods(self, ref: WorkloadRef) -> WorkloadRef:
        """A workload with what its pods say: admission may have put them into a scheduling group."""
        sets = self._view.sets.store.by(BY_CONTROLLER, ref.uid) if ref.kind == "Deployment" else ()
        if not any(self._view.grouped_pods(uid) for uid in (ref.uid, *(each.metadata.uid for each in sets))):
            return ref
        return replace(ref, in_scheduling_group=True)

    def _inherited(self, ref: WorkloadRef) -> WorkloadRef:
        """A ReplicaSet opts out with the workload that owns it."""
        top = self._top(ref)
        return replace(ref, opted_out=True) if top.opted_out and not ref.opted_out else ref

    def _ref(self, workload: Workload) -> WorkloadRef:
        """A workload as policies refer to it, computed once for each of its versions."""
        metadata = workload.metadata
        known = self._refs.get(metadata.uid)
        if known is not None and known[0] == metadata.resource_version:
            return known[1]
        ref = workload_ref(workload, self._view.owners)
        self._refs[metadata.uid] = (metadata.resource_version, ref)
        return ref

    def _drop_conflicts(self, workload: Workload) -> None:
        """Drop the conflicts of a namespace where a workload takes part in them: rollouts, which are frequent, add and
        delete ReplicaSets of Deployments, and these do not (see `_tops_in`)."""
        if not self._view.is_managed(workload):
            self._conflicts.pop(workload.metadata.namespace, None)

    def _changed(self, old: Workload, new: Workload) -> None:
        """A new size or image, which is frequent, has no effect on conflicts. A workload that is adopted or released
        may have taken part in them before, or may from now on."""
        before, after = old.spec, new.spec
        is_adopted = old.metadata.owner_references != new.metadata.owner_references
        is_edited = old.metadata.generation != new.metadata.generation
        is_edited = is_edited and (before.selector, before.template) != (after.selector, after.template)
        if is_adopted or (is_edited and self._compared(old) != self._compared(new)):
            self._drop_conflicts(old)
            self._drop_conflicts(new)

    def _compared(self, workload: Workload) -> tuple[Selector, Mapping[str, str]]:
        """What conflicts depend on, besides the owner."""
        ref = workload_ref(workload, self._view.owners)
        return ref.selector, ref.pod_labels

    def _gone(self, workload: Workload) -> None:
        metadata = workload.metadata
        known = self._refs.pop(metadata.uid, None)
        if known is not None and not known[1].is_managed:  # as it was when conflicts were computed
            self._conflicts.pop(metadata.namespace, None)
        self._policies.forget(metadata.namespace, metadata.uid)

    def _top(self, ref: WorkloadRef) -> WorkloadRef:
        if ref.owner is None or not ref.is_managed:
            return ref
        found = self._view.workload(ref.owner[1], ref.namespace, ref.owner[2])
        return self._ref(found) if found is not None and found.metadata.uid == ref.owner_uid else ref

    def _tops_in(self, namespace: str) -> Iterator[WorkloadRef]:
        for kind in self._view.kinds:
            for each in self._view.cache(kind).store.by(BY_NAMESPACE, namespace):
                if not self._view.is_managed(each):
                    yield self._ref(each)


# The strategies of a policy for a group.


def strategies_for(spec: ScaleDownPolicySpec, constraints: Iterable[Constraint]) -> tuple[StrategySpec, ...]:
    """The strategies of a policy; where it has none, those that keep pods level.

    A plan for one scale-down weighs all pods at once; costs that are kept current must be right for every size, and
    must not all change with every pod that is created or deleted. So the first key is kept level by `Balance`, at every
    size exactly; the second decides only among pods of different domains that the first leaves equal.
    """
    if spec.strategies:
        return spec.strategies
    keys = [each.topology_key for each in constraints if is_key(each.topology_key)]
    if len(keys) < 2:
        return tuple(StrategySpec(name="Balance", args={"topologyKey": name}) for name in keys)
    coarse, fine = keys[0], keys[1]
    return (
        StrategySpec(name="Balance", weight=_FINE + 1, threshold=_COARSE, args={"topologyKey": coarse}),
        StrategySpec(name="Balance", threshold=_FINE, args={"topologyKey": fine}),
    )
