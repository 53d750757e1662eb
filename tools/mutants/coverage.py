"""Which tests execute which lines of the core, and how long each takes."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tools.mutants.operators import Mutant

_MOST_REPEATS = 500


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
        tracer = _Tracer({path: set() for path in paths})
        started = time.process_time()  # however busy the machine is
        threading.settrace(tracer.call)
        sys.settrace(tracer.call)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)
        self.seconds[test] = time.process_time() - started
        self.lines[test] = {path: lines for path, lines in tracer.lines.items() if lines}


class _Tracer:
    """A trace function that notes lines of some files and passes over all others.

    A function that has executed no further line in so many calls is not looked at again: in a property, most calls
    repeat what others did.
    """

    def __init__(self, lines: dict[str, set[int]]) -> None:
        self.lines = lines
        self._by_name: dict[str, set[int] | None] = {}
        self._repeats: dict[CodeType, int] = {}

    def call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self._by_name:
            self._by_name[code.co_filename] = self._of(code.co_filename)
        lines = self._by_name[code.co_filename]
        if lines is None or self._repeats.get(code, 0) > _MOST_REPEATS:
            return None
        self._repeats[code] = self._repeats.get(code, 0) + 1

        def line(inner: FrameType, _event: str, _argument: Any) -> Any:
            if inner.f_lineno not in lines:
                lines.add(inner.f_lineno)
                self._repeats[code] = 0
            return line

        return line

    def _of(self, name: str) -> set[int] | None:
        return next((lines for path, lines in self.lines.items() if name.endswith("/" + path)), None)
