"""Fuzzing for longer than `make test` does: `make fuzz MINUTES=10 [TARGET=decoder]`."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from dataclasses import dataclass

from hypothesis import HealthCheck, given, seed, settings

from tests.fuzz.targets import TARGETS, Target


@dataclass(slots=True)
class Result:
    """What became of one target."""

    tried: int = 0
    rounds: int = 0
    finding: str = ""
    """The smallest input that failed, and how; empty if none did."""


def fuzz(target: Target, seconds: float, first_seed: int) -> Result:
    """Try inputs until the time is over, or one fails; that one is shrunk."""
    result, ends = Result(), time.monotonic() + seconds

    def check(value: object) -> None:
        result.tried += 1
        target.check(value)

    while time.monotonic() < ends and not result.finding:
        run = settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))(
            given(target.inputs)(check)
        )
        try:
            seed(first_seed + result.rounds)(run)()
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            result.finding = traceback.format_exc()
        result.rounds += 1
    return result


def main() -> int:
    """Fuzz targets one after the other; fail if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=main.__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="all, unless some are named")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first round; each round has the next")
    options = parser.parse_args()
    findings = 0
    for name in options.targets or TARGETS:
        result = fuzz(TARGETS[name], 60 * options.minutes, options.seed)
        findings += bool(result.finding)
        ending = f"a finding in round {result.rounds}:\n{result.finding}" if result.finding else "no finding"
        print(f"{name}: {result.tried} inputs in {result.rounds} rounds, {ending}", flush=True)
    print(f"{findings} findings; seeds from {options.seed}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
