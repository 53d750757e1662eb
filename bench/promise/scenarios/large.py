"""Large workloads: more deletions than one burst of the controller, and a third of a thousand pods again and again."""

from __future__ import annotations

import argparse
import re

from bench.promise.levels import announced_layouts
from bench.promise.measuring import Measurement, Round, attach_events
from bench.promise.report import Report, summarize
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, Workload

_PATIENCE = 900.0
_SHORTFALL = re.compile(r"\b(\d+) of (\d+)\b")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--bursts", type=int, default=1, help="scale-downs from 1,500 to 500 pods (default: 1)")
    parser.add_argument("--burst-sizes", type=int, nargs=2, default=(1500, 500), metavar=("FROM", "TO"))
    parser.add_argument("--rounds", type=int, default=10, help="scale-downs by a third of 1,000 pods (default: 10)")
    parser.add_argument("--size", type=int, default=1000, help="the size that shrinks by a third (default: 1000)")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """First the bursts, then the thirds, with one Deployment."""
    large, small = arguments.burst_sizes
    steps = [("burst", large, small)] * arguments.bursts
    steps += [("third", arguments.size, arguments.size * 2 // 3)] * arguments.rounds
    workload = Workload(DEPLOYMENTS, "large")
    await stage.create(workload, 0)
    rounds = [await _shrink(stage, workload, *step) for step in steps]
    attach_events(rounds, stage.events.seen)
    report = Report(f"{arguments.bursts} × {large} → {small} pods, {arguments.rounds} × a third of {arguments.size}")
    summarize(report, rounds, may_report=True)
    _compare_with_announcement(report, rounds)
    return report


async def _shrink(stage: Stage, workload: Workload, part: str, size: int, target: int) -> Round:
    await stage.scale(workload, size)
    await stage.wait_ready(workload, size, patience=_PATIENCE)
    measurement = Measurement(stage, workload, target)
    await measurement.request()
    result = await measurement.finish(patience=_PATIENCE)
    text = " ".join(result.warnings)
    shortfall = _SHORTFALL.search(text)
    result.more = {
        "part": part,
        "written": [int(number) for number in shortfall.groups()] if shortfall else None,
        "announced": next(iter(announced_layouts(text, len(result.after))), None),
    }
    print(f"{result.line()}; request {result.request_seconds:.2f} s, settled {result.settle_seconds:.0f} s", flush=True)
    return result


def _compare_with_announcement(report: Report, rounds: list[Round]) -> None:
    for part in ("burst", "third"):
        among = [each for each in rounds if each.more["part"] == part]
        if not among:
            continue
        whole = [each for each in among if each.more["written"] is None]
        partial = [each for each in among if each.more["written"] is not None]
        report.add(f"{part}: no shortfall of costs announced", f"{len(whole)} of {len(among)}")
        report.add(f"{part}: costs written where announced", [tuple(each.more["written"]) for each in partial])
        report.add(f"{part}: as level as announced", f"{sum(_is_as_announced(each) for each in among)} of {len(among)}")
        report.add(f"{part}: skews left", [each.skew for each in among])


def _is_as_announced(result: Round) -> bool:
    """Whether the skew is no larger than that of the layout which the warning named; true where it named none."""
    announced = result.more["announced"]
    return announced is None or result.skew <= announced[0] - announced[-1]
