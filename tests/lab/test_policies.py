"""Policies over the wire: the proposal's three stories, costs that come and go, and what a server refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.lab.fleets import Fleet, fleet
from tests.lab.policing import STORIES, Police, policing
from tests.scenarios.labs import lab
from trimtab.kube.client import Client

TWO_ZONES = {"zone-a": 3, "zone-b": 3}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a whole lab."""
    async with lab(tmp_path, ()) as made:
        yield made


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
async def test_a_story_of_the_proposal(client: Client, story: Callable[[Fleet, Police], Awaitable[None]]) -> None:
    """As its teller would have it."""
    async with fleet(client, TWO_ZONES) as made, policing(client, made.name) as police:
        await story(made, police)
