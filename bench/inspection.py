"""The commands that inspect a cluster, as processes: how long they take in all, and how much memory.

The cluster is the lab's API server in a process of its own, with nodes in three zones and Deployments whose pods are
ready; nothing else runs, so that the commands are what is measured. Modules are compiled before, as pip and packagers
leave them, whatever this process was told about bytecode.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.figures import Figure, Limit, best
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.documents import JSON
from trimtab.api.nodes import HOSTNAME, ZONE, Node
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.resources import Resource
from trimtab.kube.sessions import Session
from trimtab_lab.supervisor import find_free_port

_ZONES = 3
_PODS_PER_NODE = 100
_SIZE = 1000
"""Pods of one Deployment."""
_CONCURRENT = 32
_MEBIBYTE = 1024
"""Kibibytes, in which the operating system reports memory."""
_READY = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]


def overview() -> Figure:
    """Milliseconds of `trimtab --help`; the calibration is a Python that does nothing."""
    program = str(Path(sys.executable).parent / "trimtab")
    helped = best(lambda: _run(program, "--help"), turns=15)
    bare = best(lambda: _run(sys.executable, "-c", "pass"), turns=15)
    return Figure(helped * 1e3, "ms", bare * 1e3, Limit(4, "starts of Python"))


def plan_1k() -> Figure:
    """Seconds of `trimtab plan` for a Deployment of 1,000 pods on the lab; the calibration is the limit."""
    with _cluster(_SIZE) as environment:
        seconds = best(lambda: _trimtab(environment, "plan", "deploy/web-0", "--replicas", "700"), turns=5)
    return Figure(seconds, "s", 1.5, Limit(1, "1.5 s"))


def snapshot_50k() -> Figure:
    """Seconds of `trimtab snapshot` of 50,000 pods and of `trimtab plan` on the file; the calibration is the limit."""
    seconds, _ = _measure_50k()
    return Figure(seconds, "s", 10, Limit(1, "10 s"))


def snapshot_50k_memory() -> Figure:
    """The memory of the larger of the two processes, in MiB; the calibration is the limit."""
    _, memory = _measure_50k()
    return Figure(memory, "MiB", 1024, Limit(1, "a gibibyte"))


def _measure_50k() -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    with tempfile.TemporaryDirectory() as folder, _cluster(50 * _SIZE) as environment:
        path = str(Path(folder) / "cluster.json.zst")
        _trimtab(environment, "plan", "deploy/web-0", "--replicas", "999")
        started = time.perf_counter()
        _trimtab(environment, "snapshot", "-f", path)
        _trimtab(environment, "plan", "deploy/web-0", "--replicas", "700", "--snapshot", path)
        seconds = time.perf_counter() - started
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if memory == before:
        print("the memory is that of an earlier benchmark; run this one alone", flush=True)
    return seconds, memory / _MEBIBYTE


@functools.cache
def _compiled() -> dict[str, str]:
    """The environment of a program whose modules are compiled when it runs again."""
    folder = tempfile.mkdtemp(prefix="trimtab-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}


def _run(*command: str, **environment: str) -> None:
    environment |= _compiled()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env={**os.environ, **environment})  # noqa: S603


def _trimtab(environment: dict[str, str], *arguments: str) -> None:
    _run(sys.executable, "-m", "trimtab", *arguments, **environment)


@contextmanager
def _cluster(pods: int) -> Iterator[dict[str, str]]:
    """A lab's API server with so many pods; the environment in which commands find it."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        options = ("--port", str(find_free_port()), "--state", folder)
        command = [sys.executable, "-m", "trimtab_lab.apiserver", *options]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
        try:
            asyncio.run(_populate(kubeconfig, pods))
            yield {"KUBECONFIG": str(kubeconfig)}
        finally:
            server.terminate()
            server.wait()


async def _populate(kubeconfig: Path, pods: int) -> None:
    while not kubeconfig.exists():
        await asyncio.sleep(0.05)
    async with Client(Session(discover(kubeconfig))) as client:
        nodes = max(6, pods // _PODS_PER_NODE)
        for number in range(nodes):
            await client.create(Resource.of(Node).raw, _node(number))
        for number in range(pods // _SIZE):
            await _deploy(client, f"web-{number}", number * _SIZE, nodes)


async def _deploy(client: Client, name: str, first: int, nodes: int) -> None:
    """A Deployment, its ReplicaSet and its pods, each created by its owner as far as the server can tell."""
    deployment = await client.create(Resource.of(Deployment).raw, _workload(name, None), namespace="default")
    replicaset = await client.create(
        Resource.of(ReplicaSet).raw, _workload(name, _owner("Deployment", deployment)), namespace="default"
    )
    owner, limit = _owner("ReplicaSet", replicaset), asyncio.Semaphore(_CONCURRENT)

    async def create(number: int) -> None:
        async with limit:
            made = _pod(f"{name}-{number}", name, owner, f"node-{(first + number) % nodes}")
            await client.create(Resource.of(Pod).raw, made, namespace="default")
            status = {"status": {"phase": "Running", "conditions": _READY}}
            await client.patch(Pod, f"{name}-{number}", status, namespace="default", subresource="status")

    await asyncio.gather(*(create(number) for number in range(_SIZE)))


def _node(number: int) -> JSON:
    labels = {HOSTNAME: f"node-{number}", ZONE: f"zone-{number % _ZONES}"}
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "status": {"allocatable": allocatable, "conditions": ready},
    }


def _owner(kind: str, tree: JSON) -> JSON:
    metadata = tree["metadata"]
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def _workload(name: str, owner: JSON | None) -> JSON:
    labels = {"app": name}
    spec = {
        "replicas": _SIZE,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": _spec(name)},
    }
    return {"metadata": {"name": name, "ownerReferences": [owner] if owner else []}, "spec": spec}


def _spec(name: str) -> JSON:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    requests = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    environment = [{"name": f"SETTING_{number}", "value": "x" * 40} for number in range(10)]
    container = {"name": "main", "image": "example.com/app:1", "resources": requests, "env": environment}
    return {"containers": [container], "topologySpreadConstraints": [constraint]}


def _pod(name: str, app: str, owner: JSON, node: str) -> JSON:
    metadata = {"name": name, "labels": {"app": app}, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {**_spec(app), "nodeName": node}}
