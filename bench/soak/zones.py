"""The simulated nodes of a run, by zone: three that stay, and some that join and leave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.promise import processes, workloads
from bench.promise.comparison import JSON
from bench.promise.stage import ZONES, Stage, is_usable
from trimtab.kube.errors import ApiError
from trimtab_lab.nodes import operations

NODES_PER_ZONE = 4
_READY_SECONDS = 90.0
_TOUCH_SECONDS = 10.0
_TOUCHED = "soak.trimtab.dev/touched"


@dataclass
class Zones:
    """The process that simulates the nodes, and their zones."""

    stage: Stage
    kubeconfig: Path
    added: list[str] = field(default_factory=list)
    """Zones that have joined."""
    shaping: asyncio.Lock = field(default_factory=asyncio.Lock)
    failing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _process: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start(self) -> None:
        """Simulate the nodes of all zones that there are now, and wait until they are ready."""
        await self._process.aclose()
        path = self.stage.logs / "nodes.json"
        shape = workloads.shape(self.stage.run, dict.fromkeys((*ZONES, *self.added), NODES_PER_ZONE))
        path.write_text(json.dumps(shape))
        seed = str(self.stage.options.seed)
        arguments = ("lab", "nodes", "--kubeconfig", str(self.kubeconfig), "--shape", str(path), "--seed", seed)
        await self._process.enter_async_context(processes.running("nodes", arguments, self.stage.logs))

    async def wait_joined(self) -> None:
        """Wait until every zone has its nodes, ready or not; our judgements count them from then on."""
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            found = await self.by_node()
            names = dict.fromkeys((*ZONES, *self.added), 0)
            for zone in found.values():
                names[zone] = names.get(zone, 0) + 1
            if names == dict.fromkeys((*ZONES, *self.added), NODES_PER_ZONE):
                self.stage.zones = found
                return
            if time.monotonic() > deadline:
                raise processes.ProcessError(f"the simulated nodes are {names} after {_READY_SECONDS:.0f} s")
            await asyncio.sleep(0.3)

    async def by_node(self) -> dict[str, str]:
        """The zone of each node that has been ready once; none while the API server does not answer."""
        return {node["metadata"]["name"]: node["metadata"]["labels"][workloads.ZONE] for node in await self._nodes()}

    async def _nodes(self) -> list[JSON]:
        try:
            selector = f"{workloads.CLUSTER}={self.stage.run}"
            page = await self.stage.client.list(workloads.NODES, label_selector=selector)
        except ApiError:
            return []
        return [node for node in page.items if node.get("status", {}).get("conditions")]

    async def join(self) -> str:
        """Let another zone join; its name."""
        async with self.shaping:
            name = f"zone-{chr(ord('d') + len(self.added))}"
            self.added.append(name)
            await self.start()
            await self.wait_joined()
            return name

    async def remove_added(self) -> None:
        """Drain the zones that have joined, and remove their nodes."""
        async with self.shaping:
            if not self.added:
                return
            leaving = [node for node, zone in self.stage.zones.items() if zone in self.added]
            await asyncio.gather(*(operations.drain(self.stage.client, [node]) for node in leaving))
            self.added.clear()
            await self.start()
            await self.wait_joined()

    async def repair(self) -> None:
        """Let all nodes recover and take pods again."""
        names = list(await self.by_node())
        await operations.recover(self.stage.client, names)
        await operations.uncordon(self.stage.client, names)

    async def wait_ready(self) -> None:
        """Wait until all nodes are ready and have no taint but the run's own.

        kube-controller-manager updates the taints of a node when that changes. If the write fails, as during an outage
        of etcd, it tries again only after the next change; so nodes that stay tainted are changed.
        """
        began = touched = time.monotonic()
        while not (nodes := await self._nodes()) or not all(map(is_usable, nodes)):
            now = time.monotonic()
            if now > began + _READY_SECONDS:
                raise processes.ProcessError(f"nodes are not ready after {_READY_SECONDS:.0f} s")
            if now > touched + _TOUCH_SECONDS:
                touched = now
                await self._touch([node for node in nodes if not is_usable(node)])
            await asyncio.sleep(0.3)

    async def _touch(self, nodes: Iterable[JSON]) -> None:
        """Change an annotation of these nodes."""
        patch = {"metadata": {"annotations": {_TOUCHED: str(time.time_ns())}}}
        for node in nodes:
            with contextlib.suppress(ApiError):
                await self.stage.client.patch(workloads.NODES, node["metadata"]["name"], patch)

    async def close(self) -> None:
        """Stop the simulation."""
        await self._process.aclose()
