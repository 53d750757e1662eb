"""An event loop in a thread of its own, for what must not wait until the main loop has time.

A decision about ten thousand pods keeps the main loop busy for a while; a lease must be renewed meanwhile, and a probe
answered. Python threads take turns every few milliseconds, whatever code the other one runs. A lease and the answers
to probes have a loop each: whoever reaches the port for probes cannot delay a renewal.

What runs here must not share anything with the main loop that is bound to a loop: it has a client of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from trimtab.kube.processes import new_event_loop

T = TypeVar("T")


class SideLoop:
    """A second event loop. Use it with `async with`."""

    def __init__(self, name: str = "side-loop") -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work there, and wait for it. Cancellation cancels it there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
