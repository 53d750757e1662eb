"""A Deployment on simulated nodes of its own, in a namespace of its own, on any control plane.

Nodes have a taint that only the pods of the test tolerate, and pods select those nodes: several suites can share a
control plane. Everything is removed at the end of the context.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.documents import JSON
from trimtab.api.nodes import ZONE, Node
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel, within
from trimtab.kube.errors import AlreadyExists, NotFound
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Resource, untyped
from trimtab.kube.stores import Store
from trimtab_lab.nodes import shapes
from trimtab_lab.nodes.nodegroups import CLUSTER
from trimtab_lab.nodes.service import Nodes
from trimtab_lab.nodes.shapes import Shape

TAINT = "lab.trimtab.dev/fleet"
PATIENCE = 120.0
NODES = Resource.of(Node).raw
PODS = Resource.of(Pod).raw


@dataclass
class DeploymentSandbox:
    """A namespace, its nodes, and an informer of its pods."""

    client: Client
    name: str
    nodes: Nodes
    pods: Informer[Pod]
    machines: Informer[Node]
    warnings: list[str]
    patience: float = PATIENCE
    history: list[tuple[int, ...]] = field(default_factory=list)
    exits: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What else ends with the sandbox."""

    async def reshape(self, zones: Mapping[str, int]) -> None:
        """Have these zones with so many nodes each, and wait until they are ready."""
        await self.nodes.reshape(shape(self.name, zones))
        count = sum(zones.values())
        await within(self.client.clock, self.patience, self.machines.wait_for(lambda store: _ready(store) == count))

    async def deploy(self, name: str, replicas: int, **spec: object) -> None:
        """Create a Deployment and wait until its pods are ready."""
        await self.client.create(Deployment, self.deployment(name, replicas, **spec), namespace=self.name)
        await self.settled(replicas)

    def deployment(self, name: str, replicas: int, **spec: object) -> JSON:
        """A Deployment whose pods run on these nodes only."""
        labels = {"app": name}
        pod: JSON = {
            "containers": [{"name": "main", "image": "example.com/app:1"}],
            "nodeSelector": {CLUSTER: self.name},
            "tolerations": [{"key": TAINT, "operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        }
        template = {"metadata": {"labels": labels}, "spec": pod}
        selector = {"matchLabels": labels}
        body = {"replicas": replicas, "selector": selector, "template": template, **spec}
        return {"metadata": {"name": name, "labels": labels}, "spec": body}

    async def settled(self, replicas: int) -> tuple[int, ...]:
        """Wait until there are so many pods, all ready and none terminating; returns the number in each zone."""

        def is_settled(store: Store[Pod]) -> bool:
            pods = list(store)
            return len(pods) == replicas and all(pod.active and is_ready(pod) for pod in pods)

        await self.until(is_settled)
        self.history.append(self.spread())
        return self.spread()

    async def until(self, condition: Callable[[Store[Pod]], bool]) -> None:
        """Wait for a condition of the pods."""
        await within(self.client.clock, self.patience, self.pods.wait_for(condition))

    def spread(self) -> tuple[int, ...]:
        """How many pods are in each zone that has nodes, by the zone's name."""
        zones = {node.metadata.name: node.metadata.labels.get(ZONE, "") for node in self.machines.store}
        counts = Counter(zones.get(pod.spec.node_name, "") for pod in self.pods.store if pod.active)
        return tuple(counts[zone] for zone in sorted(set(zones.values())))

    async def scale(self, name: str, replicas: int) -> None:
        """Scale by `/scale`, as kubectl and autoscalers do."""
        await self.client.resize(Deployment, name, replicas, namespace=self.name)

    async def update(self, name: str, replicas: int) -> None:
        """Scale by an update of the Deployment."""
        await self.client.patch(Deployment, name, {"spec": {"replicas": replicas}}, namespace=self.name)

    async def forget(self, name: str) -> None:
        """Delete a Deployment, and wait until its pods are gone."""
        await self.client.delete(Deployment, name, namespace=self.name, propagation="Background")
        await self.until(lambda store: not list(store))


def shape(name: str, zones: Mapping[str, int]) -> Shape:
    """Nodes in zones, with names and a taint of their own."""
    return shapes.read(
        {
            "name": name,
            "prefix": f"{name}-",
            "node": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]},
            "zones": [{"name": zone, "nodes": count} for zone, count in zones.items()],
        }
    )


def is_ready(pod: Pod) -> bool:
    """Whether a pod is ready."""
    condition = pod.status.condition("Ready")
    return condition is not None and condition.status == "True"


def skew(counts: tuple[int, ...]) -> int:
    """The difference between the fullest and the emptiest zone."""
    return max(counts) - min(counts)


def _ready(store: Store[Node]) -> int:
    return sum(node.ready for node in store)


@asynccontextmanager
async def deployment_sandbox(client: Client, zones: Mapping[str, int]) -> AsyncIterator[DeploymentSandbox]:
    """A namespace with nodes, which is removed at the end of the context."""
    name = f"fleet-{uuid.uuid4().hex[:8]}"
    warnings: list[str] = []
    client = client.using(on_warning=warnings.append)
    await client.create(Namespace, {"metadata": {"name": name}})
    with suppress(AlreadyExists):  # where no controller creates it: pods are not admitted without
        accounts = untyped("v1", "ServiceAccount", "serviceaccounts")
        await client.create(accounts, {"metadata": {"name": "default"}}, namespace=name)
    made = DeploymentSandbox(
        client,
        name,
        Nodes(client, client.clock, shape(name, zones), 0),
        Informer(client, Pod, namespace=name),
        Informer(client, Node, label_selector=f"{CLUSTER}={name}"),
        warnings,
    )
    tasks = [asyncio.ensure_future(each.run()) for each in (made.nodes, made.pods, made.machines)]
    try:
        await made.reshape(zones)
        yield made
    finally:
        await _clean(client, made)
        await cancel(*tasks)
        await made.exits.aclose()


async def _clean(client: Client, made: DeploymentSandbox) -> None:
    """Remove everything in order, so that no component writes about objects that are gone."""
    for kind in (Resource.of(Deployment), Resource.of(ReplicaSet), Resource.of(ReplicationController), PODS):
        await client.delete_all(kind, namespace=made.name, grace_period_seconds=0, propagation="Background")
    await within(client.clock, PATIENCE, made.pods.wait_for(lambda store: not len(store)))
    await made.nodes.reshape(Shape(name=made.name))
    await within(client.clock, PATIENCE, made.machines.wait_for(lambda store: not len(store)))
    await client.delete_all(NODES, label_selector=f"{CLUSTER}={made.name}")
    with suppress(NotFound):
        await client.delete(Namespace, made.name)
