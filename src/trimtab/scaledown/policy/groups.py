"""Groups of pods that shrink together, and who speaks for each.

A group is the pods of one controller: a ReplicaSet, a ReplicationController or a CloneSet. A Deployment has a group for
each of its ReplicaSets, for it is the ReplicaSet that chooses its victims among its own; who speaks for the Deployment
speaks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from trimtab.api.documents import Document
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec, StrategySpec
from trimtab.api.selectors import is_key
from trimtab.kube.resources import object_key
from trimtab.ranking.rankers import Constraint
from trimtab.scaledown.continuous.carriers import Holder
from trimtab.scaledown.policy import effective
from trimtab.scaledown.policy.effective import Defaults, Governing, WorkloadRef
from trimtab.scaledown.view import BY_CONTROLLER, BY_NAMESPACE, View, Workload

HOLDERS = ("ReplicaSet", "ReplicationController", "CloneSet")
"""The kinds that own pods."""
TOPS = ("Deployment", *HOLDERS)

_FINE = 99
"""Pods on a node that are told apart where zones come first: more than a kubelet runs."""
_COARSE = 9999
"""Pods in a zone that are told apart then."""


class GroupKey(NamedTuple):
    """Names a group by its controller."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Group:
    """A group, and who speaks for it."""

    key: GroupKey
    holder: Holder
    ref: WorkloadRef
    """The controller of its pods, as policies see it."""
    top: WorkloadRef
    """What people call the workload: the Deployment, where there is one."""
    wanted: int
    template: Document | None
    governing: Governing | None = None
    rivals: tuple[WorkloadRef, ...] = ()
    """Who else claims its pods."""

    @property
    def spec(self) -> ScaleDownPolicySpec | None:
        """What the policy says that speaks for it; nothing, where two workloads claim its pods."""
        return None if self.governing is None or self.rivals else self.governing.spec


