"""Decisions about a batch of requests, and the time for simulations, which all of a batch share."""

from __future__ import annotations

from typing import Any, cast

from tests.unit.unitedtopology.clusters import subset, topology_tree
from trimtab.api import codec
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.admission.allocator import Allocator, SimulationBudget
from trimtab.unitedtopology.admission.pending import PendingBatch


async def test_without_new_pods_one_that_was_never_counted_stays_as_it_is() -> None:
    """There is no subset to announce a deletion in or to take a reservation from, and nothing is looked up."""
    topology = codec.convert(topology_tree(subset("a", "z1", 5)), UnitedTopology)
    nothing = cast("Any", object())
    batch = PendingBatch(withdrawn={"r"}, reverts={"p"})
    decision = await Allocator(nothing, VirtualClock()).decide(topology, batch, replicas=None, listed_version="")
    assert decision.topology is topology
    assert decision.announced == frozenset()


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
