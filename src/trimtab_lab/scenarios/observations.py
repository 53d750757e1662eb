"""What there is at one moment: pods, nodes and workloads, counted as stories count them. No I/O.

Which pods count: those that are neither finished nor on their way out, as their controllers count them. A pod counts
in the domain of its node, whether or not that node still can_terminate. Domains are those that the story's nodes have:
an empty zone counts with nothing in it, which is what a skew is about.
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
    """How many pods a workload wants, and which are its own."""

    replicas: int | None = None
    selector: LabelSelector | None = None


class WorkloadStatus(Model):
    """How many it has, as far as its controller has seen."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0


class Workload(Model):
    """Anything with a number of replicas: deployments, stateful sets, clone sets."""

    rolls: ClassVar[bool] = True
    """Whether it replaces pods of an old template, and says how many are of the new one."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def desired_replicas(self) -> int:
        """The number of pods asked for; 1 where the spec does not say."""
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def selector(self) -> Selector:
        """Which pods are its own, in its namespace."""
        return selectors.compile(self.spec.selector)


class NonRollingWorkload(Workload):
    """A workload that lets pods of an old template be: replica sets, replication controllers."""

    rolls: ClassVar[bool] = False


class State(StrEnum):
    """How a pod stands, as the timeline records it."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    TERMINATING = "terminating"
    FINISHED = "finished"
    GONE = "gone"


def state(pod: Pod) -> State:
    """How a pod stands."""
    if pod.terminating:
        return State.TERMINATING
    if pod.finished:
        return State.FINISHED
    if not pod.spec.node_name:
        return State.WAITING
    return State.READY if pod.ready else State.STARTING


@dataclass(frozen=True, slots=True)
class NodeView:
    """What is known of a node: its labels, with the name that the story has for it, and whether it can_terminate."""

    labels: Mapping[str, str]
    ready: bool = True

    @staticmethod
    def of(node: Node, prefix: str = "") -> NodeView:
        """A node whose name begins with the prefix of a run, which says nothing."""
        labels = dict(node.metadata.labels)
        if HOSTNAME in labels:
            labels[HOSTNAME] = labels[HOSTNAME].removeprefix(prefix)
        return NodeView(labels, node.ready)


@dataclass(frozen=True, slots=True)
class Spread:
    """How many pods each domain of a topology key has."""

    domains: Mapping[str, int]

    @property
    def skew(self) -> int:
        """How many more pods the fullest domain has than the emptiest. Pods without a domain take no part."""
        counts = [count for domain, count in self.domains.items() if domain != NOWHERE]
        return max(counts) - min(counts) if counts else 0

    @property
    def levels(self) -> tuple[int, ...]:
        """How full the domains are, the fullest first."""
        return tuple(sorted(self.domains.values(), reverse=True))

    def __str__(self) -> str:
        return "/".join(map(str, self.domains.values()))


@dataclass(frozen=True, slots=True)
class PodDistribution:
    """What there is of one workload, or of all pods together."""

    spreads: Mapping[str, Spread]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything of a story at one moment; workloads by name."""

    pods: tuple[Pod, ...] = ()
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    workloads: Mapping[str, Workload] = field(default_factory=dict)

    def of(self, workload: str) -> tuple[Pod, ...]:
        """The pods of a workload; all pods without one. A pod that stands for itself is a workload of one."""
        if not workload:
            return self.pods
        if workload not in self.workloads:
            return tuple(pod for pod in self.pods if pod.metadata.name == workload)
        selector = self.workloads[workload].selector
        return tuple(pod for pod in self.pods if selector.matches(pod.metadata.labels))

    def counts(self, workload: str = "") -> dict[str, int]:
        """The numbers that a wait or an expectation can speak of."""
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
        """How the pods stand, by each key of the story."""
        pods = [pod for pod in self.of(workload) if pod.active]
        spreads = {name: spread(pods, self.nodes, key) for name, key in topology.items()}
        return PodDistribution(spreads, self.counts(workload))

    def _available(self, workload: str) -> int:
        chosen = [self.workloads[workload]] if workload in self.workloads else self.workloads.values()
        return sum(each.status.available_replicas for each in chosen)


def spread(pods: Iterable[Pod], nodes: Mapping[str, NodeView], key: str) -> Spread:
    """Pods by the domain of their node. Domains are in the order of their names; pods without a node are in none."""
    domains = {name: place.labels.get(key, NOWHERE) for name, place in nodes.items()}
    counts = dict.fromkeys(sorted({domain for domain in domains.values() if domain != NOWHERE}), 0)
    for pod in pods:
        if pod.spec.node_name:
            domain = domains.get(pod.spec.node_name, NOWHERE)
            counts[domain] = counts.get(domain, 0) + 1
    return Spread(counts)


def is_unschedulable(pod: Pod) -> bool:
    """Whether a scheduler has looked at the pod and found no node."""
    condition = pod.status.condition("PodScheduled")
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"


def is_satisfied(wait: Wait, observation: Observation, *, deleted: Iterable[Selector] = ()) -> bool:
    """Whether a step need not wait any longer."""
    if wait.counts:
        seen = observation.counts(wait.of)
        return all(seen[name] in number for name, number in wait.counts.items())
    return not unsettled(observation, wait.of, deleted=deleted)


def unsettled(observation: Observation, workload: str = "", *, deleted: Iterable[Selector] = ()) -> list[str]:
    """What has not come to its end, in sentences; nothing when everything has.

    Pods that are leaving a node which does not answer stay until it does: nobody waits for those.
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
        return ["its controller has not seen its last change yet"]
    wanted = workload.desired_replicas
    status = workload.status
    said = {
        "replicas": status.replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "updatedReplicas": status.updated_replicas if workload.rolls else wanted,
    }
    counts = observation.counts(name)
    seen = {"pods": counts["pods"], "ready": counts["ready"]}
    problems = [f"{what} is {number}, not {wanted}" for what, number in {**said, **seen}.items() if number != wanted]
    leaving = sum(pod.terminating and can_terminate(observation.nodes, pod) for pod in observation.of(name))
    return problems + ([f"{leaving} pods are terminating"] if leaving else [])


def can_terminate(nodes: Mapping[str, NodeView], pod: Pod) -> bool:
    """Whether there is somebody who will end this pod: its node can_terminate, or it has none."""
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
        seen = distribution.spreads[key].domains
        for domain, number in domains.items():
            if domain not in seen:
                found.append(f"there is no {key} {domain}; there are {', '.join(seen) or 'none'}")
            else:
                found += _unless(seen[domain] in number, _missed(key, domain, seen[domain], number))
    return found


def _level_failures(expectation: Expectation, distribution: PodDistribution) -> list[str]:
    return [
        f"pods by {key} are {_joined(distribution.spreads[key].levels)}, expected {_joined(levels)} in any order"
        for key, levels in expectation.levels.items()
        if distribution.spreads[key].levels != levels
    ]


def _missed(key: str, domain: str, seen: int, number: Range) -> str:
    return f"{key} {domain} has {seen} pods, expected {number}"


def _unless(holds: bool, sentence: str) -> list[str]:
    return [] if holds else [sentence]


def _joined(numbers: tuple[int, ...]) -> str:
    return "/".join(map(str, numbers))
