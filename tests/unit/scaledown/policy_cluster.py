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
import random
from collections.abc import Callable
from typing import Any

from trimtab.api.annotations import DELETION_COST
from trimtab.api.cloneset import CloneSet
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.meta import Condition, ObjectReference
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.workloads import DEPLOYMENTS
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
from trimtab_lab.testing import InMemoryLab
from trimtab_lab.testing.labs import JSON

DEFINITIONS = Resource.of(CustomResourceDefinition).raw
POLICIES = Resource.of(ScaleDownPolicy).raw
KINDS = (CloneSet, ScaleDownPolicy, PodGroupCost)


def template(**labels: str) -> JSON:
    """A template of pods with these labels."""
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}


def target(name: str = "web", kind: str = "Deployment", api_version: str = "apps/v1") -> JSON:
    """A reference to a workload."""
    return {"apiVersion": api_version, "kind": kind, "name": name}


class PolicyCluster(InMemoryLab):
    """A cluster with the controllers of policies."""

    def __init__(self, *, seed: int = 1, **settings: Any) -> None:
        super().__init__(seed=seed, kinds=KINDS)
        self.settings = ContinuousSettings(**settings)
        self.defaults: Defaults = NO_DEFAULTS
        self.readers: Readers = BUILT_IN
        self.owners = DEPLOYMENTS
        self.bands: Bands = no_bands
        self.answers: dict[str, bytes] = {}
        """What pods answer, by their address."""
        self.product = self.connect()
        self.events: list[tuple[str, str, str]] = []
        """The workload, the reason and the message of events."""
        self.ignored: list[tuple[str, str]] = []
        """The workloads of which rules are ignored, and the reasons."""
        self._tasks: list[asyncio.Future[None]] = []

    async def start(self) -> None:
        """Start the workload controllers and those of the policies."""
        await super().start()
        await self.start_policies()

    async def start_policies(self, *, refuse: Callable[[Request], Exception | None] | None = None) -> None:
        """Start the controllers of the policies, with nothing remembered; some of what they ask may be refused."""
        self.product = self.connect()
        self.product.refuse = refuse
        client = self.client(self.product)
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
            on_ignored=lambda found, reason: self.ignored.append((found.metadata.name, reason)),
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

    # What a test does.

    async def look(self) -> None:
        """Let all events be reconciled and reported."""
        for _ in range(3):
            await self.advance(1.1)

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
