"""Which lines of some files are executed: by `sys.monitoring` where Python has it, which costs a tenth of a tracer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

_MOST_REPEATS = 500


class ExecutedLines:
    """The lines of some files that were executed."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.lines: dict[str, set[int]] = {path: set() for path in paths}
        """By path from the root."""
        self._by_name: dict[str, set[int] | None] = {}

    def of(self, code: CodeType) -> set[int] | None:
        """The lines of the file of some code; None for a file that is not recorded."""
        name = code.co_filename
        if name not in self._by_name:
            self._by_name[name] = next((lines for path, lines in self.lines.items() if name.endswith("/" + path)), None)
        return self._by_name[name]


@contextmanager
def traced(executed: ExecutedLines) -> Iterator[None]:
    """Record by a trace function, for as long as the context lasts."""
    tracer = _Tracer(executed)
    threading.settrace(tracer.call)
    sys.settrace(tracer.call)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)


class _Tracer:
    """A trace function that notes lines of some files and passes over all others.

    A function that has executed no further line in so many calls is not looked at again: in a property, most calls
    repeat what others did.
    """

    def __init__(self, executed: ExecutedLines) -> None:
        self._executed = executed
        self._repeats: dict[CodeType, int] = {}

    def call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        lines = self._executed.of(code)
        if lines is None or self._repeats.get(code, 0) > _MOST_REPEATS:
            return None
        self._repeats[code] = self._repeats.get(code, 0) + 1

        def line(inner: FrameType, _event: str, _argument: Any) -> Any:
            if inner.f_lineno not in lines:
                lines.add(inner.f_lineno)
                self._repeats[code] = 0
            return line

        return line


if sys.version_info >= (3, 12):

    @contextmanager
    def monitored(executed: ExecutedLines) -> Iterator[None]:
        """Record by events of the interpreter: each line reports itself once, then costs nothing."""
        monitoring = sys.monitoring
        tool, event = monitoring.COVERAGE_ID, monitoring.events.LINE

        def line(code: CodeType, number: int) -> Any:
            lines = executed.of(code)
            if lines is not None:
                lines.add(number)
            return monitoring.DISABLE

        monitoring.use_tool_id(tool, "mutants")
        monitoring.register_callback(tool, event, line)
        monitoring.set_events(tool, event)
        monitoring.restart_events()
        try:
            yield
        finally:
            monitoring.set_events(tool, 0)
            monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)

    recording = monitored
else:
    recording = traced
