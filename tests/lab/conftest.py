"""A server for every test, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.lab.wire import TOKEN, Wire, connected
from trimtab_lab.apiserver.admission.users import AUTHENTICATED, User
from trimtab_lab.apiserver.wire.server import Server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """An API server on a free port of loopback."""
    tokens = {TOKEN: User("tester", ("system:masters", AUTHENTICATED))}
    async with Server(tmp_path / "lab", tokens=tokens, seed=1) as running:
        yield running


@pytest.fixture
async def wire(server: Server) -> AsyncIterator[Wire]:
    """A client of that server."""
    async with connected(server) as client:
        yield client
