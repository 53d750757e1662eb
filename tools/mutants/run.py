"""The run: a pytest plugin that tries one mutant after another with the tests that execute it."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tools.mutants import modules
from tools.mutants.coverage import Coverage
from tools.mutants.operators import Identity, Mutant, mutants
from tools.mutants.processes import forked
from tools.mutants.replacement import CannotApplyError, apply, clear_caches
from tools.mutants.report import Outcome, Result

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".mutants_cache"
_MOST_SECONDS = 60.0
"""How long the tests of one mutant take at most, by their durations when coverage was recorded; the fastest are run."""


class MutantRun:
    """Records what tests cover, then tries mutants until the time is over."""

    def __init__(self, chosen: Iterator[tuple[str, Mutant]], known: set[Identity], seconds: float) -> None:
        self._chosen = chosen
        self._known = known
        self._seconds = seconds
        self._has_failed = False
        self.outcomes: list[Outcome] = []

    def pytest_configure(self) -> None:
        """Make hypothesis try the same examples each time, and not search for the smallest one that fails."""
        from hypothesis import HealthCheck, Phase, settings  # not before pytest has imported it

        quiet = settings(derandomize=True, database=None, phases=[Phase.explicit, Phase.generate], deadline=None)
        settings.register_profile("mutants", quiet, suppress_health_check=list(HealthCheck))
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try mutants in place of running the collected tests once."""
        items = {item.nodeid: item for item in session.items}
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
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember that the test that is running has failed."""
        self._has_failed |= report.failed

    def _outcome(self, group: str, mutant: Mutant, items: dict[str, pytest.Item], coverage: Coverage) -> Outcome:
        if mutant.identity in self._known:
            return Outcome(group, mutant, Result.EQUIVALENT)
        tests = [items[name] for name in coverage.tests(mutant, _MOST_SECONDS) if name in items]
        found = forked(lambda: self._try(mutant, tests, coverage))
        return Outcome(group, mutant, Result.LATE if found is None else found, len(tests))

    def _try(self, mutant: Mutant, tests: Sequence[pytest.Item], coverage: Coverage) -> Result:
        """Run tests on a mutant until one fails; the process ends by a signal if one does not end."""
        clear_caches()
        try:
            apply(mutant)
        except (CannotApplyError, SyntaxError):
            return Result.NOT_APPLIED
        for test, following in _with_next(tests):
            signal.setitimer(signal.ITIMER_REAL, 20 + 10 * coverage.seconds[test.nodeid])
            if not self._passes(test, following):
                return Result.DETECTED
        return Result.SURVIVED

    def _passes(self, test: pytest.Item, following: pytest.Item | None) -> bool:
        self._has_failed = False
        test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        return not self._has_failed

    def _coverage(self, items: Sequence[pytest.Item]) -> Coverage:
        """What tests cover: of each file of tests, as recorded before for the same core, or now."""
        whole, started, common = Coverage(), time.monotonic(), fingerprint()
        CACHE.mkdir(exist_ok=True)
        by_file = {_cache(file, common): list(tests) for file, tests in itertools.groupby(items, key=_path)}
        for cache, tests in by_file.items():
            if not cache.exists():
                cache.write_bytes(pickle.dumps(self._recorded(tests)))
            whole.add(pickle.loads(cache.read_bytes()))  # noqa: S301 - our own cache
        for old in set(CACHE.iterdir()) - by_file.keys():
            old.unlink()
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
            with coverage.record(test.nodeid, paths):
                passes = self._passes(test, following)
            if not passes:
                coverage.leave_out(test.nodeid)
        return coverage


def _path(item: pytest.Item) -> Path:
    return item.path


def _cache(file: Path, common: bytes) -> Path:
    """Where the coverage of a file of tests is kept."""
    return CACHE / f"{hashlib.sha256(common + str(file).encode() + file.read_bytes()).hexdigest()[:32]}.pickle"


def _with_next(tests: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each test with the one that runs after it: pytest keeps the fixtures that both use."""
    return itertools.zip_longest(tests, tests[1:]) if tests else iter(())


def fingerprint() -> bytes:
    """A hash of what the coverage of all tests depends on: the core, and what tests share."""
    found = hashlib.sha256()
    core = [ROOT / path for path in modules.all_paths(ROOT)]
    shared = [path for path in sorted((ROOT / "tests" / "unit").rglob("*.py")) if not path.name.startswith("test_")]
    for path in (*core, *shared):
        found.update(str(path).encode() + path.read_bytes())
    return found.digest()


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
