"""What a process that watches all pods costs: an informer and a snapshot of 50,000 realistic pods.

The process is a child of this one, which makes the list and the events that the child reads: what making them takes and
leaves behind does not count. A task of the child wakes up every millisecond; the processor time that its thread has
used since is how long everything else in the process would have had to wait, on a machine that has nothing else to do.
"""

from __future__ import annotations

import asyncio
import functools
import json
import multiprocessing
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from bench.figures import Figure, Limit, calibration, resident_mib
from bench.realistic_pods import node_names, realistic_pod
from trimtab.api.meta import ObjectMeta
from trimtab.api.nodes import HOSTNAME, ZONE, Node, NodeStatus
from trimtab.api.pods import Pod
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.processes import collect_less_often, set_up_memory
from trimtab.kube.stores import by_controller
from trimtab.kube.transport import Request, Response
from trimtab.kube.watches import INITIAL_EVENTS_END
from trimtab.snapshot import Snapshot

PODS = 50_000
NODES = 5_000
SETS = 500
EVENTS = 10_000
_CHANGED = 2_000
_KIBIBYTE = 1024
_LIMIT = 1.5
_LONGEST_PAUSE = 50.0
_RATE = 2_000
_TICK = 0.001
_BUFFER = 1 << 18
_PIECE = 25
"""Pods in a piece of the list: a quarter of a megabyte, as much as a connection buffers."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """What the child reports."""

    resident: float
    """Bytes that the pods add to its memory."""
    listing: float
    """Seconds of CPU until the list is complete."""
    events: float
    """Seconds of CPU for all events."""
    pause: float
    longest: float
    """How long the task waited, in milliseconds: 99.9 % of its turns, and the worst; while pods were listed."""


def memory() -> Figure:
    """Resident KiB a pod of the child; the calibration is the limit."""
    return Figure(_measured().resident / PODS / _KIBIBYTE, "KiB/pod", _LIMIT, Limit(1, f"{_LIMIT} KiB a pod"))


def listing() -> Figure:
    """CPU of the child to decode, store and count one pod of a list; the calibration is the common one."""
    return Figure(_measured().listing / PODS * 1e3, "ms", calibration() * 1e3)


def pauses() -> Figure:
    """How long other tasks wait while pods are listed: 99.9 % of all turns; the calibration is the limit."""
    measured = _measured()
    limit = Limit(1, f"{_LONGEST_PAUSE:.0f} ms; longest {measured.longest:.0f}")
    return Figure(measured.pause, "ms", _LONGEST_PAUSE, limit)


def changes() -> Figure:
    """CPU of the child for one changed pod, while it has all the others; the calibration is half a core."""
    half = 0.5 / _RATE * 1e3
    return Figure(_measured().events / EVENTS * 1e3, "ms", half, Limit(1, f"{_RATE} a second on half a core"))


@functools.cache
def _measured() -> _Measured:
    return measure(_follow)


def measure(follow: Callable[[Client], Any], pods: int = PODS) -> _Measured:
    """What a process costs that follows pods in this way."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, follow), daemon=True)
    process.start()
    _serve(ours, pods)
    result: _Measured = ours.recv()
    process.join()
    return result


# --- the server, in this process -------------------------------------------------------------------------------------


def _serve(pipe: Connection, pods: int) -> None:
    """Send the list as initial events, in pieces as a connection delivers them; then all events at once."""
    rng, changed = random.Random(5), list[dict[str, Any]]()
    for start in range(0, pods, _PIECE):
        numbers = range(start, min(start + _PIECE, pods))
        items = [realistic_pod(rng, _in_order(number), nodes=NODES, sets=SETS) for number in numbers]
        pipe.send_bytes(b"".join(_line("ADDED", each) for each in items))
        changed += [each for number, each in zip(numbers, items, strict=True) if not number % (pods // _CHANGED)]
    metadata = {"resourceVersion": "9000000", "annotations": {INITIAL_EVENTS_END: "true"}}
    pipe.send_bytes(_line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}))
    for number in range(EVENTS):
        pipe.send_bytes(_line("MODIFIED", _changed(changed[number % len(changed)], number)))
    pipe.send_bytes(b"")


