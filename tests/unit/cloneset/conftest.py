"""A cluster for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.cloneset.clusters import CloneSetCluster


@pytest_asyncio.fixture
async def world() -> AsyncIterator[CloneSetCluster]:
    """A cluster with a CloneSet controller."""
    cluster = CloneSetCluster()
    await cluster.start()
    yield cluster
    await cluster.close()
