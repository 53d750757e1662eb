"""A world to work in, for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.cloneset.clusters import CloneSetCluster


@pytest_asyncio.fixture
async def world() -> AsyncIterator[CloneSetCluster]:
    """A cluster whose CloneSets are looked after."""
    made = CloneSetCluster()
    await made.start()
    yield made
    await made.close()
