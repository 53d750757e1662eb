"""Decisions about many pods, which are made in another thread while events go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from unittest.mock import Mock

import pytest
import pytest_asyncio

from tests.unit.cloneset.clusters import CloneSetCluster, manifest
from tests.unit.scaledown.executors import LateExecutor
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.cloneset import decisions, reconciler
from trimtab.cloneset import plan as plans

MOST = 20
"""More decisions than any of these tests needs."""


class LateCluster(CloneSetCluster):
    """A cluster whose decisions are made when the test lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.executor = LateExecutor()

    async def decide(self) -> None:
        """Make all decisions that are due, and let the controller act on them."""
        for _ in range(MOST):
            if not self.executor.waiting:
                return
            self.executor.compute()
            await self.settle()
            await self.run_pods()
        raise AssertionError("the controller decides without end")

    @property
    def deletions(self) -> int:
        """How many pods the controller has deleted."""
        return sum(request.method == "DELETE" and "/pods/" in request.path for request in self.wire.requests)


@pytest_asyncio.fixture
async def late(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LateCluster]:
    """A CloneSet with four pods."""
    made = LateCluster()
    monkeypatch.setattr(decisions, "MOST_IN_LOOP", 1)
    monkeypatch.setattr(reconciler, "ThreadPoolExecutor", lambda *_, **__: made.executor)
    await made.start()
    await made.create(CloneSet, manifest(4))
    await made.settle()
    await made.run_pods()
    await made.decide()
    assert len(await made.names()) == 4
    yield made
    await made.close()


async def test_a_decision_made_beside_the_event_loop_is_carried_out(late: LateCluster) -> None:
    """As one that is made in it."""
    await late.resize(2)
    assert (late.deletions, bool(late.executor.waiting)) == (0, True)
    await late.decide()
    assert (late.deletions, len(await late.names())) == (2, 2)
    assert (await late.cloneset()).status.replicas == 2


async def test_pods_that_change_meanwhile_are_decided_on_again(late: LateCluster) -> None:
    """A pod that is deleted by someone else is one less to delete."""
    await late.resize(2)
    await late.user.delete(Pod, min(await late.names()), namespace="default")
    await late.settle()
    await late.run_pods()
    await late.decide()
    assert (late.deletions, len(await late.names())) == (1, 2)


async def test_a_decision_about_another_size_is_discarded(late: LateCluster) -> None:
    """Nothing is deleted for a scale-down that was taken back."""
    await late.resize(2)
    await late.resize(4)
    await late.decide()
    assert (late.deletions, len(await late.names())) == (0, 4)


async def test_pods_that_never_stop_changing_are_decided_on_all_the_same(
    late: LateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some attempts the last one has to do, since it is about the same pods; none is made on the event loop."""
    decide = Mock(wraps=plans.plan)
    monkeypatch.setattr(plans, "plan", decide)
    await late.resize(2)
    computed = 0
    while late.deletions == 0 and computed < MOST:
        for name in await late.names():
            await late.patch(Pod, name, {"metadata": {"annotations": {"at": str(computed)}}})
        late.executor.compute()
        computed += 1
        await late.settle()
    assert (late.deletions, computed, decide.call_count) == (2, 3, 3)


async def test_other_pods_in_every_attempt_are_decided_on_in_the_event_loop(late: LateCluster) -> None:
    """A decision about pods that are gone would delete one too many."""
    await late.resize(1)
    for _ in range(3):
        await late.user.delete(Pod, min(await late.names()), namespace="default")
        await late.settle()
        await late.run_pods()
        late.executor.compute()
        await late.settle()
    assert (late.deletions, len(await late.names())) == (0, 1)
