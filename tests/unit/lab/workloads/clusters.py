"""A small world for controllers: the lab's API server without a socket, virtual time, and a kubelet that obeys.

world = World()
await world.start()                          # the controllers
await world.create(Deployment, tree)
await world.settle()                         # until nobody has anything left to do
await world.run_pods()                       # pods are placed, start and become ready; what was deleted ends
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from prometheus_client import CollectorRegistry

from trimtab.api import times
from trimtab.api.core import Event
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.errors import Conflict, NotFound, Unreachable
from trimtab.kube.resources import Resource
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.apiserver.admission.webhooks import Call
from trimtab_lab.apiserver.storage import bootstrap
from trimtab_lab.apiserver.storage.cluster import Cluster
from trimtab_lab.apiserver.storage.definitions import Definitions
from trimtab_lab.apiserver.storage.garbage_collector import Collector
from trimtab_lab.apiserver.storage.namespaces import Namespaces
from trimtab_lab.apiserver.storage.store import Event as Change
from trimtab_lab.apiserver.storage.store import Shelf, encode
from trimtab_lab.apiserver.wire import discovery, routes
from trimtab_lab.apiserver.wire.paths import split_version
from trimtab_lab.apiserver.wire.requests import Request as LabRequest
from trimtab_lab.apiserver.wire.statuses import Refusal
from trimtab_lab.workloads.options import STOCK, Options
from trimtab_lab.workloads.service import Workloads

T = TypeVar("T")
JSON = dict[str, Any]
_QUIET = 60
"""So many turns of the event loop in which nothing happens: everybody waits for something else than his turn."""


class Stream:
    """A watch: what has happened, line by line."""

    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, wire: Wire, plural: str) -> None:
        self._wire = wire
        self._plural = plural
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    def feed(self, line: bytes) -> None:
        self._lines.put_nowait(line)

    async def read(self) -> bytes:
        line = await self._lines.get()
        await self._wire.release(self._plural)
        if self._wire.dead:
            raise Unreachable("connection lost")
        return line

    async def close(self) -> None:
        """There is nothing to close."""


class Wire:
    """A `Transport` that ends in the lab's API server, in the same process."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.requests: list[Request] = []
        self.refuse: Callable[[Request], Refusal | Exception | None] | None = None
        self.after: Callable[[Request], None] | None = None
        """Called when a request was answered, before anybody knows."""
        self._held: dict[str, asyncio.Event] = {}
        self.dead = False
        """Whether the process at this end was killed: nothing it sends arrives, nothing arrives there."""

    def hold(self, *plurals: str) -> None:
        """Let watches of these kinds show nothing new until `go_on`."""
        self._held |= {plural: asyncio.Event() for plural in plurals}

    def go_on(self, *plurals: str) -> None:
        """Let watches of these kinds, or of all, show what they have."""
        for plural in plurals or tuple(self._held):
            self._held.pop(plural).set()

    async def release(self, plural: str) -> None:
        """Wait until a watch may show something."""
        if plural in self._held:
            await self._held[plural].wait()

    async def send(self, request: Request) -> Response:
        """One request, one answer."""
        await asyncio.sleep(0)
        self._check()
        self.requests.append(request)
        try:
            refused = self.refuse(request) if self.refuse else None
            if refused is not None:
                raise refused
            status, body = await self._answer(request)
        except Refusal as error:
            status, body = error.code, encode(error.status)
        if self.after is not None:
            self.after(request)
        self._check()
        return Response(status, {}, body)

    async def stream(self, request: Request) -> Stream:
        """A watch of a whole kind."""
        self._check()
        target = self.cluster.targets.find(request.path)
        assert target is not None
        shelf = self.cluster.store.shelf(target.kind.shelf)
        stream, since = Stream(self, target.kind.plural), int(dict(request.params)["resourceVersion"])

        def tell(where: Shelf, change: Change) -> None:
            if where is shelf and change.version > since:
                wrapped = target.kind.wrap(change.entry.data)
                stream.feed(b'{"type":"%b","object":%b}\n' % (change.type.encode(), wrapped))

        for change in shelf.since(since):
            tell(shelf, change)
        self.cluster.store.listen(tell)
        return stream

    async def close(self) -> None:
        """There is nothing to close."""

    def _check(self) -> None:
        if self.dead:
            raise Unreachable("connection lost")

    async def _answer(self, request: Request) -> tuple[int, bytes]:
        target = self.cluster.targets.find(request.path)
        if target is None:
            return 200, encode(discovery.resources(self.cluster.registry, split_version(request.path)[0]) or {})
        query = {name: (value,) for name, value in request.params}
        body, kind = request.body or b"", request.content_type
        wanted = LabRequest(target, query, bootstrap.USER, body=body, content_type=kind, accept="application/json")
        if request.method == "GET":
            answer = routes.read(wanted)(self.cluster, wanted)
        else:
            answer = await routes.write(request.method, wanted)(self.cluster, wanted)
        return answer.status, answer.body if isinstance(answer.body, bytes) else b"".join(answer.body.pieces)


async def _no_webhooks(*_: object) -> bytes:
    raise AssertionError("there are no webhooks here")


class Keeper(Protocol):
    """Who does something by himself in the API server."""

    @property
    def idle(self) -> bool:
        """Whether he has nothing to do."""
        ...

    async def close(self) -> None:
        """End."""
        ...


