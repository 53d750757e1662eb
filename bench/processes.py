"""What processes of Trimtab cost at the start, on a cluster of 5,000 nodes and 50,000 pods.

The cluster is the lab's API server in a process of its own, with objects put into its store. Each set of components is
`trimtab run` as an installation runs it, and is measured when it is ready, leads, and watches pods: the CPU that it has
used, its memory, and, from the server's side, its watches by kind and its connections. Then pods change for some
seconds, 2,000 times a second: the CPU that this costs, and how often the event loop was late, the start included. The
calibration of that is a thread of this program that only sleeps, at the same time: a virtual machine that is not given
its processors is late, too. Run it alone: `python -m bench.processes`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.decoding import pod_tree
from bench.figures import calibration, cpu_seconds
from bench.workers import worker
from trimtab.api import crds
from trimtab.api.configuration import API_VERSION, KIND
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.resources import Resource
from trimtab.kube.sessions import Session
from trimtab_lab.apiserver.wire.server import Server

NODES, PODS, SIZE, ZONES = 5_000, 50_000, 100, 3
RUNS = 5
"""How often each process is started; the median is taken, because the speed of a machine varies."""
LARGE = 15_000, 150_000
"""The nodes and pods of a large cluster."""
SETS: dict[str, tuple[str, ...]] = {
    "all-in-one": ("scheduler", "webhooks", "controllers"),
    "all-in-one and dashboard": ("scheduler", "webhooks", "controllers", "dashboard"),
    "webhooks": ("webhooks",),
    "controllers": ("controllers",),
    "scheduler": ("scheduler",),
}
"""The components of each measured process."""
_ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
"""Modules are compiled before they are measured, as pip leaves them."""
_NAMESPACE = "trimtab-system"
_PATIENCE = 300.0
_RATE, _CHANGING, _STEP = 2_000, 5.0, 0.01
"""Changes of pods a second, for how many seconds, and the seconds between two bursts of them."""
_SETTLING = 1.0
"""Seconds in which a process handles the last changes."""
_LATE = "0.05"
"""The bucket of the event loop's lag whose limit is the longest allowed pause."""
_INTERVAL = 0.02
"""Seconds between two measurements of delays, as in a process."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a process has cost when it is ready."""

    cpu: float
    """Seconds of CPU."""
    ready: float
    """Seconds from its start, with the lab's API server on the same machine."""
    resident: float
    peak: float
    """MiB."""
    watches: dict[str, int]
    connections: int
    changes: float
    """CPU seconds a second, while pods change."""
    late: int
    turns: int
    """How often the event loop was more than 50 ms late, and how often that was measured."""
    working: int
    """How often it was late because the process worked for more than 50 ms."""
    sleeper_late: int
    sleeper_turns: int
    """The same of a thread that only sleeps."""

    def row(self, name: str) -> str:
        """A line of the report."""
        pods, total = self.watches.get("/pods", 0), sum(self.watches.values())
        return (
            f"{name:26} {self.cpu:6.1f} s CPU, ready after {self.ready:.1f} s"
            f" {self.resident:6.0f} MiB (peak {self.peak:.0f})"
            f" {total:3} watches ({pods} of pods) {self.connections:3} connections;"
            f" {self.changes:.2f} cores for {_RATE} changes/s, late {self.late} of {self.turns} times,"
            f" {self.working} by work (only sleeping: {self.sleeper_late} of {self.sleeper_turns})"
        )

    @classmethod
    def typical(cls, starts: Sequence[Start]) -> Start:
        """The median of each figure of several starts, and the delays of all of them."""

        def middle(figure: Callable[[Start], float]) -> float:
            return statistics.median(map(figure, starts))

        return cls(
            cpu=middle(lambda start: start.cpu),
            ready=middle(lambda start: start.ready),
            resident=middle(lambda start: start.resident),
            peak=middle(lambda start: start.peak),
            watches=starts[-1].watches,
            connections=max(start.connections for start in starts),
            changes=middle(lambda start: start.changes),
            late=sum(start.late for start in starts),
            turns=sum(start.turns for start in starts),
            working=sum(start.working for start in starts),
            sleeper_late=sum(start.sleeper_late for start in starts),
            sleeper_turns=sum(start.sleeper_turns for start in starts),
        )

    def tree(self) -> dict[str, float]:
        """As JSON."""
        return {
            "CPU s": round(self.cpu, 2),
            "ready after s": round(self.ready, 1),
            "MiB": round(self.resident),
            "peak MiB": round(self.peak),
            "watches": sum(self.watches.values()),
            "watches of pods": self.watches.get("/pods", 0),
            "connections": self.connections,
            "cores for changes": round(self.changes, 2),
            "late": self.late,
            "turns": self.turns,
            "late by work": self.working,
            "late sleeping": self.sleeper_late,
            "turns sleeping": self.sleeper_turns,
        }


# --- the cluster -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def cluster(nodes: int, pods: int) -> Iterator[tuple[Path, Connection]]:
    """An API server with so many objects: its kubeconfig, and a pipe that answers with its watches and connections."""
    with tempfile.TemporaryDirectory() as folder, worker(_serve, folder, nodes, pods) as (pipe, _):
        yield Path(pipe.recv()), pipe


