"""Scale-downs that stay level, on a control plane with controllers and a scheduler of its own.

The same holds on the lab and on a real control plane: nothing here knows which one it is.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from tests.e2e.processes import Trimtab, holding
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox, is_ready, skew
from trimtab.admission import metrics as webhooks
from trimtab.api.annotations import DELETION_COST, SCALE_PLAN
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.core import ReplicationController
from trimtab.api.pods import Pod
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import within
from trimtab.kube.errors import MethodNotAllowed, NotFound
from trimtab.kube.resources import untyped
from trimtab.kube.sessions import Session
from trimtab.scaledown.metrics import HoldOutcome, MissCause

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

AUTOSCALERS = untyped("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
TWO_ZONES = {"zone-a": 12, "zone-b": 12}
THREE_ZONES = {**TWO_ZONES, "zone-c": 12}
KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")
ROUNDS = int(os.environ.get("TRIMTAB_E2E_ROUNDS", "10"))
"""How many times the fleet grows and shrinks by chance; a hundred takes some three minutes."""

IDLE = float(os.environ.get("TRIMTAB_E2E_IDLE_SECONDS", "5"))
"""How long a fleet is watched while nothing happens."""

Resize = Callable[[DeploymentSandbox, int], Awaitable[None]]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


async def by_kubectl(made: DeploymentSandbox, replicas: int) -> None:
    """As people do it."""
    if KUBECTL is None:
        pytest.skip("there is no kubectl")
    command = ("scale", "deployment/web", f"--replicas={replicas}", "-n", made.name)
    process = await asyncio.create_subprocess_exec(
        KUBECTL, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    made.warnings += [line.removeprefix("Warning: ") for line in errors.decode().splitlines()]


async def by_update(made: DeploymentSandbox, replicas: int) -> None:
    """As appliers and pipelines do it."""
    await made.update("web", replicas)


async def by_autoscaler(made: DeploymentSandbox, replicas: int) -> None:
    """Both bounds at once: an autoscaler needs no metrics to keep within its bounds."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    bounds = {"minReplicas": replicas, "maxReplicas": replicas}
    try:
        await made.client.patch(AUTOSCALERS, "web", {"spec": bounds}, namespace=made.name)
    except MethodNotAllowed:
        pytest.skip("there are no autoscalers")
    except NotFound:
        metric = {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
        }
        spec = {"scaleTargetRef": reference, "metrics": [metric], **bounds}
        body = {"metadata": {"name": "web"}, "spec": spec}
        try:
            await made.client.create(AUTOSCALERS, body, namespace=made.name)
        except NotFound:
            pytest.skip("there are no autoscalers")


@pytest.mark.parametrize(
    "resize",
    [
        pytest.param(by_kubectl, id="by kubectl scale"),
        pytest.param(by_update, id="by an update of the Deployment"),
        pytest.param(by_autoscaler, id="by an autoscaler whose bounds change"),
    ],
)
async def test_two_zones_then_three_stay_level_over_four_cycles(client: Client, resize: Resize) -> None:
    """A zone that is added later is not emptied again by the next scale-down."""
    async with deployment_sandbox(client, TWO_ZONES) as made, holding(client, made.name):
        await made.deploy("web", 20)
        await made.reshape(THREE_ZONES)
        for _ in range(4):
            await resize(made, 30)
            await made.settled(30)
            await resize(made, 20)
            assert skew(await made.settled(20)) <= 1
    if resize is not by_autoscaler:
        assert any(warning.startswith("kept ") for warning in made.warnings)


ZONES = (
    pytest.param({"zone-a": 12, "zone-b": 6, "zone-c": 3}, id="zones of different size"),
    pytest.param({"zone-a": 6, "zone-b": 6, "zone-c": 6}, id="even zones"),
)


