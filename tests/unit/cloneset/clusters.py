"""A cluster fixture for CloneSets: the lab's API server without a socket, virtual time, a kubelet that obeys.

cluster = CloneSetCluster()
await cluster.start()
await cluster.create(CloneSet, manifest(3))
await cluster.run_pods()
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry

from trimtab.api.annotations import POLICY_COST
from trimtab.api.cloneset import CloneSet
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.cloneset.controller import Controller
from trimtab.cloneset.metrics import Metrics
from trimtab.cloneset.settings import Settings
from trimtab.kube.resources import Resource
from trimtab_lab.testing import InMemoryLab
from trimtab_lab.testing.labs import JSON

DEFINITIONS = Resource.of(CustomResourceDefinition).raw
CLONESETS = Resource.of(CloneSet).raw
_ENDLESS = 2_000
"""More requests than any test needs until the controller is idle."""


def manifest(replicas: int = 3, name: str = "web", **spec: Any) -> JSON:
    """A CloneSet, called web by default."""
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "CloneSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(app=name),
            **spec,
        },
    }


def template(image: str = "app:1", *, spread: str = "", **labels: str) -> JSON:
    """A template of pods with that image, spread over a topology key if one is given."""
    labels = labels or {"app": "web"}
    spec: JSON = {"containers": [{"name": "main", "image": image}]}
    if spread:
        rule = {"maxSkew": 1, "topologyKey": spread, "whenUnsatisfiable": "ScheduleAnyway"}
        spec["topologySpreadConstraints"] = [{**rule, "labelSelector": {"matchLabels": labels}}]
    return {"metadata": {"labels": labels}, "spec": spec}


class CloneSetCluster(InMemoryLab):
    """A cluster with a CloneSet controller."""

    def __init__(self, settings: Settings | None = None, *, seed: int = 1) -> None:
        super().__init__(seed=seed, kinds=(CloneSet, PodGroupCost))
        self.settings = settings or Settings()
        self.policies: dict[str, ScaleDownPolicySpec] = {}
        """The policy that applies to a CloneSet, by the CloneSet's name."""
        self._most = _ENDLESS
        self.on_start: Callable[[], None] | None = None
        """Called before a controller that has a wire starts to use it."""

    async def start(self) -> None:
        """Start the controller, in a cluster that has what every cluster has."""
        await self.bootstrap()
        self.wire = self.connect()
        if self.on_start is not None:
            self.on_start()
        client = self.client(self.wire)
        self.registry = CollectorRegistry()
        self.controller = Controller(
            client,
            self.settings,
            metrics=Metrics(self.registry),
            policy_of=lambda cloneset: self.policies.get(cloneset.metadata.name),
            rng=random.Random(1),
        )
        self.task = asyncio.create_task(self.controller.run())
        await self.settle()

    async def settle(self) -> None:
        """As everywhere; but a controller that never comes to an end is a failure, not a test that hangs."""
        self._most = len(self.wire.requests) + _ENDLESS
        await super().settle()

    def _activity(self) -> tuple[int, int]:
        assert len(self.wire.requests) <= self._most, "the controller never becomes idle"
        return super()._activity()

    # The users.

    async def resize(self, replicas: int, name: str = "web") -> None:
        """`kubectl scale`."""
        await self.user.resize(CloneSet, name, replicas, namespace="default")
        await self.settle()

    async def cloneset(self, name: str = "web") -> CloneSet:
        """A CloneSet as it is."""
        return await self.get(CloneSet, name)

    async def names(self) -> set[str]:
        """The names of the pods that are there to stay."""
        return {pod.metadata.name for pod in await self.pods()}

    async def place(self, name: str, on: str, *, since: str, labels: JSON | None = None) -> None:
        """An orphan that has run on a node since then."""
        body = {"metadata": {"name": name, "labels": labels or {"app": "web"}}, "spec": template()["spec"]}
        await self.user.create(Resource.of(Pod).raw, body, namespace="default")
        await self.user.bind(name, namespace="default", node=on)
        await self.ready(name, since)

    async def ready(self, name: str, since: str) -> None:
        """Let a pod be ready since then."""
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        status = {"phase": "Running", "conditions": [condition]}
        await self.user.patch(Pod, name, {"status": status}, namespace="default", subresource="status")

    def waits(self, pod: Pod) -> bool:
        """As everywhere; but a pod that has failed stays so."""
        return super().waits(pod) and (pod.terminating or not pod.finished)

    async def end_pods(self) -> None:
        """Let the containers of deleted pods end."""
        for pod in await self.all(Pod):
            if pod.terminating:
                await self.end(pod)
        await self.settle()

    async def cost(self, costs: dict[str, int], owner: str = "web", name: str = "") -> None:
        """Write the costs of a CloneSet's pods, all at once: as its policy's controller does, if it has a policy.

        Under another name, they are those of another component.
        """
        metadata: JSON = {"name": name or owner}
        if owner in self.policies and not name:
            uid = (await self.cloneset(owner)).metadata.uid
            reference = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": owner, "uid": uid}
            metadata = {"name": f"cloneset-{owner}", "annotations": {POLICY_COST: "ScaleDownPolicy default/web"}}
            metadata["ownerReferences"] = [reference]
        spec = {"owner": {"kind": "CloneSet", "name": owner}, "costs": costs}
        body = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "PodGroupCost", "metadata": metadata, "spec": spec}
        raw = Resource.of(PodGroupCost).raw
        found = [each for each in await self.all(PodGroupCost) if each.metadata.name == metadata["name"]]
        if found:
            await self.user.replace(raw, {**await self.raw(PodGroupCost, metadata["name"]), "spec": spec})
        else:
            await self.user.create(raw, body, namespace="default")
        await self.settle()
