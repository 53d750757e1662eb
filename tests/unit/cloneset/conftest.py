"""A world to work in, for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.cloneset.worlds import CloneSetWorld


@pytest_asyncio.fixture
async def world() -> AsyncIterator[CloneSetWorld]:
    """A cluster whose CloneSets are looked after."""
    made = CloneSetWorld()
    await made.start()
    yield made
    await made.close()
