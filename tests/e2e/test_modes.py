"""Observe first, then enforce: each way to switch, and back, on a control plane with controllers of its own.

The same holds on the lab and on a real control plane: nothing here knows which one it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.e2e.processes import CONTROLLERS, WEBHOOKS, configuration, running
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox, skew
from trimtab.api.annotations import DELETION_COST, OPT_OUT, SCALE_PLAN
from trimtab.api.core import Event, Namespace
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel, within
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Resource
from trimtab.kube.sessions import Session

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TWO_ZONES = {"zone-a": 6, "zone-b": 6}
THREE_ZONES = {**TWO_ZONES, "zone-c": 6}
POLICIES = Resource.of(ScaleDownPolicy).raw

Switch = Callable[[DeploymentSandbox, str], Awaitable[None]]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


async def by_label(made: DeploymentSandbox, mode: str) -> None:
    """Label the namespace."""
    patch = {"metadata": {"labels": {OPT_OUT: mode.lower()}}}
    await made.client.patch(Namespace, made.name, patch)


async def by_policy(made: DeploymentSandbox, mode: str) -> None:
    """Give the workload a policy, or change one field of it."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    body = {"apiVersion": POLICIES.api_version, "kind": POLICIES.kind, "metadata": {"name": "web"}}
    if not (await made.client.list(POLICIES, namespace=made.name)).items:
        await made.client.create(POLICIES, {**body, "spec": {"targetRef": target, "mode": mode}}, namespace=made.name)
    else:
        await made.client.patch(POLICIES, "web", {"spec": {"mode": mode}}, namespace=made.name)


async def two_zones_then_three(made: DeploymentSandbox) -> None:
    """Twelve pods on two zones, six more on a third that is added then: stock empties the third again."""
    await made.deploy("web", 12)
    await made.settled(12)
    await made.reshape(THREE_ZONES)
    await made.scale("web", 18)
    await made.settled(18)


async def shrink(made: DeploymentSandbox) -> tuple[int, ...]:
    """Scale down to twelve, and up again; what was left, without costs."""
    await made.scale("web", 12)
    left = await made.settled(12)
    await made.until(lambda store: not any(SCALE_PLAN in pod.metadata.annotations for pod in store))
    assert not [pod for pod in made.pods.store if DELETION_COST in pod.metadata.annotations]
    await asyncio.sleep(2.0)  # an observed result is evaluated within half a second, unless the workload grows again
    await made.scale("web", 18)
    await made.settled(18)
    return left


async def seen_event(client: Client, namespace: str, reason: str) -> Event:
    """An event of this reason on the Deployment."""
    events = Informer(client, Event, namespace=namespace)
    watching = asyncio.ensure_future(events.run())
    try:
        await within(client.clock, 30.0, events.wait_for(lambda store: any(each.reason == reason for each in store)))
        return next(each for each in events.store if each.reason == reason)
    finally:
        await cancel(watching)


@pytest.mark.parametrize("switch", [pytest.param(by_label, id="label"), pytest.param(by_policy, id="policy")])
async def test_enforced_from_the_next_scale_down_on_and_back(client: Client, switch: Switch) -> None:
    """An installation observes by default; nothing is restarted."""
    async with deployment_sandbox(client, TWO_ZONES) as made:
        tree = configuration(made.name, scaleDown={"defaultPolicies": [{"name": "level"}]})
        async with running(client, tree, [WEBHOOKS, CONTROLLERS]):
            await two_zones_then_three(made)
            assert skew(await shrink(made)) > 1, "stock leaves the new zone with the fewest"
            assert made.warnings == []
            event = await seen_event(client, made.name, "ScaleDownObserved")
            assert "Trimtab would have left 4/4/4" in event.message
            await switch(made, "Enforce")
            assert await shrink(made) == (4, 4, 4)
            await switch(made, "Observe")
            seen = len(made.warnings)
            await shrink(made)
            assert made.warnings[seen:] == []


async def test_an_installation_that_enforces_keeps_workloads_level(client: Client) -> None:
    """As `trimtab install --mode enforce` prints it."""
    async with deployment_sandbox(client, TWO_ZONES) as made:
        tree = configuration(made.name, scaleDown={"defaultPolicies": [{"name": "level", "mode": "Enforce"}]})
        async with running(client, tree, [WEBHOOKS]):
            await two_zones_then_three(made)
            assert await shrink(made) == (4, 4, 4)
