"""Slow reference implementations of PodTopologySpread and SelectorSpread: loops over lists of nodes and pods.

The rules are those at the head of `trimtab.placement.spread` and `trimtab.placement.selectorspread`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.unit.placement.samples import SampleCluster
from trimtab.api import codec, nodeselectors, selectors, tolerations
from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.core import ReplicationController, Service
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import DEPRECATED_REGION, DEPRECATED_ZONE, HOSTNAME, REGION, ZONE, Node
from trimtab.api.pods import Pod, TopologySpreadConstraint
from trimtab.api.schedulerconfig import PodTopologySpreadArgs
from trimtab.api.selectors import Operator, Requirement, Selector

Tree = dict[str, Any]
OK, NO, NEVER = "Success", "Unschedulable", "UnschedulableAndUnresolvable"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"

SYSTEM = [(3, HOSTNAME), (5, ZONE)]
PROPOSAL = [(1, HOSTNAME), (1, DEPRECATED_ZONE)]


def sample_cluster_of(question: Tree) -> SampleCluster:
    """The cluster that a recorded case describes."""

    def read(name: str, kind: type[Any]) -> list[Any]:
        return [codec.convert(tree, kind) for tree in question.get(name) or []]

    return SampleCluster(
        nodes=read("nodes", Node),
        pods=read("pods", Pod),
        services=read("services", Service),
        controllers=read("replicationControllers", ReplicationController),
        replica_sets=read("replicaSets", ReplicaSet),
        stateful_sets=read("statefulSets", StatefulSet),
    )


def workload_of(pod: Pod, sample: SampleCluster) -> ReplicationController | ReplicaSet | StatefulSet | None:
    """The controller of a pod, if it is of a kind that counts and still there."""
    owner = pod.metadata.controller
    kinds: dict[tuple[str, str], Iterable[Any]] = {
        ("v1", "ReplicationController"): sample.controllers,
        ("apps/v1", "ReplicaSet"): sample.replica_sets,
        ("apps/v1", "StatefulSet"): sample.stateful_sets,
    }
    candidates = kinds.get((owner.api_version, owner.kind), []) if owner else []
    for workload in candidates:
        if owner and (workload.metadata.namespace, workload.metadata.name) == (pod.metadata.namespace, owner.name):
            found: ReplicationController | ReplicaSet | StatefulSet = workload
            return found
    return None


def deduced(pod: Pod, sample: SampleCluster) -> Selector:
    """What all services and the controller of a pod select together; plain maps are merged, the last one wins."""
    labels: dict[str, str] = {}
    for service in sample.services:
        chosen = selectors.from_labels(service.spec.selector)
        if service.metadata.namespace == pod.metadata.namespace and chosen.matches(pod.metadata.labels):
            labels.update(service.spec.selector)
    workload = workload_of(pod, sample)
    if isinstance(workload, ReplicationController):
        labels.update(workload.spec.selector)
    elif workload is not None and workload.spec.selector is not None:
        return selectors.from_labels(labels).and_(selectors.compile(workload.spec.selector))
    return selectors.from_labels(labels)


@dataclass
class Rule:
    """A constraint with its selector; `keys` are the labels that mean the same."""

    written: TopologySpreadConstraint
    selector: Selector
    keys: tuple[str, ...]

    def value(self, node: Node) -> str | None:
        """The node's domain."""
        for key in self.keys:
            if key in node.metadata.labels:
                return node.metadata.labels[key]
        return None


def rules(pod: Pod, sample: SampleCluster, args: PodTopologySpreadArgs, action: str) -> list[Rule]:
    """The constraints of one action that apply to a pod."""
    if pod.spec.topology_spread_constraints:
        return [
            Rule(c, own_selector(c, pod), (c.topology_key,))
            for c in pod.spec.topology_spread_constraints
            if c.when_unsatisfiable == action
        ]
    selector = deduced(pod, sample)
    if selector.empty:
        return []
    return [Rule(c, selector, configured_keys(c)) for c in default_rules(args) if c.when_unsatisfiable == action]


def own_selector(constraint: TopologySpreadConstraint, pod: Pod) -> Selector:
    """A pod's own selector, with its values of `matchLabelKeys`."""
    selector = selectors.compile(constraint.label_selector)
    for key in constraint.match_label_keys:
        if key in pod.metadata.labels:
            same = Requirement(key, Operator.EQUALS, (pod.metadata.labels[key],))
            selector = selector.with_requirements(same)
    return selector


def default_rules(args: PodTopologySpreadArgs) -> list[TopologySpreadConstraint]:
    """The constraints for pods that state none."""
    if args.defaulting_type == "List":
        return list(args.default_constraints)
    pairs = SYSTEM if args.defaulting_type == "System" else PROPOSAL
    return [TopologySpreadConstraint(max_skew=s, topology_key=k, when_unsatisfiable=SOFT) for s, k in pairs]


def configured_keys(constraint: TopologySpreadConstraint) -> tuple[str, ...]:
    """In a configuration, the deprecated zone label is an alias."""
    return (ZONE, DEPRECATED_ZONE) if constraint.topology_key == DEPRECATED_ZONE else (constraint.topology_key,)


def count(sample: SampleCluster, node: Node, selector: Selector, namespace: str) -> int:
    """How many pods of a node count."""
    if selector.empty:
        return 0
    return sum(
        pod.spec.node_name == node.metadata.name
        and pod.metadata.namespace == namespace
        and pod.metadata.deletion_timestamp is None
        and pod.status.phase not in ("Succeeded", "Failed")
        and selector.matches(pod.metadata.labels)
        for pod in sample.pods
    )


