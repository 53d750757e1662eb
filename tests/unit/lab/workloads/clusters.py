"""A small lab for tests of controllers: the lab's API server without a socket, virtual time, and a simple kubelet.

lab = InMemoryLab()
await lab.start()                          # the controllers
await lab.create(Deployment, tree)
await lab.settle()                         # until nothing is left to do
await lab.run_pods()                       # pods are bound, start and become ready; deleted ones are removed
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from prometheus_client import CollectorRegistry

from tests.unit.kube.fakes import FakeStream, refused
from trimtab.api import times
from trimtab.api.core import Event
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.errors import Conflict, NotFound, Unreachable
from trimtab.kube.resources import Resource
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.apiserver.admission.webhook_dispatcher import Call
from trimtab_lab.apiserver.controllers import bootstrap
from trimtab_lab.apiserver.controllers.definitions import DefinitionController
from trimtab_lab.apiserver.controllers.garbage_collector import GarbageCollector
from trimtab_lab.apiserver.controllers.namespaces import NamespaceController
from trimtab_lab.apiserver.kinds.errors import StatusError, status_error
from trimtab_lab.apiserver.storage.store import Collection, encode
from trimtab_lab.apiserver.storage.store import Event as Change
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.requests import Request as LabRequest
from trimtab_lab.apiserver.wire import discovery, routes
from trimtab_lab.apiserver.wire.paths import PathParser, split_version
from trimtab_lab.workloads.options import STOCK, Options
from trimtab_lab.workloads.service import Workloads

T = TypeVar("T")
JSON = dict[str, Any]
_QUIET_TURNS = 60
"""The number of turns of the event loop without activity after which everything counts as idle."""


class Stream:
    """A watch: the events, line by line."""

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
        self._paths = PathParser(cluster.registry)
        self.requests: list[Request] = []
        self.refuse: Callable[[Request], StatusError | Exception | None] | None = None
        self.after: Callable[[Request], None] | None = None
        """Called when a request was answered, before the answer is returned."""
        self.hangs: Callable[[Request], bool] | None = None
        """Which requests get no answer."""
        self._held: dict[str, asyncio.Event] = {}
        self.dead = False
        """Whether the process at this end was killed: nothing is sent or received any more."""

    def hold(self, *plurals: str) -> None:
        """Hold back the events of these watches until `resume`."""
        self._held |= {plural: asyncio.Event() for plural in plurals}

    def resume(self, *plurals: str) -> None:
        """Release the events of these watches, or of all."""
        for plural in plurals or tuple(self._held):
            self._held.pop(plural).set()

    async def release(self, plural: str) -> None:
        """Wait until a watch may show events."""
        if plural in self._held:
            await self._held[plural].wait()

    async def send(self, request: Request) -> Response:
        """One request, one answer."""
        await asyncio.sleep(0)
        self._check()
        self.requests.append(request)
        if self.hangs is not None and self.hangs(request):
            await asyncio.get_running_loop().create_future()
        try:
            refused = self.refuse(request) if self.refuse else None
            if refused is not None:
                raise refused
            status, body = await self._answer(request)
        except StatusError as error:
            status, body = error.code, encode(error.status)
        if self.after is not None:
            self.after(request)
        self._check()
        return Response(status, {}, body)

    async def stream(self, request: Request) -> Stream | FakeStream:
        """A watch of a whole kind; lists are in pages."""
        self._check()
        if "sendInitialEvents" in dict(request.params):
            return refused()
        target = self._paths.find(request.path)
        assert target is not None
        collection = self.cluster.store.collection(target.kind.collection)
        stream, since = Stream(self, target.kind.plural), int(dict(request.params)["resourceVersion"])

        def tell(where: Collection, change: Change) -> None:
            if where is collection and change.version > since:
                wrapped = target.kind.wrap(change.entry.data)
                stream.feed(b'{"type":"%b","object":%b}\n' % (change.type.encode(), wrapped))

        for change in collection.since(since):
            tell(collection, change)
        self.cluster.store.listen(tell)
        return stream

    async def close(self) -> None:
        """There is nothing to close."""

    def _check(self) -> None:
        if self.dead:
            raise Unreachable("connection lost")

    async def _answer(self, request: Request) -> tuple[int, bytes]:
        target = self._paths.find(request.path)
        if target is None:
            version, resource = split_version(request.path)
            if resource:
                raise status_error(404, "the server could not find the requested resource")
            return 200, encode(discovery.resources(self.cluster.registry, version) or {})
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
    """A cluster and its controllers."""

    def __init__(
        self, *, options: Options = STOCK, seed: int = 1, collects: bool = True, call: Call = _no_webhooks
    ) -> None:
        """`collects` runs the garbage collector; `call` reaches webhooks."""
        self.clock = VirtualClock()
        self.options = options
        self.cluster = Cluster(clock=self.clock.now, call=call, seed=seed)
        tasks = (NamespaceController(self.cluster, "no authority"), DefinitionController(self.cluster))
        self._background: tuple[BackgroundTask, ...] = (*tasks, GarbageCollector(self.cluster)) if collects else tasks
        self.wire = Wire(self.cluster)
        self.user = Client(Wire(self.cluster), clock=self.clock, rng=random.Random(seed))
        self.registry = CollectorRegistry()
        self.rng = random.Random(seed)
        self.placed = 0
        self.on_settled: Callable[[], Awaitable[None]] | None = None
        """Called whenever everything has settled."""

    # The controllers.

    async def start(self) -> None:
        """Start the controllers, in a cluster that has what every cluster has."""
        if not self.cluster.store.collection("/namespaces").entries:
            await bootstrap.create_default_objects(self.cluster)
        self.wire = Wire(self.cluster)
        self.registry = CollectorRegistry()
        client = Client(self.wire, clock=self.clock, rng=random.Random(1))
        self.workloads = Workloads(client, options=self.options, registry=self.registry, rng=random.Random(1))
        self.task = asyncio.create_task(self.workloads.run())
        await self.settle()

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
        return len(self.wire.requests), self.cluster.store.version

    async def advance(self, seconds: float) -> None:
        """Advance the clock, and settle."""
        await self.clock.advance(seconds)
        await self.settle()

    # The users.

    async def create(self, kind: type[T], tree: JSON) -> T:
        """Create an object, and settle."""
        made = await self.user.create(kind, tree, namespace="default")
        await self.settle()
        return made

    async def patch(self, kind: type[T], name: str, patch: JSON) -> T:
        """Patch an object, and settle."""
        made = await self.user.patch(kind, name, patch, namespace="default")
        await self.settle()
        return made

    async def get(self, kind: type[T], name: str) -> T:
        """Read an object."""
        return await self.user.get(kind, name, namespace="default")

    async def raw(self, kind: type[Any], name: str) -> JSON:
        """Read an object with all fields."""
        return await self.user.get(Resource.of(kind).raw, name, namespace="default")

    async def all(self, kind: type[T]) -> list[T]:
        """All objects of a kind."""
        return list((await self.user.list(kind, namespace="default")).items)

    async def pods(self) -> list[Pod]:
        """The active pods."""
        return [pod for pod in await self.all(Pod) if pod.active]

    async def event_messages(self, reason: str) -> list[str]:
        """The messages of all events with this reason, in order, each as often as it occurred."""
        found = [event for event in await self.all(Event) if event.reason == reason]
        ordered = sorted(found, key=lambda event: event.metadata.name.rpartition(".")[2])
        return [event.message for event in ordered for _ in range(event.count)]

    # The kubelet.

    async def run_pods(self, limit: int = 10_000) -> None:
        """Bind and start pending pods, at most so many, and remove deleted ones, until nothing changes."""
        while limit > 0 and (waiting := [pod for pod in await self.all(Pod) if pod.terminating or not pod.ready]):
            chosen = self.rng.sample(waiting, min(limit, len(waiting)))
            limit -= len(chosen)
            for pod in chosen:
                with contextlib.suppress(NotFound, Conflict):  # another component was faster
                    await (self.end(pod) if pod.terminating else self.run_pod(pod))
            await self.settle()

    async def run_pod(self, pod: Pod, *, ready: bool = True) -> None:
        """Bind a pod, unless it has a node, and set its readiness."""
        name = pod.metadata.name
        if not pod.spec.node_name:
            self.placed += 1
            await self.user.bind(name, namespace="default", node=f"node-{self.placed % 3}")
        now = times.format_time(self.clock.now())
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": now}
        status = {"phase": "Running", "conditions": [condition]}
        await self.user.patch(Pod, name, {"status": status}, namespace="default", subresource="status")

    async def end(self, pod: Pod) -> None:
        """Remove a pod whose containers have ended."""
        await self.user.delete(Pod, pod.metadata.name, namespace="default", grace_period_seconds=0)
