"""Forked processes: what runs in one leaves this process, and the files, as they were."""

from __future__ import annotations

import os
import pickle
import resource
import sys
import tempfile
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MEMORY = 4 << 30
"""What a mutant may use, in bytes, before it fails."""


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
