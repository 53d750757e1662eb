"""The stories that come with Trimtab, played on the lab, all at once, and compared with their golden results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import pytest_asyncio

from tests.scenarios.labs import HASTY, lab
from trimtab_lab.scenarios import charts, results, stories
from trimtab_lab.scenarios.runner import Outcome, Runner
from trimtab_lab.scenarios.simulation import node_simulator

GOLDEN = Path(__file__).parent / "golden"
STORIES = sorted(stories.kubernetes_stories())

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Outcome]]:
    """What comes of each story. They run side by side on one cluster, as they are made to."""
    told = [stories.load(path) for path in stories.kubernetes_stories().values()]
    async with lab(tmp_path_factory.mktemp("lab"), told) as client:
        runner = Runner(client, node_simulator(client, settings=HASTY))
        ended = await asyncio.gather(*(runner.play(story) for story in told))
        yield {outcome.story.name: outcome for outcome in ended}


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_as_its_golden_result_says(
    name: str, outcomes: dict[str, Outcome], pytestconfig: pytest.Config
) -> None:
    """All that the story expects holds, and nothing that chance does not decide has changed."""
    rewrite = pytestconfig.getoption("--rewrite-golden")
    assert results.check(outcomes[name], GOLDEN, rewrite=rewrite) == []


@pytest.mark.parametrize("name", STORIES)
def test_a_story_leaves_nothing_behind(name: str, outcomes: dict[str, Outcome]) -> None:
    """Namespace, nodes and all that was in them are gone."""
    assert outcomes[name].leftovers == ()


@pytest.mark.parametrize("name", STORIES)
def test_a_story_can_be_drawn(name: str, outcomes: dict[str, Outcome]) -> None:
    """Each topology key has a chart with a lane for each domain that was ever seen."""
    outcome = outcomes[name]
    for key in outcome.story.topology:
        root = ET.fromstring(charts.draw(outcome, key))  # noqa: S314 - our own text
        lanes = {lane.get("data-domain") for lane in root.findall(".//{*}g")} - {None}
        assert lanes == {birth.domain for birth in outcome.timeline.domains_added if birth.key == key}


@pytest.mark.parametrize("name", sorted(stories.gated_stories()))
async def test_a_story_with_feature_gates_ends_as_it_says(name: str, tmp_path: Path) -> None:
    """On a lab whose controllers have them; with the defaults, the same steps end otherwise (ages-of-one-scale)."""
    story = stories.load(stories.gated_stories()[name])
    async with lab(tmp_path, [story]) as client:
        outcome = await Runner(client, node_simulator(client, settings=HASTY)).play(story)
    assert outcome.complete
    assert outcome.failures == []


def test_every_golden_result_has_its_story() -> None:
    """A story that goes takes its golden result with it."""
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == STORIES