@pytest.mark.parametrize("zones", ZONES)
@pytest.mark.parametrize("kind", [Deployment, ReplicaSet, ReplicationController], ids=lambda kind: kind.__name__)
async def test_random_sizes_end_as_level_as_possible(
    client: Client, kind: type[Any], zones: dict[str, int], record_property: Callable[[str, object], None]
) -> None:
    """Between 6 and 60 pods of many ages, after random waits: none ends less level than was possible."""
    rng = random.Random(7)
    async with deployment_sandbox(client, zones) as made, holding(client, made.name) as trimtab:
        await _create(made, kind, 30)
        size, level, unlevel = 30, 0, list[str]()
        for _ in range(ROUNDS):
            size = rng.choice([each for each in range(6, 61) if each != size])
            await asyncio.sleep(rng.uniform(0, 2))
            before, counted = made.spread(), await _counts(trimtab)
            await client.resize(kind, "web", size, namespace=made.name)
            after = await made.settled(size)
            if sum(before) <= size:
                continue
            await _until_plans_end(made, trimtab)
            if skew(after) <= max(1, skew(_levelled(before, size))):
                level += 1
            else:
                counts = await _counts(trimtab)
                news = {what: count - counted[what] for what, count in counts.items() if count > counted[what]}
                unlevel.append(f"{before} to {size}: {after}, {news or 'the webhook was not called'}")
        figures = f"{level} of {level + len(unlevel)} scale-downs as level as can be; others: {unlevel or 'none'}"
        record_property("told", figures)
        assert level > 0
        assert unlevel == []


async def _create(made: DeploymentSandbox, kind: type[Any], size: int) -> None:
    """A workload `web` of this kind, once its pods are ready."""
    body = made.deployment("web", size)
    if kind is ReplicationController:
        body["spec"]["selector"] = {"app": "web"}
    await made.client.create(kind, body, namespace=made.name)
    await made.settled(size)


async def _counts(trimtab: Trimtab) -> dict[str, float]:
    """What the webhooks have counted: outcomes of requests, misses by their causes, and late requests."""
    scale = "trimtab_scaledown_"
    outcomes = {each.value: await trimtab.sample(f"{scale}requests_total", outcome=each.value) for each in HoldOutcome}
    misses = {
        f"miss: {each.value}": await trimtab.sample(f"{scale}misses_total", cause=each.value) for each in MissCause
    }
    late = {
        f"edge: {each}": await trimtab.sample("trimtab_webhook_reviews_total", hook="scale", outcome=each.value)
        for each in (webhooks.ReviewOutcome.LATE, webhooks.ReviewOutcome.FAILED, webhooks.ReviewOutcome.BUSY)
    }
    return {**outcomes, **misses, **late}


def _levelled(counts: tuple[int, ...], size: int) -> tuple[int, ...]:
    """What is left when the fullest zone gives each pod."""
    left = list(counts)
    for _ in range(sum(counts) - size):
        left[left.index(max(left))] -= 1
    return tuple(left)


async def _until_plans_end(made: DeploymentSandbox, trimtab: Trimtab) -> None:
    """Wait until no cost of a plan is left, and the plan is evaluated."""
    async with asyncio.timeout(30):
        while any(SCALE_PLAN in pod.metadata.annotations for pod in made.pods.store) or await trimtab.sample(
            "trimtab_scaledown_oldest_cost_seconds"
        ):
            await asyncio.sleep(0.1)


async def test_requests_in_quick_succession_end_as_level_as_one(client: Client) -> None:
    """The controller is still busy with the first when the last one comes."""
    async with deployment_sandbox(client, TWO_ZONES) as made, holding(client, made.name):
        await made.deploy("web", 20)
        await made.reshape(THREE_ZONES)
        await made.scale("web", 30)
        await made.settled(30)
        for size in (25, 20, 15):
            await made.scale("web", size)
        assert skew(await made.settled(15)) <= 1


async def test_requests_at_the_same_time_are_carried_out_one_after_the_other(client: Client) -> None:
    """The API server stores one of two, and sends a new review for the other; costs are never those for the other."""
    async with deployment_sandbox(client, THREE_ZONES) as made, holding(client, made.name) as trimtab:
        await made.deploy("web", 30)
        for sizes in ((20, 13), (13, 20), (9, 25), (16, 8), (7, 9)):
            await asyncio.gather(*(made.scale("web", size) for size in sizes))
            stored = (await client.get(Deployment, "web", namespace=made.name)).desired_replicas
            assert stored in sizes
            after = await made.settled(stored)
            await _until_plans_end(made, trimtab)
            if stored == min(sizes):
                assert skew(after) <= 1
            await made.scale("web", 30)
            await made.settled(30)
        assert await trimtab.sample("trimtab_scaledown_results_total", result="missed") == 0
        assert await trimtab.sample("trimtab_scaledown_requests_total", outcome=HoldOutcome.STALE.value) > 0


