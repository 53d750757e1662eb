"""Components together, and by turns."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.components import Candidate, ComponentGroup, FeatureGroup, LeaderElectedComponent, notes_of
from trimtab.kube.errors import LeadershipLost
from trimtab.kube.leases import Elector
from trimtab.testing.clocks import VirtualClock


@dataclass(slots=True)
class Part:
    """A component that behaves as configured."""

    synced: bool = True
    problems: list[str] = field(default_factory=list)
    error: Exception | None = None
    ends: bool = False
    ended: bool = False

    async def run(self) -> None:
        """Run, fail, or end."""
        try:
            if self.error is not None:
                raise self.error
            if not self.ends:
                await asyncio.Event().wait()
        finally:
            self.ended = True


async def test_an_error_of_one_component_ends_the_others() -> None:
    """And is raised as it is, not wrapped."""
    patient = Part()
    with pytest.raises(KeyError, match="zone"):
        await ComponentGroup({"patient": patient, "broken": Part(error=KeyError("zone"))}).run()
    assert patient.ended


async def test_a_component_that_returns_ends_the_others() -> None:
    """A process that does half of its work would look healthy from the outside."""
    patient = Part()
    with pytest.raises(RuntimeError, match="short ended unexpectedly"):
        await ComponentGroup({"patient": patient, "short": Part(ends=True)}).run()
    assert patient.ended


def test_a_group_has_synced_when_all_components_have() -> None:
    """Problems are listed with the name of the component."""
    together = ComponentGroup({"one": Part(), "other": Part(synced=False, problems=["nodes: forbidden"])})
    assert not together.synced
    assert together.problems == ["other: nodes: forbidden"]


async def test_a_leader_elected_component_is_created_anew_for_each_term() -> None:
    """A process that waits is ready; one that loses the lease stops, and stands again."""
    clock = VirtualClock()
    client = Client(FakeServer(clock), clock=clock, rng=random.Random(1))
    made: list[Part] = []
    electors: list[Elector] = []

    def elect() -> Elector:
        electors.append(Elector(client, name="lease", namespace="default", identity="me", rng=random.Random(1)))
        return electors[-1]

    def make(leading: Client, _: Caches[None]) -> Part:
        assert leading.settings.before_write == electors[-1].check
        made.append(Part(synced=False, problems=["reading"]))
        return made[-1]

    led = LeaderElectedComponent(Caches(client, None), elect, make)
    assert led.synced
    task = asyncio.ensure_future(led.run())
    await clock.advance(1)
    assert (led.synced, led.problems, len(made)) == (False, ["reading"], 1)
    made[0].error = LeadershipLost("taken")
    electors[0]._renewed = None  # noqa: SLF001 - as if it had not been renewed in time
    await clock.advance(30)
    assert (made[0].ended, len(made)) == (True, 2)
    await cancel(task)
    assert made[1].ended
    assert led.synced


async def test_a_candidate_leads_until_the_lease_is_lost_and_tries_again() -> None:
    """is_leader is always current."""
    clock = VirtualClock()
    client = Client(FakeServer(clock), clock=clock, rng=random.Random(1))
    electors: list[Elector] = []

    def elect() -> Elector:
        electors.append(Elector(client, name="lease", namespace="default", identity="me", rng=random.Random(1)))
        return electors[-1]

    candidate = Candidate(elect)
    seen = [candidate.is_leader]
    task = asyncio.ensure_future(candidate.run())
    await clock.advance(1)
    seen.append(candidate.is_leader)
    electors[0]._renewed = None  # noqa: SLF001 - as if it had not been renewed in time
    seen.append(candidate.is_leader)
    await clock.advance(30)
    seen.append(candidate.is_leader)
    await cancel(task)
    seen.append(candidate.is_leader)
    assert seen == [False, True, False, True, False]
    assert len(electors) == 2


class Feature:
    """A component in a given state."""

    def __init__(self, *, synced: bool, problems: Sequence[str] = ()) -> None:
        self.synced = synced
        self.problems = list(problems)

    async def run(self) -> None:
        """Run until cancelled."""
        await asyncio.Event().wait()


READY, WAITING, BROKEN = {"synced": True}, {"synced": False}, {"synced": False, "problems": ["pods: forbidden"]}
STALE = {"synced": True, "problems": ["pods: forbidden"]}


@pytest.mark.parametrize(
    ("one", "other", "synced", "problems", "notes"),
    [
        pytest.param(READY, READY, True, [], [], id="both ready"),
        pytest.param(READY, WAITING, False, [], [], id="one that has not synced is waited for"),
        pytest.param(READY, BROKEN, True, [], ["b: pods: forbidden"], id="one that cannot sync is not waited for"),
        pytest.param(READY, STALE, True, [], ["b: pods: forbidden"], id="a failing watch affects its feature alone"),
        pytest.param(BROKEN, STALE, True, ["a: pods: forbidden", "b: pods: forbidden"], [], id="all have problems"),
    ],
)
async def test_each_feature_is_ready_by_itself(
    one: Any, other: Any, synced: bool, problems: list[str], notes: list[str]
) -> None:
    """The process is ready if any of them can work and none is still starting."""
    clock = VirtualClock()
    group = FeatureGroup({"a": Feature(**one), "b": Feature(**other)}, clock)
    assert group.synced is (one["synced"] and other["synced"]), "problems at the start may not last"
    await clock.advance(31)
    assert (group.synced, group.problems, group.notes) == (synced, problems, notes)
    assert notes_of(ComponentGroup({"features": group})) == [f"features: {note}" for note in notes]
