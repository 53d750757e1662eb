"""Slow reference implementations of the default plugins: loops over the nodes, and over all pods of each.

Nothing here is counted in advance or cached. Each plugin is a function of a pod, a cluster and its arguments, and
returns what kube-scheduler's plugin of that name returns, in the form of a conformance case: for a filter the code and
the reasons of each node, for a score the raw and the normalized score of each feasible node; None where it is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from tests.unit.placement.samples import SampleCluster
from trimtab.api import nodeselectors, selectors
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node, Taint
from trimtab.api.pods import (
    Affinity,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    WeightedPodAffinityTerm,
)
from trimtab.api.pods import NodeAffinity as WrittenNodeAffinity
from trimtab.api.quantities import Quantity, parse
from trimtab.api.schedulerconfig import (
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    UtilizationShapePoint,
)
from trimtab.api.tolerations import tolerated

OK = "Success"
NO = "Unschedulable"
NEVER = "UnschedulableAndUnresolvable"

Verdict = tuple[str, tuple[str, ...]]
Verdicts = dict[str, Verdict]
ScoresByNode = dict[str, tuple[int, int]]

PASSED: Verdict = (OK, ())


# --- requests --------------------------------------------------------------------------------------------------------

Amounts = dict[str, Quantity]
ASSUMED = {"cpu": parse("100m"), "memory": parse("200Mi")}


def quantities(written: Mapping[str, Any]) -> Amounts:
    """Amounts as they are written."""
    return {name: parse(text) for name, text in written.items()}


def plus(left: Amounts, right: Amounts) -> Amounts:
    """The sums, name by name."""
    return {n: left.get(n, parse("0")) + right.get(n, parse("0")) for n in {**left, **right}}


def larger(left: Amounts, right: Amounts) -> Amounts:
    """The larger amounts, name by name."""
    return {**left, **{n: max(q, left.get(n, q)) for n, q in right.items()}}


def of_containers(spec: PodSpec, missing: Amounts) -> Amounts:
    """Containers and sidecars together, or the largest moment of initialisation if that is more."""
    running: Amounts = {}
    for container in spec.containers:
        running = plus(running, {**missing, **quantities(container.resources.requests)})
    beside: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        asked = {**missing, **quantities(container.resources.requests)}
        if container.restart_policy == "Always":
            running, beside = plus(running, asked), plus(beside, asked)
            peak = larger(peak, beside)
        else:
            peak = larger(peak, plus(asked, beside))
    return larger(running, peak)


def of_the_pod(spec: PodSpec) -> Amounts:
    """The pod-level requests."""
    written = quantities(spec.resources.requests) if spec.resources else {}
    return {n: q for n, q in written.items() if n in ("cpu", "memory") or n.startswith("hugepages-")}


def total(spec: PodSpec, missing: Amounts, *, pod_level: bool = True) -> dict[str, int]:
    """All requests of a pod, as whole numbers."""
    whole = of_containers(spec, missing)
    if pod_level:
        whole.update(of_the_pod(spec))
    summed = plus(whole, quantities(spec.overhead))
    return {n: q.milli_value() if n == "cpu" else q.value() for n, q in summed.items()}


def requested(pod: Pod) -> dict[str, int]:
    """The requests of a pod."""
    return total(pod.spec, {})


def assumed(pod: Pod) -> dict[str, int]:
    """What a placed pod counts for when nodes are compared by how full they are."""
    stated = requested(pod)
    if of_the_pod(pod.spec):
        return total(pod.spec, {n: q for n, q in ASSUMED.items() if n not in stated})
    return total(pod.spec, ASSUMED)


def capacity(node: Node, name: str) -> int:
    """What a node has to give."""
    written = node.status.allocatable.get(name, "0")
    return parse(written).milli_value() if name == "cpu" else parse(written).value()


def used(sample: SampleCluster, node: Node, name: str, count: Callable[[Pod], dict[str, int]]) -> int:
    """What the pods of a node take of it."""
    return sum(count(p).get(name, 0) for p in sample.on(node))


def scalar(name: str) -> bool:
    """Whether a resource with a name of its own is counted."""
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return "/" in name and not name.startswith("requests.") and selectors.is_key(f"requests.{name}")


# --- resources -------------------------------------------------------------------------------------------------------


def fit(pod: Pod, sample: SampleCluster, args: NodeResourcesFitArgs) -> Verdicts:
    """NodeResourcesFit."""
    verdicts: Verdicts = {}
    for node in sample.nodes:
        reasons, hopeless = [], False
        if len(sample.on(node)) + 1 > capacity(node, "pods"):
            reasons.append("Too many pods")
        for name, amount in requested(pod).items():
            if amount <= 0 or not (name in ("cpu", "memory", "ephemeral-storage") or scalar(name)):
                continue
            extended = "/" in name and "kubernetes.io/" not in name
            ignored = name in args.ignored_resources or name.split("/")[0] in args.ignored_resource_groups
            if extended and ignored:
                continue
            if amount > capacity(node, name) - used(sample, node, name, requested):
                reasons.append(f"Insufficient {name}")
                hopeless = hopeless or amount > capacity(node, name)
        verdicts[node.metadata.name] = (NEVER if hopeless else NO, tuple(sorted(reasons))) if reasons else PASSED
    return verdicts


def curve(shape: Iterable[UtilizationShapePoint], percent: int) -> int:
    """The score for a percentage in use."""
    points = [(p.utilization, p.score * 10) for p in shape]
    if percent <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if percent <= x1:
            return y0 + math.trunc((y1 - y0) * (percent - x0) / (x1 - x0))
    return points[-1][1]


def mark(args: NodeResourcesFitArgs, use: int, room: int) -> int:
    """The score of one resource."""
    strategy = args.scoring_strategy
    if strategy.type == "LeastAllocated":
        return 0 if use > room else (room - use) * 100 // room
    if strategy.type == "MostAllocated":
        return min(use, room) * 100 // room
    assert strategy.requested_to_capacity_ratio is not None
    return curve(strategy.requested_to_capacity_ratio.shape, 100 if use > room else use * 100 // room)


def left_out(spec: ResourceSpec, asked: int, room: int) -> bool:
    """Whether a resource has no part in a node's score."""
    native = spec.name in ("cpu", "memory", "ephemeral-storage")
    return room == 0 or not (native or scalar(spec.name)) or (not native and asked == 0)


