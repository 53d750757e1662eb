"""Nothing happens: workloads have shrunk, and no pod is written to for a while."""

from __future__ import annotations

import argparse
import asyncio
import random
import time

from bench.promise.measuring import Measurement, Round
from bench.promise.report import Report, tally
from bench.promise.scenarios.rounds import grow
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, Workload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to rest (default: 600)")
    parser.add_argument("--settle", type=float, default=20.0, help="seconds between the last scale-down and the rest")
    parser.add_argument("--workloads", type=int, default=5, help="workloads (default: 5)")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """One scale-down each, time for reverting costs, then count every update of a pod."""
    players = [Workload(DEPLOYMENTS, f"w{index}") for index in range(arguments.workloads)]
    rounds = list(await asyncio.gather(*(_shrink(stage, each) for each in players)))
    await asyncio.sleep(arguments.settle)
    began = time.monotonic()
    await asyncio.sleep(arguments.seconds)
    updates = [each for each in stage.pods.updates if each.at >= began]
    report = Report(f"{arguments.seconds:g} s of rest", rounds=rounds)
    report.add("pods", sum(each.target for each in rounds))
    report.add("pod updates", len(updates))
    for fields, count in tally(", ".join(each.fields) or "none of those we look at" for each in updates):
        report.add(f"  of {fields}", count)
    report.failures += [f"{each.app}/{each.pod} was updated: {', '.join(each.fields)}" for each in updates]
    return report


async def _shrink(stage: Stage, workload: Workload) -> Round:
    rng = random.Random(f"{stage.options.seed}/{workload.name}")
    await stage.create(workload, 1)
    size = await grow(stage, workload, 1, rng)
    measurement = Measurement(stage, workload, rng.randrange(3, size))
    await measurement.request()
    return await measurement.finish()
