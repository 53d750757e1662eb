"""A Deployment's rollout while its costs are kept current: the old ReplicaSet shrinks level."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.scaledown.policy_cluster import PolicyCluster
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.pods import Pod

NEW = {"spec": {"template": {"metadata": {"annotations": {"revision": "2"}}}}}
NODES = {"a1": "a", "b1": "b", "c1": "c"}


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[PolicyCluster]:
    """Four pods in each of three zones, of which one came an hour later: its pods are the youngest."""
    made = PolicyCluster()
    await made.start()
    for name, zone in NODES.items():
        await made.add_nodes(name, zone=zone)
    made.place_on("a1", "b1")
    await made.deploy(8)
    await made.advance(3600)
    made.place_on("c1")
    await made.scale(12)
    yield made
    await made.close()


def by_zone(pods: list[Pod]) -> tuple[int, ...]:
    """How many pods each zone has."""
    counts = Counter(NODES[pod.spec.node_name] for pod in pods)
    return tuple(counts[zone] for zone in "abc")


async def rolled_out(cluster: PolicyCluster) -> list[tuple[int, ...]]:
    """The old ReplicaSet's pods in each zone after each step of a rollout; new pods fill the zones by turns."""
    (old,) = await cluster.all(ReplicaSet)
    cluster.place_on(*NODES)
    await cluster.user.patch(Deployment, "web", NEW, namespace="default")
    steps: list[tuple[int, ...]] = []
    for _ in range(40):
        await cluster.settle()
        left = [pod for pod in await cluster.pods() if owner_of(pod) == old.metadata.uid]
        if not steps or steps[-1] != by_zone(left):
            steps.append(by_zone(left))
        if not left:
            return steps
        await cluster.run_pods(limit=3)
        await cluster.look()
    raise AssertionError(f"the rollout does not end: {steps}")


def owner_of(pod: Pod) -> str:
    """The UID of a pod's controller."""
    owner = pod.metadata.controller
    return "" if owner is None else owner.uid


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({}, id="without strategies"),
        pytest.param({"strategies": [{"name": "Balance"}]}, id="with Balance"),
    ],
)
async def test_costs_keep_the_old_replicaset_level(cluster: PolicyCluster, policy: dict[str, Any]) -> None:
    """At every step, to the last pod."""
    await cluster.policy(delivery="Continuous", **policy)
    steps = await rolled_out(cluster)
    assert len(steps) > 4
    assert all(max(step) - min(step) <= 1 for step in steps), steps


async def test_without_costs_the_youngest_zone_is_emptied_first(cluster: PolicyCluster) -> None:
    """What the controller does by itself, and with a policy that writes on scale intent only."""
    await cluster.policy(delivery="OnScaleIntent")
    steps = await rolled_out(cluster)
    assert max(max(step) - min(step) for step in steps) > 1
    assert cluster.writes() == []
