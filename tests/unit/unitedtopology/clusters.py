"""A cluster with subsets on virtual time: the lab's API server and controllers, nodes in zones, a scheduler that fills
them in order, and the UnitedTopology controller.

cluster = TopologyCluster()
await cluster.start()
await cluster.create_topology(subset("a", "z1", 3), subset("b", "z2"))
await cluster.deploy(9)
await cluster.run_pods()
cluster.shares()                                # {"a": 3, "b": 6}
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

from trimtab.api import annotations as keys
from trimtab.api import crds, nodeselectors, times, tolerations
from trimtab.api.annotations import DELETION_COST
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import SubsetStatus, UnitedTopology
from trimtab.kube.errors import NotFound
from trimtab.ranking.costs import level_of
from trimtab.unitedtopology.admission.scaledown_preparation import ScaleDownPreparation
from trimtab.unitedtopology.controller.controller import SETTINGS, Controller, Settings
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.pod_annotator import PodAnnotator
from trimtab_lab.testing import InMemoryLab

JSON = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
NAMESPACE = "default"


def zone(*zones: str) -> JSON:
    """A node selector term for some zones."""
    return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(zones)}]}


def subset(name: str, in_zone: str = "", most: int | str | None = None, **more: Any) -> JSON:
    """A subset of a UnitedTopology."""
    made: JSON = {"name": name} | ({"nodeSelectorTerm": zone(in_zone)} if in_zone else {})
    return made | ({} if most is None else {"maxReplicas": most}) | more


def topology_tree(
    *subsets: JSON, name: str = "web", kind: str = "Deployment", target: str = "web", **spec: Any
) -> JSON:
    """The manifest of a UnitedTopology."""
    version = "apps.kruise.io/v1alpha1" if kind == "CloneSet" else "apps/v1"
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "UnitedTopology",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"targetRef": {"apiVersion": version, "kind": kind, "name": target}, "subsets": list(subsets), **spec},
    }


class TopologyCluster(InMemoryLab):
    """A cluster with the UnitedTopology controller in it."""

    settings: Settings = SETTINGS
    room = 100
    """How many pods a zone takes."""
    fits: Mapping[str, int] = {}
    """How many pods single nodes take, where that matters."""

    def __init__(self, *, seed: int = 1, **more: Any) -> None:
        super().__init__(seed=seed, kinds=[kind.model for kind in crds.KINDS], **more)

    async def prepare(self) -> None:
        """Create three zones of two nodes."""
        for at in ("z1", "z2", "z3"):
            for number in (1, 2):
                await self.add_node(f"{at}-{number}", at)

    async def start(self) -> None:
        """Start everything."""
        await super().start()
        await self.start_controller()

    async def start_controller(self) -> None:
        """Start the controller, as a process of its own."""
        self.controller_wire = self.connect()
        client = self.client(self.controller_wire, seed=2)
        self.metrics = Metrics()
        self.controller = Controller(client, self.settings, metrics=self.metrics, rng=random.Random(3))
        annotator = PodAnnotator(client, self.metrics)
        self.preparation = ScaleDownPreparation(self.controller.view, self.controller.levels, annotator, self.clock)
        self.controlling = asyncio.create_task(self.controller.run())
        await self.settle()

    async def stop_controller(self) -> None:
        """End the controller in good order."""
        self.controlling.cancel()
        while not self.controlling.done():
            await self.clock.advance(0.5)

    async def kill_controller(self) -> None:
        """End the controller at once: nothing that it was about to write arrives."""
        self.controller_wire.dead = True
        await self.stop_controller()

    async def stop(self) -> None:
        """End everything that runs."""
        await self.stop_controller()
        await super().stop()

    async def settle(self) -> None:
        """Wait until everything is idle, collected events included."""
        await super().settle()
        if hasattr(self, "controlling"):
            while True:
                before = self._activity()
                await self.clock.advance(0.25)
                await super().settle()
                if self._activity() == before:
                    return

    # The users.

    async def add_node(self, name: str, in_zone: str, **spec: Any) -> None:
        """A node that is ready."""
        tree = {"metadata": {"name": name, "labels": {ZONE: in_zone}}, "spec": spec}
        await self.user.create(Node, tree)
        await self.user.patch(Node, name, {"spec": {"taints": spec.get("taints")}})

    async def create_topology(self, *subsets: JSON, **more: Any) -> UnitedTopology:
        """Create a UnitedTopology."""
        return await self.create(UnitedTopology, topology_tree(*subsets, **more))

    async def topology(self, name: str = "web") -> UnitedTopology:
        """A UnitedTopology as it is."""
        return await self.get(UnitedTopology, name)

    async def condition(self, name: str = "web") -> tuple[str, str, str]:
        """Its Ready condition."""
        (found,) = (await self.topology(name)).status.conditions
        return found.status, found.reason, found.message

    async def rows(self, name: str = "web") -> dict[str, SubsetStatus]:
        """The subsets of the newest revision."""
        return {row.name: row for row in (await self.topology(name)).status.subset_statuses}

    async def missing(self, name: str = "web") -> dict[str, int]:
        """How many pods each subset lacks."""
        return {name: row.missing_replicas for name, row in (await self.rows(name)).items()}

    async def pods_by_subset(self) -> Counter[str]:
        """How many pods are annotated with each subset; the empty name counts those without annotations."""
        found = [keys.subset_annotations(pod.metadata.annotations) for pod in await self.pods()]
        return Counter(known.subset if known is not None else "" for known in found)

    async def levels(self) -> Counter[tuple[str, str]]:
        """How many pods of each zone have each level, by their costs."""
        stand: Counter[tuple[str, str]] = Counter()
        for pod in await self.pods():
            level = level_of(int(pod.metadata.annotations.get(DELETION_COST, "0")))
            stand[pod.spec.node_name.partition("-")[0], level.value if level else "foreign"] += 1
        return stand

    # The scheduler.

    async def run_pod(self, pod: Pod, *, ready: bool = True) -> None:
        """Bind a pod to the first node that can take it, or set the condition that there is none."""
        if not pod.spec.node_name:
            node = await self._node_for(pod)
            if node is None:
                await self._refuse(pod)
                return
            await self.user.bind(pod.metadata.name, namespace=NAMESPACE, node=node)
            pod = await self.get(Pod, pod.metadata.name)
        await super().run_pod(pod, ready=ready)

    async def run_pods(self, limit: int = 10_000) -> None:
        """As before, but pods without a node stay pending, and failed pods stay failed."""
        await self.settle()
        for _ in range(200):
            pods = await self.all(Pod)
            waiting = [pod for pod in pods if pod.terminating or not (pod.finished or pod.ready or _refused(pod))][
                :limit
            ]
            if not waiting:
                return
            for pod in waiting:
                try:
                    await (self.end(pod) if pod.terminating else self.run_pod(pod))
                except NotFound:
                    continue
            await self.settle()
        raise AssertionError("pods are created and deleted without end")

    async def _node_for(self, pod: Pod) -> str | None:
        required = nodeselectors.required(pod.spec)
        taken = await self.zones()
        on_nodes = Counter(each.spec.node_name for each in await self.all(Pod) if not each.finished)
        for node in (await self.user.list(Node)).items:
            taints = tolerations.untolerated(pod.spec.tolerations, node.spec.taints)
            name = node.metadata.name
            full = taken[node.metadata.labels[ZONE]] >= self.room or on_nodes[name] >= self.fits.get(name, 10_000)
            if required.matches(node) and taints is None and not full:
                return name
        return None

    async def _refuse(self, pod: Pod) -> None:
        now = times.format_time(self.clock.now())
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": now}
        status = {"status": {"conditions": [condition]}}
        await self.user.patch(Pod, pod.metadata.name, status, namespace=NAMESPACE, subresource="status")


def _refused(pod: Pod) -> bool:
    condition = pod.status.condition("PodScheduled")
    return condition is not None and condition.status == "False"
