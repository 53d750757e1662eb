"""Long work in slices, between which other tasks run."""

from __future__ import annotations

import asyncio

from tests.unit.unitedtopology.admission.test_status_batcher import BusyClock
from trimtab.subsets.questions import Questions, answer_all
from trimtab.unitedtopology.slices import Slices, answer_in_slices


def sum_of_even(most: int) -> Questions[int, int]:
    """A decision: the sum of the numbers for which the answer is yes; None is no question."""
    total = 0
    for number in range(most):
        yield None
        if (yield number):
            total += number
    return total


def is_even(number: int) -> bool:
    """The answer."""
    return number % 2 == 0


async def test_answers_in_slices_lead_to_the_same_decision() -> None:
    """Whatever the length of a slice."""

    async def answer(number: int) -> bool:
        return is_even(number)

    want = answer_all(sum_of_even(9), is_even)
    assert want == 20
    for seconds in (0, 1):
        slices = Slices(BusyClock(), seconds)
        assert await answer_in_slices(sum_of_even(9), answer, slices) == want


async def test_other_tasks_run_when_a_slice_is_over_and_not_before() -> None:
    """Each question takes 4 ms of a slice of 10 ms: after three of them."""
    clock = BusyClock()
    turns = 0
    asked: list[int] = []

    async def answer(_: int) -> bool:
        asked.append(turns)
        clock.work(0.004)
        return True

    work = asyncio.ensure_future(answer_in_slices(sum_of_even(9), answer, Slices(clock, 0.01)))
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    assert asked == [1, 1, 1, 2, 2, 2, 3, 3, 3]
