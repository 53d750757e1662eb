"""The controller manager stops for a minute, right after a scale request was admitted.

One pause serves several workloads: it begins with the first answer. Requests that are answered later were admitted
while the controller manager did not see the costs; the table counts them apart. The process id of the controller
manager is an option: the scenario stops and continues that process with signals.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.promise.measuring import Measurement, attach_events
from bench.promise.report import Report, add_certainty, summarize
from bench.promise.scenarios.rounds import grow
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, Workload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--controller-manager-pid", type=int, required=True, help="the process to stop and continue")
    parser.add_argument("--rounds", type=int, default=20, help="scale-downs in all (default: 20)")
    parser.add_argument("--workloads", type=int, default=5, help="workloads that share a pause (default: 5)")
    parser.add_argument("--pause", type=float, default=60.0, help="seconds that a pause lasts (default: 60)")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Pause after pause, until there were enough rounds."""
    players = [Workload(DEPLOYMENTS, f"w{index}") for index in range(arguments.workloads)]
    sizes = dict.fromkeys(players, 1)
    await asyncio.gather(*(stage.create(each, 1) for each in players))
    finished: list[Measurement] = []
    for number in range(-(-arguments.rounds // arguments.workloads)):
        rng = random.Random(f"{stage.options.seed}/{number}")
        finished += await _pause_round(stage, arguments, sizes, rng)
    return _report(stage, finished, arguments)


async def _pause_round(
    stage: Stage, arguments: argparse.Namespace, sizes: dict[Workload, int], rng: random.Random
) -> list[Measurement]:
    sizes.update(zip(sizes, await _grow_all(stage, sizes, rng), strict=True))
    await asyncio.sleep(rng.uniform(0.0, 4.0))
    pause = Pause(arguments.controller_manager_pid)
    with pause.ending():
        measurements = [Measurement(stage, each, rng.randrange(1, size)) for each, size in sizes.items()]
        await asyncio.gather(*(_request(stage, each, pause) for each in measurements))
        await asyncio.sleep(max(0.0, arguments.pause - (time.monotonic() - pause.began_at)))
    for measurement in measurements:
        result = await measurement.finish()
        print(f"  {result.line()}", flush=True)
    sizes.update(zip(sizes, (each.round.target for each in measurements), strict=True))
    return measurements


async def _grow_all(stage: Stage, sizes: dict[Workload, int], rng: random.Random) -> list[int]:
    return list(await asyncio.gather(*(grow(stage, each, size, rng) for each, size in sizes.items())))


async def _request(stage: Stage, measurement: Measurement, pause: Pause) -> None:
    """Ask, and begin the pause with the first answer; record what the controller had done until then."""
    await measurement.request()
    result = measurement.round
    was_stopped = pause.is_stopped
    pause.begin()
    deleted = sum(result.before.values()) - len(stage.pods.active(result.workload))
    result.more = {"admitted_while_stopped": was_stopped, "deleted_before_the_pause": deleted}


@dataclass
class Pause:
    """A process that is stopped for a while; it is continued whatever happens."""

    pid: int
    began_at: float = 0.0
    is_stopped: bool = field(default=False)

    def begin(self) -> None:
        """Stop the process, unless it is stopped."""
        if not self.is_stopped:
            os.kill(self.pid, signal.SIGSTOP)
            self.is_stopped, self.began_at = True, time.monotonic()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Continue the process at the end of the context."""
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)


def _report(stage: Stage, finished: list[Measurement], arguments: argparse.Namespace) -> Report:
    for measurement in finished:
        measurement.evaluate(window=arguments.pause)
    rounds = [measurement.round for measurement in finished]
    attach_events(rounds, stage.events.seen)
    report = Report(f"controller manager paused for {arguments.pause:g} s after admission")
    summarize(report, rounds)
    add_certainty(report, rounds)
    late = [each for each in rounds if each.more["admitted_while_stopped"]]
    report.add("admitted while it was stopped", len(late))
    report.add("  of these unlevel", sum(each.is_unlevel for each in late))
    report.add("pods deleted before the pause", sum(each.more["deleted_before_the_pause"] for each in rounds))
    return report
