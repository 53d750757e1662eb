"""A small cluster on virtual time: the lab's API server without a socket, its workload controllers, a simple kubelet.

    async with InMemoryLab() as lab:
        await lab.add_zones(a=2, b=2)          # four nodes
        await lab.deploy(4)                    # pods are bound by turns, start and become ready
        await lab.scale(2)
        await lab.zones()                      # Counter({"a": 1, "b": 1})

Nothing waits for real time: `advance` moves the clock, `settle` returns when nothing is left to do. With the same seed
every run is the same.

Informers list by initial events (WatchList); if the `refuse` of their connection answers these with 422, as an older
API server does, they read pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

from prometheus_client import CollectorRegistry

from trimtab.api import crds, times
from trimtab.api.apps import Deployment
from trimtab.api.core import Event
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.nodes import ZONE, Node
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import Conflict, NotFound
from trimtab.kube.resources import Resource
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import node
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.apiserver.admission.webhook_dispatcher import Call
from trimtab_lab.apiserver.controllers import bootstrap
from trimtab_lab.apiserver.controllers.definitions import DefinitionController
from trimtab_lab.apiserver.controllers.garbage_collector import GarbageCollector
from trimtab_lab.apiserver.controllers.namespaces import NamespaceController
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.testing.wire import Wire
from trimtab_lab.workloads.options import STOCK, Options
from trimtab_lab.workloads.service import Workloads

T = TypeVar("T")
JSON = dict[str, Any]
NAMESPACE = "default"
_QUIET_TURNS = 60
"""The number of turns of the event loop without activity after which everything counts as idle."""


async def _no_webhooks(*_: object) -> bytes:
    raise AssertionError("there are no webhooks here")


class BackgroundTask(Protocol):
    """A background task of the API server."""

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do."""
        ...

    async def close(self) -> None:
        """Stop."""
        ...


