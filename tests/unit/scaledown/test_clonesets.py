"""CloneSets that shrink: what their controller puts before cost is reckoned with, and never taken for a miss."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.unit.cloneset.worlds import CloneSetWorld, manifest, template
from tests.unit.lab.workloads.clusters import Wire
from trimtab.api import crds
from trimtab.api.annotations import DELETION_COST
from trimtab.api.cloneset import REVISION_HASH, SPECIFIED_DELETE, CloneSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy, ScaleDownPolicySpec, StrategySpec
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.scaledown.intent.gate import Held, Intents
from trimtab.scaledown.intent.reviews import Intent
from trimtab.scaledown.metrics import Outcome
from trimtab.scaledown.policy.effective import DefaultPolicy, Defaults
from trimtab.scaledown.view import View

OLDEST = Defaults(policies=(DefaultPolicy("all", ScaleDownPolicySpec(strategies=(StrategySpec(name="Oldest"),))),))


class ShrinkingCloneSets(CloneSetWorld):
    """A CloneSet of nine pods on three zones, and requests to shrink it that are held."""

    intents: Intents

    async def start(self) -> None:
        """Start Trimtab's CloneSets and its scale-downs."""
        self.definitions += [crds.manifest(kind) for kind in crds.KINDS if kind.model is ScaleDownPolicy]
        await super().start()
        await self.advance(2)
        for number, zone in enumerate("abc"):
            await self.add_nodes(f"node-{number}", zone=zone)
        await self.create(CloneSet, manifest(6))
        await self.run_pods()
        await self.clock.advance(3600)
        await self.resize(9)
        await self.run_pods()
        client = Client(Wire(self.cluster), clock=self.clock, rng=random.Random(2))
        view = View(client, rng=random.Random(2))
        self.intents = Intents(client, view, defaults=OLDEST)
        self.tasks = [asyncio.ensure_future(part) for part in (view.run(), self.intents.run())]
        await self.settle()

    async def close(self) -> None:
        """End everything."""
        await cancel(*self.tasks)
        await super().close()

    async def hold(self, after: int) -> Held:
        """What comes of a request to shrink."""
        live = await self.cloneset()
        asked = Intent("CloneSet", "default", "web", live.metadata.uid, live.spec.replicas or 0, after)
        request = asyncio.ensure_future(self.intents.hold(asked))
        while not request.done():
            await self.clock.advance(0.01)
        return request.result()

    async def costly(self) -> set[str]:
        """The pods that have a cost."""
        return {pod.metadata.name for pod in await self.pods() if DELETION_COST in pod.metadata.annotations}

    async def shrink(self, after: int, **spec: object) -> None:
        """Store the new size, and let the controller do it."""
        await self.patch(CloneSet, "web", {"spec": {"replicas": after, **spec}})
        await self.settle()
        await self.run_pods()
        await self.advance(3)

    async def roll(self, size: int) -> None:
        """A rollout that is paused when so many pods are new."""
        await self.patch(CloneSet, "web", {"spec": {"template": template("app:2", app="web")}})
        revisions: Counter[str] = Counter()
        while len(revisions) < 2 or min(revisions.values()) < size:
            await self.run_pods(1)
            await self.advance(1)
            revisions = Counter(pod.metadata.labels.get(REVISION_HASH, "") for pod in await self.pods())
        await self.patch(CloneSet, "web", {"spec": {"updateStrategy": {"paused": True}}})
        await self.run_pods()


@pytest_asyncio.fixture
async def world() -> AsyncIterator[ShrinkingCloneSets]:
    """Six pods and three younger ones; the oldest are to go first, the controller would let the youngest go."""
    made = ShrinkingCloneSets()
    await made.start()
    yield made
    await made.close()


async def test_what_costs_say_is_done(world: ShrinkingCloneSets) -> None:
    """Where nothing comes before them."""
    assert (await world.hold(6)).outcome is Outcome.PLANNED
    chosen = await world.costly()
    await world.shrink(6)
    assert len(chosen) == 3
    assert chosen.isdisjoint(await world.names())
    (ended,) = world.intents.aftermath.ended
    assert ended.followed == 3


@pytest.mark.parametrize("labelled", [pytest.param(True, id="by a label"), pytest.param(False, id="in the spec")])
async def test_pods_that_somebody_has_named_count_as_gone(world: ShrinkingCloneSets, labelled: bool) -> None:
    """Two of three go anyway: one cost is enough, and it is not theirs."""
    await world.stop()
    named = sorted(pod.metadata.name for pod in await world.pods())[:2]
    if labelled:
        for name in named:
            await world.patch(Pod, name, {"metadata": {"labels": {SPECIFIED_DELETE: "true"}}})
    else:
        await world.patch(CloneSet, "web", {"spec": {"scaleStrategy": {"podsToDelete": named}}})
    await world.settle()
    assert (await world.hold(6)).outcome is Outcome.PLANNED
    chosen = await world.costly()
    assert len(chosen) == 1
    assert chosen.isdisjoint(named)


async def test_a_cloneset_of_two_revisions_is_left_alone(world: ShrinkingCloneSets) -> None:
    """The older ones go first, whatever they cost."""
    await world.roll(4)
    assert (await world.hold(6)).outcome is Outcome.ROLLOUT
    assert await world.costly() == set()


async def test_pods_named_after_the_plan_was_made_are_no_miss(world: ShrinkingCloneSets) -> None:
    """Somebody else chose them: waiting longer would help nobody."""
    await world.hold(6)
    chosen = await world.costly()
    await world.shrink(6, scaleStrategy={"podsToDelete": sorted(await world.names() - chosen)[:3]})
    assert chosen <= await world.names()
    (ended,) = world.intents.aftermath.ended
    assert {cause.value: count for cause, count in ended.causes.items() if count} == {"deleted": 3}
    assert world.intents.settling.seconds == 0.3