def _serve(pipe: Connection, folder: str, nodes: int, pods: int) -> None:
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # measured processes end in the middle of requests
    asyncio.run(_run(pipe, Path(folder), nodes, pods))


async def _run(pipe: Connection, folder: Path, nodes: int, pods: int) -> None:
    async with Server(folder) as server:
        client = Client(Session(config.discover(server.kubeconfig)))
        for definition in crds.manifests():
            await client.create(Resource.of(CustomResourceDefinition).raw, definition)
        await client.close()
        _fill(server, nodes, pods)
        pipe.send(str(server.kubeconfig))
        while (asked := await asyncio.to_thread(pipe.recv)) != "end":
            if asked == "change":
                await _change(server)
            pipe.send((_watches(server), _connections(server)))


async def _change(server: Server) -> None:
    """Change pods all over the cluster: a container of each starts once more, and is as before with the next change.

    So every process lists the same pods, whichever was measured before it.
    """
    store, rng, started = server.cluster.store, random.Random(2), time.monotonic()
    pods = store.collection("/pods")
    keys = list(pods.entries)
    for number in range(round(_CHANGING / _STEP)):
        await asyncio.sleep(started + number * _STEP - time.monotonic())
        for key in rng.sample(keys, k=round(_RATE * _STEP / 2)):
            for change in (1, -1):
                seen = pods.entries[key]
                tree = seen.tree()
                tree["status"]["containerStatuses"][0]["restartCount"] += change
                store.replace(pods, seen, tree)


def _watches(server: Server) -> dict[str, int]:
    broadcaster, names = server.cluster.broadcaster, [each.name for each in server.cluster.store.collections()]
    return {name: len(found) for name in names if (found := broadcaster.watching(name))}


def _connections(server: Server) -> int:
    """The established connections of the server's port, from the kernel."""
    port = int(server.url.rpartition(":")[2])
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(row[3] == "01" and int(row[1].rpartition(":")[2], 16) == port for row in rows)


