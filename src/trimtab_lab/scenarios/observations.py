"""The pods, nodes and workloads at one moment, counted as stories count them. Pure.

Pods count unless they are finished or terminating, as their controllers count them. A pod counts in the domain of its
node, whether or not that node is ready. Domains are those of the story's nodes: an empty zone counts as zero, which is
what a skew is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from trimtab.api import selectors
from trimtab.api.meta import LabelSelector, ObjectMeta
from trimtab.api.model import Model
from trimtab.api.nodes import HOSTNAME, Node
from trimtab.api.pods import Pod
from trimtab.api.selectors import Selector
from trimtab_lab.scenarios.ranges import Range
from trimtab_lab.scenarios.steps import Expectation, Wait

NOWHERE = "(none)"
"""The domain of pods whose node does not have the key."""


class WorkloadSpec(Model):
    """The size and the selector of a workload."""

    replicas: int | None = None
    selector: LabelSelector | None = None


class WorkloadStatus(Model):
    """The counts in the status of a workload."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0


class Workload(Model):
    """Anything with a number of replicas: Deployments, StatefulSets, CloneSets."""

    rolls: ClassVar[bool] = True
    """Whether it replaces pods of an old template and reports `updatedReplicas`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def desired_replicas(self) -> int:
        """The desired number of pods; 1 if the spec has none."""
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def selector(self) -> Selector:
        """The selector of its pods."""
        return selectors.compile(self.spec.selector)


class NonRollingWorkload(Workload):
    """A workload that does not replace pods of an old template: ReplicaSets, ReplicationControllers."""

    rolls: ClassVar[bool] = False


class State(StrEnum):
    """The state of a pod in the timeline."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    TERMINATING = "terminating"
    FINISHED = "finished"
    GONE = "gone"


def state(pod: Pod) -> State:
    """The state of a pod."""
    if pod.terminating:
        return State.TERMINATING
    if pod.finished:
        return State.FINISHED
    if not pod.spec.node_name:
        return State.WAITING
    return State.READY if pod.ready else State.STARTING


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node's labels, with its name in the story, and whether it is ready."""

    labels: Mapping[str, str]
    ready: bool = True

    @staticmethod
    def of(node: Node, prefix: str = "") -> NodeView:
        """The view of a node, without the run's prefix in its name."""
        labels = dict(node.metadata.labels)
        if HOSTNAME in labels:
            labels[HOSTNAME] = labels[HOSTNAME].removeprefix(prefix)
        return NodeView(labels, node.ready)


@dataclass(frozen=True, slots=True)
class Spread:
    """The number of pods in each domain of a topology key."""

    domains: Mapping[str, int]

    @property
    def skew(self) -> int:
        """The difference between the fullest and the emptiest domain. Pods without a domain do not count."""
        counts = [count for domain, count in self.domains.items() if domain != NOWHERE]
        return max(counts) - min(counts) if counts else 0

    @property
    def levels(self) -> tuple[int, ...]:
        """The counts of the domains, the highest first."""
        return tuple(sorted(self.domains.values(), reverse=True))

    def __str__(self) -> str:
        return "/".join(map(str, self.domains.values()))


@dataclass(frozen=True, slots=True)
class PodDistribution:
    """The spread and the counts of one workload, or of all pods."""

    spreads: Mapping[str, Spread]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Observation:
    """All objects of a story at one moment; workloads by name."""

    pods: tuple[Pod, ...] = ()
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    workloads: Mapping[str, Workload] = field(default_factory=dict)

    def of(self, workload: str) -> tuple[Pod, ...]:
        """The pods of a workload, or all pods. A bare pod is a workload of one."""
        if not workload:
            return self.pods
        if workload not in self.workloads:
            return tuple(pod for pod in self.pods if pod.metadata.name == workload)
        selector = self.workloads[workload].selector
        return tuple(pod for pod in self.pods if selector.matches(pod.metadata.labels))

    def counts(self, workload: str = "") -> dict[str, int]:
        """The counts that a wait or an expectation can use."""
        pods = self.of(workload)
        active = [pod for pod in pods if pod.active]
        return {
            "pods": len(active),
            "ready": sum(pod.ready for pod in active),
            "available": self._available(workload),
            "unschedulable": sum(map(is_unschedulable, active)),
            "terminating": sum(pod.terminating for pod in pods),
        }

    def distribution(self, topology: Mapping[str, str], workload: str = "") -> PodDistribution:
        """The distribution of the pods, for each topology key of the story."""
        pods = [pod for pod in self.of(workload) if pod.active]
        spreads = {name: spread(pods, self.nodes, key) for name, key in topology.items()}
        return PodDistribution(spreads, self.counts(workload))

    def _available(self, workload: str) -> int:
        chosen = [self.workloads[workload]] if workload in self.workloads else self.workloads.values()
        return sum(each.status.available_replicas for each in chosen)


