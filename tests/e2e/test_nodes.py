"""Simulated nodes on a control plane, the lab's or the one that KUBECONFIG names.

The nodes carry a taint that only the pods of these tests tolerate, so that nobody else's pods are put on them, and go
away with the test. Where WITHOUT says that there is no Deployment controller, the nodes bring their own lifecycle, and
what needs it and a scheduler is skipped.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.e2e.absences import DEPLOYMENT_CONTROLLER, is_absent
from trimtab.api.apps import Deployment
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube import config, errors
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.informers import Informer
from trimtab.kube.resources import object_key, untyped
from trimtab.kube.sessions import Session
from trimtab_lab.nodes import nodegroups, shapes
from trimtab_lab.nodes.service import Nodes
from trimtab_lab.nodes.settings import NodeLifecycleSettings, Settings
from trimtab_lab.nodes.shapes import Shape

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TAINT = "lab.trimtab.dev/e2e"
PATIENCE = 150.0


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A namespace that goes away with the test, and in which pods are admitted."""
    name = f"trimtab-e2e-{uuid.uuid4().hex[:10]}"
    await client.create(Namespace, {"metadata": {"name": name}})
    with suppress(errors.AlreadyExists):
        accounts = untyped("v1", "ServiceAccount", "serviceaccounts")
        await client.create(accounts, {"metadata": {"name": "default"}}, namespace=name)
    yield name
    await client.delete(Namespace, name)


@pytest.fixture
async def controllers(client: Client, namespace: str) -> bool:
    """Whether there is a controller manager; where it is not known to be absent, it reconciles a new Deployment."""
    if is_absent(DEPLOYMENT_CONTROLLER):
        return False
    await client.create(Deployment, deployment("canary", 0), namespace=namespace)
    informer = Informer(client, Deployment, namespace=namespace)
    watching = asyncio.ensure_future(informer.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await informer.wait_for(lambda store: any(each.status.observed_generation for each in store))
    finally:
        await cancel(watching)
    return True


@pytest.fixture
def shape() -> Shape:
    """36 nodes in three zones, with unique names."""
    name = f"e2e-{uuid.uuid4().hex[:6]}"
    return shapes.read(
        {
            "name": name,
            "prefix": f"{name}-",
            "node": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]},
            "zones": [{"name": f"zone-{letter}", "nodes": 12} for letter in "abc"],
        }
    )


@pytest.fixture
async def nodes(client: Client, shape: Shape, controllers: bool) -> AsyncIterator[Nodes]:
    """The simulated nodes; without a controller manager, with their own node lifecycle and short times."""
    lifecycle = None if controllers else NodeLifecycleSettings(grace_seconds=5.0)
    settings = Settings(lifecycle=lifecycle, renew_seconds=None if controllers else 1.0, lease_seconds=4)
    async with running(Nodes(client, client.clock, shape, 1, settings=settings)) as made:
        yield made
        await made.reshape(Shape(name=shape.name))
        await until(made, lambda: not list(made.simulated))


@asynccontextmanager
async def running(nodes: Nodes) -> AsyncIterator[Nodes]:
    """Simulate for as long as the context, once all nodes are ready."""
    task = asyncio.ensure_future(nodes.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await nodes.ready()
        yield nodes
    finally:
        await cancel(task)


async def until(nodes: Nodes, condition: Callable[[], Any]) -> None:
    """Wait until the nodes or pods that the simulation sees are like that."""
    waits = [nodes.nodes.wait_for(lambda _: bool(condition())), nodes.pods.wait_for(lambda _: bool(condition()))]
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(*tasks)


def pod_spec(cluster: str, **fields: Any) -> JSON:
    """What a pod of these tests asks for: one of our nodes."""
    return {
        "nodeSelector": {nodegroups.CLUSTER: cluster},
        "tolerations": [{"key": TAINT, "operator": "Exists"}],
        "containers": [{"name": "main", "image": "example.com/app:1"}],
        **fields,
    }


def deployment(name: str, replicas: int, cluster: str = "") -> JSON:
    """A Deployment of such pods."""
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(cluster)},
        },
    }


def ready_pods(nodes: Nodes, namespace: str) -> list[str]:
    """The names of the pods of a namespace that are ready and not on their way out."""
    return [
        pod.metadata.name
        for pod in nodes.pods.store
        if pod.metadata.namespace == namespace
        and not pod.terminating
        and (ready := pod.status.condition("Ready")) is not None
        and ready.status == "True"
    ]


async def test_pods_run_and_go_and_nodes_fail_and_return(client: Client, namespace: str, nodes: Nodes) -> None:
    """A pod becomes ready; its node fails and is noticed; it returns, the pod is ready again, and leaves gracefully."""
    node = next(iter(nodes.shape.nodes))
    await client.create(
        Pod, {"metadata": {"name": "p"}, "spec": pod_spec(nodes.shape.name, nodeName=node)}, namespace=namespace
    )
    await until(nodes, lambda: ready_pods(nodes, namespace) == ["p"])
    await nodes.fail([node])
    await until(nodes, lambda: (found := nodes.simulated.get(node)) and not found.ready and found.spec.taints)
    await until(nodes, lambda: not ready_pods(nodes, namespace))
    await nodes.recover([node])
    await until(nodes, lambda: (found := nodes.simulated.get(node)) and found.ready)
    await until(nodes, lambda: ready_pods(nodes, namespace) == ["p"])
    await until(nodes, lambda: [taint.key for taint in nodes.simulated.get(node).spec.taints] == [TAINT])  # type: ignore[union-attr]
    await client.delete(Pod, "p", namespace=namespace)
    await until(nodes, lambda: nodes.pods.get(object_key(namespace, "p")) is None)


async def test_a_process_that_starts_again_keeps_nodes_and_pods(client: Client, namespace: str, shape: Shape) -> None:
    """The second process finds everything as the first one left it."""
    node = next(iter(shape.nodes))
    first = Nodes(client, client.clock, shape, 1)
    async with running(first):
        spec = pod_spec(shape.name, nodeName=node)
        await client.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, namespace=namespace)
        await until(first, lambda: ready_pods(first, namespace) == ["p"])
        before = first.pods.get(object_key(namespace, "p"))
    second = Nodes(client, client.clock, shape, 1)
    async with running(second):
        await second.pods.wait_synced()
        after = second.pods.get(object_key(namespace, "p"))
        assert before is not None
        assert after is not None
        assert after.status == before.status
        assert [each.name for each in second.simulated if each.name in shape.nodes and each.ready]
        await second.reshape(Shape(name=shape.name))
        await until(second, lambda: not list(second.simulated))


async def test_a_deployment_grows_and_shrinks(client: Client, namespace: str, nodes: Nodes, controllers: bool) -> None:
    """30 pods become ready, 20 stay, and one that is deleted is replaced."""
    if not controllers:
        pytest.skip(f"this control plane has no {DEPLOYMENT_CONTROLLER}")
    await client.create(Deployment, deployment("web", 30, nodes.shape.name), namespace=namespace)
    await until(nodes, lambda: len(ready_pods(nodes, namespace)) == 30)
    await client.resize(Deployment, "web", 20, namespace=namespace)
    await until(nodes, lambda: sum(pod.metadata.namespace == namespace for pod in nodes.pods.store) == 20)
    victim = ready_pods(nodes, namespace)[0]
    await client.delete(Pod, victim, namespace=namespace)
    await until(nodes, lambda: nodes.pods.get(object_key(namespace, victim)) is None)
    await until(nodes, lambda: len(ready_pods(nodes, namespace)) == 20)
