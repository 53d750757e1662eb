"""Random rounds: workloads side by side grow to a random size, wait, and shrink to a random size."""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterator

from bench.promise.measuring import Measurement, attach_events
from bench.promise.report import Report, add_certainty, summarize
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, Workload

SIZES = (7, 24)
_SHORT_WAIT = (0.0, 4.0)
_LONG_WAIT = (10.0, 90.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--rounds", type=int, default=60, help="scale-downs in all (default: 60)")
    parser.add_argument("--workloads", type=int, default=8, help="workloads side by side (default: 8)")
    parser.add_argument("--long-waits", type=float, default=0.0, help="the share of rounds that wait 10 to 90 s")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Play all rounds; which workload plays a round depends on which is free."""
    todo = iter(range(arguments.rounds))
    players = [Workload(DEPLOYMENTS, f"w{index}") for index in range(arguments.workloads)]
    finished: list[Measurement] = []
    await asyncio.gather(*(_play(stage, arguments, each, todo, finished) for each in players))
    await asyncio.sleep(3.0)  # events that are still on their way
    for measurement in finished:
        measurement.evaluate()
    rounds = [measurement.round for measurement in finished]
    attach_events(rounds, stage.events.seen)
    report = Report(f"{arguments.rounds} random rounds")
    summarize(report, rounds)
    add_certainty(report, rounds)
    return report


async def _play(
    stage: Stage,
    arguments: argparse.Namespace,
    workload: Workload,
    todo: Iterator[int],
    finished: list[Measurement],
) -> None:
    size = 1
    await stage.create(workload, size)
    for index in todo:
        rng = random.Random(f"{stage.options.seed}/{index}")
        size = await grow(stage, workload, size, rng)
        await asyncio.sleep(_wait(index, arguments.long_waits, rng))
        measurement = Measurement(stage, workload, rng.randrange(1, size))
        await measurement.request()
        result = await measurement.finish()
        finished.append(measurement)
        size = result.target
        print(f"[{len(finished)}] {result.line()}", flush=True)


async def grow(stage: Stage, workload: Workload, size: int, rng: random.Random, sizes: tuple[int, int] = SIZES) -> int:
    """Scale up to a random size that is larger than the present one, and wait until all pods are ready."""
    smallest, largest = sizes
    size = rng.randint(max(smallest, size + 1), largest)
    await stage.scale(workload, size)
    await stage.wait_ready(workload, size)
    return size


def _wait(index: int, long_share: float, rng: random.Random) -> float:
    """How long pods get older; long waits are spread evenly over the rounds."""
    is_long = int((index + 1) * long_share) > int(index * long_share)
    return rng.uniform(*(_LONG_WAIT if is_long else _SHORT_WAIT))
