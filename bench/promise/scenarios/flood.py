"""Scale requests in quick succession, without waiting for answers.

Every 200 ms a request for one of the workloads, or with `--each` for each of them. The last request for each workload
is a decrease, so that the final result is what deletions leave. A request is a decrease if the Deployment was larger
right before the version that the answer names; our own watch of Deployments shows that.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import time
from dataclasses import asdict, dataclass, field

from bench.promise import watching
from bench.promise.comparison import JSON
from bench.promise.levels import announced_layouts, even_layout, skew, written
from bench.promise.report import Report, tally
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, Workload
from trimtab.kube.errors import ApiError

_SIZES = (6, 20)
_LAST_SIZES = (2, 5)
_SKIPPED = "did not plan this scale-down"
_CERTAIN = re.compile(r'outcome="(as-stock|repeated)"')
_UNPLANNED = re.compile(r'outcome="(rate-limited|not-synced|late|conflict|unranked|failed|busy)"', re.IGNORECASE)


@dataclass
class Request:
    """One scale request. `before` is the size right before it, None where it changed nothing or failed."""

    workload: str
    size: int
    at: float
    before: int | None = None
    version: str = ""
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def is_decrease(self) -> bool:
        """Whether it made the workload smaller."""
        return self.before is not None and self.before > self.size


@dataclass
class SizeWatch:
    """The sizes of Deployments, version by version."""

    sizes: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def handle(self, change: str, deployment: JSON) -> None:
        """Take a change in."""
        if change != "DELETED":
            metadata = deployment["metadata"]
            history = self.sizes.setdefault(metadata["name"], [])
            history.append((metadata["resourceVersion"], deployment["spec"]["replicas"]))

    def before(self, workload: str, version: str) -> int | None:
        """The size right before a version, None where that version was not seen."""
        history = self.sizes.get(workload, [])
        versions = [each for each, _ in history]
        if version not in versions or not versions.index(version):
            return None
        return history[versions.index(version) - 1][1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--workloads", type=int, default=5, help="workloads (default: 5)")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the flood lasts (default: 20)")
    parser.add_argument("--interval", type=float, default=0.2, help="seconds between requests (default: 0.2)")
    parser.add_argument("--each", action="store_true", help="a request for each workload at every interval")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Flood, wait until all have their final size, and look at what is left and what was reported."""
    players = [Workload(DEPLOYMENTS, f"w{index}") for index in range(arguments.workloads)]
    sizes = SizeWatch()
    async with watching.following(stage.client, DEPLOYMENTS, stage.namespace, sizes.handle):
        await asyncio.gather(*(_start(stage, each) for each in players))
        requests = await _flood(stage, arguments, players)
        await asyncio.sleep(1.0)
        final = {each: sizes.sizes[each.name][-1][1] for each in players}
        await asyncio.gather(*(stage.wait_size(each, size, stable=3.0) for each, size in final.items()))
    for request in requests:
        request.before = sizes.before(request.workload, request.version)
    return await _report(stage, arguments, requests, final)


async def _start(stage: Stage, workload: Workload) -> None:
    await stage.create(workload, _SIZES[1])
    await stage.wait_ready(workload, _SIZES[1])


async def _flood(stage: Stage, arguments: argparse.Namespace, players: list[Workload]) -> list[Request]:
    rng = random.Random(stage.options.seed)
    requests: list[Request] = []
    tasks: list[asyncio.Task[None]] = []
    for tick in range(round(arguments.seconds / arguments.interval)):
        for player in players if arguments.each else [players[tick % len(players)]]:
            requests.append(Request(player.name, rng.randint(*_SIZES), time.monotonic()))
            tasks.append(asyncio.create_task(_send(stage, player, requests[-1])))
        await asyncio.sleep(arguments.interval)
    await asyncio.gather(*tasks)
    last = [Request(player.name, rng.randint(*_LAST_SIZES), time.monotonic()) for player in players]
    await asyncio.gather(*(_send(stage, player, each) for player, each in zip(players, last, strict=True)))
    return requests + last


async def _send(stage: Stage, workload: Workload, request: Request) -> None:
    started = time.monotonic()
    client = stage.client.using(on_warning=request.warnings.append)
    try:
        scale = await client.resize(workload.kind, workload.name, request.size, namespace=stage.namespace)
        request.version = scale.metadata.resource_version
    except ApiError as error:
        request.error = str(error)
    request.seconds = time.monotonic() - started


async def _report(
    stage: Stage, arguments: argparse.Namespace, requests: list[Request], final: dict[Workload, int]
) -> Report:
    report = Report(f"{len(requests)} scale requests within {arguments.seconds:g} s")
    results = {workload: stage.layout(workload) for workload in final}
    decreases = [each for each in requests if each.is_decrease]
    metrics = await stage.product.metrics() if stage.product else {}
    unplanned = {name: value for name, value in metrics.items() if "requests_total" in name and _UNPLANNED.search(name)}
    named = [each for each in decreases if _names_a_layout(each, stage)]
    other = [each for each in decreases if each.warnings and not _names_a_layout(each, stage)]
    report.add("final layouts", ", ".join(written(result) for result in results.values()))
    report.add("unlevel", sum(_is_unlevel(stage, results[each], size) for each, size in final.items()))
    report.add("requests that failed", sum(bool(each.error) for each in requests))
    report.add("decreases", len(decreases))
    report.add("  with a warning that names a layout", len(named))
    report.add("  with another warning", len(other))
    report.add("  without a warning", len(decreases) - len(named) - len(other))
    report.add("unplanned, by Trimtab's metrics", sum(unplanned.values()))
    report.add("longest answer, seconds", f"{max(each.seconds for each in requests):.2f}")
    for text, count in tally(text for each in requests for text in each.warnings):
        report.add(f"warning: {text[:80]}", count)
    for text, count in tally(f"{each.reason}: {each.message}" for each in stage.events.seen):
        report.add(f"event: {text[:80]}", count)
    certain = sum(value for name, value in metrics.items() if "requests_total" in name and _CERTAIN.search(name))
    _add_failures(report, stage, results, final)
    silent = sum(not each.warnings for each in decreases)
    if silent > certain:
        report.failures.append(f"{silent} decreases without a warning, but only {certain:g} were certain without costs")
    report.failures += _without_events(stage, requests)
    report.more = {"requests": [{**asdict(each), "is_decrease": each.is_decrease} for each in requests]}
    return report


def _add_failures(
    report: Report,
    stage: Stage,
    results: dict[Workload, dict[str, int]],
    final: dict[Workload, int],
) -> None:
    report.failures += [
        f"{each.name} ended with {written(results[each])} instead of {written(even_layout(size, stage.zones))}"
        for each, size in final.items()
        if _is_unlevel(stage, results[each], size)
    ]


def _without_events(stage: Stage, requests: list[Request]) -> list[str]:
    """Workloads with unplanned requests and no event that says so; events of one kind are combined."""
    skipped = {each.workload for each in requests if any(_SKIPPED in text for text in each.warnings)}
    reported = {each.app for each in stage.events.seen if each.reason == "ScaleDownSkipped"}
    return [f"{name}: unplanned requests, and no event" for name in sorted(skipped - reported)]


def _names_a_layout(request: Request, stage: Stage) -> bool:
    return any(announced_layouts(text, len(set(stage.zones.values()))) for text in request.warnings)


def _is_unlevel(stage: Stage, result: dict[str, int], size: int) -> bool:
    return skew(result) > max(1, skew(even_layout(size, stage.zones)))