class Groups:
    """The groups of a cluster, looked up in a view whenever they are asked for."""

    def __init__(self, view: View, defaults: Defaults) -> None:
        self.defaults = defaults
        self._view = view
        self._refs: dict[str, tuple[str, WorkloadRef]] = {}
        self._contests: dict[str, Mapping[str, tuple[WorkloadRef, ...]]] = {}
        for kind in TOPS:
            view.informer(kind).subscribe(added=self._moved, updated=self._changed, deleted=self._gone)

    def looks_after(self, namespace: str) -> bool:
        """Whether a namespace is ours to write to: what another Trimtab looks after is its own."""
        return self.defaults.covers(namespace)

    def get(self, a_key: GroupKey) -> Group | None:
        """A group; None where its controller is gone."""
        found = self._view.workload(a_key.kind, a_key.namespace, a_key.name)
        return None if found is None or a_key.kind not in HOLDERS else self._group(a_key, found)

    def of_pod(self, pod: Pod) -> GroupKey | None:
        """The group that a pod belongs to, by its owner."""
        owner = pod.metadata.controller
        if owner is None or owner.kind not in HOLDERS:
            return None
        a_key = GroupKey(owner.kind, pod.metadata.namespace, owner.name)
        found = self._view.workload(*a_key)
        return a_key if found is not None and found.metadata.uid == owner.uid else None

    def is_stray(self, pod: Pod) -> bool:
        """Whether a pod belongs to no group, as far as can be known: CloneSets may not have been seen yet."""
        owner = pod.metadata.controller
        if owner is not None and owner.kind == "CloneSet" and not self._view.clonesets.synced:
            return False
        return self.of_pod(pod) is None

    def keys_in(self, namespace: str) -> list[GroupKey]:
        """The groups of a namespace."""
        return [
            GroupKey(kind, namespace, each.metadata.name)
            for kind in HOLDERS
            for each in self._view.informer(kind).store.by(BY_NAMESPACE, namespace)
        ]

    def all_keys(self) -> Iterator[GroupKey]:
        """All groups."""
        for kind in HOLDERS:
            for each in self._view.informer(kind).store:
                yield GroupKey(kind, each.metadata.namespace, each.metadata.name)

    def pods(self, group: Group) -> list[Pod]:
        """The active pods of a group."""
        return [pod for pod in self._view.pods_of(group.holder.uid) if pod.active]

    def contending(self, workload: Workload) -> list[GroupKey]:
        """The groups of those who claim the same pods as a workload, which may be gone already."""
        if effective.is_part(workload):
            return []
        ref = effective.workload_ref(workload)
        found = effective.rivals(ref, self._tops_in(ref.namespace))
        return [a_key for rival in found for a_key in self.of_workload(rival)]

    def rivals(self, top: WorkloadRef) -> tuple[WorkloadRef, ...]:
        """The workloads that claim the same pods; worked out once for a namespace, until a workload changes."""
        known = self._contests.get(top.namespace)
        if known is None:
            known = self._contests[top.namespace] = effective.contests(self._tops_in(top.namespace))
        if top.uid in self._refs:
            return known.get(top.uid, ())
        return effective.rivals(top, self._tops_in(top.namespace))

    def governing(self, ref: WorkloadRef) -> Governing | None:
        """Who speaks for a workload."""
        found = self._view.policies_in(ref.namespace)
        return effective.governing(ref, found, self.defaults, self._view.namespace_labels(ref.namespace))

    def silence(self, ref: WorkloadRef) -> str:
        """Why nobody speaks for a workload."""
        return effective.silence(ref, self.defaults, self._view.namespace_labels(ref.namespace))

    def refs_in(self, namespace: str) -> Iterator[WorkloadRef]:
        """All workloads of a namespace as policies see them."""
        for kind in TOPS:
            for each in self._view.informer(kind).store.by(BY_NAMESPACE, namespace):
                yield self._inherited(self._ref(each))

    def of_workload(self, ref: WorkloadRef) -> list[GroupKey]:
        """The groups of a workload: its own, or those of a Deployment's ReplicaSets that have pods, or will."""
        if ref.kind != "Deployment":
            return [GroupKey(ref.kind, ref.namespace, ref.name)]
        found = self._view.sets.store.by(BY_CONTROLLER, ref.uid)
        alive = [each for each in found if each.desired_replicas or self._view.pods_of(each.metadata.uid)]
        return [GroupKey("ReplicaSet", ref.namespace, each.metadata.name) for each in alive]

    def _group(self, a_key: GroupKey, found: Workload) -> Group:
        ref = self._inherited(self._ref(found))
        top = self._top(ref)
        governing = self.governing(ref)
        return Group(
            key=a_key,
            holder=Holder(ref.api_version, a_key.kind, a_key.namespace, a_key.name, ref.uid),
            ref=ref,
            top=top,
            wanted=found.desired_replicas,
            template=found.spec.template,
            governing=governing,
            rivals=self.rivals(top) if governing is not None else (),
        )

    def _inherited(self, ref: WorkloadRef) -> WorkloadRef:
        """A ReplicaSet opts out with its Deployment."""
        top = self._top(ref)
        return replace(ref, opted_out=True) if top.opted_out and not ref.opted_out else ref

    def _ref(self, workload: Workload) -> WorkloadRef:
        """A workload as policies see it, worked out once for each of its versions."""
        metadata = workload.metadata
        known = self._refs.get(metadata.uid)
        if known is not None and known[0] == metadata.resource_version:
            return known[1]
        ref = effective.workload_ref(workload)
        self._refs[metadata.uid] = (metadata.resource_version, ref)
        return ref

    def _moved(self, workload: Workload) -> None:
        self._contests.pop(workload.metadata.namespace, None)

    def _changed(self, old: Workload, new: Workload) -> None:
        if old.metadata.generation != new.metadata.generation:
            self._moved(new)

    def _gone(self, workload: Workload) -> None:
        self._moved(workload)
        self._refs.pop(workload.metadata.uid, None)

    def _top(self, ref: WorkloadRef) -> WorkloadRef:
        if ref.owner is None or not ref.is_part:
            return ref
        found = self._view.deployments.get(object_key(ref.namespace, ref.owner[2]))
        return self._ref(found) if found is not None and found.metadata.uid == ref.owner_uid else ref

    def _tops_in(self, namespace: str) -> Iterator[WorkloadRef]:
        for kind in TOPS:
            for each in self._view.informer(kind).store.by(BY_NAMESPACE, namespace):
                if not effective.is_part(each):
                    yield self._ref(each)


# What a policy means for a group.


def strategies_for(spec: ScaleDownPolicySpec, constraints: Iterable[Constraint]) -> tuple[StrategySpec, ...]:
    """The strategies of a policy; where it has none, those that keep pods level.

    A plan for one scale-down weighs all pods at once; costs that are kept current must say the same for every size, and
    must not all change with every pod that comes or goes. So the first key is kept level by `Balance`, at every size
    exactly; the second decides only among pods of different domains that the first leaves equal.
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
