"""The time for simulations, which all allocations of a batch share."""

from __future__ import annotations

from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.admission.allocator import SimulationBudget


async def test_the_time_for_simulations_is_spent_inside_the_block_only() -> None:
    """What one allocation uses, the next has not; what passes between them costs nothing."""
    clock = VirtualClock()
    budget = SimulationBudget(clock, 0.3)
    with budget:
        await clock.advance(0.1)
        assert not budget.is_over()
    await clock.advance(5)
    with budget:
        await clock.advance(0.19)
        assert not budget.is_over()
        await clock.advance(0.01)
        assert budget.is_over()
        await clock.advance(1)
    with budget:
        assert budget.is_over(), "nothing is left, and no time is owed either"
