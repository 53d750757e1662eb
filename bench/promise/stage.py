"""Where a scenario plays: a namespace, simulated nodes, our own watches, and Trimtab unless it runs without."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.promise import processes, product, watching, workloads
from bench.promise.comparison import JSON, is_ready
from bench.promise.levels import layout
from bench.promise.options import Options
from bench.promise.workloads import Workload
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound, Timeout
from trimtab.kube.sessions import Session

PATIENCE = 180.0
_POLL = 0.05
_FAIL_OPEN = "apiserver_admission_webhook_fail_open_count{"
ZONES = ("zone-a", "zone-b", "zone-c")


class PatienceError(TimeoutError):
    """The cluster did not get where it was to get in time."""


@dataclass
class Stage:
    """What a scenario works with."""

    options: Options
    client: Client
    run: str
    logs: Path
    pods: watching.PodWatch
    events: watching.EventWatch
    product: product.Product | None = None
    zones: dict[str, str] = field(default_factory=dict)
    """The zone of each simulated node."""
    _nodes: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def namespace(self) -> str:
        """The namespace of the workloads."""
        return self.run

    async def create(self, workload: Workload, replicas: int, pod: Mapping[str, Any] | None = None) -> None:
        """Create a workload with a hard zone constraint, unless `pod` says otherwise."""
        spec = {"topologySpreadConstraints": [workloads.zone_constraint(workload.name)], **(pod or {})}
        body = workloads.manifest(workload, self.run, replicas, spec)
        await self.client.create(workload.kind, body, namespace=self.namespace)

    async def scale(self, workload: Workload, replicas: int) -> list[str]:
        """Set a workload's size by `/scale`; the warnings that came back."""
        warnings: list[str] = []
        client = self.client.using(on_warning=warnings.append)
        await client.resize(workload.kind, workload.name, replicas, namespace=self.namespace)
        return warnings

    async def delete(self, workload: Workload) -> None:
        """Delete a workload, and wait until its pods are gone."""
        await self.client.delete(workload.kind, workload.name, namespace=self.namespace, propagation="Background")
        await self.until(lambda: not self.pods.pods[workload.name], f"{workload.name} is gone")

    async def wait_ready(self, workload: Workload, replicas: int, *, patience: float = PATIENCE) -> None:
        """Wait until a workload has so many pods, all ready."""
        what = f"{workload.name}: {replicas} ready"
        await self.until(lambda: self._ready(workload) == (replicas, replicas), what, patience)

    async def wait_size(
        self, workload: Workload, replicas: int, *, stable: float = 0.7, patience: float = PATIENCE
    ) -> None:
        """Wait until a workload has had so many active pods for some time."""
        since: float | None = None

        def is_stable() -> bool:
            nonlocal since
            if len(self.pods.active(workload.name)) != replicas:
                since = None
                return False
            since = since or time.monotonic()
            return time.monotonic() - since >= stable

        await self.until(is_stable, f"{workload.name}: {replicas} pods", patience)

    async def until(self, condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        """Wait until a condition holds for what our watches have seen."""
        deadline = time.monotonic() + patience
        while True:
            started = time.monotonic()
            if condition():
                return
            if started > deadline:
                raise PatienceError(f"not reached within {patience:.0f} s: {what}")
            await asyncio.sleep(max(_POLL, 10 * (time.monotonic() - started)))  # with many pods, look less often

    async def webhook_failures(self) -> int:
        """How often, since the API server started, it went on without the answer of a webhook of Trimtab."""
        try:
            text = (await self.client.call("GET", "/metrics")).body.decode()
        except NotFound:  # the embedded lab does not count them
            return 0
        lines = [line for line in text.splitlines() if line.startswith(_FAIL_OPEN) and "trimtab" in line]
        return round(sum(float(line.rpartition(" ")[2]) for line in lines))

    def layout(self, workload: Workload) -> dict[str, int]:
        """A workload's active pods by zone."""
        return layout(self.pods.active(workload.name), self.zones)

    async def simulate_nodes(self, zones: Mapping[str, int]) -> None:
        """Simulate nodes in these zones instead of those simulated until now, and wait until they are ready."""
        await self._nodes.aclose()
        path = self.logs / "nodes.json"
        path.write_text(json.dumps(workloads.shape(self.run, zones)))
        kubeconfig = ("--kubeconfig", str(self.options.kubeconfig))
        arguments = ("lab", "nodes", *kubeconfig, "--shape", str(path), "--seed", str(self.options.seed))
        process = await self._nodes.enter_async_context(processes.running("nodes", arguments, self.logs))
        await self._wait_nodes(sum(zones.values()), process)

    async def close(self) -> None:
        """Stop the simulated nodes, and remove what the run has created."""
        await self.client.delete(workloads.NAMESPACES, self.namespace)
        with suppress(Timeout):  # with thousands of pods; the namespace controller deletes them too
            await self.client.delete_all(watching.PODS, namespace=self.namespace, grace_period_seconds=0)
        await self._nodes.aclose()
        await self.client.delete_all(workloads.NODES, label_selector=f"{workloads.CLUSTER}={self.run}")

    async def _wait_nodes(self, count: int, process: asyncio.subprocess.Process) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            nodes = await self.client.list(workloads.NODES, label_selector=f"{workloads.CLUSTER}={self.run}")
            ready = [node for node in nodes.items if is_usable(node)]
            if len(ready) == count:
                self.zones = {node["metadata"]["name"]: node["metadata"]["labels"][workloads.ZONE] for node in ready}
                return
            if process.returncode is not None or time.monotonic() > deadline:
                raise processes.ProcessError(f"{len(ready)} of {count} simulated nodes are ready; see their log")
            await asyncio.sleep(0.3)

    def _ready(self, workload: Workload) -> tuple[int, int]:
        pods = self.pods.active(workload.name)
        return len(pods), sum(is_ready(pod) for pod in pods)


@asynccontextmanager
async def stage(options: Options, zones: Sequence[str] = ZONES) -> AsyncIterator[Stage]:
    """Set everything up, and remove it in the end."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(Session(config.discover(options.kubeconfig))))
        made = await _prepare(client, options, stack)
        stack.push_async_callback(made.close)
        await made.simulate_nodes(dict.fromkeys(zones, options.nodes_per_zone))
        if not options.is_stock:
            installation = product.installed(client, options, made.run, made.logs)
            made.product = await stack.enter_async_context(installation)
        yield made


async def _prepare(client: Client, options: Options, stack: AsyncExitStack) -> Stage:
    """A namespace of its own, which our watches follow."""
    run = f"promise-{uuid.uuid4().hex[:6]}"
    logs = options.logs or Path(tempfile.mkdtemp(prefix=f"{run}-"))
    logs.mkdir(parents=True, exist_ok=True)
    await client.create(workloads.NAMESPACES, {"metadata": {"name": run}})
    made = Stage(options, client, run, logs, watching.PodWatch(), watching.EventWatch())
    for kind, handle in ((watching.PODS, made.pods.handle), (watching.EVENTS, made.events.handle)):
        await stack.enter_async_context(watching.following(client, kind, run, handle))
    print(f"run {run}, logs in {logs}", flush=True)
    return made


def is_usable(node: JSON) -> bool:
    """Whether a node is ready and has no taint but the run's own."""
    conditions = node.get("status", {}).get("conditions", ())
    is_up = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_up and all(taint["key"] == workloads.TAINT for taint in node["spec"].get("taints", ()))
