"""Forked processes: what runs in one leaves this process, and the files, as they were."""

from __future__ import annotations

import itertools
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MEMORY = 4 << 30
"""What a mutant may use, in bytes, before it fails."""

IDLE = 20.0
"""Seconds in which a process that is not waiting for ever uses some processor time, however busy the machine is."""
_LEAST_USED = 0.02
_MOST_CHECKS = 20


def limit(seconds: float, idle: float = IDLE) -> None:
    """End this process by a signal once it has worked for so many seconds of processor time, or waits for ever."""
    used, checks = time.process_time(), itertools.count(1)

    def check(*_: object) -> None:
        nonlocal used
        before, used = used, time.process_time()
        if used - before < _LEAST_USED or next(checks) > _MOST_CHECKS:
            os.kill(os.getpid(), signal.SIGKILL)

    signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, idle, idle)


def forked(work: Callable[[], T]) -> T | None:
    """What a function returns in a forked process; nothing if the process was ended by a signal."""
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            _run(work, file)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return None
        if os.WEXITSTATUS(status) != 0:
            raise RuntimeError("the forked process failed")
        file.seek(0)
        result: T = pickle.load(file)  # noqa: S301  # written by our own child
        return result


def _run(work: Callable[[], Any], file: Any) -> None:
    """Run, write the result, and leave without the exit handlers of the parent."""
    code = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        pickle.dump(work(), file)
        file.flush()
        code = 0
    finally:
        sys.stdout.flush()
        os._exit(code)
