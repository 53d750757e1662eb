"""Rules about what governs pods: subsets, policies, and costs of other writers."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.api.annotations import DELETION_COST, CostOwner, cost_owner
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.inspection.cluster import Workload
from trimtab.inspection.lint.findings import Problem
from trimtab.inspection.lint.world import World
from trimtab.inspection.targets import display
from trimtab.scaledown.policy.effective import PolicyTable, unknown_mode, unknown_mode_message, unsupported
from trimtab.scaledown.policy.workloads import WorkloadRef, workload_ref
from trimtab.subsets.apportionment import limits

_TARGETS: dict[str, type[Workload]] = {"Deployment": Deployment, "ReplicaSet": ReplicaSet, "CloneSet": CloneSet}
_NAMED = 3


def unreadable(world: World) -> Iterator[Problem]:
    """Manifests that cannot be read."""
    for ref, reason in world.unreadable:
        yield Problem(ref, reason)


def small_subsets(world: World) -> Iterator[Problem]:
    """Subsets whose maxima together are below the size of their workload."""
    for topology in world.cluster.all(UnitedTopology):
        metadata = topology.metadata
        if not world.is_checked("UnitedTopology", metadata.namespace, metadata.name):
            continue
        target = topology.spec.target_ref
        kind = _TARGETS.get(target.kind) or world.cluster.owners.by_kind.get(target.kind)
        workload = None if kind is None else world.cluster.find(kind, metadata.namespace, target.name)
        if workload is None:
            continue
        try:
            found = limits(topology.spec.subsets, workload.desired_replicas)
        except InvalidError:
            continue
        known = [limit for limit in found if limit is not None]
        if len(known) == len(found) and sum(known) < workload.desired_replicas:
            yield Problem(
                world.ref("UnitedTopology", metadata.namespace, metadata.name),
                f"its subsets take {sum(known)} pods, and {display(workload)} has {workload.desired_replicas} "
                f"replicas: {workload.desired_replicas - sum(known)} have no place in any",
            )


def overlapping_policies(world: World) -> Iterator[Problem]:
    """Policies of which another, more specific one applies to some workload."""
    found: dict[str, dict[str, list[str]]] = {}
    table = PolicyTable(world.cluster.all(ScaleDownPolicy))
    for ref in _refs(world):
        matching = [policy for _, policy in table.matching(ref)]
        for policy in matching[1:]:
            names = found.setdefault(policy.metadata.name + "\0" + ref.namespace, {})
            names.setdefault(matching[0].metadata.name, []).append(f"{ref.kind} {ref.name}")
    for key, by_winner in found.items():
        name, _, namespace = key.partition("\0")
        if world.is_checked("ScaleDownPolicy", namespace, name):
            for winner, workloads in by_winner.items():
                message = f"overlaps with ScaleDownPolicy {winner}, which applies to {_listed(workloads)} instead"
                yield Problem(world.ref("ScaleDownPolicy", namespace, name), message)


def idle_policies(world: World) -> Iterator[Problem]:
    """Policies that refer to no workload."""
    for policy in world.cluster.all(ScaleDownPolicy):
        metadata = policy.metadata
        if not world.is_checked("ScaleDownPolicy", metadata.namespace, metadata.name):
            continue
        reason = _why_idle(world, policy)
        if reason:
            yield Problem(world.ref("ScaleDownPolicy", metadata.namespace, metadata.name), reason)


def unknown_modes(world: World) -> Iterator[Problem]:
    """Namespaces whose label for scale-downs has a value that means nothing."""
    for namespace in world.cluster.all(Namespace):
        name, value = namespace.metadata.name, unknown_mode(namespace.metadata.labels)
        where = "" if world.manifests else name  # a namespace of a cluster is checked with what is in it
        if value is not None and world.is_checked("Namespace", where, name):
            yield Problem(world.ref("Namespace", "", name), unknown_mode_message(value))


def _why_idle(world: World, policy: ScaleDownPolicy) -> str:
    namespace, target = policy.metadata.namespace, policy.spec.target_ref
    if target is not None:
        reason = unsupported(target.api_version, target.kind, world.cluster.owners)
        if reason:
            return f"applies to nothing: {reason}"
    refs = [ref for ref in _refs(world) if ref.namespace == namespace]
    if not refs and world.manifests:
        return ""  # its workloads may be written elsewhere
    if any(map(PolicyTable([policy]).matching, refs)):
        return ""
    named = f"{target.kind} {target.name} is not there" if target is not None else "its selector matches no workload"
    return f"applies to nothing: {named} in namespace {namespace}, as far as that was checked"


def _refs(world: World) -> Iterator[WorkloadRef]:
    """Workloads as policies refer to them; ReplicaSets of Deployments included, as a policy may name one."""
    for workload in world.cluster.workloads():
        yield workload_ref(workload, world.cluster.owners)


def foreign_costs(world: World) -> Iterator[Problem]:
    """Deletion costs that Trimtab did not write: in templates, and on pods."""
    for workload in world.workloads:
        cost = workload.template.metadata.annotations.get(DELETION_COST)
        if cost is not None and workload.ref.kind != "Pod":
            yield Problem(
                workload.ref,
                f"its template gives every pod the deletion cost {cost}: equal costs decide nothing, and Trimtab obeys "
                "costs of other writers",
                fix=f"remove the annotation {DELETION_COST} from the template",
            )
    yield from _costly_pods(world)


def _costly_pods(world: World) -> Iterator[Problem]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for pod in world.cluster.all(Pod):
        metadata = pod.metadata
        if pod.active and DELETION_COST in metadata.annotations and cost_owner(metadata.annotations) is CostOwner.OTHER:
            owner = metadata.controller
            kind, name = ("Pod", metadata.name) if owner is None else (owner.kind, owner.name)
            found.setdefault((kind, metadata.namespace, name), []).append(metadata.name)
    for (kind, namespace, name), pods in found.items():
        if any(world.is_checked("Pod", namespace, each) for each in pods):
            costs = "a deletion cost" if len(pods) == 1 else "deletion costs"
            yield Problem(
                world.ref(kind, namespace, name),
                f"{_listed(pods)} {'has' if len(pods) == 1 else 'have'} {costs} that Trimtab did not write: the lowest "
                "goes first, whatever is level",
            )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
