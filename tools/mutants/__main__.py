"""The command: `python -m tools.mutants --minutes 10 --seed 1 [--only ranking]`."""

from __future__ import annotations

import argparse
import os
import sys

import pytest

from tools.mutants import modules, report
from tools.mutants.memory import History
from tools.mutants.run import MOST_SECONDS, ROOT, MutantRun, sample

_PYTEST = ("-q", "-s", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist")
"""Without texts of failures: they take longer than the tests."""


def main() -> int:
    """Try mutants for some minutes; fail if too few of them are detected."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to try mutants, once coverage is known")
    parser.add_argument("--seed", type=int, default=1, help="which mutants are tried first")
    parser.add_argument("--only", action="append", choices=list(modules.CORE), help="a group of modules")
    parser.add_argument("--match", default="", help="only mutants whose `path:line function` has this text")
    parser.add_argument("--again", action="store_true", help="only mutants that survived when they were tried last")
    parser.add_argument(
        "--most", type=float, default=MOST_SECONDS, help="seconds of tests for one mutant: fewer find likely survivors"
    )
    options = parser.parse_args()
    os.chdir(ROOT)
    os.nice(10)
    history = History(ROOT)
    chosen = sample(options.seed, options.only or list(modules.CORE), options.match)
    if options.again:
        chosen = (each for each in chosen if history.survived(each[1].identity))
    run = MutantRun(chosen, set(report.equivalent()), 60 * options.minutes, history, options.most)
    code = pytest.main([*_PYTEST, *modules.TESTS], plugins=[run])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) or not run.outcomes:
        return 1
    print("", *report.lines(run.outcomes, modules.CORE), f"seed {options.seed}", sep="\n")
    return 0 if report.score(report.total(run.outcomes)) >= report.TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
