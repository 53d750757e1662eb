"""Strategies that must be recomputed, and rollouts, on a control plane with controllers and a scheduler of its own.

The same holds on the lab and on a real control plane: nothing here knows which one it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.e2e.processes import WEBHOOKS, running_policies
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox, skew
from tests.lab.policing import Policies, costed, settle
from trimtab.api.annotations import DELETION_COST
from trimtab.api.apps import Deployment
from trimtab.api.nodes import ZONE
from trimtab.api.pods import Pod
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import within
from trimtab.kube.errors import ApiError
from trimtab.kube.sessions import Session

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TWO_ZONES = {"zone-a": 4, "zone-b": 4}
THREE_ZONES = {**TWO_ZONES, "zone-c": 4}
ANTI_AFFINITY: dict[str, Any] = {"strategies": [{"name": "AntiAffinity"}]}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


async def four_and_two(made: DeploymentSandbox) -> None:
    """Four pods in one zone, and two in another that came later."""
    await made.deploy("web", 4)
    await made.reshape({"zone-a": 2, "zone-b": 2})
    await made.scale("web", 6)
    assert await made.settled(6) == (4, 2)


async def test_scheduled_keeps_both_zones(client: Client, record_property: Callable[[str, object], None]) -> None:
    """4/2 to 2 leaves 1/1: the scores are computed again after each removal."""
    async with (
        deployment_sandbox(client, {"zone-a": 2}) as made,
        running_policies(client, made.name, WEBHOOKS) as policies,
    ):
        await four_and_two(made)
        await policies.policy(strategies=[{"name": "Scheduled"}])
        await policies.ranked(6)
        await made.scale("web", 2)
        left = await made.settled(2)
        record_property("told", f"4/2 to 2 left {left}; {made.warnings}")
        assert left == (1, 1)


def apart(made: DeploymentSandbox, replicas: int) -> Any:
    """A Deployment whose pods would rather not share a zone."""
    tree = made.deployment("web", replicas)
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    tree["spec"]["template"]["spec"]["affinity"] = {
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    }
    return tree


async def two_and_two(made: DeploymentSandbox) -> None:
    """Two pods in each of two zones, that would rather not share them."""
    await made.client.create(Deployment, apart(made, 4), namespace=made.name)
    assert await made.settled(4) == (2, 2)


async def test_anti_affinity_that_none_recomputes_is_refused(
    client: Client, record_property: Callable[[str, object], None]
) -> None:
    """Kept current, both pods of a zone would go; on scale intent, 2/2 to 2 leaves 1/1."""
    async with (
        deployment_sandbox(client, {"zone-a": 1, "zone-b": 1}) as made,
        running_policies(client, made.name, WEBHOOKS) as policies,
    ):
        await two_and_two(made)
        told = await within(client.clock, 30.0, refusal(policies))
        assert "spec.delivery" in told
        assert "write OnScaleIntent, or a targetRef that names a CloneSet" in told
        await policies.policy(**ANTI_AFFINITY)
        await policies.ranked(4)
        await made.scale("web", 2)
        left = await made.settled(2)
        record_property("told", f"2/2 to 2 left {left}; {made.warnings}")
        assert left == (1, 1)


async def refusal(policies: Policies) -> str:
    """Create the policy until it is refused, and why: an API server admits what it cannot ask about yet."""
    while True:
        try:
            await policies.policy("refused", **ANTI_AFFINITY, delivery="Continuous")
        except ApiError as error:
            return str(error)
        await policies.client.delete_all(policies.informer.resource, namespace=policies.namespace)
        await policies.client.clock.sleep(0.1)


async def test_anti_affinity_that_was_stored_is_reported_and_writes_nothing(
    client: Client, record_property: Callable[[str, object], None]
) -> None:
    """The controller's own order decides, as if there were no policy."""
    async with (
        deployment_sandbox(client, {"zone-a": 1, "zone-b": 1}) as made,
        running_policies(client, made.name) as policies,
    ):
        await two_and_two(made)
        await policies.policy(**ANTI_AFFINITY, delivery="Continuous")
        found = await policies.wait_for_status(lambda policy: bool(policy.status.conditions))
        ready = found.status.conditions[0]
        assert (ready.status, ready.reason) == ("False", "Invalid")
        assert ready.message.startswith("spec.delivery: ")
        await settle(made)
        assert costed(made.pods.store, DELETION_COST) == {}
        await made.scale("web", 2)
        record_property("told", f"2/2 to 2 left {await made.settled(2)} by the controller's own order")


class Rollout:
    """What is left of the old ReplicaSet in each zone, at every event of a rollout."""

    def __init__(self, made: DeploymentSandbox) -> None:
        self._made = made
        self._old = {pod.metadata.uid for pod in made.pods.store}
        self.left: list[tuple[int, ...]] = []
        self.costs = 0
        made.pods.subscribe(updated=lambda _, new: self._look(new), deleted=self._look)

    def _look(self, pod: Pod) -> None:
        self.costs += DELETION_COST in pod.metadata.annotations
        zones = {node.metadata.name: node.metadata.labels.get(ZONE, "") for node in self._made.machines.store}
        old = [each for each in self._made.pods.store if each.metadata.uid in self._old and each.active]
        counts = Counter(zones.get(each.spec.node_name, "") for each in old)
        now = tuple(counts[zone] for zone in sorted(set(zones.values())))
        if not self.left or self.left[-1] != now:
            self.left.append(now)

    @property
    def worst(self) -> int:
        """The largest skew of the old ReplicaSet, from its first removal on."""
        return max(map(skew, self.left))


async def rolled_out(made: DeploymentSandbox) -> Rollout:
    """Change the template, and wait until all pods are of the new one."""
    old = {pod.metadata.uid for pod in made.pods.store}
    watched = Rollout(made)
    patch = {"spec": {"template": {"metadata": {"annotations": {"revision": "2"}}}}}
    await made.client.patch(Deployment, "web", patch, namespace=made.name)
    await made.until(lambda store: not any(pod.metadata.uid in old for pod in store))
    await made.settled(12)
    return watched


SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "matchLabelKeys": ["pod-template-hash"],
        }
    ]
}


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(None, id="without a policy"),
        pytest.param({"delivery": "OnScaleIntent"}, id="OnScaleIntent"),
        pytest.param({"delivery": "Continuous"}, id="Continuous"),
    ],
)
async def test_a_rollout_ends_level(
    client: Client, policy: dict[str, Any] | None, record_property: Callable[[str, object], None]
) -> None:
    """On scale intent a rollout is left alone; costs that are kept current keep the old ReplicaSet level as well,
    although its youngest pods are all in one zone."""
    async with (
        deployment_sandbox(client, TWO_ZONES) as made,
        running_policies(client, made.name, WEBHOOKS) as policies,
    ):
        tree = made.deployment("web", 8)
        tree["spec"]["template"]["spec"] |= SPREAD
        await client.create(Deployment, tree, namespace=made.name)
        await made.settled(8)
        await made.reshape(THREE_ZONES)
        await made.scale("web", 12)
        assert await made.settled(12) == (4, 4, 4)
        if policy is not None:
            await policies.policy(**policy)
            await policies.ranked(12)
        is_kept = policy is not None and policy["delivery"] == "Continuous"
        if is_kept:
            await made.until(lambda store: len(costed(store, DELETION_COST)) == 12)
        watched = await rolled_out(made)
        record_property("told", f"old ReplicaSet {watched.left}; at the end {made.spread()}")
        assert made.spread() == (4, 4, 4)
        if is_kept:
            assert watched.worst <= 1
        else:
            assert watched.costs == 0
