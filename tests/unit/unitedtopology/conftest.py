"""A cluster with subsets, for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.unitedtopology.clusters import TopologyCluster


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[TopologyCluster]:
    """A cluster with all controllers running."""
    made = TopologyCluster()
    await made.start()
    yield made
    await made.close()