def fit_score(pod: Pod, sample: SampleCluster, feasible: Iterable[Node], args: NodeResourcesFitArgs) -> ScoresByNode:
    """NodeResourcesFit's score."""
    mine = total(pod.spec, ASSUMED, pod_level=False)
    plain = total(pod.spec, {}, pod_level=False)
    ratio = args.scoring_strategy.type == "RequestedToCapacityRatio"
    marks: ScoresByNode = {}
    for node in feasible:
        earned = weights = 0
        for spec in args.scoring_strategy.resources:
            always = spec.name in ("cpu", "memory")
            asked, room = (mine if always else plain).get(spec.name, 0), capacity(node, spec.name)
            if left_out(spec, asked, room):
                continue
            found = mark(args, used(sample, node, spec.name, assumed if always else requested) + asked, room)
            if found > 0 or not ratio:
                earned, weights = earned + found * spec.weight, weights + spec.weight
        mean = earned / weights if weights else 0
        score = math.floor(mean + 0.5) if ratio else earned // max(weights, 1)
        marks[node.metadata.name] = (score, score)
    return marks


def evenness(fractions: list[float]) -> int:
    """How alike fractions are."""
    if len(fractions) == 2:
        return int((1 - abs((fractions[0] - fractions[1]) / 2)) * 100)
    mean = sum(fractions) / len(fractions) if fractions else 0
    squares = 0.0
    for fraction in fractions:
        squares += (fraction - mean) * (fraction - mean)
    return int((1 - (math.sqrt(squares / len(fractions)) if len(fractions) > 2 else 0)) * 100)


def balance_score(
    pod: Pod, sample: SampleCluster, feasible: Iterable[Node], args: NodeResourcesBalancedAllocationArgs
) -> ScoresByNode | None:
    """NodeResourcesBalancedAllocation's score."""
    mine = requested(pod)
    if not any(mine.get(spec.name, 0) for spec in args.resources):
        return None
    marks: ScoresByNode = {}
    for node in feasible:
        before, after = [], []
        for spec in args.resources:
            asked, room = mine.get(spec.name, 0), capacity(node, spec.name)
            if not left_out(spec, asked, room):
                use = used(sample, node, spec.name, requested)
                before.append(min(use / room, 1))
                after.append(min((use + asked) / room, 1))
        score = 50 + (50 + evenness(after) - evenness(before)) // 2
        marks[node.metadata.name] = (score, score)
    return marks


