"""The number of pods that the scheduler binds a second, over the wire, in a cluster of 5,000 nodes.

The lab's API server runs in a process of its own, the scheduler in this one, as it would in production. The pods exist
before the scheduler starts, so that creating them is not measured.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from bench.figures import Figure, Limit
from bench.workers import for_each
from trimtab.api.documents import JSON
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.resources import Resource
from trimtab.kube.sessions import Session
from trimtab.scheduler.configuration import read
from trimtab.scheduler.service import Service
from trimtab.testing.builders import node, pod

NODES = 5_000
EXISTING = 5_000
INCOMING = 2_000
ZONES = 3
PATIENCE = 300
NAMESPACE = "default"


def bound_on_the_lab() -> Figure:
    """2,000 pods with soft zone and hostname constraints; the calibration is as many bindings without a decision."""
    with lab() as kubeconfig:
        scheduled, bound = asyncio.run(_measure(kubeconfig))
    limit = Limit(300, "the calibration binds without deciding", is_minimum=True, is_of_value=True)
    return Figure(scheduled, "pods/s", bound, limit)


async def _measure(kubeconfig: Path) -> tuple[float, float]:
    async with Client(Session(config.discover(kubeconfig))) as client:
        await for_each(range(NODES), lambda number: _add_node(client, number))
        await _pods(client, (_running_pod(number) for number in range(EXISTING)))
        await _pods(client, (_waiting(f"plain-{number}", "nobody") for number in range(INCOMING)))
        bound = await _bind_without_deciding(client)
        await _pods(client, (_waiting(f"web-{number}", "trimtab") for number in range(INCOMING)))
        scheduled = await _schedule(client)
    return scheduled, bound


async def _bind_without_deciding(client: Client) -> float:
    started = time.perf_counter()
    await for_each(
        range(INCOMING),
        lambda number: client.bind(f"plain-{number}", namespace=NAMESPACE, node=_name(number)),
    )
    return INCOMING / (time.perf_counter() - started)


async def _schedule(client: Client) -> float:
    """From the sync of all informers until the watch has shown the last pod on a node."""
    election = {"leaderElection": {"leaderElect": False}}
    tree = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **election}
    service = Service(client, read(tree), rng=random.Random(1))
    left = INCOMING
    done = asyncio.Event()

    def updated(old: Pod, new: Pod) -> None:
        nonlocal left
        if new.spec.node_name and not old.spec.node_name:
            left -= 1
            if not left:
                done.set()

    service.informers[-1].subscribe(updated=updated)
    async with _running(service):
        for informer in service.informers:
            await informer.wait_known()
        started = time.perf_counter()
        async with asyncio.timeout(PATIENCE):
            await done.wait()
        return INCOMING / (time.perf_counter() - started)


@asynccontextmanager
async def _running(service: Service) -> AsyncIterator[None]:
    task = asyncio.ensure_future(service.run())
    try:
        yield
    finally:
        await cancel(task)


@contextmanager
def lab() -> Iterator[Path]:
    """The lab's API server; the path of its kubeconfig."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "trimtab", "lab", "apiserver", "--state", folder, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own program
            try:
                if server.stdout is None or "https://" not in server.stdout.readline():
                    raise RuntimeError("the lab's API server did not start")
                yield Path(folder, "kubeconfig")
            finally:
                server.terminate()


# --- the cluster -----------------------------------------------------------------------------------------------------

_NODES = Resource.of(Node).raw
_PODS = Resource.of(Pod).raw


def _name(number: int) -> str:
    return f"node-{number % NODES:05d}"


async def _add_node(client: Client, number: int) -> None:
    """A ready node: API servers add the not-ready taint to every new one."""
    await client.create(_NODES, node(_name(number), zone=f"zone-{number % ZONES}").tree())
    await client.patch(_NODES, _name(number), {"spec": {"taints": None}})


def _running_pod(number: int) -> JSON:
    return pod(f"old-{number}").labels(app="old").requests(cpu="100m", memory="128Mi").on(_name(number)).tree()


def _waiting(name: str, scheduler: str) -> JSON:
    made = pod(name).labels(app="web").requests(cpu="100m", memory="128Mi").spec(schedulerName=scheduler)
    return made.spread("zone", hard=False).spread("host", hard=False).tree()


async def _pods(client: Client, trees: Iterable[JSON]) -> None:
    await for_each(trees, lambda tree: client.create(_PODS, tree, namespace=NAMESPACE))
