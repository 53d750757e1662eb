"""Constraints for pods that state none: which ones, and among which pods.

An operator knows the topology of a cluster, the author of a workload need not. So a configuration holds default
constraints, and a pod that states no constraint of its own is placed as if it stated those. They are worked out for
each attempt to place a pod and never written into it.

Which constraints (`defaultingType`):

| type | constraints | a node that lacks a key |
|---|---|---|
| `System` | soft: hostname (maxSkew 3), zone (maxSkew 5), as Kubernetes ships them | is scored by what it has |
| `Proposal` | soft: hostname and zone (maxSkew 1), as the proposal printed them | is scored by what it has |
| `List` | the operator's; none, if the list is empty | gets 0, as with constraints of a pod's own |

`System` is what applies where nothing is said. A cluster without zones must not lose its spreading over nodes for
that, which is why the first two are lenient about keys.

Among which pods: a default constraint has no selector, for nobody could write one that suits every workload. It is
deduced from what the pod belongs to: all services that select it, and its controller, if that is a replication
controller, a replica set or a stateful set that still exists. A pod that belongs to nothing is not spread.

The proposal's rules name `failure-domain.beta.kubernetes.io/zone`, which new nodes no longer carry. In a
*configuration* that key is read as an alias: a node's zone is its modern label, or, where it has none, the old one. A
pod's own constraints mean exactly the labels they name, as everywhere in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.api import selectors
from trimtab.api.apps import ReplicaSet, StatefulSet
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
"""What Kubernetes applies where a configuration says nothing."""

PROPOSAL = (
    TopologySpreadConstraint(max_skew=1, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=1, topology_key=DEPRECATED_ZONE, when_unsatisfiable=SOFT),
)
"""What the default-spreading proposal had in mind."""

ALIASES: Mapping[str, LabelKey] = {DEPRECATED_ZONE: (ZONE, DEPRECATED_ZONE)}
"""What a key in a configuration stands for, where that is more than the label of that name."""


def constraints(args: PodTopologySpreadArgs) -> tuple[TopologySpreadConstraint, ...]:
    """The constraints that these arguments give to pods that state none."""
    match args.defaulting_type:
        case "System":
            return SYSTEM
        case "Proposal":
            return PROPOSAL
    return args.default_constraints


def check(args: PodTopologySpreadArgs, *, any_key: bool = False) -> None:
    """Raise InvalidError for what kube-scheduler would refuse; paths start at the arguments."""
    if args.defaulting_type != "List" and args.default_constraints:
        reason = f'"{args.defaulting_type}" has constraints of its own; write "List", or leave defaultConstraints out'
        raise InvalidError("defaultingType", reason)
    check_list(args.default_constraints, "defaultConstraints", any_key=any_key)


def check_list(given: tuple[TopologySpreadConstraint, ...], path: str, *, any_key: bool = False) -> None:
    """Raise InvalidError if one of an operator's constraints cannot be used.

    With `any_key`, a topology key may be what no label can be: the proposal's own sample has such keys (they have two
    slashes), and it is to be read as it was printed.
    """
    seen: dict[tuple[str, str], int] = {}
    for index, constraint in enumerate(given):
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
        raise InvalidError("labelSelector", "must be left out: it is deduced for each pod from what the pod belongs to")


def deduced_selector(cycle: Cycle) -> Selector:
    """The selector of the pod's group, worked out once; empty if the pod belongs to nothing."""
    return cycle.once("defaults.selector", lambda: selector_of(cycle.pod, cycle.snapshot))


def selector_of(pod: Pod, snapshot: Snapshot) -> Selector:
    """What all the pods have in common that this pod belongs with."""
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


def _selects(wanted: Mapping[str, str], pod: Pod) -> bool:
    labels = pod.metadata.labels
    return all(labels.get(key) == value for key, value in wanted.items())


def _owner_selector(pod: Pod, owner: OwnerReference, snapshot: Snapshot) -> Selector:
    """The selector of the pod's workload; one that adds nothing, if there is no such workload or it cannot be read."""
    written = _owners_label_selector(pod.metadata.namespace, owner, snapshot)
    try:
        return selectors.compile(written)
    except InvalidError:
        return selectors.NOTHING


def _owners_label_selector(namespace: str, owner: OwnerReference, snapshot: Snapshot) -> LabelSelector | None:
    workload: ReplicaSet | StatefulSet | None = None
    match (owner.api_version, owner.kind):
        case ("apps/v1", "ReplicaSet"):
            workload = snapshot.group(ReplicaSet, namespace, owner.name)
        case ("apps/v1", "StatefulSet"):
            workload = snapshot.group(StatefulSet, namespace, owner.name)
    return workload.spec.selector if workload else None
