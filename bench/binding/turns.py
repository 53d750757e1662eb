"""One turn: pods are created by several clients, and a watch shows when the last of them has a node."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.binding import cluster, contenders
from bench.binding.cluster import NAMESPACE, TURN
from bench.binding.contenders import Usage
from bench.binding.controlplane import RunningControlPlane
from bench.binding.wire import Address, AssignedPods, send_all, send_sequences, wait_for_events

CLIENTS = 8
WARM_UP = 50
_START_SECONDS = 120.0
_TURN_SECONDS = 300.0
LIMIT = "limit"
"""The contender that is none: clients which bind every pod as soon as they have created it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of one turn; CPU seconds by process until the last pod had a node."""

    contender: str
    constraints: str
    pods: int
    seconds: float
    cpu: Mapping[str, float]
    peak_mib: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds of the scheduler by part, if it counts them."""
    event_seconds: float = 0.0
    """Seconds until the last event of the bound pods was written, too."""
    event_cpu: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds by process until then."""
    events: int = 0
    """How many of the pods have such an event then."""

    @property
    def rate(self) -> float:
        """Pods a second."""
        return self.pods / self.seconds

    @property
    def event_rate(self) -> float:
        """Pods a second that have their event, too."""
        return self.events / self.event_seconds if self.event_seconds else 0.0


@dataclass(slots=True)
class Course:
    """A cluster on which turns are taken."""

    plane: RunningControlPlane
    address: Address
    turns: int = 0

    def prepare(self, existing: int) -> None:
        """Create the nodes, and so many pods of the workload on them."""
        send_all(self.address, cluster.node_requests(self.address), CLIENTS)
        send_all(self.address, cluster.untaint_requests(self.address), CLIENTS)
        send_all(self.address, [cluster.namespace_request(self.address, NAMESPACE)], 1)
        send_all(self.address, cluster.existing_pod_requests(self.address, NAMESPACE, existing), CLIENTS)

    def take(self, contender: str, constraints: str, pods: int) -> Turn:
        """Let a scheduler bind pods: it has synced and bound some before the first of them is created."""
        with self._turn() as turn, contenders.running(contender, self.plane) as pid:
            assigned = AssignedPods(self.address, NAMESPACE, f"{TURN}={turn}")
            send_all(self.address, self._pods(constraints, turn, WARM_UP, "warm-up"), CLIENTS)
            assigned.wait(WARM_UP, _START_SECONDS)
            requests = self._pods(constraints, turn, pods)
            parts, before = contenders.parts(contender, self.plane, pid), self._usage(contender, pid)
            started = time.perf_counter()
            send_all(self.address, requests, CLIENTS)
            ended = assigned.wait(WARM_UP + pods, _TURN_SECONDS)
            bound, later = self._usage(contender, pid), contenders.parts(contender, self.plane, pid)
            assigned.close()
            events = wait_for_events(self.address, NAMESPACE, WARM_UP + pods)
            written = self._usage(contender, pid)
        return Turn(
            contender,
            constraints,
            pods,
            seconds=ended - started,
            cpu=_used(before, bound),
            peak_mib=written[contender].peak_mib,
            parts={name: later[name] - parts[name] for name in later},
            event_seconds=max(ended, events.last) - started,
            event_cpu=_used(before, written),
            events=events.count - WARM_UP,
        )

    def bind_only(self, constraints: str, pods: int) -> Turn:
        """Create pods and bind each right afterwards, without a scheduler: what the API server can take."""
        with self._turn() as turn:
            creations = self._pods(constraints, turn, pods)
            bindings = cluster.binding_requests(self.address, NAMESPACE, turn, pods)
            assigned = AssignedPods(self.address, NAMESPACE, f"{TURN}={turn}")
            before = self._usage()
            started = time.perf_counter()
            send_sequences(self.address, zip(creations, bindings, strict=True), CLIENTS)
            ended = assigned.wait(pods, _TURN_SECONDS)
            after = self._usage()
            assigned.close()
        return Turn(LIMIT, constraints, pods, ended - started, _used(before, after))

    def _pods(self, constraints: str, turn: str, count: int, prefix: str = "web") -> list[bytes]:
        return cluster.pod_requests(self.address, NAMESPACE, constraints, turn, count, prefix)

    def _usage(self, contender: str = "", pid: int = 0) -> dict[str, Usage]:
        pids = {**self.plane.pids(), "clients": os.getpid(), **({contender: pid} if contender else {})}
        return {name: Usage.read(each) for name, each in pids.items()}

    @contextmanager
    def _turn(self) -> Iterator[str]:
        """The value of a label for the pods of a turn, which are deleted in the end, with their events."""
        self.turns += 1
        turn = f"turn-{self.turns}"
        try:
            yield turn
        finally:
            send_all(self.address, [cluster.deletion_request(self.address, NAMESPACE, turn)], 1)
            send_all(self.address, [cluster.event_deletion_request(self.address, NAMESPACE)], 1)


def _used(before: Mapping[str, Usage], after: Mapping[str, Usage]) -> Mapping[str, float]:
    """The CPU seconds of each process in between."""
    return {name: after[name].cpu_seconds - before[name].cpu_seconds for name in after}
