"""Finds what the main thread executes when it has used more CPU time than an event loop may without a pause.

A timer of the operating system counts the CPU time of the process and interrupts it, so this costs nothing while the
loop is free. Other threads may have used that time: the timer is then set again, for what the main thread has left. C
code is not interrupted: the place is then the Python line that called it.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Self

_PACKAGE = "trimtab"
_MOST_PLACES = 4
"""How many functions of one stack are named."""
_SHORTEST = 0.002
"""Seconds for which the timer is set again at least: it must not interrupt the process all the time."""


class BusyPlaces:
    """Remembers where the main thread was when its CPU time was used up, while it is entered as a context."""

    def __init__(self, seconds: float) -> None:
        """`seconds` of CPU time of the main thread may pass between two calls of `restart`."""
        self._seconds = seconds
        self._place = ""
        self._started = 0.0
        """What the main thread had used when the time started."""
        self._is_active = False

    def __enter__(self) -> Self:
        """Handle the timer's signal; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGPROF, self._interrupted)
            signal.siginterrupt(signal.SIGPROF, False)  # system calls of other threads go on
            self._is_active = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the timer."""
        if self._is_active:
            self._is_active = False
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, self._before)

    def restart(self) -> None:
        """Start to count anew: the loop is free."""
        self._place = ""
        if self._is_active:
            self._started = time.thread_time()
            signal.setitimer(signal.ITIMER_PROF, self._seconds)

    @property
    def place(self) -> str:
        """What was executed when the time was used up, callers last; empty where it was not."""
        return self._place

    def _interrupted(self, _: int, frame: FrameType | None) -> None:
        if not self._is_active:  # a signal that was pending at the end: without a handler, the next would be fatal
            return
        left = self._started + self._seconds - time.thread_time()
        if left > 0:
            signal.setitimer(signal.ITIMER_PROF, max(left, _SHORTEST))
        else:
            self._place = named(frame)


def named(frame: FrameType | None) -> str:
    """The innermost function of a stack, and the innermost ones of Trimtab."""
    places: list[str] = []
    while frame is not None and len(places) < _MOST_PLACES:
        module = str(frame.f_globals.get("__name__", ""))
        if not places or module.partition(".")[0] == _PACKAGE:
            places.append(f"{module}.{frame.f_code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(places)
