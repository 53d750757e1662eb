"""Workloads of another project as targets: a kind that owns ReplicaSets, with a small controller of its own.

The same holds on the lab and on a real control plane: nothing here knows which one it is. The processes have the
permissions that `trimtab install` prints for the configuration that names the kind, and no others.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.e2e.processes import CONTROLLERS, WEBHOOKS, Trimtab, configuration, running
from tests.e2e.test_policies import until_a_bad_policy_is_refused
from tests.e2e.test_unitedtopology import counted, create_topology, eventually, in_zone
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox, skew
from tests.lab.rollouts import KIND, ROLLOUTS, WORKLOADS, Rollout, controlling, rollout
from trimtab.api.annotations import POLICY_COST
from trimtab.api.apps import ReplicaSet
from trimtab.api.core import Event
from trimtab.api.documents import JSON
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import within
from trimtab.kube.errors import ApiError
from trimtab.kube.resources import Resource
from trimtab.kube.sessions import Session

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TWO_ZONES = {"zone-a": 4, "zone-b": 4}
THREE_ZONES = {**TWO_ZONES, "zone-c": 4}
KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")
ROLLOUT: JSON = {"apiVersion": KIND.api_version, "kind": KIND.kind, "name": "web"}

Resize = Callable[[DeploymentSandbox, int], Awaitable[None]]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made
    await asyncio.sleep(0.1)  # connections under TLS end a moment after they are closed, and nobody says when


@asynccontextmanager
async def rollouts(
    client: Client, zones: dict[str, int], workloads: list[JSON] = WORKLOADS
) -> AsyncIterator[tuple[DeploymentSandbox, Trimtab]]:
    """Nodes, the controller of Rollouts, and Trimtab with a configuration that names these workloads."""
    async with deployment_sandbox(client, zones) as made, controlling(client, made.name):
        tree = configuration(made.name, workloads=workloads)
        async with running(client, tree, [WEBHOOKS, CONTROLLERS]) as trimtab:
            try:
                yield made, trimtab
            finally:
                await client.delete_all(UnitedTopology, namespace=made.name)
                await client.delete_all(ScaleDownPolicy, namespace=made.name)


async def deploy(made: DeploymentSandbox, replicas: int) -> None:
    """A Rollout whose pods are ready."""
    await made.client.create(ROLLOUTS, rollout(made.deployment("web", replicas)), namespace=made.name)
    await made.settled(replicas)


async def by_scale(made: DeploymentSandbox, replicas: int) -> None:
    """As autoscalers do it."""
    await made.client.resize(Rollout, "web", replicas, namespace=made.name)


async def by_update(made: DeploymentSandbox, replicas: int) -> None:
    """As appliers and pipelines do it."""
    await made.client.patch(ROLLOUTS, "web", {"spec": {"replicas": replicas}}, namespace=made.name)


async def by_kubectl(made: DeploymentSandbox, replicas: int) -> None:
    """As people do it."""
    if KUBECTL is None:
        pytest.skip("there is no kubectl")
    command = ("scale", f"{KIND.plural}.{KIND.group}/web", f"--replicas={replicas}", "-n", made.name)
    process = await asyncio.create_subprocess_exec(
        KUBECTL, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    made.warnings += [line.removeprefix("Warning: ") for line in errors.decode().splitlines()]


async def create_policy(client: Client, namespace: str, target: JSON, name: str = "web", **spec: object) -> None:
    """A policy for a workload."""
    body = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy", "metadata": {"name": name}}
    await client.create(
        Resource.of(ScaleDownPolicy).raw, {**body, "spec": {"targetRef": target, **spec}}, namespace=namespace
    )


async def applies(made: DeploymentSandbox) -> None:
    """Wait until the policy reports that it applies to the Rollout."""

    async def so() -> bool:
        status = (await made.client.get(ScaleDownPolicy, "web", namespace=made.name)).status
        return any(each.status == "True" and "applies to Rollout web" in each.message for each in status.conditions)

    await eventually(so)


async def test_subsets_are_filled_in_order_and_emptied_from_the_last(client: Client) -> None:
    """A number, another number, and the rest; and again after a rollout."""
    async with rollouts(client, {"zone-a": 2, "zone-b": 2, "zone-c": 2}) as (made, _):
        subsets = (in_zone("a", "zone-a", 6), in_zone("b", "zone-b", 3), in_zone("c", "zone-c"))
        await create_topology(made, *subsets, kind="Rollout")
        await deploy(made, 12)
        assert made.spread() == (6, 3, 3)
        await counted(made, a=6, b=3, c=3)
        await by_scale(made, 8)
        assert await made.settled(8) == (6, 2, 0)
        await counted(made, a=6, b=2, c=0)
        await by_scale(made, 12)
        await made.settled(12)
        await counted(made, a=6, b=3, c=3)
        changed = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
        await made.client.patch(ROLLOUTS, "web", changed, namespace=made.name)
        await eventually(lambda: _is_rolled_out(made))
        await counted(made, a=6, b=3, c=3)


async def _is_rolled_out(made: DeploymentSandbox) -> bool:
    """Whether all pods are those of the second ReplicaSet."""
    sets = (await made.client.list(ReplicaSet, namespace=made.name)).items
    sizes = sorted((each.desired_replicas, each.status.replicas, each.status.available_replicas) for each in sets)
    return sizes == [(0, 0, 0), (12, 12, 12)]


@pytest.mark.parametrize(
    "resize",
    [
        pytest.param(by_scale, id="by the scale subresource"),
        pytest.param(by_update, id="by an update of the Rollout"),
        pytest.param(by_kubectl, id="by kubectl scale"),
    ],
)
async def test_a_policy_keeps_its_zones_level(client: Client, resize: Resize) -> None:
    """A zone that is added later is not emptied again; the event is on the Rollout."""
    async with rollouts(client, TWO_ZONES) as (made, trimtab):
        await create_policy(client, made.name, ROLLOUT)
        await deploy(made, 8)
        await applies(made)
        await made.reshape(THREE_ZONES)
        for _ in range(3):
            await resize(made, 12)
            await made.settled(12)
            await resize(made, 6)
            assert skew(await made.settled(6)) <= 1
        assert any(warning.startswith("kept ") for warning in made.warnings)
        assert await trimtab.sample("trimtab_scaledown_requests_total", outcome="planned") >= 1
        await eventually(lambda: _has_event(made))


async def _has_event(made: DeploymentSandbox) -> bool:
    found = (await made.client.list(Event, namespace=made.name)).items
    planned = [each for each in found if each.reason == "ScaleDownPlanned"]
    return any((each.involved_object.kind, each.involved_object.name) == ("Rollout", "web") for each in planned)


async def test_costs_kept_current_keep_its_zones_level(client: Client) -> None:
    """Without holding a request."""
    async with rollouts(client, TWO_ZONES) as (made, _):
        await create_policy(client, made.name, ROLLOUT, delivery="Continuous")
        await deploy(made, 8)
        await made.reshape(THREE_ZONES)
        await by_scale(made, 12)
        await made.settled(12)

        async def is_ranked() -> bool:
            status = (await made.client.get(ScaleDownPolicy, "web", namespace=made.name)).status
            costs = [each for each in made.pods.store if POLICY_COST in each.metadata.annotations]
            return (status.ranked_pods, len(costs)) == (12, 12)

        await eventually(is_ranked)
        await by_scale(made, 6)
        assert skew(await made.settled(6)) <= 1


async def test_other_kinds_are_refused_with_the_reason(client: Client) -> None:
    """Those that choose by themselves, and those that the configuration does not name."""
    async with rollouts(client, {"zone-a": 1}) as (made, _):
        await within(client.clock, 30.0, until_a_bad_policy_is_refused(client, made.name))
        for version, kind, reason in (
            ("apps/v1", "StatefulSet", "a StatefulSet removes its highest ordinal first"),
            ("batch/v1", "Job", "a Job does not choose its victims by cost"),
            ("argoproj.io/v1alpha1", "Rollout", "in workloads of Trimtab's configuration"),
        ):
            with pytest.raises(ApiError, match=reason):
                await create_policy(client, made.name, {"apiVersion": version, "kind": kind, "name": "web"}, "never")
        await create_policy(client, made.name, ROLLOUT)


async def test_a_kind_that_is_not_installed_is_no_outage(client: Client) -> None:
    """The processes are ready, and Deployments stay level."""
    absent = {"group": "absent.example.com", "version": "v1", "kind": "Train", "plural": "trains"}
    async with rollouts(client, TWO_ZONES, [*WORKLOADS, absent]) as (made, trimtab):
        await create_policy(client, made.name, {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
        await made.deploy("web", 8)
        await made.reshape(THREE_ZONES)
        await made.scale("web", 12)
        await made.settled(12)
        await made.scale("web", 6)
        assert skew(await made.settled(6)) <= 1
        assert "trains" in trimtab.log(WEBHOOKS)
