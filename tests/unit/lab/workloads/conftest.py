"""A lab for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from trimtab_lab.testing import InMemoryLab


@pytest_asyncio.fixture
async def lab() -> AsyncIterator[InMemoryLab]:
    """A lab with all controllers running."""
    made = InMemoryLab()
    await made.start()
    yield made
    await made.close()
