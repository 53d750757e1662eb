"""Which tests execute which lines of the core, and how long each takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.mutants.operators import Mutant
from tools.mutants.recording import ExecutedLines, recording


@dataclass
class Coverage:
    """The lines that each test executes, and its seconds."""

    lines: dict[str, dict[str, set[int]]] = field(default_factory=dict)
    """By test, then by file."""
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    """Tests that fail without a mutant: they say nothing about one."""

    @property
    def paths(self) -> set[str]:
        """The files that any test executes."""
        return {path for files in self.lines.values() for path in files}

    def add(self, other: Coverage) -> None:
        """Add what other tests cover."""
        self.lines |= other.lines
        self.seconds |= other.seconds
        self.failed += other.failed

    def leave_out(self, test: str) -> None:
        """Leave out a test that fails without a mutant."""
        self.failed.append(test)
        del self.lines[test]

    def tests(self, mutant: Mutant, most: float, detections: Mapping[str, int] | None = None) -> list[str]:
        """The tests that execute the changed statement, as many as take so many seconds together.

        Those that detected most mutants of the same function come first, then the fastest of each file of tests in
        turn; the file of the module itself (`test_skews.py` for `skews.py`) has four turns for one of the others.
        """
        wanted, own, detected = set(mutant.lines), f"/test_{Path(mutant.path).stem}.py::", detections or {}
        found = [test for test, files in self.lines.items() if not wanted.isdisjoint(files.get(mutant.path, ()))]
        turns: dict[str, tuple[int, bool]] = {}
        counts: Counter[str] = Counter()
        for test in sorted(found, key=lambda test: (self.seconds[test], test)):
            file, is_own = test.partition("::")[0], own in test
            turns[test] = (counts[file] // (4 if is_own else 1), not is_own)
            counts[file] += 1
        found.sort(key=lambda test: (-detected.get(test, 0), turns[test], self.seconds[test], test))
        return self._within(found, most) or found[:1]

    def _within(self, tests: Iterable[str], most: float) -> list[str]:
        """The tests for which there is time; one that takes too long does not displace those after it."""
        chosen: list[str] = []
        for test in tests:
            if self.seconds[test] <= most:
                chosen.append(test)
                most -= self.seconds[test]
        return chosen

    @contextmanager
    def record(self, test: str, paths: Iterable[str]) -> Iterator[None]:
        """Record what is executed within the block."""
        executed = ExecutedLines(paths)
        started = time.process_time()  # however busy the machine is
        with recording(executed):
            yield
        self.seconds[test] = time.process_time() - started
        self.lines[test] = {path: lines for path, lines in executed.lines.items() if lines}
