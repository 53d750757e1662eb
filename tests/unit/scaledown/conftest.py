"""A world to work in, for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.scaledown.worlds import PolicyWorld


@pytest_asyncio.fixture
async def world() -> AsyncIterator[PolicyWorld]:
    """A cluster of two zones whose policies are looked after."""
    made = PolicyWorld()
    await made.start()
    await made.add_nodes("a1", "a2", zone="a")
    await made.add_nodes("b1", zone="b")
    made.place_on("a1", "b1", "a2")
    yield made
    await made.close()
