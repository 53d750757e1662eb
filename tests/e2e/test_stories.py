"""The stories that come with Trimtab, on a control plane with controllers of its own: they must end as on the lab.

The cluster's own scheduler places the pods, or the one that TRIMTAB_E2E_SCHEDULER names. Trimtab's scheduler runs with
the profiles of stories that have some, and its controllers for CloneSets; no workload is kept level.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.processes import CONTROLLERS, SCHEDULER, cluster_wide, running
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
    """The outcome of each story, all played at once."""
    loaded = [stories.load(path) for path in stories.kubernetes_stories().values()]
    profiles = [profile for story in loaded if story.scheduler for profile in story.scheduler.tree()["profiles"]]
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": profiles,
    }
    tree = cluster_wide(f"stories-{secrets.token_hex(4)}", scheduler=scheduler)
    async with Client(Session(discover())) as client, running(client, tree, [SCHEDULER, CONTROLLERS]):
        runner = Runner(client, node_simulator(client), OPTIONS)
        ended = await asyncio.gather(*(runner.play(story) for story in loaded))
        yield {outcome.story.name: outcome for outcome in ended}


@pytest.mark.parametrize("name", sorted(stories.kubernetes_stories()))
def test_a_story_ends_as_its_golden_result_says(name: str, outcomes: dict[str, Outcome]) -> None:
    """What the lab is held to, a real control plane does."""
    assert results.check(outcomes[name], GOLDEN) == []
    assert outcomes[name].leftovers == ()
