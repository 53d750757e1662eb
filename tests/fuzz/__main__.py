"""Fuzzing for longer than `make test` does: `python -m tests.fuzz decoder --seconds 600`."""

from __future__ import annotations

import argparse
import time

from hypothesis import HealthCheck, given, seed, settings

from tests.fuzz.targets import TARGETS


def main() -> None:
    """Try inputs until the time is over; the first that fails is shrunk and raised."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0, help="The seed of the first round; each round has the next.")
    options = parser.parse_args()
    target = TARGETS[options.target]
    tried, rounds, ends = 0, 0, time.monotonic() + options.seconds

    def check(value: object) -> None:
        nonlocal tried
        tried += 1
        target.check(value)

    while time.monotonic() < ends:
        run = settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))(
            given(target.inputs)(check)
        )
        seed(options.seed + rounds)(run)()
        rounds += 1
    print(f"{options.target}: {tried} inputs in {rounds} rounds, seeds from {options.seed}; no failure")


if __name__ == "__main__":
    main()
