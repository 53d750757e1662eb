"""An executor without threads, for tests of what is computed in others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class InlineExecutor(Executor):
    """Has computed what it is given by the time that it returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Compute it now."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future
