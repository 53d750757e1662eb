"""The hooks as a component: when they are ready, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.unitedtopology.admission.test_pod_reviews import WebhookProcess, newcomer, review
from tests.unit.unitedtopology.admission.test_status_batcher import topology
from trimtab.kube.errors import Unreachable


@pytest.fixture
async def process() -> AsyncIterator[WebhookProcess]:
    """A webhook process."""
    running = WebhookProcess(None)
    yield running
    await running.close()


async def test_hooks_are_ready_when_the_caches_are_filled(process: WebhookProcess) -> None:
    """Until then requests are admitted without a decision."""
    hooks = process.subsets.hooks
    assert [(hook.path, hook.is_ready()) for hook in hooks] == [("/pods", False), ("/deletions", False)]
    await process.create_topology(topology(1))
    assert [hook.is_ready() for hook in hooks] == [True, True]
    assert process.subsets.problems == []


async def test_nothing_is_written_after_the_end(process: WebhookProcess) -> None:
    """Withdrawals that are still to be tried again are left to the controller."""
    await process.create_topology(topology(1))
    process.server.intercept = lambda _: Unreachable("connection refused", sent=False)
    with pytest.raises(Unreachable):
        await process.ask(review("CREATE", newcomer()))
    await process.close()
    process.server.requests.clear()
    await process.clock.advance(60)
    assert process.server.requests == []
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