def _fill(server: Server, nodes: int, pods: int) -> None:
    rng, workloads = random.Random(1), max(pods // SIZE, 1)
    _put(server, "/namespaces", {"metadata": {"name": _NAMESPACE, "uid": _NAMESPACE}, "status": {"phase": "Active"}})
    for number in range(nodes):
        _put(server, "/nodes", _node(number))
    for number in range(workloads):
        for collection, tree in _workload(number):
            _put(server, collection, tree)
    for number in range(pods):
        _put(server, "/pods", _pod(rng, number, nodes, workloads))


def _put(server: Server, collection: str, tree: JSON) -> None:
    metadata, store = tree["metadata"], server.cluster.store
    metadata.setdefault("creationTimestamp", "2026-03-01T00:00:00Z")
    namespace = metadata.get("namespace", "")
    key = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
    store.insert(store.collection(collection), key, tree)


def _node(number: int) -> JSON:
    labels = {HOSTNAME: f"node-{number}", ZONE: f"zone-{number % ZONES}"}
    status = {
        "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"metadata": {"name": f"node-{number}", "uid": f"node-{number}", "labels": labels}, "status": status}


def _workload(number: int) -> Iterator[tuple[str, JSON]]:
    """A Deployment and its ReplicaSet, as the pods of `pod_tree` name them."""
    name, labels = f"web-{number}", {"app": f"web-{number}"}
    selector = {"matchLabels": labels}
    spec = {"replicas": SIZE, "selector": selector, "template": {"metadata": {"labels": labels}, "spec": {}}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1, "labels": labels}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"uid-{name}", "controller": True}
    yield "apps/deployments", {"metadata": metadata, "spec": spec}
    replicaset = {**metadata, "name": f"{name}-6d4b75cb6d", "uid": f"uid-{name}-6d4b75cb6d", "ownerReferences": [owner]}
    yield "apps/replicasets", {"metadata": replicaset, "spec": spec}


def _pod(rng: random.Random, number: int, nodes: int, workloads: int) -> JSON:
    tree = pod_tree(rng, number, number % workloads)
    tree.pop("kind", None)
    tree.pop("apiVersion", None)
    metadata = tree["metadata"]
    name = f"web-{number % workloads}-6d4b75cb6d"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{name}", "controller": True}
    metadata |= {"name": f"{name}-{number}", "namespace": "default", "uid": f"pod-{number}", "ownerReferences": [owner]}
    metadata.pop("resourceVersion", None)
    tree["spec"]["nodeName"] = f"node-{number % nodes}"
    return tree


# --- the processes ---------------------------------------------------------------------------------------------------


def measure(components: Sequence[str], kubeconfig: Path, server: Connection) -> Start:
    """Start these components in one process; what they have cost when it is ready."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _process(components, kubeconfig, Path(folder)) as (process, port),
        Sleeper() as sleeper,
    ):
        started = time.monotonic()
        _wait_ready(process, port)
        watches, connections = _wait_watching(server)
        ready, cpu = time.monotonic() - started, cpu_seconds(process.pid)
        memory = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        resident, peak = (int(memory[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
        changes = _cpu_of_changes(process.pid, server)
        sleeper.end()
        delays = (*_late(port), sleeper.late, sleeper.turns)
        return Start(cpu, ready, resident, peak, watches, connections, changes, *delays)


class Sleeper:
    """A thread that sleeps as the monitor of the event loop does, and counts how often it wakes up late."""

    def __init__(self) -> None:
        self.late = self.turns = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Sleeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop counting."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            due = time.monotonic() + _INTERVAL
            if self._ended.wait(_INTERVAL):
                return
            self.turns += 1
            self.late += time.monotonic() - due > float(_LATE)


def _cpu_of_changes(pid: int, server: Connection) -> float:
    """CPU seconds a second, while pods change."""
    before = cpu_seconds(pid)
    server.send("change")
    server.recv()
    time.sleep(_SETTLING)
    return (cpu_seconds(pid) - before) / _CHANGING


def _late(port: int) -> tuple[int, int, int]:
    """How often the event loop was later than a pause may be, how often that was measured, and how often by work."""
    page = _get(port, "/metrics")
    lag, work = "trimtab_event_loop_lag_seconds", "trimtab_event_loop_work_seconds"
    within, count, within_by_work = (
        int(float(re.findall(rf"(?m)^{re.escape(line)} (\S+)$", page)[0]))
        for line in (f'{lag}_bucket{{le="{_LATE}"}}', f"{lag}_count", f'{work}_bucket{{le="{_LATE}"}}')
    )
    return count - within, count, count - within_by_work


@contextlib.contextmanager
def _process(
    components: Sequence[str], kubeconfig: Path, folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port, webhooks, dashboard = _free_port(), _free_port(), _free_port()
    tree: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "namespace": _NAMESPACE,
        "components": list(components),
        "serving": {"port": port},
        "webhooks": {"port": webhooks, "host": "127.0.0.1", "url": f"https://127.0.0.1:{webhooks}"},
        "dashboard": {"port": dashboard},
        "logs": {"level": "warning"},
    }
    path = folder / "trimtab.json"
    path.write_text(json.dumps(tree))
    command = [sys.executable, "-m", "trimtab", "run", "--config", str(path), "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, env=_ENVIRONMENT) as process:  # noqa: S603 - our own program
        try:
            yield process, port
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_ready(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the process is ready and leads: one that waits for a lease is ready too."""
    end, answer = time.monotonic() + _PATIENCE, ""
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError("the process has ended")
        if answer == "ok\n" and _is_leading(port) and (answer := _get(port, "/readyz")) == "ok\n":
            return
        time.sleep(0.1)
        answer = _get(port, "/readyz")
    raise TimeoutError(f"not ready after {_PATIENCE:.0f} s: {answer}")


def _wait_watching(server: Connection) -> tuple[dict[str, int], int]:
    """Wait until pods are watched: a process that becomes the leader lists them again. Its watches and connections."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        server.send("count")
        watches, connections = server.recv()
        if watches.get("/pods"):
            return watches, connections
        time.sleep(0.1)
    raise TimeoutError(f"pods are not watched after {_PATIENCE:.0f} s")


def _is_leading(port: int) -> bool:
    leases = re.findall(r"(?m)^trimtab_leader.*$", _get(port, "/metrics"))
    return bool(leases) and all(each.endswith(" 1.0") for each in leases)


def _get(port: int, path: str) -> str:
    """A page of the process; empty while it serves none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""


def measure_all(nodes: int, pods: int, names: Sequence[str] = tuple(SETS), runs: int = RUNS) -> dict[str, Any]:
    """What each set of components costs, one after the other and all of them several times; a line for each start."""
    modules = ", ".join(f"trimtab.app.{each}" for each in ("admission", "control", "dashboard", "scheduling"))
    subprocess.run([sys.executable, "-c", f"import {modules}"], env=_ENVIRONMENT, check=True)  # noqa: S603 - our own
    beside = calibration() * 1e3
    starts: dict[str, list[Start]] = {name: [] for name in names}
    with cluster(nodes, pods) as (kubeconfig, server):
        for name in (*names,) * runs:
            starts[name].append(measure(SETS[name], kubeconfig, server))
            print(starts[name][-1].row(name), flush=True)
    sets = {name: Start.typical(found).tree() for name, found in starts.items()}
    return {"nodes": nodes, "pods": pods, "runs": runs, "calibration ms": round(beside, 2), "sets": sets}


def main() -> None:
    """Print a line for each process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(SETS), action="append", help="this process instead of all; repeatable")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--runs", type=int, default=RUNS, help="how often each process is started")
    options = parser.parse_args()
    result = measure_all(options.nodes, options.pods, options.only or tuple(SETS), options.runs)
    for name, figures in result["sets"].items():
        print(f"{name:26} {', '.join(f'{figure} {value}' for figure, value in figures.items())}")
    print(f"{options.nodes} nodes, {options.pods} pods; calibration {result['calibration ms']} ms")


if __name__ == "__main__":
    main()
