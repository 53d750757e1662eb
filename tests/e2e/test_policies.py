"""Policies on a control plane with controllers and a scheduler of its own: the proposal's three stories, and the end.

The same holds on the lab and on a real control plane: nothing here knows which one it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.e2e.processes import WEBHOOKS, running_policies
from tests.lab.deployments import deployment_sandbox, skew
from tests.lab.policing import (
    DEPLOYMENT,
    STORIES,
    costed,
    define,
    each_bad_policy_is_refused,
    policy_json,
    settle,
)
from trimtab.api.annotations import DELETION_COST, POLICY_COST
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import within
from trimtab.kube.errors import ApiError
from trimtab.kube.resources import Resource
from trimtab.kube.sessions import Session

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TWO_ZONES = {"zone-a": 3, "zone-b": 3}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


@pytest.mark.parametrize("name", STORIES)
async def test_a_story_of_the_proposal(client: Client, name: str) -> None:
    """With the result that the proposal describes."""
    async with deployment_sandbox(client, TWO_ZONES) as made, running_policies(client, made.name) as policies:
        await STORIES[name](made, policies)


async def test_costs_kept_current_keep_zones_level(client: Client) -> None:
    """Two zones, then three: whatever the size, and without holding a request."""
    async with (
        deployment_sandbox(client, {"zone-a": 4, "zone-b": 4}) as made,
        running_policies(client, made.name) as policies,
    ):
        await policies.policy(delivery="Continuous")
        await made.deploy("web", 12)
        await made.reshape({"zone-a": 4, "zone-b": 4, "zone-c": 4})
        for size in (18, 12, 18, 7):
            await made.scale("web", size)
            counts = await made.settled(size)
            assert skew(counts) <= 1
            await policies.ranked(size)
            await made.until(lambda store, size=size: len(costed(store, DELETION_COST)) == size)  # type: ignore[misc]
            await settle(made)
        status = (await policy_json(client, made.name))["status"]
        assert (status["lastPlan"]["from"], status["lastPlan"]["to"]) == (18, 7)
        assert {name: value for name, value in status["lastPlan"]["skews"][0].items() if name != "stock"} == {
            "topologyKey": "topology.kubernetes.io/zone",
            "before": 0,
            "after": 1,
        }


async def test_costs_are_reverted_with_the_policy(client: Client) -> None:
    """And with it every trace."""
    async with deployment_sandbox(client, TWO_ZONES) as made, running_policies(client, made.name) as policies:
        await made.deploy("web", 6)
        await policies.policy(strategies=[{"name": "Youngest"}], delivery="Continuous")
        await made.until(lambda store: len(costed(store, DELETION_COST)) == 6)
        await client.delete(Resource.of(ScaleDownPolicy), "web", namespace=made.name)
        await made.until(lambda store: not costed(store, DELETION_COST))
        assert not [pod for pod in made.pods.store if POLICY_COST in pod.metadata.annotations]


@pytest.mark.parametrize("weight", [-1, 0, 1001])
async def test_a_weight_that_cannot_be_is_refused(client: Client, weight: int) -> None:
    """By the schema, wherever it is served."""
    await define(client)
    body = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy", "metadata": {"name": "never"}}
    spec = {"targetRef": DEPLOYMENT, "strategies": [{"name": "Balance", "weight": weight}]}
    with pytest.raises(ApiError, match="weight"):
        await client.create(Resource.of(ScaleDownPolicy).raw, {**body, "spec": spec}, namespace="default")


async def test_bad_policies_are_refused(client: Client) -> None:
    """By the hook, when they are written."""
    async with deployment_sandbox(client, {"zone-a": 1}) as made, running_policies(client, made.name, WEBHOOKS):
        await within(client.clock, 30.0, until_a_bad_policy_is_refused(client, made.name))
        await each_bad_policy_is_refused(client, made.name)


async def until_a_bad_policy_is_refused(client: Client, namespace: str) -> None:
    """Wait until the API server calls the webhook: it admits what it cannot ask about."""
    body = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy", "metadata": {"name": "bad"}, "spec": {}}
    while True:
        try:
            await client.create(Resource.of(ScaleDownPolicy).raw, body, namespace=namespace, dry_run=True)
        except ApiError:
            return
        await client.clock.sleep(0.1)


async def test_a_policy_without_a_workload_reports_what_to_do(client: Client) -> None:
    """In its conditions, as the server keeps them."""
    async with deployment_sandbox(client, {"zone-a": 1}) as made, running_policies(client, made.name) as policies:
        await policies.policy(selector={"matchLabels": {"app": "nobody"}})
        found = await policies.wait_for_status(lambda policy: bool(policy.status.conditions))
        ready = found.status.conditions[0]
        assert (ready.status, ready.reason) == ("False", "WorkloadNotFound")
        assert "compare it with the labels in their templates" in ready.message
