"""The stories that need Trimtab in the cluster, played with the whole product, each component as it runs alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.scenarios.labs import HASTY, lab
from tests.scenarios.product import configured, product
from trimtab_lab.scenarios import results, stories
from trimtab_lab.scenarios.runner import Outcome, Runner
from trimtab_lab.scenarios.simulation import node_simulator

GOLDEN = Path(__file__).parent / "golden" / "trimtab"
STORIES = sorted(stories.trimtab_stories())

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Outcome]]:
    """What comes of each story, one after the other: cluster and product share one event loop here."""
    told = [stories.load(path) for path in stories.trimtab_stories().values()]
    folder = tmp_path_factory.mktemp("lab")
    generous = configured(scaleDown={"budgetSeconds": 10, "defaultPolicies": [{"mode": "Enforce"}]})
    async with (
        lab(folder, told) as client,
        product(client, folder / "kubeconfig", generous, ("webhooks", "controllers")),
    ):
        runner = Runner(client, node_simulator(client, settings=HASTY))
        ended = [await runner.play(story) for story in told]
        yield {outcome.story.name: outcome for outcome in ended}


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_level(name: str, outcomes: dict[str, Outcome], pytestconfig: pytest.Config) -> None:
    """All that the story expects holds, nothing that chance does not decide has changed, and nothing is left."""
    rewrite = pytestconfig.getoption("--rewrite-golden")
    assert results.check(outcomes[name], GOLDEN, rewrite=rewrite) == []
    assert outcomes[name].leftovers == ()


def test_every_golden_result_has_its_story() -> None:
    """A story that goes takes its golden result with it."""
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == STORIES
