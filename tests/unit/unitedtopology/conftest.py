"""A world with subsets, for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.unitedtopology.worlds import TopologyWorld


@pytest_asyncio.fixture
async def world() -> AsyncIterator[TopologyWorld]:
    """A cluster with all controllers running."""
    made = TopologyWorld()
    await made.start()
    yield made
    await made.close()
