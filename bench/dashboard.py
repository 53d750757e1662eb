"""The dashboard of a large cluster: 5,000 nodes, 50,000 pods, 100 changes of pods a second.

The server is a process of its own. Its API server is a transport that replays: it lists the cluster as JSON, and sends
changes as a watch does, so that decoding, caches and rows cost what they cost in a cluster. The viewer is chromium, if
there is one and Playwright is installed: first paint, the time between frames while scrolling, and received bytes are
measured in the page. A second viewer may not list nodes: what it sees is put together and kept current for it. Run it
alone: `python -m bench.dashboard`. The calibration (see `figures`) says how fast the machine was meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import IO, Any

from bench.figures import calibration, cpu_seconds, resident_mib
from tests.browser.labs import CHROMIUM, FLAGS
from trimtab.api.documents import JSON
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.dashboard.access import OpenAccess
from trimtab.dashboard.rights import Rights
from trimtab.dashboard.server import DashboardServer, Listening
from trimtab.dashboard.sources import LiveSource
from trimtab.inspection import reading
from trimtab.inspection.cluster import KINDS
from trimtab.inspection.following import ClusterFollower
from trimtab.inspection.settings import Settings
from trimtab.kube.client import Client
from trimtab.kube.processes import collect_less_often
from trimtab.kube.transport import Request, Response

NODES, WORKLOADS, SIZE, ZONES = 5000, 500, 100, 3
RATE = 100
"""Changes of pods a second."""
RESTRICTED = "restricted"
"""The token of the viewer who may not list nodes."""
_SECONDS = 10.0
_READY = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
_FRAMES = """seconds => new Promise((resolve) => {
  const times = [];
  const end = performance.now() + 1000 * seconds;
  let down = true;
  const step = (now) => {
    times.push(now);
    if (window.scrollY + window.innerHeight >= document.documentElement.scrollHeight - 2) down = false;
    if (window.scrollY <= 0) down = true;
    window.scrollBy(0, down ? 24 : -24);
    if (now < end) requestAnimationFrame(step); else resolve(times.slice(1).map((time, at) => time - times[at]));
  };
  requestAnimationFrame(step);
})"""
_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


class ReplayTransport:
    """An API server that lists a cluster and then changes its pods, so many times a second."""

    def __init__(self, rate: float, seed: int = 1) -> None:
        self._rate = rate
        self._rng = random.Random(seed)
        self._version = 10
        self._objects = cluster()

    async def send(self, request: Request) -> Response:
        """A list; a kind that the cluster does not have is not found."""
        plural = request.path.rpartition("/")[2]
        if plural not in self._objects:
            status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}
            return Response(404, {}, json.dumps(status).encode())
        items = self._objects[plural]
        if dict(request.params).get("limit") == "1":
            items = items[:1]
        return Response(200, {}, json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode())

    async def stream(self, request: Request) -> ReplayStream:
        """A watch: of pods with changes, of everything else silent. Lists are in pages."""
        if "sendInitialEvents" in dict(request.params):
            return _Refusal(_silence())
        plural = request.path.rpartition("/")[2]
        return ReplayStream(self.changes() if plural == "pods" and self._rate else _silence())

    async def changes(self) -> AsyncIterator[bytes]:
        """Events: a pod becomes ready or unready."""
        pods, started, sent = self._objects["pods"], time.monotonic(), 0
        while True:
            due = int((time.monotonic() - started) * self._rate) - sent
            lines = []
            for _ in range(due):
                pod = self._rng.choice(pods)
                self._version += 1
                pod["metadata"]["resourceVersion"] = str(self._version)
                condition = pod["status"]["conditions"][0]
                condition["status"] = "False" if condition["status"] == "True" else "True"
                lines.append(json.dumps({"type": "MODIFIED", "object": pod}).encode() + b"\n")
            sent += due
            if lines:
                yield b"".join(lines)
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        """Nothing is open."""


async def _silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


class ReplayStream:
    """Events as they come."""

    status = 200
    headers: dict[str, str] = {}

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    async def read(self) -> bytes:
        """The next events."""
        return await anext(self._pieces)

    async def close(self) -> None:
        """Nothing is open."""


class _Refusal(ReplayStream):
    """Lists are not sent as events."""

    status = 422

    async def read(self) -> bytes:
        """No message."""
        return b""


def cluster() -> dict[str, list[JSON]]:
    """The objects by plural: Deployments of equal size, spread over all nodes."""
    found: dict[str, list[JSON]] = {"nodes": [_node(number) for number in range(NODES)]}
    found |= {"namespaces": [{"metadata": {"name": "default", "uid": "default", "resourceVersion": "1"}}]}
    found |= {plural: [] for plural in ("pods", "deployments", "replicasets")}
    found |= {plural: [] for plural in ("replicationcontrollers", "statefulsets", "services")}
    for number in range(WORKLOADS):
        name = f"web-{number}"
        spec = {"replicas": SIZE, "selector": {"matchLabels": {"app": name}}, "template": _template(name)}
        found["deployments"].append({"metadata": _metadata(name), "spec": spec})
        found["replicasets"].append({"metadata": _metadata(f"{name}-1", ("Deployment", name)), "spec": spec})
        for at in range(SIZE):
            metadata = _metadata(f"{name}-1-{at}", ("ReplicaSet", f"{name}-1")) | {"labels": {"app": name}}
            status = {"phase": "Running", "conditions": [dict(each) for each in _READY]}
            node = f"node-{(number * SIZE + at) % NODES}"
            found["pods"].append({"metadata": metadata, "spec": {"nodeName": node}, "status": status})
    return found


def _template(name: str) -> JSON:
    selector = {"matchLabels": {"app": name}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
    return {"metadata": {"labels": {"app": name}}, "spec": {"topologySpreadConstraints": [constraint]}}


def _metadata(name: str, owner: tuple[str, str] | None = None) -> JSON:
    tree: JSON = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    tree["creationTimestamp"] = "2026-01-01T00:00:00Z"
    if owner is not None:
        kind, above = owner
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": above, "uid": f"uid-{above}", "controller": True}
        tree["ownerReferences"] = [reference]
    return tree


def _node(number: int) -> JSON:
    labels = {HOSTNAME: f"node-{number}", ZONE: f"zone-{number % ZONES}"}
    ready = [{"type": "Ready", "status": "True"}]
    metadata = {"name": f"node-{number}", "uid": f"node-{number}", "resourceVersion": "1", "labels": labels}
    return {"metadata": metadata, "status": {"allocatable": {"pods": "110"}, "conditions": ready}}


class BenchAccess(OpenAccess):
    """Everyone sees everything, but for one token."""

    async def rights(self, token: str) -> Rights:
        """Everything; with the token, everything but nodes."""
        if token != RESTRICTED:
            return await super().rights(token)
        return Rights(cluster=frozenset(info.plural for info in KINDS if info.plural != "nodes"))


async def serve(rate: float) -> None:
    """Serve the dashboard of the replayed cluster until the process ends; prints its address."""
    collect_less_often()
    client = Client(ReplayTransport(rate))
    settings = Settings()
    _, kinds, gaps = await reading.readable(client, namespace="default", kinds=reading.ALL)
    source = LiveSource(ClusterFollower(client, kinds=kinds, gaps=gaps, origin="replayed"), settings)
    server = DashboardServer(source, settings, Listening(port=0), BenchAccess())
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    await asyncio.gather(server.run(address.set_result), _announce(source, address))


async def _announce(source: LiveSource, address: asyncio.Future[str]) -> None:
    """Print the address when the first lists are complete."""
    await source.wait_ready()
    print(await address, flush=True)


@contextmanager
def _server(rate: float) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "bench.dashboard", "--serve", str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ourselves
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.terminate()
            process.wait(30)


def _share(pid: int, seconds: float, work: Any = None) -> float:
    """The share of one core that a process uses meanwhile."""
    before, started = cpu_seconds(pid), time.monotonic()
    if work is None:
        time.sleep(seconds)
    else:
        work()
    return (cpu_seconds(pid) - before) / (time.monotonic() - started)


def measure() -> None:
    """Print every figure on a line."""
    with _server(RATE) as (url, pid):
        print(f"{NODES} nodes, {WORKLOADS * SIZE} pods, {RATE} changes a second")
        print(f"calibration: {calibration() * 1000:.2f} ms")
        print(f"server: {resident_mib(pid):.0f} MiB; {_share(pid, _SECONDS):.1%} of a core without a viewer")
        if CHROMIUM:
            _measure_viewer(url, pid)
        else:
            print("no chromium: the viewer is not measured")
        _measure_restricted(url, pid)
        print(f"calibration: {calibration() * 1000:.2f} ms")


def _measure_restricted(url: str, pid: int) -> None:
    """A viewer who may list everything but nodes: until it has its state, and while it looks."""
    asked = urllib.request.Request(  # noqa: S310 - our own address
        f"{url}api/events?workload=default/Deployment/web-0", headers={"Authorization": f"Bearer {RESTRICTED}"}
    )
    started = time.monotonic()
    with urllib.request.urlopen(asked, timeout=60) as stream:  # noqa: S310 - as above
        stream.readline()
        print(f"a viewer who may not list nodes: its first state after {(time.monotonic() - started) * 1000:.0f} ms")
        is_over = threading.Event()
        reader = threading.Thread(target=_read, args=(stream, is_over))
        reader.start()
        time.sleep(5)  # the first overviews of all workloads
        print(f"server: {_share(pid, _SECONDS):.1%} of a core with that viewer, {resident_mib(pid):.0f} MiB")
        is_over.set()
        reader.join()


def _read(stream: IO[bytes], is_over: threading.Event) -> None:
    """Read what is sent, as a page does."""
    while not is_over.is_set():
        stream.readline()


def _measure_viewer(url: str, pid: int) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        started = time.monotonic()
        page.goto(f"{url}?workload=default/Deployment/web-0")
        page.wait_for_selector("article.domain canvas", timeout=60_000)
        shown = time.monotonic() - started
        print(f"first paint: {page.evaluate(_PAINT):.0f} ms; the map with all nodes: {shown * 1000:.0f} ms")
        page.wait_for_timeout(5000)  # the first overviews of all workloads
        before = page.evaluate("() => window.trimtab.stream.bytes")
        frames: list[float] = []
        share = _share(pid, 0, lambda: frames.extend(page.evaluate(_FRAMES, _SECONDS)))
        received = (page.evaluate("() => window.trimtab.stream.bytes") - before) / _SECONDS
        frames.sort()
        median, late = frames[len(frames) // 2], frames[len(frames) * 99 // 100]
        print(f"frames while scrolling: median {median:.1f} ms, 99 % {late:.1f} ms, longest {frames[-1]:.1f} ms")
        print(f"received: {received / 1024:.1f} KiB a second, {before / 2**20:.2f} MiB at first")
        print(f"server: {share:.1%} of a core with a viewer")
        browser.close()


def main() -> None:
    """Measure, or serve for a measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=float, metavar="RATE", help="serve alone, with so many changes a second")
    rate = parser.parse_args().serve
    if rate is None:
        measure()
    else:
        asyncio.run(serve(rate))


if __name__ == "__main__":
    main()
