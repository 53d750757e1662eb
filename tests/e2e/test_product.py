"""Trimtab as it is run, on a control plane with controllers of its own: the stories that need it end level.

The webhooks are called as those of an installation, match conditions included where there is CEL, for the stories'
namespaces alone: the cluster may be shared with others. Stories are played one after the other.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.processes import CONTROLLERS, WEBHOOKS, cluster_wide, running
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.sessions import Session
from trimtab_lab.scenarios import results, stories
from trimtab_lab.scenarios.runner import Outcome, Runner
from trimtab_lab.scenarios.simulation import node_simulator

GOLDEN = Path(__file__).parents[1] / "scenarios" / "golden" / "trimtab"
LABEL = "trimtab-e2e"

pytestmark = pytest.mark.e2e


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(control_plane: Path) -> AsyncIterator[dict[str, Outcome]]:
    """The outcome of each story. The default policy observes, as in an installation, unless a story enforces it."""
    name = f"stories-{secrets.token_hex(4)}"
    labels = {LABEL: name}
    policy = {"name": name, "namespaceSelector": {"matchLabels": labels}}
    tree = cluster_wide(name, scaleDown={"defaultPolicies": [policy]})
    loaded = [stories.load(path) for path in stories.trimtab_stories().values()]
    labelled = [replace(story, namespace_labels={**story.namespace_labels, **labels}) for story in loaded]
    async with (
        Client(Session(discover(control_plane))) as client,
        running(client, tree, [WEBHOOKS, CONTROLLERS], labels=labels),
    ):
        runner = Runner(client, node_simulator(client))
        ended = [await runner.play(story) for story in labelled]
    yield {outcome.story.name: outcome for outcome in ended}


@pytest.mark.parametrize("name", sorted(stories.trimtab_stories()))
def test_a_story_ends_level(name: str, outcomes: dict[str, Outcome]) -> None:
    """With the recorded result."""
    assert results.check(outcomes[name], GOLDEN) == []
    assert outcomes[name].leftovers == ()
