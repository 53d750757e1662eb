"""A cluster for tests of policies: the lab's API server and workload controllers without a socket, virtual time, and
the controllers of policies.

cluster = PolicyCluster()
await cluster.start()
await cluster.add_nodes("a", "b", zone="z1")
await cluster.deploy(6)
await cluster.policy(strategies=[{"name": "Balance"}], delivery="Continuous")
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.unit.lab.workloads.clusters import JSON, InMemoryLab, Wire
from trimtab.api import crds
from trimtab.api.annotations import DELETION_COST
from trimtab.api.apps import Deployment
from trimtab.api.cloneset import CloneSet
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.meta import Condition, ObjectReference
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.workloads import DEPLOYMENTS
from trimtab.kube.client import Client
from trimtab.kube.resources import Resource
from trimtab.kube.transport import Request
from trimtab.scaledown.continuous.delivery import Bands, ContinuousSettings, no_bands
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.policy.controller import ScaleDownPolicies
from trimtab.scaledown.policy.defaults import NO_DEFAULTS, Defaults
from trimtab.scaledown.policy.findings import BUILT_IN, Readers
from trimtab.scaledown.sources.answers import Unanswered
from trimtab.scaledown.sources.targets import sources_for
from trimtab.scaledown.view import View
from trimtab.testing.builders import node
from trimtab_lab.apiserver.controllers import bootstrap

DEFINITIONS = Resource.of(CustomResourceDefinition).raw
POLICIES = Resource.of(ScaleDownPolicy).raw
OURS = (CloneSet, ScaleDownPolicy, PodGroupCost)


def template(**labels: str) -> JSON:
    """A template of pods with these labels."""
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}


def deployment(name: str, replicas: int, *, labels: dict[str, str] | None = None, **metadata: Any) -> JSON:
    """A Deployment whose pods are labelled with its name."""
    labels = labels or {"app": name}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(**labels)}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def target(name: str = "web", kind: str = "Deployment", api_version: str = "apps/v1") -> JSON:
    """A reference to a workload."""
    return {"apiVersion": api_version, "kind": kind, "name": name}


class PolicyCluster(InMemoryLab):
    """A cluster with the controllers of policies."""

    def __init__(self, *, seed: int = 1, **settings: Any) -> None:
        super().__init__(seed=seed)
        self.settings = ContinuousSettings(**settings)
        self.defaults: Defaults = NO_DEFAULTS
        self.readers: Readers = BUILT_IN
        self.owners = DEPLOYMENTS
        self.bands: Bands = no_bands
        self.answers: dict[str, bytes] = {}
        """What pods answer, by their address."""
        self.nodes: Iterator[str] = itertools.cycle(["node-0", "node-1", "node-2"])
        self.product = Wire(self.cluster)
        self.events: list[tuple[str, str, str]] = []
        """The workload, the reason and the message of events."""
        self._tasks: list[asyncio.Future[None]] = []

    async def start(self) -> None:
        """Start the workload controllers and those of the policies."""
        if not self.cluster.store.collection("/namespaces").entries:
            await bootstrap.create_default_objects(self.cluster)
            for kind in crds.KINDS:
                if kind.model in OURS:
                    await self.user.create(DEFINITIONS, crds.manifest(kind))
        await super().start()
        await self.start_policies()

    async def start_policies(self, *, refuse: Callable[[Request], Exception | None] | None = None) -> None:
        """Start the controllers of the policies, with nothing remembered; some of what they ask may be refused."""
        self.product = Wire(self.cluster)
        self.product.refuse = refuse
        client = Client(self.product, clock=self.clock, rng=random.Random(1))
        self.view = View(client, owners=self.owners, rng=random.Random(1))
        self.metrics = Metrics()
        self.sources = sources_for(client, self.view, lambda: self.defaults, fetch=self._fetch)
        self.controller = ScaleDownPolicies(
            client,
            self.view,
            self.sources,
            defaults=self.defaults,
            settings=self.settings,
            readers=self.readers,
            bands=self.bands,
            metrics=self.metrics,
            recorder=self,
        )
        parts = (self.view.run(), self.sources.run(), self.controller.run())
        self._tasks = [asyncio.ensure_future(part) for part in parts]
        await self.look()

    def record(self, about: ObjectReference, severity: str, reason: str, message: str) -> None:
        """Keep an event, as an event recorder would write it."""
        assert severity == "Warning"
        self.events.append((f"{about.kind} {about.name}", reason, message))

    async def stop_policies(self, *, killed: bool = False) -> None:
        """End the controllers of the policies; killed, whatever they were about to write is lost."""
        self.product.dead = killed
        for task in reversed(self._tasks):  # the view last: the others use it while they end
            task.cancel()
            while not task.done():
                await self.clock.advance(0.5)

    async def close(self) -> None:
        """End everything."""
        await self.stop_policies()
        await super().close()

    async def _fetch(self, address: str, port: int, path: str, seconds: float) -> bytes:  # noqa: ARG002 - a Fetch
        if address not in self.answers:
            raise Unanswered("nobody is there")
        return self.answers[address]

    def _activity(self) -> tuple[int, int]:
        requests, version = super()._activity()
        return requests + len(self.product.requests), version

    # What a test does.

    async def look(self) -> None:
        """Let all events be reconciled and reported."""
        for _ in range(3):
            await self.advance(1.1)

    async def add_nodes(self, *names: str, zone: str, **more: Any) -> None:
        """Nodes in a zone; pods are placed on the nodes that were added, by turns."""
        for name in names:
            await self.user.create(Resource.of(Node).raw, {**node(name, zone=zone).tree(), **more})

    def place_on(self, *names: str) -> None:
        """Place the next pods on these nodes, by turns."""
        self.nodes = itertools.cycle(names)

    async def run_pod(self, pod: Pod, *, ready: bool = True) -> None:
        """Place a pod where its turn is, and let it become ready."""
        if not pod.spec.node_name:
            await self.user.bind(pod.metadata.name, namespace="default", node=next(self.nodes))
        await super().run_pod(await self.get(Pod, pod.metadata.name), ready=ready)

    async def deploy(self, replicas: int, name: str = "web", **more: Any) -> None:
        """A Deployment with so many pods that run."""
        await self.create(Deployment, deployment(name, replicas, **more))
        await self.run_pods()

    async def scale(self, replicas: int, name: str = "web") -> None:
        """`kubectl scale`, and wait until the pods have come or gone."""
        await self.user.resize(Deployment, name, replicas, namespace="default")
        await self.settle()
        await self.run_pods()

    async def policy(self, name: str = "web", **spec: Any) -> None:
        """A policy, for the Deployment web by default; reconciled."""
        if "selector" not in spec:
            spec = {"targetRef": target(), **spec}
        kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy"}
        await self.user.create(POLICIES, {**kind, "metadata": {"name": name}, "spec": spec}, namespace="default")
        await self.look()

    async def drop_policy(self, name: str = "web") -> None:
        """Delete a policy; reconciled."""
        await self.user.delete(POLICIES, name, namespace="default")
        await self.look()

    async def status(self, name: str = "web") -> ScaleDownPolicy:
        """A policy as it stands."""
        return await self.get(ScaleDownPolicy, name)

    async def condition(self, kind: str = "Ready", name: str = "web") -> Condition | None:
        """A condition of a policy."""
        found = (await self.status(name)).status.conditions
        return next((each for each in found if each.type == kind), None)

    async def costs(self, annotation: str = DELETION_COST) -> dict[str, int]:
        """The costs on pods by name."""
        found = {pod.metadata.name: pod.metadata.annotations.get(annotation) for pod in await self.pods()}
        return {name: int(cost) for name, cost in found.items() if cost is not None}

    async def zones(self, *names: str) -> dict[str, int]:
        """How many pods each zone has."""
        by_node = {
            each.metadata.name: each.metadata.labels.get("topology.kubernetes.io/zone", "")
            for each in (await self.user.list(Node)).items
        }
        counts = dict.fromkeys(names or sorted(set(by_node.values())), 0)
        for pod in await self.pods():
            counts[by_node[pod.spec.node_name]] += 1
        return counts

    def sample(self, name: str, **labels: str) -> float:
        """The value of a metric; 0 where there is none yet."""
        return self.metrics.registry.get_sample_value(f"trimtab_scaledown_{name}", labels) or 0.0

    def writes(self, plural: str = "pods") -> list[Request]:
        """What the policies' controllers wrote to objects of a kind."""
        return [
            request
            for request in self.product.requests
            if request.method != "GET" and f"/{plural}" in request.path and "/status" not in request.path
        ]
