"""CloneSets that shrink: what their controller puts before cost is reckoned with, and never taken for a miss."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from tests.unit.cloneset.clusters import CloneSetCluster, manifest, template
from trimtab.api import codec, crds
from trimtab.api.annotations import DELETION_COST, RANK
from trimtab.api.cloneset import REVISION_HASH, SPECIFIED_DELETE, CloneSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy, ScaleDownPolicySpec, StrategySpec
from trimtab.kube.clocks import cancel
from trimtab.ranking.plan import Workload as RankedWorkload
from trimtab.ranking.rankers import RankSettings
from trimtab.scaledown import clonesets
from trimtab.scaledown.intent.holder import ScaleDownHolder
from trimtab.scaledown.intent.requests import HoldResult, ScaleDownRequest
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.policy.defaults import DefaultPolicy, Defaults
from trimtab.scaledown.view import View
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import pod

OLDEST = Defaults(policies=(DefaultPolicy("all", ScaleDownPolicySpec(strategies=(StrategySpec(name="Oldest"),))),))
LEVEL = Defaults(policies=(DefaultPolicy("all", ScaleDownPolicySpec()),))


class ShrinkingCloneSets(CloneSetCluster):
    """A CloneSet of nine pods on three zones, and requests to shrink it that are held."""

    holder: ScaleDownHolder

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
        client = self.client(seed=2)
        view = View(client, rng=random.Random(2))
        self.holder = ScaleDownHolder(client, view, defaults=OLDEST)
        self.tasks = [asyncio.ensure_future(part) for part in (view.run(), self.holder.run())]
        await self.settle()

    async def close(self) -> None:
        """End everything."""
        await cancel(*self.tasks)
        await super().close()

    async def hold(self, after: int) -> HoldResult:
        """What comes of a request to shrink."""
        live = await self.cloneset()
        asked = ScaleDownRequest("CloneSet", "default", "web", live.metadata.uid, live.spec.replicas or 0, after)
        request = asyncio.ensure_future(self.holder.hold(asked))
        while not request.done():
            await self.clock.advance(0.01)
        return request.result()

    async def costly(self) -> set[str]:
        """The pods that have a cost."""
        return {pod.metadata.name for pod in await self.pods() if DELETION_COST in pod.metadata.annotations}

    def oldest_revision(self, pods: Sequence[Pod]) -> set[str]:
        """The pods of the revision that the oldest pod has."""
        first = min(pods, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name))
        revision = first.metadata.labels[REVISION_HASH]
        return {pod.metadata.name for pod in pods if pod.metadata.labels[REVISION_HASH] == revision}

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
async def cluster() -> AsyncIterator[ShrinkingCloneSets]:
    """Six pods and three younger ones; the oldest are to go first, the controller would let the youngest go."""
    made = ShrinkingCloneSets()
    await made.start()
    yield made
    await made.close()


async def test_a_cloneset_deletes_pods_by_cost(cluster: ShrinkingCloneSets) -> None:
    """Where nothing comes before them."""
    assert (await cluster.hold(6)).outcome is HoldOutcome.PLANNED
    chosen = await cluster.costly()
    await cluster.shrink(6)
    assert len(chosen) == 3
    assert chosen.isdisjoint(await cluster.names())
    (ended,) = cluster.holder.tracker.results
    assert ended.followed == 3


@pytest.mark.parametrize("labelled", [pytest.param(True, id="by a label"), pytest.param(False, id="in the spec")])
async def test_pods_named_for_deletion_count_as_gone(cluster: ShrinkingCloneSets, labelled: bool) -> None:
    """Two of three are deleted anyway: one cost is enough, on another pod."""
    await cluster.stop()
    named = sorted(pod.metadata.name for pod in await cluster.pods())[:2]
    if labelled:
        for name in named:
            await cluster.patch(Pod, name, {"metadata": {"labels": {SPECIFIED_DELETE: "true"}}})
    else:
        await cluster.patch(CloneSet, "web", {"spec": {"scaleStrategy": {"podsToDelete": named}}})
    await cluster.settle()
    assert (await cluster.hold(6)).outcome is HoldOutcome.PLANNED
    chosen = await cluster.costly()
    assert len(chosen) == 1
    assert chosen.isdisjoint(named)


@pytest.mark.parametrize("paused", [pytest.param(True, id="paused"), pytest.param(False, id="in progress")])
async def test_a_cloneset_of_two_revisions_is_planned(cluster: ShrinkingCloneSets, paused: bool) -> None:
    """The older pods go first, whatever they cost; costs choose the oldest ones of them."""
    await cluster.roll(4)
    old = cluster.oldest_revision(await cluster.pods())
    await cluster.patch(CloneSet, "web", {"spec": {"updateStrategy": {"paused": paused}}})
    held = await cluster.hold(6)
    assert held.outcome is HoldOutcome.PLANNED
    assert "a rollout is in progress" in held.warnings[-1]
    chosen = await cluster.costly()
    assert chosen <= old
    await cluster.shrink(6)
    assert chosen.isdisjoint(await cluster.names())
    (ended,) = cluster.holder.tracker.results
    assert ended.followed == 3
    assert not any(ended.misses.values())


async def test_a_scale_down_by_levels_leaves_two_revisions_level(cluster: ShrinkingCloneSets) -> None:
    """All pods are counted, of both revisions: the fullest zone gives its old pods."""
    cluster.holder.configure(LEVEL)
    await cluster.roll(4)
    held = await cluster.hold(6)
    assert held.warnings[0].startswith("kept 2/2/2; stock may leave")
    await cluster.shrink(6)
    assert Counter(pod.spec.node_name for pod in await cluster.pods()) == {"node-0": 2, "node-1": 2, "node-2": 2}


async def test_a_rollout_that_is_not_observed_yet_is_left_alone(cluster: ShrinkingCloneSets) -> None:
    """Which revision is the newest, and so which pods go last, is not known until the controller reports it."""
    await cluster.roll(4)
    await cluster.stop()
    await cluster.patch(CloneSet, "web", {"spec": {"template": template("app:3", app="web")}})
    await cluster.settle()
    assert (await cluster.hold(6)).outcome is HoldOutcome.ROLLOUT
    assert await cluster.costly() == set()


@pytest.mark.parametrize(
    ("partition", "want"),
    [
        pytest.param(None, False, id="none"),
        pytest.param(0, False, id="of no pods"),
        pytest.param("0%", False, id="of no share"),
        pytest.param(2, True, id="of two pods"),
        pytest.param("20%", True, id="of a share"),
    ],
)
def test_a_partition_that_keeps_old_pods_is_left_to_the_rollout(partition: int | str | None, want: bool) -> None:
    """The controller keeps that many old pods on purpose: the older ones do not go first."""
    tree = manifest(2, updateStrategy={"partition": partition})
    tree["status"] = {"observedGeneration": 1, "updateRevision": "web-2"}
    pods = [pod(name).labels({REVISION_HASH: f"web-{name}"}).build() for name in "12"]
    assert clonesets.is_left_to_rollout(codec.convert(tree, CloneSet), pods) is want


async def test_pods_named_after_the_plan_was_made_are_no_miss(cluster: ShrinkingCloneSets) -> None:
    """Another program chose them: a longer settle time would not help."""
    await cluster.hold(6)
    chosen = await cluster.costly()
    await cluster.shrink(6, scaleStrategy={"podsToDelete": sorted(await cluster.names() - chosen)[:3]})
    assert chosen <= await cluster.names()
    (ended,) = cluster.holder.tracker.results
    assert {cause.value: count for cause, count in ended.misses.items() if count} == {"deleted": 3}
    assert cluster.holder.settle_time.seconds == 0.3


@pytest.mark.parametrize(
    ("annotations", "settings", "want"),
    [
        pytest.param({}, RankSettings(), "balanced", id="by default"),
        pytest.param({}, RankSettings("proportional"), "proportional", id="by the configuration"),
        pytest.param({RANK: "proportional"}, RankSettings(), "proportional", id="by its annotation"),
        pytest.param({RANK: "balanced"}, RankSettings("proportional"), "balanced", id="against the configuration"),
    ],
)
def test_a_cloneset_is_planned_by_the_scale_that_its_controller_uses(
    annotations: dict[str, str], settings: RankSettings, want: str
) -> None:
    """Otherwise a plan takes other pods for certain than those that are deleted."""
    tree = manifest(3)
    tree["metadata"]["annotations"] = annotations
    cloneset = codec.convert(tree, CloneSet)
    assert clonesets.ranked(cloneset, RankedWorkload.of_all(Snapshot()), settings, []).scale == want