class World:
    """A cluster, its controllers, and those who use it."""

    def __init__(
        self, *, options: Options = STOCK, seed: int = 1, collects: bool = True, call: Call = _no_webhooks
    ) -> None:
        """Without `collects`, what belongs to nobody stays. `call` reaches webhooks."""
        self.clock = VirtualClock()
        self.options = options
        self.cluster = Cluster(clock=self.clock.now, call=call, seed=seed)
        keepers = (Namespaces(self.cluster, "no authority"), Definitions(self.cluster))
        self._keepers: tuple[Keeper, ...] = (*keepers, Collector(self.cluster)) if collects else keepers
        self.wire = Wire(self.cluster)
        self.user = Client(Wire(self.cluster), clock=self.clock, rng=random.Random(seed))
        self.registry = CollectorRegistry()
        self.rng = random.Random(seed)
        self.placed = 0
        self.on_settled: Callable[[], Awaitable[None]] | None = None
        """What else happens whenever everybody has done what they had to do."""

    # The controllers.

    async def start(self) -> None:
        """Start the controllers, in a cluster that has what every cluster has."""
        if not self.cluster.store.shelf("/namespaces").entries:
            await bootstrap.furnish(self.cluster)
        self.wire = Wire(self.cluster)
        self.registry = CollectorRegistry()
        client = Client(self.wire, clock=self.clock, rng=random.Random(1))
        self.workloads = Workloads(client, options=self.options, registry=self.registry, rng=random.Random(1))
        self.task = asyncio.create_task(self.workloads.run())
        await self.settle()

    async def stop(self) -> None:
        """End the controllers."""
        self.task.cancel()
        while not self.task.done():
            await self.clock.advance(0.5)

    async def kill(self) -> None:
        """End the controllers at once: whatever they were about to write is lost."""
        self.wire.dead = True
        await self.stop()

    async def close(self) -> None:
        """End everything."""
        await self.stop()
        for keeper in self._keepers:
            await keeper.close()

    async def settle(self) -> None:
        """Let everybody do what they have to do; retries after a failure included, waits of seconds not."""
        while True:
            before = self._activity()
            await self._calm()
            await self.clock.advance(0.05)
            if self._activity() == before:
                break
        if self.on_settled is not None:
            await self.on_settled()

    async def _calm(self) -> None:
        quiet = 0
        while quiet < _QUIET:
            before = self._activity()
            await asyncio.sleep(0)
            idle = all(keeper.idle for keeper in self._keepers)
            quiet = quiet + 1 if idle and self._activity() == before else 0

    def _activity(self) -> tuple[int, int]:
        return len(self.wire.requests), self.cluster.store.version

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.advance(seconds)
        await self.settle()

    # The users.

    async def create(self, kind: type[T], tree: JSON) -> T:
        """Create an object, and let the controllers look at it."""
        made = await self.user.create(kind, tree, namespace="default")
        await self.settle()
        return made

    async def patch(self, kind: type[T], name: str, patch: JSON) -> T:
        """Change an object, and let the controllers look at it."""
        made = await self.user.patch(kind, name, patch, namespace="default")
        await self.settle()
        return made

    async def get(self, kind: type[T], name: str) -> T:
        """An object as it is."""
        return await self.user.get(kind, name, namespace="default")

    async def raw(self, kind: type[Any], name: str) -> JSON:
        """An object as it is, every field."""
        return await self.user.get(Resource.of(kind).raw, name, namespace="default")

    async def all(self, kind: type[T]) -> list[T]:
        """All objects of a kind."""
        return list((await self.user.list(kind, namespace="default")).items)

    async def pods(self) -> list[Pod]:
        """The pods that are there to stay."""
        return [pod for pod in await self.all(Pod) if pod.active]

    async def told(self, reason: str) -> list[str]:
        """The messages of all events with that reason, in order, each as often as it happened."""
        found = [event for event in await self.all(Event) if event.reason == reason]
        ordered = sorted(found, key=lambda event: event.metadata.name.rpartition(".")[2])
        return [event.message for event in ordered for _ in range(event.count)]

    # The kubelet.

    async def run_pods(self, limit: int = 10_000) -> None:
        """Place and start pods that wait, so many at most, end those that were deleted; until nothing changes."""
        while limit > 0 and (waiting := [pod for pod in await self.all(Pod) if pod.terminating or not pod.ready]):
            chosen = self.rng.sample(waiting, min(limit, len(waiting)))
            limit -= len(chosen)
            for pod in chosen:
                with contextlib.suppress(NotFound, Conflict):  # somebody was faster
                    await (self.end(pod) if pod.terminating else self.run_pod(pod))
            await self.settle()

    async def run_pod(self, pod: Pod, *, ready: bool = True) -> None:
        """Place a pod, unless it has a node, and let it become ready, or not any more."""
        name = pod.metadata.name
        if not pod.spec.node_name:
            self.placed += 1
            await self.user.bind(name, namespace="default", node=f"node-{self.placed % 3}")
        now = times.format_time(self.clock.now())
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": now}
        status = {"phase": "Running", "conditions": [condition]}
        await self.user.patch(Pod, name, {"status": status}, namespace="default", subresource="status")

    async def end(self, pod: Pod) -> None:
        """The pod's containers have ended."""
        await self.user.delete(Pod, pod.metadata.name, namespace="default", grace_period_seconds=0)