async def test_a_paused_deployment_shrinks_by_replicaset(client: Client) -> None:
    """Each of its ReplicaSets shrinks to the planned size, and stays level."""
    async with deployment_sandbox(client, THREE_ZONES) as made, holding(client, made.name) as trimtab:
        await made.deploy("web", 24)
        template = {"metadata": {"labels": {"app": "web", "version": "2"}}}
        one_by_one = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        spec = {"template": template, "strategy": one_by_one}
        await made.client.patch(Deployment, "web", {"spec": spec}, namespace=made.name)
        await made.until(lambda store: sum("version" in pod.metadata.labels and is_ready(pod) for pod in store) >= 6)
        await made.client.patch(Deployment, "web", {"spec": {"paused": True}}, namespace=made.name)
        await _still(made)
        sets = {each.metadata.uid: each.desired_replicas for each in await _sets(made)}
        assert sum(size > 0 for size in sets.values()) == 2, "the rollout was over before it could be paused"
        await made.scale("web", 9)
        await _until_plans_end(made, trimtab)
        await _still(made)
        counts = await _counts(trimtab)
        assert counts[HoldOutcome.PLANNED.value] + counts[HoldOutcome.AS_STOCK.value] > 0, counts
        assert await trimtab.sample("trimtab_scaledown_misses_total") == 0
        assert all(
            each.desired_replicas < sets[each.metadata.uid] for each in await _sets(made) if sets[each.metadata.uid]
        )


async def _sets(made: DeploymentSandbox) -> Sequence[ReplicaSet]:
    return (await made.client.list(ReplicaSet, namespace=made.name)).items


async def _still(made: DeploymentSandbox) -> None:
    """Wait until every ReplicaSet has as many pods as it wants, and all are ready."""
    async with asyncio.timeout(60):
        while True:
            sets = await _sets(made)
            if all(each.status.ready_replicas == each.desired_replicas == each.status.replicas for each in sets):
                return
            await asyncio.sleep(0.2)


async def test_a_dry_run_changes_nothing(client: Client) -> None:
    """Nothing is written, the request is not held, and there is no warning."""
    async with deployment_sandbox(client, THREE_ZONES) as made, holding(client, made.name) as trimtab:
        await made.deploy("web", 9)
        await made.client.resize(Deployment, "web", 4, namespace=made.name, dry_run=True)
        assert await trimtab.sample("trimtab_scaledown_costs_written_total") == 0
        assert made.warnings == []


@pytest.mark.parametrize(
    "kind", [pytest.param(ReplicaSet, id="ReplicaSet"), pytest.param(ReplicationController, id="ReplicationController")]
)
async def test_workloads_that_own_their_pods_stay_level_too(client: Client, kind: type[Any]) -> None:
    """By their own `/scale`."""
    async with deployment_sandbox(client, TWO_ZONES) as made, holding(client, made.name):
        body = made.deployment("web", 12)
        if kind is ReplicationController:
            body["spec"]["selector"] = {"app": "web"}
        await client.create(kind, body, namespace=made.name)
        await made.settled(12)
        await made.reshape(THREE_ZONES)
        await client.resize(kind, "web", 18, namespace=made.name)
        await made.settled(18)
        await client.resize(kind, "web", 12, namespace=made.name)
        assert skew(await made.settled(12)) <= 1
        await client.resize(kind, "web", 0, namespace=made.name)
        await made.settled(0)


async def test_with_trimtab_stopped_scaling_works_as_if_it_were_not_installed(client: Client) -> None:
    """The webhook is still registered, and does not answer."""
    async with deployment_sandbox(client, THREE_ZONES) as made:
        async with holding(client, made.name, stays_registered=True) as trimtab:
            await made.deploy("web", 12)
        try:
            await made.scale("web", 6)
            await made.settled(6)
            await made.update("web", 9)
            await made.settled(9)
            await made.scale("web", 0)
            await made.settled(0)
        finally:
            await trimtab.uninstall()


async def test_a_workload_at_rest_is_not_written_to(client: Client) -> None:
    """After a scale-down nothing of ours is left on any pod, and no pod is written to from then on."""
    async with deployment_sandbox(client, THREE_ZONES) as made, holding(client, made.name) as trimtab:
        await made.deploy("web", 12)
        await made.scale("web", 4)
        await made.settled(4)
        await _until_plans_end(made, trimtab)
        left = [pod.metadata.annotations for pod in made.pods.store]
        assert not any(SCALE_PLAN in each or DELETION_COST in each for each in left)
        written: list[Pod] = []
        made.pods.subscribe(updated=lambda _, new: written.append(new))
        with pytest.raises(TimeoutError):
            await within(client.clock, IDLE, made.pods.wait_for(lambda _: bool(written)))
        assert written == []
