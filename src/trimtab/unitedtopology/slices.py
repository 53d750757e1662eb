"""Long work on the event loop, in slices between which other tasks run.

A user decides how many subsets and pods there are, so no decision about all of them may be made without a pause. What
was read before a pause may be out of date after it. So a decision is made from values that do not change, and what
follows from it is written on condition that the object is still the version that was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from trimtab.kube.clocks import SECOND, Clock
from trimtab.subsets.questions import Questions

Q = TypeVar("Q")
R = TypeVar("R")

SLICE = 0.01
"""Seconds of a slice. The last step of a slice may take some times as long by itself."""


class Slices:
    """Says when a slice is over. The first one begins now."""

    def __init__(self, clock: Clock, seconds: float = SLICE) -> None:
        self._clock = clock
        self._length = round(seconds * SECOND)
        self._until = clock.monotonic() + self._length

    async def pause(self) -> None:
        """Let other tasks run if the slice is over."""
        if self._clock.monotonic() >= self._until:
            await asyncio.sleep(0)
            self._until = self._clock.monotonic() + self._length


async def answer_in_slices(questions: Questions[Q, R], answer: Callable[[Q], Awaitable[bool]], slices: Slices) -> R:
    """The decision, with the answers to its questions; see `questions.answer_all`."""
    reply: bool | None = None
    while True:
        await slices.pause()
        try:
            question = questions.send(reply)
        except StopIteration as end:
            decision: R = end.value
            return decision
        reply = question is not None and await answer(question)