def _changed(tree: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A container of the pod has started once more."""
    statuses = [{**each, "restartCount": number // _CHANGED} for each in tree["status"]["containerStatuses"]]
    metadata = {**tree["metadata"], "resourceVersion": str(9_000_001 + number)}
    return {**tree, "metadata": metadata, "status": {**tree["status"], "containerStatuses": statuses}}


def _line(kind: str, tree: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": tree}, separators=(",", ":")).encode() + b"\n"


def _in_order(place: int) -> int:
    """The number of the pod at a place of the list: API servers list the pods of a ReplicaSet one after another."""
    size = PODS // SETS
    return place % size * SETS + place // size


# --- the process that watches ----------------------------------------------------------------------------------------


def _child(pipe: Connection, follow: Callable[[Client], Any]) -> None:
    collect_less_often()
    set_up_memory()
    measured = asyncio.run(_list_and_watch(pipe, follow))
    os.set_blocking(pipe.fileno(), True)
    pipe.send(measured)


async def _list_and_watch(pipe: Connection, follow: Callable[[Client], Any]) -> _Measured:
    server = _Wire(await _reader(pipe))
    cache = follow(Client(server))
    late: list[float] = []
    ticking = asyncio.ensure_future(_tick(server.busy, late))
    before, started = resident_mib(), time.thread_time()
    running = asyncio.ensure_future(cache.run())
    await cache.wait_synced()
    listing, resident = time.thread_time() - started, (resident_mib() - before) * 2**20
    ticking.cancel()
    started = time.thread_time()
    server.watched.set()
    await server.ended.wait()
    events = time.thread_time() - started
    running.cancel()
    if cache.version != str(9_000_000 + EVENTS):
        raise RuntimeError(f"the cache has {len(cache.store)} pods at version {cache.version}")
    late.sort()
    return _Measured(resident, listing, events, late[int(len(late) * 0.999)] * 1e3, late[-1] * 1e3)


async def _reader(pipe: Connection) -> asyncio.StreamReader:
    """The pipe as a client reads a connection."""
    reader = asyncio.StreamReader(limit=_BUFFER)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), socket.socket(fileno=os.dup(pipe.fileno()))
    )
    return reader


async def _tick(busy: asyncio.Event, late: list[float]) -> None:
    while True:
        await busy.wait()
        started = time.thread_time()
        await asyncio.sleep(_TICK)
        late.append(time.thread_time() - started)


class _Wire:
    """A transport that lists pods and watches them, as the other process sends them: the list is a stream, too."""

    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, pipe: asyncio.StreamReader) -> None:
        self.busy = asyncio.Event()
        """Set while a piece of the list is handled."""
        self.watched, self.ended = asyncio.Event(), asyncio.Event()
        self._pipe = pipe
        self._is_listing = True

    async def send(self, request: Request) -> Response:
        """Nothing is sent in pages."""
        raise NotImplementedError(request.call)

    async def stream(self, request: Request) -> _Wire:
        """The list; then the watch, once it may begin."""
        self._is_listing = "sendInitialEvents" in dict(request.params)
        if not self._is_listing:
            await self.watched.wait()
        return self

    async def read(self) -> bytes:
        """The next piece of the list, or the next event."""
        self.busy.clear()
        received = await self._received()
        if not received:
            self.ended.set()
            await asyncio.Event().wait()
        if self._is_listing:
            self.busy.set()
        return received

    async def _received(self) -> bytes:
        """What `Connection.send_bytes` sent."""
        (size,) = struct.unpack("!i", await self._pipe.readexactly(4))
        return await self._pipe.readexactly(size)

    async def close(self) -> None:
        """There is nothing to close."""


def _follow(client: Client) -> Any:
    """The pods with one index, in a snapshot with their nodes."""
    caches = Caches(client, nodes(), (Pod,))
    return caches.open(Pod, {"controller": by_controller})


def nodes() -> Snapshot:
    """A snapshot of the nodes that the pods are on."""
    snapshot = Snapshot()
    for number, name in enumerate(node_names(NODES)):
        labels = {HOSTNAME: name, ZONE: f"zone-{number % 3}"}
        status = NodeStatus(allocatable={"cpu": "32", "memory": "128Gi", "pods": "110"})
        snapshot.put(Node(metadata=ObjectMeta(name=name, labels=labels), status=status))
    return snapshot
