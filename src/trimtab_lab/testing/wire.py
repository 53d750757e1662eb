"""A connection to the lab's API server in the same process, which a test can disturb."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from trimtab.kube.errors import Unreachable
from trimtab.kube.transport import Request, Response
from trimtab_lab.apiserver.controllers import bootstrap
from trimtab_lab.apiserver.kinds.errors import StatusError, status_error
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.storage.selections import Selection
from trimtab_lab.apiserver.storage.store import Collection, encode
from trimtab_lab.apiserver.storage.store import Event as Change
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.encoding import ResponseEncoder
from trimtab_lab.apiserver.verbs.negotiation import OutputFormat
from trimtab_lab.apiserver.verbs.requests import Request as LabRequest
from trimtab_lab.apiserver.verbs.selectors import select
from trimtab_lab.apiserver.wire import discovery, routes
from trimtab_lab.apiserver.wire.paths import PathParser, split_version


class Stream:
    """A watch: the events, line by line. Those of kinds that are held wait until they are released."""

    headers: Mapping[str, str] = {}

    def __init__(self, wire: Wire, plural: str, status: int = 200) -> None:
        self.status = status
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
        try:
            await self._disturb(request)
            status, body = await self.answer(request)
        except StatusError as error:
            status, body = error.code, encode(error.status)
        if self.after is not None:
            self.after(request)
        self._check()
        return Response(status, {}, body)

    async def stream(self, request: Request) -> Stream:
        """A watch of the objects that a request selects; one with initial events ends after them."""
        self._check()
        target = self._paths.find(request.path)
        if target is None:
            return self._refused(status_error(404, "the server could not find the requested resource"))
        collection = self.cluster.store.collection(target.kind.collection)
        params = dict(request.params)
        selectors = params.get("labelSelector", ""), params.get("fieldSelector", "")
        selection = select(target.kind, target.namespace, target.name, *selectors)
        if "sendInitialEvents" in params:
            try:
                await self._disturb(request)
            except StatusError as error:
                return self._refused(error)
            return self._initial_events(target.kind, collection, selection)
        stream, since = Stream(self, target.kind.plural), int(params["resourceVersion"])

        def tell(where: Collection, change: Change) -> None:
            view = selection.view(change) if where is collection and change.version > since else None
            if view is not None:
                shown, entry = view
                stream.feed(b'{"type":"%b","object":%b}\n' % (shown.encode(), target.kind.wrap(entry.data)))

        for change in collection.since(since):
            tell(collection, change)
        self.cluster.store.listen(tell)
        return stream

    async def _disturb(self, request: Request) -> None:
        """Record a request, and let it hang or fail if the test says so."""
        self.requests.append(request)
        if self.hangs is not None and self.hangs(request):
            await asyncio.get_running_loop().create_future()
        refused = self.refuse(request) if self.refuse else None
        if refused is not None:
            raise refused

    def _initial_events(self, kind: Kind, collection: Collection, selection: Selection) -> Stream:
        stream = Stream(self, "")
        for entry in collection.present(selection.prefix):
            if selection.matches(entry):
                stream.feed(b'{"type":"ADDED","object":%b}\n' % kind.wrap(entry.data))
        encoder = ResponseEncoder(kind, OutputFormat(), self.cluster.clock)
        stream.feed(encoder.bookmark(self.cluster.store.version, initial=True))
        stream.feed(b"")
        return stream

    def _refused(self, error: StatusError) -> Stream:
        stream = Stream(self, "", error.code)
        stream.feed(encode(error.status))
        stream.feed(b"")
        return stream

    async def close(self) -> None:
        """There is nothing to close."""

    def _check(self) -> None:
        if self.dead:
            raise Unreachable("connection lost")

    async def answer(self, request: Request) -> tuple[int, bytes]:
        """The status and the body of a response. Raises StatusError."""
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
