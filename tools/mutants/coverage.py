"""Which tests execute which lines of the core, and how long each takes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tools.mutants.operators import Mutant


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

        Those that detected most mutants of the same function come first, then those of the module itself
        (`test_skews.py` for `skews.py`), then the fastest.
        """
        wanted, own, detected = set(mutant.lines), f"/test_{Path(mutant.path).stem}.py::", detections or {}
        found = [test for test, files in self.lines.items() if not wanted.isdisjoint(files.get(mutant.path, ()))]
        found.sort(key=lambda test: (-detected.get(test, 0), own not in test, self.seconds[test], test))
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
        started = time.monotonic()
        threading.settrace(tracer.call)
        sys.settrace(tracer.call)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)
        self.seconds[test] = time.monotonic() - started
        self.lines[test] = {path: lines for path, lines in tracer.lines.items() if lines}


class _Tracer:
    """A trace function that notes lines of some files and passes over all others."""

    def __init__(self, lines: dict[str, set[int]]) -> None:
        self.lines = lines
        self._by_name: dict[str, set[int] | None] = {}

    def call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in self._by_name:
            self._by_name[name] = next((lines for path, lines in self.lines.items() if name.endswith("/" + path)), None)
        lines = self._by_name[name]
        if lines is None:
            return None

        def line(inner: FrameType, _event: str, _argument: Any) -> Any:
            lines.add(inner.f_lineno)
            return line

        return line
