"""A world to work in, for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.lab.workloads.clusters import World


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    """A cluster with all controllers running."""
    made = World()
    await made.start()
    yield made
    await made.close()
