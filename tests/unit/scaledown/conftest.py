"""A cluster for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.scaledown.policy_cluster import PolicyCluster


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[PolicyCluster]:
    """A cluster of two zones with the controllers of policies."""
    made = PolicyCluster()
    await made.start()
    await made.add_nodes("a1", "a2", zone="a")
    await made.add_nodes("b1", zone="b")
    made.place_on("a1", "b1", "a2")
    yield made
    await made.close()
