"""The stories that come with Trimtab, on a control plane with controllers of its own: they must end as on the lab.

The cluster's own scheduler places the pods, or the one that TRIMTAB_E2E_SCHEDULER names. Stories that need a
scheduler with a configuration of theirs get ours, and CloneSets our controller.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.scenarios.labs import cloning, scheduling
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.sessions import Session
from trimtab_lab.scenarios import results, stories
from trimtab_lab.scenarios.runner import Options, Outcome, Runner
from trimtab_lab.scenarios.simulation import node_simulator

GOLDEN = Path(__file__).parents[1] / "scenarios/golden"
OPTIONS = Options(scheduler=os.environ.get("TRIMTAB_E2E_SCHEDULER", ""))

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not {"KUBECONFIG", "CONTROL_PLANE"} & os.environ.keys(),
        reason="the embedded lab plays the stories in tests/scenarios",
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes() -> AsyncIterator[dict[str, Outcome]]:
    """What comes of each story, all played at once."""
    told = [stories.load(path) for path in stories.kubernetes_stories().values()]
    async with Client(Session(discover())) as client, AsyncExitStack() as schedulers, cloning(client):
        for story in told:
            if story.scheduler is not None:
                await schedulers.enter_async_context(scheduling(client, story.scheduler.tree()))
        runner = Runner(client, node_simulator(client), OPTIONS)
        ended = await asyncio.gather(*(runner.play(story) for story in told))
        yield {outcome.story.name: outcome for outcome in ended}


@pytest.mark.parametrize("name", sorted(stories.kubernetes_stories()))
def test_a_story_ends_as_its_golden_result_says(name: str, outcomes: dict[str, Outcome]) -> None:
    """What the lab is held to, a real control plane does."""
    assert results.check(outcomes[name], GOLDEN) == []
    assert outcomes[name].leftovers == ()
