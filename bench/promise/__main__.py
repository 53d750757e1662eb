"""The command line: `python -m bench.promise SCENARIO [options]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import bench.promise
from bench.promise.options import Options, add_options, read_options
from bench.promise.report import Report, add_metrics
from bench.promise.scenarios import large, paused, rollout, rounds, standalone
from bench.promise.stage import Stage, stage


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, its own options, and the zones it begins with (None: three even ones)."""

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    measure: Callable[[Stage, argparse.Namespace], Awaitable[Report]]
    zones: tuple[str, ...] | None = None


SCENARIOS = {
    "rounds": Scenario("random sizes and waits, workloads side by side", rounds.add_arguments, rounds.measure),
    "paused": Scenario("the controller manager stops after admission", paused.add_arguments, paused.measure),
    "rollout": Scenario("a rollout begins while a request is held", rollout.add_arguments, rollout.measure),
    "large": Scenario("1,500 pods to 500, and a third of 1,000 repeatedly", large.add_arguments, large.measure),
    "standalone": Scenario(
        "ReplicaSets and ReplicationControllers without an owner", standalone.add_arguments, standalone.measure
    ),
}


def main() -> int:
    """Run one scenario; the exit code is 1 where the promise did not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.promise", description=bench.promise.__doc__)
    commands = parser.add_subparsers(dest="scenario", required=True, metavar="SCENARIO")
    for name, scenario in SCENARIOS.items():
        command = commands.add_parser(name, help=scenario.summary, description=scenario.summary)
        scenario.add_arguments(command)
        add_options(command)
    arguments = parser.parse_args()
    options = read_options(parser, arguments)
    report = asyncio.run(_measure(SCENARIOS[arguments.scenario], options, arguments))
    return 1 if report.failures else 0


async def _measure(scenario: Scenario, options: Options, arguments: argparse.Namespace) -> Report:
    zones = None if scenario.zones is None else dict.fromkeys(scenario.zones, options.nodes_per_zone)
    async with stage(options, zones) as made:
        report = await scenario.measure(made, arguments)
        metrics = await made.product.metrics() if made.product else {}
    add_metrics(report, metrics)
    report.show()
    if options.details is not None:
        report.write(options.details, metrics)
        print(f"\ndetails in {options.details}")
    return report


if __name__ == "__main__":
    sys.exit(main())
