"""The memory and time of a process that watches all pods: an informer and a snapshot of 50,000 realistic pods.

The process is a child of this one. It also makes the pages that it reads, one at a time; memory that this leaves
behind, and that is not used again, counts.
"""

from __future__ import annotations

import asyncio
import functools
import json
import multiprocessing
import random
import time
from multiprocessing.connection import Connection
from pathlib import Path

from bench.figures import Figure, calibration
from bench.realistic_pods import node_names, realistic_pod
from trimtab.api.meta import ObjectMeta
from trimtab.api.nodes import HOSTNAME, ZONE, Node, NodeStatus
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.informers import Informer
from trimtab.kube.processes import collect_less_often
from trimtab.kube.stores import by_controller
from trimtab.kube.transport import Request, Response, Stream
from trimtab.snapshot import Snapshot

PODS = 50_000
NODES = 5_000
SETS = 500
_KIBIBYTE = 1024
_LIMIT = 1.5


def memory() -> Figure:
    """Resident KiB a pod of the child; the calibration is the limit."""
    resident, _ = _measured()
    return Figure(resident / PODS / _KIBIBYTE, "KiB/pod", _LIMIT, f"≤ 1 ({_LIMIT} KiB a pod)")


def listing() -> Figure:
    """CPU of the child to decode, store and count one pod of a list; the calibration is the common one."""
    _, seconds = _measured()
    return Figure(seconds / PODS * 1e3, "ms", calibration() * 1e3)


@functools.cache
def _measured() -> tuple[int, float]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs,), daemon=True)
    process.start()
    result: tuple[int, float] = ours.recv()
    process.join()
    return result


def _child(pipe: Connection) -> None:
    collect_less_often()
    pipe.send(asyncio.run(_list()))


async def _list() -> tuple[int, float]:
    """The bytes that the pods add to the resident memory, and the seconds of CPU without making the pages."""
    snapshot, pages = _nodes(), _Pages()
    informer = Informer(Client(pages), Pod, indexes={"controller": by_controller})
    informer.subscribe(added=snapshot.put, updated=lambda _, new: snapshot.put(new))
    before, started = _resident(), time.process_time()
    running = asyncio.ensure_future(informer.run())
    await informer.wait_synced()
    seconds = time.process_time() - started - pages.seconds
    used = _resident() - before
    running.cancel()
    if len(informer.store) != PODS:
        raise RuntimeError(f"the informer has {len(informer.store)} pods")
    return used, seconds


class _Pages:
    """A transport that lists pods, page by page, and watches without an event."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """CPU that making the pages has taken."""
        self._rng = random.Random(5)
        self._made = 0

    async def send(self, request: Request) -> Response:
        """The next page."""
        started = time.process_time()
        numbers = range(self._made, min(self._made + int(dict(request.params)["limit"]), PODS))
        self._made = numbers.stop
        items = [realistic_pod(self._rng, _in_order(number), nodes=NODES, sets=SETS) for number in numbers]
        metadata = {"resourceVersion": "9000000", "continue": "next" if self._made < PODS else ""}
        body = json.dumps({"metadata": metadata, "items": items}, separators=(",", ":")).encode()
        del items
        self.seconds += time.process_time() - started
        return Response(200, {}, body)

    async def stream(self, request: Request) -> Stream:
        """A watch that never answers."""
        await asyncio.Event().wait()
        raise RuntimeError(request.call)

    async def close(self) -> None:
        """There is nothing to close."""


def _in_order(place: int) -> int:
    """The number of the pod at a place of the list: API servers list the pods of a ReplicaSet one after another."""
    size = PODS // SETS
    return place % size * SETS + place // size


def _nodes() -> Snapshot:
    snapshot = Snapshot()
    for number, name in enumerate(node_names(NODES)):
        labels = {HOSTNAME: name, ZONE: f"zone-{number % 3}"}
        status = NodeStatus(allocatable={"cpu": "32", "memory": "128Gi", "pods": "110"})
        snapshot.put(Node(metadata=ObjectMeta(name=name, labels=labels), status=status))
    return snapshot


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
