"""One turn: pods are created by several clients, and a watch shows when the last of them has a node."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from bench.binding import cluster, contenders
from bench.binding.contenders import Usage
from bench.binding.controlplane import RunningControlPlane
from bench.binding.wire import Address, AssignedPods, send_all, send_sequences

CLIENTS = 8
WARM_UP = 50
_START_SECONDS = 120.0
_TURN_SECONDS = 300.0
LIMIT = "limit"
"""The contender that is none: clients which bind every pod as soon as they have created it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of one turn; CPU seconds and MiB by process."""

    contender: str
    constraints: str
    pods: int
    seconds: float
    cpu: Mapping[str, float]
    peak_mib: float = 0.0

    @property
    def rate(self) -> float:
        """Pods a second."""
        return self.pods / self.seconds


@dataclass(slots=True)
class Course:
    """A cluster on which turns are taken."""

    plane: RunningControlPlane
    address: Address
    turns: int = 0

    def prepare(self) -> None:
        """Create the nodes."""
        send_all(self.address, cluster.node_requests(self.address), CLIENTS)
        send_all(self.address, cluster.untaint_requests(self.address), CLIENTS)

    def take(self, contender: str, constraints: str, pods: int) -> Turn:
        """Let a scheduler bind pods: it has synced and bound some before the first of them is created."""
        with self._namespace() as namespace, contenders.running(contender, self.plane) as pid:
            assigned = AssignedPods(self.address, namespace)
            send_all(self.address, self._pods(namespace, constraints, "warm-up", WARM_UP), CLIENTS)
            assigned.wait(WARM_UP, _START_SECONDS)
            requests = self._pods(namespace, constraints, "web", pods)
            before = self._usage(contender, pid)
            started = time.perf_counter()
            send_all(self.address, requests, CLIENTS)
            ended = assigned.wait(WARM_UP + pods, _TURN_SECONDS)
            after = self._usage(contender, pid)
            assigned.close()
        cpu = {name: after[name].cpu_seconds - before[name].cpu_seconds for name in after}
        return Turn(contender, constraints, pods, ended - started, cpu, after[contender].peak_mib)

    def bind_only(self, pods: int) -> Turn:
        """Create pods and bind each right afterwards, without a scheduler: what the API server can take."""
        with self._namespace() as namespace:
            creations = self._pods(namespace, "none", "web", pods)
            bindings = cluster.binding_requests(self.address, namespace, "web", pods)
            assigned = AssignedPods(self.address, namespace)
            before = self._usage()
            started = time.perf_counter()
            send_sequences(self.address, zip(creations, bindings, strict=True), CLIENTS)
            ended = assigned.wait(pods, _TURN_SECONDS)
            after = self._usage()
            assigned.close()
        cpu = {name: after[name].cpu_seconds - before[name].cpu_seconds for name in after}
        return Turn(LIMIT, "none", pods, ended - started, cpu)

    def _pods(self, namespace: str, constraints: str, prefix: str, count: int) -> list[bytes]:
        return cluster.pod_requests(self.address, namespace, constraints, prefix, count)

    def _usage(self, contender: str = "", pid: int = 0) -> dict[str, Usage]:
        pids = {**self.plane.pids(), "clients": os.getpid(), **({contender: pid} if contender else {})}
        return {name: Usage.read(each) for name, each in pids.items()}

    @contextmanager
    def _namespace(self) -> Iterator[str]:
        """A namespace of its own, whose pods are deleted in the end."""
        self.turns += 1
        name = f"turn-{self.turns}"
        send_all(self.address, [cluster.namespace_request(self.address, name)], 1)
        try:
            yield name
        finally:
            send_all(self.address, [cluster.deletion_request(self.address, name)], 1)
