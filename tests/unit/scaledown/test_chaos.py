"""A rough hour, by chance: sizes change, processes die at any write, controllers lag, people set costs.

Whatever happened, in the end the workload has its size, people's costs are theirs, and nothing of ours is left.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.unit.scaledown.scale_cluster import ScaleCluster
from trimtab.api.annotations import DELETION_COST
from trimtab.api.apps import Deployment
from trimtab.api.pods import Pod

pytestmark = pytest.mark.slow

STEPS = 14


class Chaos:
    """What can happen, and what must be true in the end."""

    def __init__(self, cluster: ScaleCluster, seed: int) -> None:
        self.cluster = cluster
        self.rng = random.Random(seed)
        self.size = 12
        self.theirs: dict[str, str] = {}
        """Costs that people have set, by the UID of the pod."""

    async def step(self) -> None:
        """One thing that happens."""
        acts = (self.scale, self.scale, self.scale, self.die, self.lag, self.person, self.lose, self.wait)
        await self.rng.choice(acts)()

    async def scale(self) -> None:
        """Change the size, sometimes twice at once."""
        for _ in range(self.rng.choice((1, 1, 2))):
            self.size = self.rng.randint(1, 14)
            await self.cluster.held(self._resize(self.size))
        await self.cluster.run_pods()

    async def die(self) -> None:
        """Trimtab is killed at some write of a scale-down, and another process starts."""
        self._dies_after(self.rng.randint(1, 6))
        await self.scale()
        await self.cluster.stop_product(killed=True)
        if self.rng.random() < 0.5:
            await self.scale()
        await self.cluster.start_product()

    async def lag(self) -> None:
        """The workload controllers see no pods for a while."""
        self.cluster.wire.hold("pods")
        self.size = self.rng.randint(1, self.size)
        await self.cluster.held(self._resize(self.size))
        self.cluster.wire.resume()
        await self.cluster.settle()
        await self.cluster.run_pods()

    async def person(self) -> None:
        """Give a pod a foreign cost, whatever cost it has."""
        pods = await self.cluster.pods()
        if pods:
            chosen, cost = self.rng.choice(pods), str(self.rng.choice((-500, 500, 0)))
            await self.cluster.patch(Pod, chosen.metadata.name, {"metadata": {"annotations": {DELETION_COST: cost}}})
            self.theirs[chosen.metadata.uid] = cost

    async def lose(self) -> None:
        """A request is held, and then comes to nothing."""
        if self.size > 1:
            intent = await self.cluster.request(self.rng.randint(1, self.size - 1))
            await self.cluster.held(self.cluster.holder.hold(intent))

    async def wait(self) -> None:
        """Time passes."""
        await self.cluster.advance(self.rng.choice((0.3, 5.0, 40.0)))

    async def _resize(self, size: int) -> Any:
        return await self.cluster.user.resize(Deployment, "web", size, namespace="default")

    def _dies_after(self, count: int) -> None:
        seen = [0]

        def after(request: Any) -> None:
            seen[0] += request.method == "PATCH"
            if seen[0] >= count:
                self.cluster.product.dead = True

        self.cluster.product.after = after


@pytest.mark.parametrize("seed", range(8))
async def test_after_random_failures_no_cost_of_ours_is_left(seed: int) -> None:
    """And no request to scale was stopped."""
    cluster = ScaleCluster(seed=seed + 1)
    await cluster.start()
    await cluster.add_zones(a=3, b=3, c=2)
    await cluster.deploy(12)
    chaos = Chaos(cluster, seed)
    for _ in range(STEPS):
        await chaos.step()
    for _ in range(4):
        await cluster.advance(20)
        await cluster.run_pods()
    pods = {pod.metadata.uid: pod for pod in await cluster.pods()}
    assert len(pods) == chaos.size
    assert await cluster.plan_annotations() == []
    costs = {uid: pod.metadata.annotations.get(DELETION_COST) for uid, pod in pods.items()}
    assert costs == {uid: chaos.theirs.get(uid) for uid in pods}
    await asyncio.wait_for(cluster.close(), 10)
