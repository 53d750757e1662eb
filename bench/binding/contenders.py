"""The schedulers that are compared, as processes with one configuration file in kube-scheduler's format."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.binding import accounting
from bench.binding.cluster import SCHEDULER_NAME
from bench.binding.controlplane import RunningControlPlane
from bench.figures import cpu_seconds
from trimtab_lab import supervisor

_STOP_SECONDS = 15.0
UNLIMITED = 100_000
"""Requests a second: kube-scheduler's own limit, 50 unless configured, would be all that is measured."""
TRIMTAB, KUBE_SCHEDULER = "trimtab", "kube-scheduler"
TRIMTAB_PARTS = "trimtab-parts"
"""Trimtab, which counts the CPU time of its own parts."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used so far."""

    cpu_seconds: float
    peak_mib: float

    @classmethod
    def read(cls, pid: int) -> Usage:
        """Read the usage of a process."""
        status = Path(f"/proc/{pid}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
        return cls(cpu_seconds(pid), peak / 1024)


def write_configuration(plane: RunningControlPlane) -> Path:
    """Write the configuration that both schedulers read: one profile, no leader election, no limit of requests."""
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": UNLIMITED, "burst": UNLIMITED},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": SCHEDULER_NAME}],
    }
    path = plane.state / "scheduler.json"
    path.write_text(json.dumps(tree))
    return path


def _trimtab(plane: RunningControlPlane, configuration: Path) -> Sequence[str]:
    return (sys.executable, "-m", "trimtab", *_run(plane, configuration))


def _trimtab_parts(plane: RunningControlPlane, configuration: Path) -> Sequence[str]:
    return (sys.executable, "-m", accounting.__name__, str(_account(plane)), *_run(plane, configuration))


def _run(plane: RunningControlPlane, configuration: Path) -> Sequence[str]:
    options = ("--kubeconfig", str(plane.kubeconfig), "--scheduler-config", str(configuration), "--port", "-1")
    return ("run", "--component", "scheduler", *options)


def _account(plane: RunningControlPlane) -> Path:
    return plane.state / "account.json"


def _kube_scheduler(plane: RunningControlPlane, configuration: Path) -> Sequence[str]:
    port = supervisor.find_free_port()
    return (
        str(plane.kube_scheduler),
        f"--config={configuration}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={plane.state}",
        f"--authentication-kubeconfig={plane.kubeconfig}",
        f"--authorization-kubeconfig={plane.kubeconfig}",
    )


CONTENDERS: Mapping[str, Callable[[RunningControlPlane, Path], Sequence[str]]] = {
    TRIMTAB: _trimtab,
    TRIMTAB_PARTS: _trimtab_parts,
    KUBE_SCHEDULER: _kube_scheduler,
}


def parts(name: str, plane: RunningControlPlane, pid: int) -> Mapping[str, float]:
    """The CPU seconds that each part of a running scheduler has used so far, if it counts them."""
    return accounting.read(pid, _account(plane)) if name == TRIMTAB_PARTS else {}


@contextmanager
def running(name: str, plane: RunningControlPlane) -> Iterator[int]:
    """Run a scheduler for as long as the context lasts; its process id."""
    command = CONTENDERS[name](plane, write_configuration(plane))
    with (plane.state / "logs" / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - our own programs
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