def spread(pods: Iterable[Pod], nodes: Mapping[str, NodeView], key: str) -> Spread:
    """Pods by the domain of their node. Domains are sorted by name; pods without a node are not counted."""
    domains = {name: place.labels.get(key, NOWHERE) for name, place in nodes.items()}
    counts = dict.fromkeys(sorted({domain for domain in domains.values() if domain != NOWHERE}), 0)
    for pod in pods:
        if pod.spec.node_name:
            domain = domains.get(pod.spec.node_name, NOWHERE)
            counts[domain] = counts.get(domain, 0) + 1
    return Spread(counts)


def is_unschedulable(pod: Pod) -> bool:
    """Whether a scheduler has found no node for the pod."""
    condition = pod.status.condition("PodScheduled")
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"


def is_satisfied(wait: Wait, observation: Observation, *, deleted: Iterable[Selector] = ()) -> bool:
    """Whether a wait is over."""
    if wait.counts:
        observed = observation.counts(wait.of)
        return all(observed[name] in number for name, number in wait.counts.items())
    return not unsettled(observation, wait.of, deleted=deleted)


def unsettled(observation: Observation, workload: str = "", *, deleted: Iterable[Selector] = ()) -> list[str]:
    """Why a story has not settled, in sentences; empty when it has.

    Terminating pods on a node that is not ready stay until it is ready, and are not waited for.
    """
    problems = [
        f"{name}: {problem}"
        for name, each in observation.workloads.items()
        if not workload or name == workload
        for problem in _unfinished(name, each, observation)
    ]
    for selector in deleted:
        left = sum(selector.matches(pod.metadata.labels) for pod in observation.pods)
        if left:
            problems.append(f"{left} pods of a deleted workload are left")
    return problems


def _unfinished(name: str, workload: Workload, observation: Observation) -> list[str]:
    if workload.status.observed_generation < workload.metadata.generation:
        return ["its controller has not observed its last change yet"]
    wanted = workload.desired_replicas
    status = workload.status
    reported = {
        "replicas": status.replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "updatedReplicas": status.updated_replicas if workload.rolls else wanted,
    }
    counts = observation.counts(name)
    observed = {"pods": counts["pods"], "ready": counts["ready"]}
    problems = [
        f"{what} is {number}, not {wanted}" for what, number in {**reported, **observed}.items() if number != wanted
    ]
    leaving = sum(pod.terminating and can_terminate(observation.nodes, pod) for pod in observation.of(name))
    return problems + ([f"{leaving} pods are terminating"] if leaving else [])


def can_terminate(nodes: Mapping[str, NodeView], pod: Pod) -> bool:
    """Whether a pod can finish terminating: its node is ready, or it has none."""
    node = nodes.get(pod.spec.node_name)
    return node is None or node.ready


def failures(expectation: Expectation, distribution: PodDistribution) -> list[str]:
    """What is not as expected, in sentences."""
    of = f"{expectation.of}: " if expectation.of else ""
    found = [*_domain_failures(expectation, distribution), *_level_failures(expectation, distribution)]
    for key, number in expectation.skew.items():
        skew = distribution.spreads[key].skew
        found += _unless(skew in number, f"skew by {key} is {skew}, expected {number}")
    for name, number in expectation.counts.items():
        found += _unless(
            distribution.counts[name] in number, f"{name} is {distribution.counts[name]}, expected {number}"
        )
    return [of + each for each in found]


def _domain_failures(expectation: Expectation, distribution: PodDistribution) -> list[str]:
    found: list[str] = []
    for key, domains in expectation.domains.items():
        observed = distribution.spreads[key].domains
        for domain, number in domains.items():
            if domain not in observed:
                found.append(f"there is no {key} {domain}; there are {', '.join(observed) or 'none'}")
            else:
                found += _unless(observed[domain] in number, _domain_failure(key, domain, observed[domain], number))
    return found


def _level_failures(expectation: Expectation, distribution: PodDistribution) -> list[str]:
    return [
        f"pods by {key} are {_joined(distribution.spreads[key].levels)}, expected {_joined(levels)} in any order"
        for key, levels in expectation.levels.items()
        if distribution.spreads[key].levels != levels
    ]


def _domain_failure(key: str, domain: str, observed: int, number: Range) -> str:
    return f"{key} {domain} has {observed} pods, expected {number}"


def _unless(holds: bool, sentence: str) -> list[str]:
    return [] if holds else [sentence]


def _joined(numbers: tuple[int, ...]) -> str:
    return "/".join(map(str, numbers))
