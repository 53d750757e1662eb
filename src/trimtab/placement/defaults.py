"""Default topology spread constraints, for pods without constraints of their own, and the selector they apply with.

An operator knows the topology of a cluster, the author of a workload need not. So a configuration holds default
constraints, and a pod without constraints is placed as if it had those. They are computed for each attempt to place a
pod and never written into it.

Which constraints (`defaultingType`):

| type | constraints | a node that lacks a key |
|---|---|---|
| `System` | soft: hostname (maxSkew 3), zone (maxSkew 5), as Kubernetes ships them | is scored by what it has |
| `Proposal` | soft: hostname and zone (maxSkew 1), as the proposal printed them | is scored by what it has |
| `List` | the operator's; none if the list is empty | gets 0, as with a pod's own constraints |

`System` is the default. The first two are lenient about keys, so that a cluster without zones is still spread over
nodes.

A default constraint has no selector, since none would suit every workload. It is deduced from all services that select
the pod, and from its controller if that is a ReplicationController, a ReplicaSet, a StatefulSet or a CloneSet that
still exists. A pod without any of these is not spread. (kube-scheduler knows no CloneSets: it spreads their pods by
services alone.)

The proposal's rules name `failure-domain.beta.kubernetes.io/zone`, which new nodes no longer carry. In a
*configuration* that key is read as an alias: a node's zone is its modern label, or, where it has none, the old one. A
pod's own constraints use exactly the labels that they name, as everywhere in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.api import selectors
from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.cloneset import API_VERSION as CLONESETS
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import ReplicationController, Service
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector, OwnerReference
from trimtab.api.nodes import DEPRECATED_ZONE, HOSTNAME, ZONE
from trimtab.api.pods import Pod, TopologySpreadConstraint
from trimtab.api.schedulerconfig import PodTopologySpreadArgs
from trimtab.api.selectors import Selector
from trimtab.placement.framework import Cycle
from trimtab.snapshot import Snapshot
from trimtab.snapshot.nodes import LabelKey

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"

SYSTEM = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)
"""The constraints that Kubernetes applies by default."""

PROPOSAL = (
    TopologySpreadConstraint(max_skew=1, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=1, topology_key=DEPRECATED_ZONE, when_unsatisfiable=SOFT),
)
"""The constraints of the default-spreading proposal."""

ALIASES: Mapping[str, LabelKey] = {DEPRECATED_ZONE: (ZONE, DEPRECATED_ZONE)}
"""The labels that a key in a configuration stands for, where these are more than the label of that name."""


def constraints(args: PodTopologySpreadArgs) -> tuple[TopologySpreadConstraint, ...]:
    """The constraints that these arguments apply to pods without constraints."""
    match args.defaulting_type:
        case "System":
            return SYSTEM
        case "Proposal":
            return PROPOSAL
    return args.default_constraints


def check(args: PodTopologySpreadArgs, *, any_key: bool = False) -> None:
    """Raise InvalidError for arguments that kube-scheduler would refuse; paths start at the arguments."""
    if args.defaulting_type != "List" and args.default_constraints:
        reason = f'"{args.defaulting_type}" has fixed constraints; set "List", or remove defaultConstraints'
        raise InvalidError("defaultingType", reason)
    check_list(args.default_constraints, "defaultConstraints", any_key=any_key)


def check_list(default_constraints: tuple[TopologySpreadConstraint, ...], path: str, *, any_key: bool = False) -> None:
    """Raise InvalidError if one of an operator's constraints is invalid.

    With `any_key`, a topology key need not be a valid label key: the proposal's own sample has keys with two slashes,
    and must be accepted as printed.
    """
    seen: dict[tuple[str, str], int] = {}
    for index, constraint in enumerate(default_constraints):
        try:
            _check_constraint(constraint, any_key=any_key)
        except InvalidError as error:
            raise error.under(f"{path}[{index}]") from None
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            raise InvalidError(f"{path}[{index}]", f"repeats {path}[{seen[pair]}]: {pair[0]}, {pair[1]}")
        seen[pair] = index


def _check_constraint(constraint: TopologySpreadConstraint, *, any_key: bool) -> None:
    key = constraint.topology_key
    if constraint.max_skew <= 0:
        raise InvalidError("maxSkew", f"{constraint.max_skew} is not greater than 0")
    if not key or not (any_key or selectors.is_key(key)):
        raise InvalidError("topologyKey", f'"{key}" is not a label key')
    if constraint.when_unsatisfiable not in (HARD, SOFT):
        raise InvalidError("whenUnsatisfiable", f'"{constraint.when_unsatisfiable}" is neither {HARD} nor {SOFT}')
    if constraint.label_selector is not None:
        raise InvalidError("labelSelector", "must be empty: it is deduced from each pod's services and controller")


def deduced_selector(cycle: Cycle) -> Selector:
    """The deduced selector of the pod, computed once; empty if the pod has neither service nor controller."""
    return cycle.once("defaults.selector", lambda: selector_of(cycle.pod, cycle.snapshot))


def selector_of(pod: Pod, snapshot: Snapshot) -> Selector:
    """The selector of the pod's services and of its controller together."""
    labels: dict[str, str] = {}
    for service in snapshot.groups(Service, pod.metadata.namespace):
        if _selects(service.spec.selector, pod):
            labels |= service.spec.selector
    owner = pod.metadata.controller
    if owner is None:
        return selectors.from_labels(labels)
    if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        controller = snapshot.group(ReplicationController, pod.metadata.namespace, owner.name)
        return selectors.from_labels({**labels, **(controller.spec.selector if controller else {})})
    return selectors.from_labels(labels).with_requirements(*_owner_selector(pod, owner, snapshot).requirements)


def _selects(selector: Mapping[str, str], pod: Pod) -> bool:
    labels = pod.metadata.labels
    return len(selector) <= selectors.MAX_ENTRIES and all(labels.get(key) == value for key, value in selector.items())


def _owner_selector(pod: Pod, owner: OwnerReference, snapshot: Snapshot) -> Selector:
    """The selector of the pod's workload; one without requirements if there is no such workload or it is invalid."""
    selector = _owners_label_selector(pod.metadata.namespace, owner, snapshot)
    try:
        return selectors.compile(selector)
    except InvalidError:
        return selectors.NOTHING


def _owners_label_selector(namespace: str, owner: OwnerReference, snapshot: Snapshot) -> LabelSelector | None:
    workload: ReplicaSet | StatefulSet | CloneSet | None = None
    match (owner.api_version, owner.kind):
        case ("apps/v1", "ReplicaSet"):
            workload = snapshot.group(ReplicaSet, namespace, owner.name)
        case ("apps/v1", "StatefulSet"):
            workload = snapshot.group(StatefulSet, namespace, owner.name)
        case (version, "CloneSet") if version == CLONESETS:
            workload = snapshot.group(CloneSet, namespace, owner.name)
    return workload.spec.selector if workload else None
