"""An executor without threads, for tests of what is computed in others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any


class InlineExecutor(Executor):
    """Has computed what it is given by the time that it returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Compute it now."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class LateExecutor(Executor):
    """Computes nothing before it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Compute it later."""
        future: Future[Any] = Future()
        self.waiting.append((future, partial(fn, *args, **kwargs)))
        return future

    def compute(self) -> None:
        """Compute everything that was not cancelled."""
        waiting, self.waiting = self.waiting, []
        for future, work in waiting:
            if future.set_running_or_notify_cancel():
                future.set_result(work())
