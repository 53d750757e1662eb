"""Another program writes deletion costs, as node autoscalers are about to: two zones, then three.

20 pods in two zones get a third zone; then again and again the Deployment grows to 30 pods and shrinks back to 20. All
the time a writer sets random costs, down to the smallest 32-bit integer, beside an annotation of its own, on most pods
and removes them from others. The policy of the workload has the fields of `--policy`, by default `otherCosts: TieBreak`
(`--policy '{}'` for none).
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from bench.promise.comparison import COST, JSON
from bench.promise.levels import even_layout
from bench.promise.measuring import Measurement, Round, attach_events
from bench.promise.report import Report, summarize
from bench.promise.stage import ZONES, Stage
from bench.promise.watching import PODS
from bench.promise.workloads import DEPLOYMENTS, Workload
from trimtab.kube.errors import NotFound

TWO_ZONES = ZONES[:2]
POLICY: JSON = {"otherCosts": "TieBreak"}
MARKER = "promise.trimtab.dev/cost-writer"
_LOWEST = -(2**31)
_SMALL, _LARGE = 20, 30
_WITHOUT = 0.2
"""The share of pods that the writer leaves without a cost."""
_RESTORE_SECONDS = 15.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--cycles", type=int, default=5, help="cycles of 30 pods and back to 20 (default: 5)")
    parser.add_argument(
        "--interval", type=float, default=10.0, help="seconds between the writer's rounds (default: 10)"
    )


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Two zones, then three, while the writer writes."""
    workload = Workload(DEPLOYMENTS, "web")
    writer = CostWriter(stage, workload, random.Random(stage.options.seed))
    await stage.create(workload, _SMALL)
    await stage.wait_ready(workload, _SMALL)
    await stage.simulate_nodes(dict.fromkeys(ZONES, stage.options.nodes_per_zone))
    async with writer.writing(arguments.interval):
        rounds = [await _cycle(stage, workload, writer) for _ in range(arguments.cycles)]
    attach_events(rounds, stage.events.seen)
    report = Report(f"another writer of costs, {arguments.cycles} cycles")
    summarize(report, rounds)
    wrong = [problem for each in rounds for problem in each.more["wrong_costs"]]
    report.add("pods that stayed without the writer's last cost", len(wrong))
    report.add("costs written by the writer", writer.written)
    report.failures += wrong
    return report


async def _cycle(stage: Stage, workload: Workload, writer: CostWriter) -> Round:
    """Grow, let the writer write to the new pods, shrink, and compare costs once they had time to be restored."""
    await stage.scale(workload, _LARGE)
    await stage.wait_ready(workload, _LARGE)
    await writer.next_round()
    await asyncio.sleep(writer.rng.uniform(0.0, 4.0))
    measurement = Measurement(stage, workload, _SMALL)
    await measurement.request()
    result = await measurement.finish()
    result.best = even_layout(_SMALL, stage.zones)
    result.more = {"wrong_costs": await _unrestored(stage, writer)}
    print(f"  {result.line()}; {len(result.more['wrong_costs'])} wrong costs", flush=True)
    return result


async def _unrestored(stage: Stage, writer: CostWriter) -> list[str]:
    """The costs that are still wrong after some time for restoring them."""
    problems: list[str] = []

    def are_restored() -> bool:
        problems[:] = writer.wrong_costs()
        return not problems

    with suppress(TimeoutError):
        await stage.until(are_restored, "costs are restored", _RESTORE_SECONDS)
    return problems


@dataclass
class CostWriter:
    """A program that writes costs to the pods of a workload every now and then."""

    stage: Stage
    workload: Workload
    rng: random.Random
    wanted: dict[str, str | None] = field(default_factory=dict)
    """What it last wrote to each pod; None where it removed the cost."""
    written: int = 0
    round: int = 0

    @asynccontextmanager
    async def writing(self, interval: float) -> AsyncIterator[None]:
        """Write every so many seconds for as long as the context lasts."""
        task = asyncio.create_task(self._run(interval))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def next_round(self) -> None:
        """Wait until a whole round of writing has ended that begins from now on."""
        now = self.round
        await self.stage.until(lambda: self.round >= now + 2, "the writer has written")

    def wrong_costs(self) -> list[str]:
        """The pods that do not have what was last written to them, a line each."""
        pods = {pod["metadata"]["name"]: pod for pod in self.stage.pods.active(self.workload.name)}
        found = {name: pods[name]["metadata"].get("annotations", {}).get(COST) for name in pods}
        return [
            f"{name} has the cost {found[name]} instead of {self.wanted[name]}"
            for name in sorted(pods.keys() & self.wanted.keys())
            if found[name] != self.wanted[name]
        ]

    async def _run(self, interval: float) -> None:
        while True:
            for pod in self.stage.pods.active(self.workload.name):
                await self._write(pod["metadata"]["name"])
            self.round += 1
            await asyncio.sleep(interval)

    async def _write(self, name: str) -> None:
        cost = None if self.rng.random() < _WITHOUT else str(self._draw())
        annotations = {COST: cost, MARKER: None if cost is None else "true"}
        self.wanted[name] = cost
        with suppress(NotFound):
            await self.stage.client.patch(
                PODS, name, {"metadata": {"annotations": annotations}}, namespace=self.stage.namespace
            )
            self.written += 1

    def _draw(self) -> int:
        """A cost: the lowest there is, a usual one, or any."""
        return self.rng.choice([_LOWEST, self.rng.randint(-100, 100), self.rng.randint(_LOWEST, 2**31 - 1)])