# --- nodes -----------------------------------------------------------------------------------------------------------


def in_proportion(raw: dict[str, int], *, reverse: bool = False) -> ScoresByNode:
    """The largest becomes 100."""
    most = max(raw.values(), default=0)
    marks = {name: 100 * count // most if most else count for name, count in raw.items()}
    return {name: (raw[name], 100 - marks[name] if reverse else marks[name]) for name in raw}


def where(nodes: Iterable[Node], refused: Callable[[Node], bool], code: str, reason: str) -> Verdicts:
    """One reason, or none."""
    return {n.metadata.name: (code, (reason,)) if refused(n) else PASSED for n in nodes}


def node_name(pod: Pod, sample: SampleCluster, _args: None = None) -> Verdicts:
    """NodeName."""
    wanted = pod.spec.node_name
    reason = "node(s) didn't match the requested node name"
    return where(sample.nodes, lambda n: wanted not in ("", n.metadata.name), NEVER, reason)


def unschedulable(pod: Pod, sample: SampleCluster, _args: None = None) -> Verdicts:
    """NodeUnschedulable."""
    cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    closed = not tolerated(pod.spec.tolerations, cordon)
    return where(sample.nodes, lambda n: n.spec.unschedulable and closed, NEVER, "node(s) were unschedulable")


def taints(pod: Pod, sample: SampleCluster, _args: None = None) -> Verdicts:
    """TaintToleration."""

    def repelled(node: Node) -> bool:
        hard = [t for t in node.spec.taints if t.effect in ("NoSchedule", "NoExecute")]
        return any(not tolerated(pod.spec.tolerations, t) for t in hard)

    return where(sample.nodes, repelled, NEVER, "node(s) had untolerated taint(s)")


def taints_score(pod: Pod, _sample: SampleCluster, feasible: Iterable[Node], _args: None = None) -> ScoresByNode:
    """TaintToleration's score."""
    soft = [t for t in pod.spec.tolerations if t.effect in ("", "PreferNoSchedule")]
    raw = {
        n.metadata.name: sum(t.effect == "PreferNoSchedule" and not tolerated(soft, t) for t in n.spec.taints)
        for n in feasible
    }
    return in_proportion(raw, reverse=True)


def written_affinity(pod: Pod) -> WrittenNodeAffinity:
    """The pod's node affinity, empty where there is none."""
    return (pod.spec.affinity or Affinity()).node_affinity or WrittenNodeAffinity()


def names_only(terms: Iterable[NodeSelectorTerm]) -> set[str] | None:
    """The names that terms insist on; None where a term does not insist."""
    names: set[str] = set()
    for term in terms:
        insisted = [r for r in term.match_fields if r.key == "metadata.name" and r.operator == "In"]
        if not insisted:
            return None
        names |= {v for v in insisted[0].values if all(v in other.values for other in insisted)}
    return names


def suits(chosen: nodeselectors.RequiredNodeAffinity, node: Node) -> bool:
    """Whether a node matches; an invalid affinity matches none."""
    try:
        return chosen.matches(node)
    except InvalidError:
        return False


def affinity(pod: Pod, sample: SampleCluster, args: NodeAffinityArgs) -> Verdicts | None:
    """NodeAffinity."""
    added = args.added_affinity.required_during_scheduling_ignored_during_execution if args.added_affinity else None
    required = written_affinity(pod).required_during_scheduling_ignored_during_execution
    if added is None and required is None and not pod.spec.node_selector:
        return None
    if required and required.node_selector_terms and names_only(required.node_selector_terms) == set():
        return where(sample.nodes, lambda _: True, NEVER, "pod affinity terms conflict")
    verdicts: Verdicts = {}
    for node in sample.nodes:
        reason = ""
        if added is not None and not suits(nodeselectors.compile(added), node):
            reason = "node(s) didn't match scheduler-enforced node affinity"
        elif not suits(nodeselectors.required(pod.spec), node):
            reason = "node(s) didn't match Pod's node affinity/selector"
        verdicts[node.metadata.name] = (NEVER, (reason,)) if reason else PASSED
    return verdicts


def affinity_score(
    pod: Pod, _sample: SampleCluster, feasible: Iterable[Node], args: NodeAffinityArgs
) -> ScoresByNode | None:
    """NodeAffinity's score."""
    wishes = written_affinity(pod).preferred_during_scheduling_ignored_during_execution
    added = args.added_affinity.preferred_during_scheduling_ignored_during_execution if args.added_affinity else ()
    if not wishes and not added:
        return None
    terms = nodeselectors.compile_preferred((*wishes, *added))
    return in_proportion({n.metadata.name: terms.score(n) for n in feasible})


def host_ports(pod: Pod) -> list[tuple[str, str, int]]:
    """Address, protocol and number of each host port that a pod keeps."""
    sidecars = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    return [
        (p.host_ip or "0.0.0.0", p.protocol or "TCP", p.host_port)  # noqa: S104 – how Kubernetes names every address
        for c in (*pod.spec.containers, *sidecars)
        for p in c.ports
        if p.host_port > 0
    ]


def ports(pod: Pod, sample: SampleCluster, _args: None = None) -> Verdicts | None:
    """NodePorts."""
    wanted = host_ports(pod)

    def clash(node: Node) -> bool:
        taken = [port for p in sample.on(node) for port in host_ports(p)]
        return any(
            (protocol, number) == (other_protocol, other_number) and (address == other or "0.0.0.0" in (address, other))  # noqa: S104 – as above
            for address, protocol, number in wanted
            for other, other_protocol, other_number in taken
        )

    reason = "node(s) didn't have free ports for the requested pod ports"
    return where(sample.nodes, clash, NO, reason) if wanted else None


def images_score(pod: Pod, sample: SampleCluster, feasible: Iterable[Node], _args: None = None) -> ScoresByNode:
    """ImageLocality's score."""
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    written = [c.image for c in containers] + [v.image.reference for v in pod.spec.volumes if v.image]
    names = [i if ":" in i.rpartition("/")[2] else f"{i}:latest" for i in written]
    most = 1000 * 2**20 * len(containers)
    marks: ScoresByNode = {}
    for node in feasible:
        here = {name: image.size_bytes for image in node.status.images for name in image.names}
        worth = 0
        for name in names:
            holders = sum(any(name in image.names for image in n.status.images) for n in sample.nodes)
            worth += int(here.get(name, 0) * (holders / len(sample.nodes)))
        score = 100 * (max(min(worth, most), 23 * 2**20) - 23 * 2**20) // (most - 23 * 2**20)
        marks[node.metadata.name] = (score, score)
    return marks


# --- pods ------------------------------------------------------------------------------------------------------------


def between(pod: Pod, which: str) -> PodAffinity:
    """The pod's affinity or anti-affinity to pods, empty where there is none."""
    return getattr(pod.spec.affinity or Affinity(), which) or PodAffinity()


def required_terms(pod: Pod, which: str) -> tuple[PodAffinityTerm, ...]:
    """Its required terms."""
    return between(pod, which).required_during_scheduling_ignored_during_execution


def preferred_terms(pod: Pod, which: str) -> tuple[WeightedPodAffinityTerm, ...]:
    """Its preferred terms."""
    return between(pod, which).preferred_during_scheduling_ignored_during_execution


def listed(term: PodAffinityTerm, owner: Pod) -> set[str]:
    """The namespaces that a term names, or the owner's own."""
    if not term.namespaces and term.namespace_selector is None:
        return {owner.metadata.namespace}
    return set(term.namespaces)


def meets(other: Pod, term: PodAffinityTerm, owner: Pod, sample: SampleCluster, *, incoming: bool) -> bool:
    """Whether another pod meets a term. An incoming pod's selector of namespaces is tried on no labels as well."""
    names = listed(term, owner)
    wider = selectors.compile(term.namespace_selector)
    if incoming:
        names |= {name for name, labels in sample.namespaces.items() if wider.matches(labels)}
    labels = {} if incoming else sample.labels_of(other.metadata.namespace)
    if other.metadata.namespace not in names and not wider.matches(labels):
        return False
    return selectors.compile(term.label_selector).matches(other.metadata.labels)


def interpod(pod: Pod, sample: SampleCluster, _args: InterPodAffinityArgs) -> Verdicts | None:
    """InterPodAffinity."""
    near, away = required_terms(pod, "pod_affinity"), required_terms(pod, "pod_anti_affinity")

    def objects(other: Pod, node: Node, home: Node) -> bool:
        """Whether a pod on its node refuses the pod on another."""
        return any(
            meets(pod, term, other, sample, incoming=False)
            and term.topology_key in home.metadata.labels
            and node.metadata.labels.get(term.topology_key) == home.metadata.labels[term.topology_key]
            for term in required_terms(other, "pod_anti_affinity")
        )

    everybody = [(other, home) for home in sample.nodes for other in sample.on(home)]
    if not near and not away and not any(objects(other, home, home) for other, home in everybody):
        return None
    liked = [
        (other, home) for other, home in everybody if all(meets(other, t, pod, sample, incoming=True) for t in near)
    ]
    anywhere = any(t.topology_key in home.metadata.labels for _, home in liked for t in near)
    first = not anywhere and all(meets(pod, t, pod, sample, incoming=True) for t in near)
    verdicts: Verdicts = {}
    for node in sample.nodes:
        labels = node.metadata.labels
        keys = all(t.topology_key in labels for t in near)
        met = all(
            any(home.metadata.labels.get(t.topology_key, None) == labels.get(t.topology_key, "") for _, home in liked)
            for t in near
        )
        if not keys or not (met or first):
            verdicts[node.metadata.name] = (NEVER, ("node(s) didn't match pod affinity rules",))
        elif any(
            meets(other, t, pod, sample, incoming=True)
            for t in away
            if t.topology_key in labels
            for other in sample.domain(t.topology_key, labels[t.topology_key])
        ):
            verdicts[node.metadata.name] = (NO, ("node(s) didn't match pod anti-affinity rules",))
        elif any(objects(other, node, home) for other, home in everybody):
            verdicts[node.metadata.name] = (NO, ("node(s) didn't satisfy existing pods anti-affinity rules",))
        else:
            verdicts[node.metadata.name] = PASSED
    return verdicts


def interpod_score(
    pod: Pod, sample: SampleCluster, feasible: Iterable[Node], args: InterPodAffinityArgs
) -> ScoresByNode | None:
    """InterPodAffinity's score."""
    signs = (("pod_affinity", 1), ("pod_anti_affinity", -1))
    wishes = [(t, sign) for which, sign in signs for t in preferred_terms(pod, which)]
    if args.ignore_preferred_terms_of_existing_pods and not wishes:
        return None
    worth: dict[tuple[str, str], int] = {}
    for home in sample.nodes:
        for other in sample.on(home):
            said = [
                (t.pod_affinity_term.topology_key, sign * t.weight)
                for t, sign in wishes
                if meets(other, t.pod_affinity_term, pod, sample, incoming=True)
            ]
            said += [
                (t.pod_affinity_term.topology_key, sign * t.weight)
                for which, sign in signs
                for t in preferred_terms(other, which)
                if meets(pod, t.pod_affinity_term, other, sample, incoming=False)
            ]
            said += [
                (t.topology_key, args.hard_pod_affinity_weight)
                for t in required_terms(other, "pod_affinity")
                if args.hard_pod_affinity_weight and meets(pod, t, other, sample, incoming=False)
            ]
            for key, weight in said:
                if key in home.metadata.labels:
                    place = (key, home.metadata.labels[key])
                    worth[place] = worth.get(place, 0) + weight
    if not worth:
        return None
    raw = {n.metadata.name: sum(worth.get(place, 0) for place in n.metadata.labels.items()) for n in feasible}
    low, high = min(raw.values(), default=0), max(raw.values(), default=0)
    return {name: (s, int(100 * ((s - low) / (high - low))) if high > low else 0) for name, s in raw.items()}


FILTERS: dict[str, Callable[[Pod, SampleCluster, Any], Verdicts | None]] = {
    "NodeResourcesFit": fit,
    "NodeAffinity": affinity,
    "TaintToleration": taints,
    "NodeName": node_name,
    "NodeUnschedulable": unschedulable,
    "NodePorts": ports,
    "InterPodAffinity": interpod,
}
SCORES: dict[str, Callable[[Pod, SampleCluster, Iterable[Node], Any], ScoresByNode | None]] = {
    "NodeResourcesFit": fit_score,
    "NodeResourcesBalancedAllocation": balance_score,
    "NodeAffinity": affinity_score,
    "TaintToleration": taints_score,
    "InterPodAffinity": interpod_score,
    "ImageLocality": images_score,
}
ARGS: dict[str, type[Any]] = {
    "NodeResourcesFit": NodeResourcesFitArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeAffinity": NodeAffinityArgs,
    "InterPodAffinity": InterPodAffinityArgs,
}
