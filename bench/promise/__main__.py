"""The command line: `python -m bench.promise SCENARIO [options]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import bench.promise
from bench.promise.comparison import JSON
from bench.promise.options import Options, add_options, read_options
from bench.promise.report import Report, add_metrics
from bench.promise.scenarios import (
    admissions,
    defaults,
    flapping,
    flood,
    inspection,
    large,
    observe,
    other_writer,
    paused,
    rest,
    returns,
    rollout,
    rounds,
    standalone,
)
from bench.promise.stage import ZONES, Stage, stage


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, its own options, the zones it begins with, and the fields of its policy unless others are given."""

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    measure: Callable[[Stage, argparse.Namespace], Awaitable[Report]]
    zones: tuple[str, ...] = ZONES
    policy: JSON = field(default_factory=dict)
    configuration: JSON = field(default_factory=dict)
    """More fields of Trimtab's configuration."""


SCENARIOS = {
    "rounds": Scenario("random sizes and waits, workloads side by side", rounds.add_arguments, rounds.measure),
    "paused": Scenario("the controller manager stops after admission", paused.add_arguments, paused.measure),
    "rollout": Scenario("a rollout begins while a request is held", rollout.add_arguments, rollout.measure),
    "large": Scenario("1,500 pods to 500, and a third of 1,000 repeatedly", large.add_arguments, large.measure),
    "standalone": Scenario(
        "ReplicaSets and ReplicationControllers without an owner", standalone.add_arguments, standalone.measure
    ),
    "flood": Scenario("many scale requests in quick succession", flood.add_arguments, flood.measure),
    "other-writer": Scenario(
        "another program writes deletion costs",
        other_writer.add_arguments,
        other_writer.measure,
        other_writer.TWO_ZONES,
        other_writer.POLICY,
    ),
    "observe": Scenario(
        "the mode Observe, and requests without Trimtab beside it",
        observe.add_arguments,
        observe.measure,
        policy=observe.POLICY,
    ),
    "flapping": Scenario("an autoscaler that changes its mind", flapping.add_arguments, flapping.measure),
    "inspection": Scenario(
        "plans, and what watch reports, against what controllers do", inspection.add_arguments, inspection.measure
    ),
    "defaults": Scenario(
        "default constraints at admission, over racks",
        defaults.add_arguments,
        defaults.measure,
        configuration=defaults.CONFIGURATION,
    ),
    "admissions": Scenario(
        "pod creations with default constraints and without",
        admissions.add_arguments,
        admissions.measure,
        configuration=admissions.CONFIGURATION,
    ),
    "returns": Scenario(
        "rented capacity goes first, and pods return", returns.add_arguments, returns.measure, returns.ZONES
    ),
    "rest": Scenario("nothing happens, and no pod is written to", rest.add_arguments, rest.measure),
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
    scenario = SCENARIOS[arguments.scenario]
    options = replace(read_options(parser, arguments, scenario.policy), configuration=scenario.configuration)
    report = asyncio.run(_measure(scenario, options, arguments))
    return 1 if report.failures else 0


async def _measure(scenario: Scenario, options: Options, arguments: argparse.Namespace) -> Report:
    async with stage(options, scenario.zones) as made:
        failures = await made.webhook_failures()
        report = await scenario.measure(made, arguments)
        report.add("webhook calls that the API server gave up", await made.webhook_failures() - failures)
        metrics = await made.product.metrics() if made.product else {}
    add_metrics(report, metrics)
    report.show()
    if options.details is not None:
        report.write(options.details, metrics)
        print(f"\ndetails in {options.details}")
    return report


if __name__ == "__main__":
    sys.exit(main())
