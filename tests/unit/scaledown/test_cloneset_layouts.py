"""Random CloneSets shrink without costs: their own controller deletes what the plan calls possible, and names."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.cloneset.clusters import CloneSetCluster, manifest, template
from trimtab.api.cloneset import CloneSet
from trimtab.api.nodes import HOSTNAME, ZONE, Node
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.api.times import from_ns
from trimtab.cloneset.settings import Settings
from trimtab.kube.clocks import SECOND
from trimtab.ranking.certainty import Window
from trimtab.ranking.plan import Plan, Policy
from trimtab.ranking.rankers import RankSettings, constraints_of
from trimtab.scaledown.proportional import ControllerSize
from trimtab.scaledown.replicaset_plans import ControllerModel, plan_controller
from trimtab.snapshot import Snapshot

DEFAULTS = tuple(
    TopologySpreadConstraint(topology_key=key, max_skew=1, when_unsatisfiable="ScheduleAnyway")
    for key in (ZONE, HOSTNAME)
)
RANK = RankSettings(defaults=lambda _: constraints_of(DEFAULTS))
NODES = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c"}
AGES = (1, 2, 5, 5, 30, 31, 400, 7200)


async def laid_out(rng: random.Random, *, rolling: bool = False) -> CloneSetCluster:
    """A CloneSet whose pods are on random nodes, of random ages, and ready since random times or not at all.

    With `rolling`, some are of an older revision, and the update is paused.
    """
    cluster = CloneSetCluster(Settings(rank=RANK), seed=rng.randrange(100))
    await cluster.start()
    await cluster.clock.advance(86_400)
    for name, zone in NODES.items():
        await cluster.add_nodes(name, zone=zone)
    spread = rng.choice(["", ZONE, HOSTNAME])
    rules: dict[str, Any] = {"template": template(spread=spread, app="web"), "minReadySeconds": rng.choice([0, 0, 10])}
    await cluster.create(CloneSet, manifest(0, **rules))
    for number, size in enumerate(sorted(rng.sample(range(2, 13), 3))):
        if rolling and number == 2:
            strategy = {"paused": True, "maxUnavailable": "100%"}
            change = {"template": template("app:2", spread=spread, app="web"), "updateStrategy": strategy}
            await cluster.patch(CloneSet, "web", {"spec": change})
        await cluster.resize(size)
        await cluster.clock.advance(rng.choice(AGES))
    now = from_ns(cluster.clock.now())
    for pod in await cluster.pods():
        if rng.random() < 0.1:
            continue
        await cluster.user.bind(pod.metadata.name, namespace="default", node=rng.choice(list(NODES)))
        if rng.random() < 0.9:
            since = now - timedelta(seconds=rng.choice(AGES))
            await cluster.ready(pod.metadata.name, since.isoformat().replace("+00:00", "Z"))
    await cluster.settle()
    return cluster


async def planned(cluster: CloneSetCluster, target: int) -> Plan:
    """The plan for a CloneSet that shrinks now."""
    cloneset, pods, snapshot = await cluster.cloneset(), await cluster.pods(), Snapshot()
    for pod in pods:
        snapshot.put(pod)
    for node in (await cluster.user.list(Node)).items:
        snapshot.put(node)
    metadata, now = cloneset.metadata, cluster.clock.now()
    found = plan_controller(
        cloneset,
        ControllerSize(metadata.uid, metadata.name, len(pods), target, ()),
        pods,
        snapshot,
        Policy.of(()),
        defaults=constraints_of(DEFAULTS),
        model=ControllerModel(now, Window(now, now + SECOND), rank=RANK),
    )
    assert found is not None
    return found.plan


@pytest.mark.parametrize("seed", range(130))
async def test_the_controller_deletes_what_the_plan_calls_possible(seed: int) -> None:
    """And the very set that the plan names, where nothing is left to chance. From 100 on, pods are of two revisions."""
    rng = random.Random(seed)
    cluster = await laid_out(rng, rolling=seed >= 100)
    before = {pod.metadata.name for pod in await cluster.pods()}
    target = rng.randrange(1, len(before))
    stock = (await planned(cluster, target)).stock
    await cluster.resize(target)
    deleted = {f"default/{name}" for name in before - {pod.metadata.name for pod in await cluster.pods()}}
    assert len(deleted) == len(before) - target
    assert set(stock.always) <= deleted <= set(stock.possible)
    assert not stock.is_unique or deleted == set(stock.always)
    await cluster.close()
