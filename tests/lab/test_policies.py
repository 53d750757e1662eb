"""Policies over the wire: the proposal's three stories, costs that come and go, and what a server refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.lab.deployments import DeploymentSandbox, deployment_sandbox
from tests.lab.policing import STORIES, PolicyControllers, bad_policies_are_refused, costed, running_policies, settle
from tests.scenarios.labs import lab
from trimtab.api import times
from trimtab.api.annotations import DELETION_COST
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.kube.client import Client
from trimtab.kube.clocks import within
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import Resource, untyped

TWO_ZONES = {"zone-a": 3, "zone-b": 3}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a whole lab."""
    async with lab(tmp_path, ()) as made:
        yield made


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
async def test_a_story_of_the_proposal(
    client: Client, story: Callable[[DeploymentSandbox, PolicyControllers], Awaitable[None]]
) -> None:
    """With the result that the proposal describes."""
    async with deployment_sandbox(client, TWO_ZONES) as made, running_policies(client, made.name) as policies:
        await story(made, policies)


async def test_bad_policies_are_refused(client: Client) -> None:
    """By the hook, when they are written."""
    await bad_policies_are_refused(client, "default")


METRICS = untyped("metrics.k8s.io/v1beta1", "PodMetrics", "pods")


async def measure(made: DeploymentSandbox, cpu: Mapping[str, str]) -> None:
    """Stand in for a metrics server: a kind of that name, and an object for each pod."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "PodMetrics", "listKind": "PodMetricsList", "plural": "pods", "singular": "pod"}
    spec = {"group": "metrics.k8s.io", "scope": "Namespaced", "names": names, "versions": [version]}
    approved = {"api-approved.kubernetes.io": "unapproved, in a lab"}
    await made.client.create(
        Resource.of(CustomResourceDefinition).raw,
        {"metadata": {"name": "pods.metrics.k8s.io", "annotations": approved}, "spec": spec},
    )
    await within(made.client.clock, 30.0, _served(made))
    for name, used in cpu.items():
        body = {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {"name": name},
            "timestamp": times.format_time(made.client.clock.now()),
            "window": "15s",
            "containers": [{"name": "main", "usage": {"cpu": used, "memory": "10Mi"}}],
        }
        await made.client.create(METRICS, body, namespace=made.name)


async def _served(made: DeploymentSandbox) -> None:
    while True:
        with suppress(NotFound):
            await made.client.list(METRICS, namespace=made.name)
            return
        await made.client.clock.sleep(0.1)


async def test_idle_pods_go_first(client: Client) -> None:
    """By metrics; and without a metrics server, the policy reports what to install."""
    async with deployment_sandbox(client, TWO_ZONES) as made, running_policies(client, made.name) as policies:
        await made.deploy("web", 6)
        await policies.policy(strategies=[{"name": "Idle"}], delivery="Continuous")
        told = await policies.wait_for_status(lambda policy: "install a metrics server" in policy.status.last_error)
        assert (told.status.ranked_pods, told.status.unranked_pods) == (0, 6)
        names = sorted(pod.metadata.name for pod in made.pods.store)
        await measure(made, {name: f"{150 * at}m" for at, name in enumerate(names)})
        await policies.ranked(6)
        await made.until(lambda store: len(costed(store, DELETION_COST)) == len(names))
        await settle(made)
        await made.scale("web", 2)
        await made.settled(2)
        assert {pod.metadata.name for pod in made.pods.store} == set(names[4:])
