"""Rules about topology spread constraints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trimtab.api import nodeselectors, selectors, tolerations
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Labels
from trimtab.api.nodes import Node, Taint
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.inspection.lint.findings import Problem, Severity
from trimtab.inspection.lint.world import TemplatedWorkload, World

HARD = "DoNotSchedule"
TEMPLATE_HASH = "pod-template-hash"
_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_NAMED = 3
_NOT_SPREAD = ("DaemonSet",)
"""Kinds whose pods are bound to nodes whatever their constraints say."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A constraint of a template, and its field."""

    workload: TemplatedWorkload
    constraint: TopologySpreadConstraint
    field: str

    @property
    def is_hard(self) -> bool:
        """Whether pods stay pending rather than break it."""
        return self.constraint.when_unsatisfiable == HARD

    @property
    def honors_taints(self) -> bool:
        """Whether nodes with taints that the pod does not tolerate are left out."""
        return self.constraint.node_taints_policy == "Honor"


def stated(world: World) -> Iterator[Stated]:
    """Every constraint that is checked."""
    for workload in world.workloads:
        if workload.ref.kind in _NOT_SPREAD:
            continue
        for at, constraint in enumerate(workload.template.spec.topology_spread_constraints):
            yield Stated(workload, constraint, f"topologySpreadConstraints[{at}]")


def unmatched_selectors(world: World) -> Iterator[Problem]:
    """Constraints that do not count the pods that they place."""
    for each in stated(world):
        written = each.constraint.label_selector
        labels = each.workload.template.metadata.labels
        key = each.constraint.topology_key
        if written is None:
            yield Problem(
                each.workload.ref,
                f"{each.field} ({key}) has no labelSelector: it counts no pod, so every node is as good as another",
            )
        elif not _matches(each, labels):
            wanted = ", ".join(_described(each)) or "it"
            yield Problem(
                each.workload.ref,
                f"{each.field} ({key}) selects {wanted}, which the template's own labels do not match: pods are placed "
                "by where others are, not by where their siblings are",
            )


def _matches(each: Stated, labels: Labels) -> bool:
    try:
        selector = selectors.compile(each.constraint.label_selector)
    except InvalidError:
        return True  # another matter, which an API server refuses
    return selector.matches(labels)


def _described(each: Stated) -> Iterator[str]:
    written = each.constraint.label_selector
    if written is not None:
        yield from (f"{key}={value}" for key, value in written.match_labels.items())
        yield from (f"{one.key} {one.operator} {list(one.values)}" for one in written.match_expressions)


def too_few_domains(world: World) -> Iterator[Problem]:
    """`minDomains` beyond the domains there are."""
    for each in stated(world):
        least, key = each.constraint.min_domains or 0, each.constraint.topology_key
        found = _domains(world, each)
        if world.has_nodes and each.is_hard and least > len(found):
            most = each.constraint.max_skew * len(found)
            yield Problem(
                each.workload.ref,
                f"{each.field} ({key}) asks for {least} domains, and there are {len(found)} "
                f"({_listed(found)}): no domain may have more than maxSkew pods, {most} in all, and "
                f"{each.workload.replicas} are wanted",
                severity=Severity.ERROR if each.workload.replicas > most else Severity.WARNING,
            )


def unlabelled_nodes(world: World) -> Iterator[Problem]:
    """Nodes that pods may run on and that lack the topology label."""
    for each in stated(world):
        key = each.constraint.topology_key
        usable = [node for node in _eligible(world, each) if _tolerates(each, node)]
        missing = sorted(node.metadata.name for node in usable if key not in node.metadata.labels)
        if missing:
            effect = "never get a pod of this workload" if each.is_hard else "count as the worst choice"
            yield Problem(
                each.workload.ref,
                f"{each.field}: {len(missing)} of {len(usable)} nodes that its pods may run on have no label {key} "
                f"({_listed(missing)}): they {effect}",
                fix=f"label them: kubectl label node {missing[0]} {key}=…",
            )


def tainted_domains(world: World) -> Iterator[Problem]:
    """Domains that count as empty although no pod of the workload may go there."""
    for each in stated(world):
        if not each.is_hard or each.honors_taints:
            continue
        domains: dict[str, list[Node]] = {}
        for node in _eligible(world, each):
            value = node.metadata.labels.get(each.constraint.topology_key)
            if value is not None:
                domains.setdefault(value, []).append(node)
        closed = sorted(name for name, nodes in domains.items() if not any(_tolerates(each, node) for node in nodes))
        if closed and len(closed) < len(domains):
            yield Problem(
                each.workload.ref,
                f"{each.field} ({each.constraint.topology_key}): {_listed(closed)} {_count(closed)} as empty, but "
                "every node there has a taint that the pods do not tolerate: once the other domains have "
                f"{each.constraint.max_skew} more, no pod can be scheduled",
            )


def distorting_revisions(world: World) -> Iterator[Problem]:
    """Constraints of Deployments that count the pods of all revisions."""
    for each in stated(world):
        workload = each.workload
        is_rolling = workload.strategy is not None and (workload.strategy.type or "RollingUpdate") == "RollingUpdate"
        if not is_rolling or workload.replicas < 2 or each.constraint.label_selector is None:
            continue
        if TEMPLATE_HASH in each.constraint.match_label_keys or not _matches(each, workload.template.metadata.labels):
            continue
        yield Problem(
            workload.ref,
            f"{each.field} ({each.constraint.topology_key}) counts the pods of all revisions: during a rollout, new "
            "pods are placed to be level together with old ones, which then go",
        )


def _domains(world: World, each: Stated) -> list[str]:
    """The domains that a constraint counts."""
    key = each.constraint.topology_key
    nodes = (node for node in _eligible(world, each) if not each.honors_taints or _tolerates(each, node))
    return sorted({node.metadata.labels[key] for node in nodes if key in node.metadata.labels})


def _eligible(world: World, each: Stated) -> list[Node]:
    """The nodes that the pods' selector and affinity allow, unless the constraint ignores these."""
    nodes = world.cluster.all(Node)
    if each.constraint.node_affinity_policy == "Ignore":
        return list(nodes)
    required = nodeselectors.required(each.workload.template.spec)
    try:
        return [node for node in nodes if required.matches(node)]
    except InvalidError:
        return []


def _tolerates(each: Stated, node: Node) -> bool:
    """Whether the pods tolerate what keeps pods off a node."""
    taints = (*node.spec.taints, _CORDONED) if node.spec.unschedulable else node.spec.taints
    return tolerations.untolerated(each.workload.template.spec.tolerations, taints) is None


def _count(names: list[str]) -> str:
    return "counts" if len(names) == 1 else "count"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
