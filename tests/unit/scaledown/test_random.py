"""Policies through random lives: whatever happens, in whatever order, the costs that stand in the end are right.

What is right:

1. A pod whose policy keeps costs has one of ours, unless another program gave it one; the order of the costs of a group
   is the order of its ranks, ties included.
2. Nobody else has anything of ours, neither a cost nor a annotation nor a PodGroupCost.
3. A cost that a person set stands as they set it.
4. When nothing happens any more, nothing is written any more.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.scaledown.policy_cluster import POLICIES, PolicyCluster
from trimtab.api.annotations import ALPHA_COST, CARRIER_KEYS, DELETION_COST, OPT_OUT, POLICY_COST, RANKED_AMONG
from trimtab.api.apps import Deployment
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost
from trimtab.kube.errors import NotFound
from trimtab.kube.transport import Request
from trimtab.ranking.costs import Carrier
from trimtab.ranking.faults import recomputation_faults
from trimtab.scaledown.continuous.delivery import carrier_for
from trimtab.scaledown.pod_costs import policy_cost
from trimtab.scaledown.policy.groups import Group

STRATEGIES = [
    [{"name": "Balance"}],
    [{"name": "Youngest"}],
    [{"name": "Oldest"}],
    [{"name": "PreferNoSchedule", "weight": 50, "threshold": 1}, {"name": "Balance", "threshold": 20}],
    [{"name": "AntiAffinity"}],
    [],
]
STEPS = 25


class Life:
    """What happens to a cluster, by chance."""

    def __init__(self, cluster: PolicyCluster, seed: int) -> None:
        self.cluster = cluster
        self.rng = random.Random(seed)
        self.theirs: dict[str, str] = {}
        """Costs that a person set, by pod."""
        self.happenings: list[Callable[[], Awaitable[None]]] = [
            *[self.resize] * 4,
            *[self.rewrite] * 3,
            *[self.crash] * 2,
            self.crash_while_writing,
            self.delete_policy,
            self.opt_out,
            self.set_a_cost,
            self.remove_a_pod,
            self.taint,
            self.wait,
        ]

    async def live(self) -> None:
        """So many things, some of them before the last has been reconciled."""
        for _ in range(STEPS):
            await self.rng.choice(self.happenings)()
            if self.rng.random() < 0.6:
                await self.cluster.look()
        await self.cluster.run_pods()
        await self.cluster.look()
        await self.cluster.advance(400)

    async def resize(self) -> None:
        await self.cluster.scale(self.rng.randint(1, 9))

    async def rewrite(self) -> None:
        """Another spec for the policy, which is made if it is gone."""
        spec: dict[str, Any] = {
            "strategies": self.rng.choice(STRATEGIES),
            "delivery": self.rng.choice(["Continuous", "Continuous", "OnScaleIntent"]),
            "carrier": self.rng.choice(list(Carrier)).value,
        }
        try:
            await self.cluster.user.patch(POLICIES, "web", {"spec": spec}, namespace="default")
        except NotFound:
            await self.cluster.policy(**spec)

    async def delete_policy(self) -> None:
        for policy in self.cluster.view.policies.store:
            await self.cluster.user.delete(POLICIES, policy.metadata.name, namespace="default")

    async def crash(self) -> None:
        await self.cluster.stop_policies(killed=True)
        await self.cluster.start_policies()

    async def crash_while_writing(self) -> None:
        """Killed in the middle of writing to pods, wherever that is."""
        left = self.rng.randint(1, 4)

        def kill(request: Request) -> None:
            nonlocal left
            left -= request.method != "GET"
            self.cluster.product.dead = self.cluster.product.dead or left <= 0

        self.cluster.product.after = kill
        await self.rewrite()
        await self.cluster.look()
        await self.crash()

    async def opt_out(self) -> None:
        marked = self.rng.choice(["disabled", None])
        await self.cluster.patch(Deployment, "web", {"metadata": {"annotations": {OPT_OUT: marked}}})

    async def set_a_cost(self) -> None:
        pods = await self.cluster.pods()
        if pods:
            name, cost = self.rng.choice(pods).metadata.name, str(self.rng.randint(100, 999))
            await self.cluster.patch(Pod, name, {"metadata": {"annotations": {DELETION_COST: cost}}})
            self.theirs[name] = cost

    async def remove_a_pod(self) -> None:
        pods = await self.cluster.pods()
        if pods:
            await self.cluster.user.delete(Pod, self.rng.choice(pods).metadata.name, namespace="default")
            await self.cluster.settle()
            await self.cluster.run_pods()

    async def taint(self) -> None:
        taints = self.rng.choice([[], [{"key": "retire", "effect": "PreferNoSchedule"}]])
        await self.cluster.user.patch(Node, self.rng.choice(["a1", "a2", "b1"]), {"spec": {"taints": taints}})

    async def wait(self) -> None:
        await self.cluster.advance(self.rng.choice([1, 30, 600]))


def wants(group: Group | None, active: int) -> Carrier | None:
    """Where the costs of a group should stand; nowhere, if nobody can recompute them."""
    if group is None or group.spec is None or any(recomputation_faults(group.spec, group.key.kind)):
        return None
    return carrier_for(group, active)


def in_order(ranks: dict[str, float], costs: dict[str, int], carrier: Carrier) -> bool:
    """Whether costs are ordered as the ranks are, with the carrier's sign."""
    pairs = [(ranks[key], carrier.sign * costs[key]) for key in costs]
    return all((a > c) == (b > d) and (a == c) == (b == d) for a, b in pairs for c, d in pairs)


@pytest.mark.parametrize("seed", range(8))
async def test_costs_are_right_after_random_changes(cluster: PolicyCluster, seed: int) -> None:
    """All four promises above."""
    await cluster.deploy(6)
    life = Life(cluster, seed)
    await life.live()
    objects = {each.metadata.name: each for each in (await cluster.user.list(PodGroupCost, namespace="default")).items}
    for key in list(cluster.controller.groups.all_keys()):
        group = cluster.controller.groups.get(key)
        assert group is not None
        pods = cluster.controller.groups.pods(group)
        carrier = wants(group, len(pods))
        found = objects.pop(group.owner.group_name, None)
        if carrier is None or carrier in CARRIER_KEYS:
            assert found is None
        if carrier is None:
            assert not [pod for pod in pods if {POLICY_COST, RANKED_AMONG} & set(pod.metadata.annotations)]
            continue
        ranks = dict((await cluster.controller.continuous.assessor.assess(group, pods)).ranks)
        if carrier in CARRIER_KEYS:
            own = {pod.key: cost for pod in pods if (cost := policy_cost(pod)) is not None}
            left_out = {pod.key for pod in pods} - set(own)
            assert left_out <= {f"default/{name}" for name in life.theirs}
        else:
            assert found is not None
            own = {f"default/{name}": cost for name, cost in found.spec.costs.items()}
            assert set(own) == {pod.key for pod in pods}
        assert in_order(ranks, own, carrier)
    assert objects == {}
    for pod in await cluster.pods():
        text, theirs = pod.metadata.annotations.get(DELETION_COST), life.theirs.get(pod.metadata.name)
        assert text == theirs if theirs is not None else text is None or policy_cost(pod) == int(text)
        assert ALPHA_COST not in pod.metadata.annotations or policy_cost(pod) is not None
    cluster.product.requests.clear()
    await cluster.advance(1200)
    assert [request for request in cluster.product.requests if request.method != "GET"] == []
