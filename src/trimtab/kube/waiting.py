"""Waiting for conditions, which are tested after each change of what they depend on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Waiters:
    """The tasks that wait for conditions."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; an error in it is raised here."""
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (condition, future)
        self._waiting.append(entry)
        try:
            await future
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def wake(self) -> None:
        """Test all conditions."""
        remaining = []
        for condition, future in self._waiting:
            if future.done():
                continue
            try:
                if condition():
                    future.set_result(None)
                else:
                    remaining.append((condition, future))
            except Exception as error:  # noqa: BLE001 - raised to the waiter
                future.set_exception(error)
        self._waiting = remaining
