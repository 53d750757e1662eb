"""The run: a pytest plugin that tries one mutant after another with the tests that execute it."""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tools.mutants import modules
from tools.mutants.coverage import Coverage
from tools.mutants.memory import CoverageCache, History
from tools.mutants.operators import Identity, Mutant, mutants
from tools.mutants.processes import forked, limit
from tools.mutants.replacement import CannotApplyError, apply, clear_caches, prepare
from tools.mutants.report import Outcome, Result

ROOT = Path(__file__).resolve().parents[2]
MOST_SECONDS = 60.0
"""How long the tests of one mutant take at most, by the processor time when coverage was recorded (which is slower)."""

_LONGEST_TEST = 300.0
"""Seconds of processor time after which a test that is recorded counts as one that does not end."""


class MutantRun:
    """Records what tests cover, then tries mutants until the time is over."""

    def __init__(
        self,
        chosen: Iterable[tuple[str, Mutant]],
        known: set[Identity],
        seconds: float,
        history: History,
        most: float = MOST_SECONDS,
    ) -> None:
        """`seconds` is the time of all mutants, `most` that of the tests of one."""
        self._chosen = chosen
        self._known = known
        self._seconds = seconds
        self._history = history
        self._most = most
        self._has_failed = False
        self.outcomes: list[Outcome] = []

    def pytest_configure(self) -> None:
        """Make hypothesis try the same examples each time, and not search for the smallest one that fails."""
        from hypothesis import HealthCheck, Phase, settings  # not before pytest has imported it

        quiet = settings(derandomize=True, database=None, phases=[Phase.explicit, Phase.generate], deadline=None)
        settings.register_profile("mutants", quiet, suppress_health_check=list(HealthCheck), report_multiple_bugs=False)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try mutants in place of running the collected tests once."""
        items = {item.nodeid: item for item in session.items}
        prepare(modules.all_paths(ROOT))
        coverage = self._coverage(session.items)
        for test in coverage.failed:
            print(f"fails without a mutant, and is left out: {test}", flush=True)
        ends = time.monotonic() + self._seconds
        for group, mutant in self._chosen:
            if time.monotonic() > ends:
                break
            outcome = self._outcome(group, mutant, items, coverage)
            self.outcomes.append(outcome)
            if outcome.result is Result.SURVIVED:
                print(f"survived {outcome.tests} tests: {mutant}", flush=True)
                self._history.save()  # a run that is interrupted is not lost
        self._history.save()
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember that the test that is running has failed."""
        self._has_failed |= report.failed

    def _outcome(self, group: str, mutant: Mutant, items: dict[str, pytest.Item], coverage: Coverage) -> Outcome:
        if mutant.identity in self._known:
            return Outcome(group, mutant, Result.EQUIVALENT)
        names = coverage.tests(mutant, self._most, self._history.detections(mutant.identity))
        tests = [items[name] for name in names if name in items]
        result, by = forked(lambda: self._try(mutant, tests, coverage)) or (Result.LATE, names[0])
        if result is not Result.NOT_APPLIED:
            self._history.add(mutant.identity, by)
        return Outcome(group, mutant, result, len(tests))

    def _try(self, mutant: Mutant, tests: Sequence[pytest.Item], coverage: Coverage) -> tuple[Result, str]:
        """Run tests on a mutant until one fails, and say which; a signal ends the process if one does not end."""
        clear_caches()
        try:
            apply(mutant)
        except (CannotApplyError, SyntaxError):
            return Result.NOT_APPLIED, ""
        for test, following in _with_next(tests):
            limit(5 + 5 * coverage.seconds[test.nodeid])
            if not self._passes(test, following):
                return Result.DETECTED, test.nodeid
        return Result.SURVIVED, ""

    def _passes(self, test: pytest.Item, following: pytest.Item | None) -> bool:
        self._has_failed = False
        test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        return not self._has_failed

    def _coverage(self, items: Sequence[pytest.Item]) -> Coverage:
        """What all tests cover."""
        whole, started, cache = Coverage(), time.monotonic(), CoverageCache(ROOT)
        for file, group in itertools.groupby(items, key=lambda item: item.path):
            tests = list(group)
            whole.add(cache.get(file, [test.nodeid for test in tests], partial(self._recorded, tests)))
        print(f"coverage of {len(items)} tests known after {time.monotonic() - started:.0f} s", flush=True)
        return whole

    def _recorded(self, tests: Sequence[pytest.Item]) -> Coverage:
        found = forked(lambda: self._record(tests))
        if found is None:
            sys.exit(f"the tests in {tests[0].path} do not end without a mutant")
        return found

    def _record(self, tests: Sequence[pytest.Item]) -> Coverage:
        coverage, paths = Coverage(), modules.all_paths(ROOT)
        for test, following in _with_next(tests):
            clear_caches()
            limit(_LONGEST_TEST)
            with coverage.record(test.nodeid, paths):
                passes = self._passes(test, following)
            if not passes:
                coverage.leave_out(test.nodeid)
        return coverage


def _with_next(tests: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each test with the one that runs after it: pytest keeps the fixtures that both use."""
    return itertools.zip_longest(tests, tests[1:]) if tests else iter(())


def sample(seed: int, groups: Sequence[str], match: str = "") -> Iterator[tuple[str, Mutant]]:
    """All mutants of these groups in a seeded order; every part of it has each group in proportion to its size."""
    rng = random.Random(seed)  # noqa: S311 - chooses mutants, guards nothing
    places: list[tuple[float, str, Mutant]] = []
    for group in groups:
        found = [each for path in modules.paths(group, ROOT) for each in mutants(path, ROOT)]
        found = [each for each in found if match in f"{each.path}:{each.line} {each.function}"]
        rng.shuffle(found)
        places += [((number + 0.5) / len(found), group, each) for number, each in enumerate(found)]
    for _, group, mutant in sorted(places, key=lambda each: (each[0], each[1])):
        yield group, mutant