def included(pod: Pod, node: Node, rule: Rule) -> bool:
    """Whether the constraint's policies let a node count."""
    if rule.written.node_affinity_policy in (None, "Honor"):
        try:
            if not nodeselectors.required(pod.spec).matches(node):
                return False
        except InvalidError:
            return False
    if rule.written.node_taints_policy == "Honor":
        return tolerations.untolerated(pod.spec.tolerations, node.spec.taints) is None
    return True


def filtered(pod: Pod, sample: SampleCluster, args: PodTopologySpreadArgs) -> dict[str, str] | None:
    """The verdicts of hard constraints on every node; None if there are none."""
    hard = rules(pod, sample, args, HARD)
    if not hard:
        return None
    verdicts = {node.metadata.name: OK for node in sample.nodes}
    for rule in reversed(hard):
        counts = domain_counts(
            pod, sample, rule, [n for n in sample.nodes if all(r.value(n) is not None for r in hard)]
        )
        for node in sample.nodes:
            value = rule.value(node)
            if value is None:
                verdicts[node.metadata.name] = NEVER
            elif too_many(pod, rule, counts, value):
                verdicts[node.metadata.name] = NO
    return verdicts


def too_many(pod: Pod, rule: Rule, counts: Mapping[str, int], value: str) -> bool:
    """Whether one more pod in this domain would be one too many."""
    wanted = rule.written.min_domains if rule.written.min_domains is not None else 1
    lowest = 0 if len(counts) < wanted else min(counts.values())
    one_more = 1 if rule.selector.matches(pod.metadata.labels) else 0
    return counts.get(value, 0) + one_more - lowest > rule.written.max_skew


def domain_counts(pod: Pod, sample: SampleCluster, rule: Rule, nodes: list[Node]) -> dict[str, int]:
    """How many pods each domain of these nodes has; a missing label is an empty one."""
    counts: dict[str, int] = {}
    for node in nodes:
        if included(pod, node, rule):
            value = rule.value(node) or ""
            counts[value] = counts.get(value, 0) + count(sample, node, rule.selector, pod.metadata.namespace)
    return counts


def scored(
    pod: Pod, sample: SampleCluster, args: PodTopologySpreadArgs, feasible: Iterable[str]
) -> dict[str, tuple[int, int]] | None:
    """Raw and normalised score of the feasible nodes; None if there are no soft constraints."""
    soft = rules(pod, sample, args, SOFT)
    if not soft:
        return None
    strict = bool(pod.spec.topology_spread_constraints) or args.defaulting_type == "List"
    part = [n for n in sample.nodes if not strict or all(r.value(n) is not None for r in soft)]
    names = set(feasible)
    chosen = [node for node in part if node.metadata.name in names]
    raw = {node.metadata.name: raw_score(pod, sample, soft, node, chosen, part) for node in chosen}
    if not raw:
        return dict.fromkeys(names, (0, 0))
    low, high = min(raw.values()), max(raw.values())
    fair = {name: 100 * (high + low - value) // high if high else 100 for name, value in raw.items()}
    return {name: (raw.get(name, 0), fair.get(name, 0)) for name in names}


def raw_score(
    pod: Pod, sample: SampleCluster, soft: list[Rule], node: Node, chosen: list[Node], part: list[Node]
) -> int:
    """The raw score of a node, summed over the constraints."""
    total = 0.0
    for rule in soft:
        value = rule.value(node)
        if value is None:
            continue
        if rule.keys == (HOSTNAME,):
            size, number = len(chosen), count(sample, node, rule.selector, pod.metadata.namespace)
        else:
            size = len({rule.value(other) or "" for other in chosen})
            number = domain_counts(pod, sample, rule, part).get(value, 0)
        total += number * math.log(size + 2) + (rule.written.max_skew - 1)
    return math.floor(total + 0.5)


def zone_of(node: Node) -> str:
    """Region and zone of a node, as they were read before there were constraints; empty if it has neither."""
    labels = node.metadata.labels
    zone = labels.get(DEPRECATED_ZONE, labels.get(ZONE, ""))
    region = labels.get(DEPRECATED_REGION, labels.get(REGION, ""))
    return f"{region}:{zone}" if region or zone else ""


def selector_spread(pod: Pod, sample: SampleCluster, feasible: Iterable[str]) -> dict[str, tuple[int, int]] | None:
    """What the old SelectorSpread gave; None if the pod states constraints."""
    if pod.spec.topology_spread_constraints:
        return None
    selector = deduced(pod, sample)
    names = set(feasible)
    nodes = [node for node in sample.nodes if node.metadata.name in names]
    counts = {n.metadata.name: count(sample, n, selector, pod.metadata.namespace) for n in nodes}
    zones: dict[str, int] = {}
    for node in nodes:
        if zone_of(node):
            zones[zone_of(node)] = zones.get(zone_of(node), 0) + counts[node.metadata.name]
    result = {}
    for node in nodes:
        number = counts[node.metadata.name]
        score = share(number, max(counts.values()))
        if zone_of(node):
            score = score * (1.0 - 2.0 / 3.0) + (2.0 / 3.0) * share(zones[zone_of(node)], max(zones.values()))
        result[node.metadata.name] = (number, int(score))
    return result


def share(number: int, most: int) -> float:
    """100 for none, 0 for the most."""
    return 100.0 * ((most - number) / most) if most else 100.0