class InMemoryLab:
    """A cluster and its controllers. All methods work in the namespace `default`."""

    def __init__(
        self,
        *,
        options: Options = STOCK,
        seed: int = 1,
        kinds: Sequence[type[Any]] = (),
        collects: bool = True,
        call: Call = _no_webhooks,
    ) -> None:
        """Make a cluster that knows these custom kinds of Trimtab.

        `collects` runs the garbage collector; `call` reaches webhooks.
        """
        self.clock = VirtualClock()
        self.options = options
        self.definitions = [crds.manifest(kind) for kind in crds.KINDS if kind.model in kinds]
        """The CustomResourceDefinitions that `start` creates."""
        self.cluster = Cluster(clock=self.clock.now, call=call, seed=seed)
        tasks = (NamespaceController(self.cluster, "no authority"), DefinitionController(self.cluster))
        self._background: tuple[BackgroundTask, ...] = (*tasks, GarbageCollector(self.cluster)) if collects else tasks
        self._wires: list[Wire] = []
        self.wire = self.connect()
        """The connection of the workload controllers."""
        self.user = self.client(Wire(self.cluster), seed)
        """The client of an administrator."""
        self.registry = CollectorRegistry()
        self.rng = random.Random(seed)  # noqa: S311 - a test is to be repeatable
        self.place_on("node-0", "node-1", "node-2")
        self.on_settled: Callable[[], Awaitable[None]] | None = None
        """Called whenever everything has settled."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def connect(self) -> Wire:
        """A connection for another process of the cluster; `settle` waits for what is sent over it, too."""
        self._wires.append(Wire(self.cluster))
        return self._wires[-1]

    def client(self, wire: Wire | None = None, seed: int = 1) -> Client:
        """A client on a connection, or on a new one, with the lab's clock."""
        rng = random.Random(seed)  # noqa: S311 - a test is to be repeatable
        return Client(wire or self.connect(), clock=self.clock, rng=rng)

    # The controllers.

    async def start(self) -> None:
        """Start the controllers, in a cluster that has what every cluster has."""
        await self.bootstrap()
        self.wire = self.connect()
        self.registry = CollectorRegistry()
        rng = random.Random(1)  # noqa: S311 - a test is to be repeatable
        self.workloads = Workloads(self.client(self.wire), options=self.options, registry=self.registry, rng=rng)
        self.task = asyncio.create_task(self.workloads.run())
        await self.settle()

    async def bootstrap(self) -> None:
        """Create what every cluster has, and the custom kinds, unless that was done before."""
        if self.cluster.store.collection("/namespaces").entries:
            return
        await bootstrap.create_default_objects(self.cluster)
        for definition in self.definitions:
            await self.user.create(Resource.of(CustomResourceDefinition).raw, definition)
        await self.prepare()

    async def prepare(self) -> None:
        """Create what else a new cluster is to have; for subclasses."""

    async def stop(self) -> None:
        """Stop the controllers."""
        self.task.cancel()
        while not self.task.done():
            await self.clock.advance(0.5)

    async def kill(self) -> None:
        """Stop the controllers at once: their pending writes are lost."""
        self.wire.dead = True
        await self.stop()

    async def close(self) -> None:
        """Stop everything."""
        await self.stop()
        for task in self._background:
            await task.close()

    async def settle(self) -> None:
        """Wait until nothing is left to do, retries after a failure included, waits of seconds not."""
        while True:
            before = self._activity()
            await self._until_quiet()
            await self.clock.advance(0.05)
            if self._activity() == before:
                break
        if self.on_settled is not None:
            await self.on_settled()

    async def _until_quiet(self) -> None:
        quiet = 0
        while quiet < _QUIET_TURNS:
            before = self._activity()
            await asyncio.sleep(0)
            idle = all(task.idle for task in self._background)
            quiet = quiet + 1 if idle and self._activity() == before else 0

    def _activity(self) -> tuple[int, int]:
        return sum(len(wire.requests) for wire in self._wires), self.cluster.store.version

    async def advance(self, seconds: float) -> None:
        """Advance the clock, and settle."""
        await self.clock.advance(seconds)
        await self.settle()

    # The users.

    async def create(self, kind: type[T], tree: JSON) -> T:
        """Create an object, and settle."""
        made = await self.user.create(kind, tree, namespace=NAMESPACE)
        await self.settle()
        return made

    async def patch(self, kind: type[T], name: str, patch: JSON) -> T:
        """Patch an object, and settle."""
        made = await self.user.patch(kind, name, patch, namespace=NAMESPACE)
        await self.settle()
        return made

    async def get(self, kind: type[T], name: str) -> T:
        """Read an object."""
        return await self.user.get(kind, name, namespace=NAMESPACE)

    async def raw(self, kind: type[Any], name: str) -> JSON:
        """Read an object with all fields."""
        return await self.user.get(Resource.of(kind).raw, name, namespace=NAMESPACE)

    async def all(self, kind: type[T]) -> list[T]:
        """All objects of a kind."""
        return list((await self.user.list(kind, namespace=NAMESPACE)).items)

    async def pods(self) -> list[Pod]:
        """The active pods."""
        return [pod for pod in await self.all(Pod) if pod.active]

    async def zones(self) -> Counter[str]:
        """The number of active pods in each zone; the empty name counts those without a node, or a zone."""
        zone = {each.metadata.name: each.metadata.labels.get(ZONE, "") for each in (await self.user.list(Node)).items}
        return Counter(zone.get(pod.spec.node_name, "") for pod in await self.pods())

    async def snapshot(self) -> Snapshot:
        """The nodes and pods as the decisions of Trimtab read them."""
        view = Snapshot()
        for each in (await self.user.list(Node)).items:
            view.put(each)
        for pod in await self.all(Pod):
            view.put(pod)
        return view

    async def event_messages(self, reason: str) -> list[str]:
        """The messages of all events with this reason, in order, each as often as it occurred."""
        found = [event for event in await self.all(Event) if event.reason == reason]
        ordered = sorted(found, key=lambda event: event.metadata.name.rpartition(".")[2])
        return [event.message for event in ordered for _ in range(event.count)]

    async def deploy(self, replicas: int, name: str = "web", **more: Any) -> None:
        """Create a Deployment, with what else `deployment` takes, and let its pods run."""
        await self.create(Deployment, deployment(name, replicas, **more))
        await self.run_pods()

    async def scale(self, replicas: int, name: str = "web", kind: type[Any] = Deployment) -> float:
        """Scale a workload, and let pods come and go; the seconds that the request took."""
        started = self.clock.now()
        await self.user.resize(kind, name, replicas, namespace=NAMESPACE)
        took = (self.clock.now() - started) / SECOND
        await self.settle()
        await self.run_pods()
        return took

    # The nodes: a scheduler that takes them by turns, and a kubelet.

    async def add_nodes(self, *names: str, zone: str = "", **more: Any) -> None:
        """Nodes, in a zone if one is given; `more` are parts of their manifests."""
        for name in names:
            await self.user.create(Resource.of(Node).raw, {**node(name, zone=zone).tree(), **more})

    async def add_zones(self, **sizes: int) -> None:
        """Zones of so many nodes; the next pods are placed on these nodes by turns, zone by zone."""
        names = {zone: [f"{zone}-{number}" for number in range(size)] for zone, size in sizes.items()}
        for zone, nodes in names.items():
            await self.add_nodes(*nodes, zone=zone)
        self.place_on(*[name for turn in itertools.zip_longest(*names.values()) for name in turn if name])

    def place_on(self, *names: str) -> None:
        """Place the next pods on these nodes, by turns."""
        self._places: Iterator[str] = itertools.cycle(names)

    async def run_pods(self, limit: int = 10_000) -> None:
        """Bind and start pending pods, at most so many, and remove deleted ones, until nothing changes."""
        while limit > 0 and (waiting := [pod for pod in await self.all(Pod) if self.waits(pod)]):
            chosen = self.rng.sample(waiting, min(limit, len(waiting)))
            limit -= len(chosen)
            for pod in chosen:
                with contextlib.suppress(NotFound, Conflict):  # another component was faster
                    await (self.end(pod) if pod.terminating else self.run_pod(pod))
            await self.settle()

    def waits(self, pod: Pod) -> bool:
        """Whether the kubelet has something to do for a pod."""
        return pod.terminating or not pod.ready

    async def run_pod(self, pod: Pod, *, ready: bool = True) -> None:
        """Bind a pod, unless it has a node, and set its readiness."""
        name = pod.metadata.name
        if not pod.spec.node_name:
            await self.user.bind(name, namespace=pod.metadata.namespace, node=next(self._places))
        now = times.format_time(self.clock.now())
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": now}
        status = {"phase": "Running", "conditions": [condition]}
        await self.user.patch(Pod, name, {"status": status}, namespace=pod.metadata.namespace, subresource="status")

    async def end(self, pod: Pod) -> None:
        """Remove a pod whose containers have ended."""
        await self.user.delete(Pod, pod.metadata.name, namespace=pod.metadata.namespace, grace_period_seconds=0)


def deployment(
    name: str = "web",
    replicas: int = 3,
    *,
    image: str = "app:1",
    labels: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JSON:
    """The manifest of a Deployment; its pods are labelled `app` with its name, unless labels are given."""
    labels = labels or {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, **(metadata or {})},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    }
