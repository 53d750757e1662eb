"""An API server without a socket: it takes the place of the transport, keeps objects, and can be made to misbehave.

It speaks as much of the protocol as the client side depends on: versions that grow, conflicts, lists in parts as of one
moment, watches that resume, bookmarks, and 410 for what it has forgotten.

It is for faults of the transport that a real server cannot be made to produce on demand (`Misbehaviour`): lost answers,
lines cut in two, repeated events. It neither validates nor defaults objects. `lab_server` has the same faults with the
answers of the lab's API server; `trimtab_lab.testing.InMemoryLab` is a whole cluster, for tests of features.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trimtab.api.documents import JSON
from trimtab.kube.clocks import Clock
from trimtab.kube.errors import Unreachable
from trimtab.kube.transport import Request, Response

_PATH = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/.))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?$"
)


def status(code: int, reason: str = "", message: str = "", **details: Any) -> JSON:
    """A Status, as API servers answer failures."""
    body: JSON = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    body |= {"reason": reason, "message": message or reason}
    return body | ({"details": details} if details else {})


def answer(code: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with JSON in it."""
    return Response(code, headers or {}, json.dumps(body).encode())


def failure(code: int, reason: str = "", message: str = "", **details: Any) -> Response:
    """A failure response."""
    return answer(code, status(code, reason, message, **details))


def refused() -> FakeStream:
    """The answer of a server that does not send initial events."""
    response = failure(422, "Invalid", "sendInitialEvents: Forbidden: unless the WatchList feature gate is enabled")
    stream = FakeStream(response.status)
    stream.feed(response.body)
    stream.end()
    return stream


def pod_tree(name: str, *, namespace: str = "default", node: str = "", labels: Mapping[str, str] | None = None) -> JSON:
    """A pod to create."""
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.com/app:1"}]},
    }


class ScriptedTransport:
    """Answers requests with what the test lined up, in order, and remembers them. An exception is raised."""

    def __init__(self, *answers: Response | Exception) -> None:
        self.requests: list[Request] = []
        self.streams: list[FakeStream] = []
        self.closed = False
        self._answers = list(answers)

    async def send(self, request: Request) -> Response:
        """The next answer."""
        self.requests.append(request)
        next_answer = self._answers.pop(0)
        if isinstance(next_answer, Exception):
            raise next_answer
        return next_answer

    async def stream(self, request: Request) -> FakeStream:
        """The next answer, as a stream that ends with it."""
        response = await self.send(request)
        stream = FakeStream(response.status, dict(response.headers))
        stream.feed(response.body)
        stream.end()
        self.streams.append(stream)
        return stream

    async def close(self) -> None:
        """Remember it."""
        self.closed = True


class FakeStream:
    """An answer that the test, or the fake server, lets come piece by piece."""

    def __init__(self, code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status = code
        self.headers: Mapping[str, str] = headers or {}
        self.closed = False
        self._pieces: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self._ended = False

    def feed(self, piece: bytes | Exception) -> None:
        """Let a piece come, or the connection break."""
        if not self._ended:
            self._pieces.put_nowait(piece)

    def end(self) -> None:
        """Let the server end it."""
        self.feed(b"")
        self._ended = True

    def cut(self) -> None:
        """Let the connection break."""
        self.feed(Unreachable("connection lost"))
        self._ended = True

    async def read(self) -> bytes:
        """What has come."""
        piece = await self._pieces.get()
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def close(self) -> None:
        """Remember it."""
        self.closed = True


@dataclass(slots=True)
class Change:
    """Something that happened to an object."""

    version: int
    type: str
    collection: tuple[str, str]
    tree: JSON


@dataclass(slots=True)
class Watcher:
    """A watcher."""

    collection: tuple[str, str]
    namespace: str
    stream: FakeStream


@dataclass(slots=True)
class Misbehaviour:
    """How a fake server treats its clients: each a probability per request, or per event for `cut`."""

    latency: float = 0.0
    refuse: float = 0.0
    fail: float = 0.0
    lose_answer: float = 0.0
    gone: float = 0.0
    cut: float = 0.0
    repeat: float = 0.0
    bookmark: float = 0.0
    split: float = 0.0


@dataclass(slots=True)
class FakeServer:
    """A `Transport` that ends in a dictionary."""

    clock: Clock
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    bad: Misbehaviour = field(default_factory=Misbehaviour)
    version: int = 100
    forgotten: int = 0
    requests: list[Request] = field(default_factory=list)
    intercept: Callable[[Request], Response | Exception | None] | None = None
    serves_initial_events: bool = False
    """Whether it lists as a watch, too; otherwise it refuses that, as an older server does."""
    _objects: dict[tuple[str, str], dict[str, JSON]] = field(default_factory=dict)
    _changes: list[Change] = field(default_factory=list)
    _lists: dict[str, tuple[int, list[JSON]]] = field(default_factory=dict)
    _watchers: list[Watcher] = field(default_factory=list)
    _made: int = 0

    # What a test does.

    def objects(self, plural: str) -> list[JSON]:
        """All objects of a kind, by its plural."""
        return [tree for (_, name), found in self._objects.items() if name == plural for tree in found.values()]

    def put(self, root: str, plural: str, tree: JSON) -> JSON:
        """Create or overwrite an object behind everybody's back."""
        found = self._objects.setdefault((root, plural), {})
        metadata = tree["metadata"]
        old = found.get(_key(metadata))
        self._made += 1
        made = {"uid": old["metadata"]["uid"] if old else f"uid-{self._made}"}
        return self._store((root, plural), "MODIFIED" if old else "ADDED", {**tree, "metadata": {**metadata, **made}})

    def drop(self, root: str, plural: str, key: str) -> None:
        """Delete an object behind everybody's back."""
        tree = self._objects[(root, plural)].pop(key)
        self._store((root, plural), "DELETED", tree)

    def forget(self) -> None:
        """Expire all history: resuming from an older version gets 410."""
        self.forgotten = self.version
        self._changes.clear()
        self._lists.clear()

    def cut_watches(self, *, cleanly: bool = False) -> None:
        """End all watches."""
        for watcher in self._watchers:
            watcher.stream.end() if cleanly else watcher.stream.cut()
        self._watchers.clear()

    def bookmark(self) -> None:
        """Send a bookmark to all watchers."""
        for watcher in self._watchers:
            watcher.stream.feed(_line("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}))

    def expire_watches(self) -> None:
        """Send 410 to all watchers, in the stream."""
        for watcher in self._watchers:
            watcher.stream.feed(_line("ERROR", status(410, "Expired", "too old resource version")))
            watcher.stream.end()
        self._watchers.clear()

    @property
    def watchers(self) -> int:
        """How many watch."""
        return len(self._watchers)

    # What the client does.

    async def send(self, request: Request) -> Response:
        """One request, one answer."""
        self.requests.append(request)
        await self._delay()
        intercepted = self.intercept(request) if self.intercept else None
        if isinstance(intercepted, Exception):
            raise intercepted
        if intercepted is not None:
            return intercepted
        if self._chance(self.bad.refuse):
            return failure(429, "TooManyRequests", retryAfterSeconds=1)
        if self._chance(self.bad.fail):
            return failure(500, "InternalError")
        response = self._respond(request)
        await self._delay()
        if self._chance(self.bad.lose_answer):
            raise Unreachable("connection lost", call=request.call)
        return response

    async def stream(self, request: Request) -> FakeStream:
        """A watch."""
        if "sendInitialEvents" in dict(request.params) and not self.serves_initial_events:
            return refused()
        self.requests.append(request)
        await self._delay()
        if self._chance(self.bad.fail):
            stream = FakeStream(500)
            stream.feed(b"broken")
            stream.end()
            return stream
        return self._watch(request)

    async def close(self) -> None:
        """There is nothing to close."""

    def _respond(self, request: Request) -> Response:
        match = _PATH.match(request.path)
        if match is None:
            return failure(404, "NotFound", f"no such path {request.path}")
        collection = (match["root"], match["plural"])
        body = json.loads(request.body) if request.body else {}
        if match["name"] is None:
            if request.method == "POST":
                return self._create(collection, match["namespace"] or "", body)
            return self._list(collection, match["namespace"] or "", dict(request.params))
        key = f"{match['namespace']}/{match['name']}" if match["namespace"] else match["name"]
        return self._one(request.method, collection, key, body)

    def _one(self, method: str, collection: tuple[str, str], key: str, body: JSON) -> Response:
        found = self._objects.get(collection, {})
        if key not in found:
            return failure(404, "NotFound", f'{collection[1]} "{key}" not found')
        old = found[key]
        if method == "GET":
            return answer(200, old)
        expected = (body.get("metadata") or body.get("preconditions") or {}).get("resourceVersion")
        if expected and expected != old["metadata"]["resourceVersion"]:
            return failure(409, "Conflict", "the object has been modified")
        if method == "DELETE":
            self.drop(*collection, key)
            return answer(200, {"kind": "Status", "status": "Success"})
        tree = _merged(old, body) if method == "PATCH" else body
        tree = {**tree, "metadata": {**tree["metadata"], "uid": old["metadata"]["uid"]}}
        return answer(200, self._store(collection, "MODIFIED", tree))

    def _create(self, collection: tuple[str, str], namespace: str, body: JSON) -> Response:
        metadata = {**body["metadata"]} | ({"namespace": namespace} if namespace else {})
        if _key(metadata) in self._objects.get(collection, {}):
            return failure(409, "AlreadyExists", "already exists")
        return answer(201, self.put(*collection, {**body, "metadata": metadata}))

    def _list(self, collection: tuple[str, str], namespace: str, params: dict[str, str]) -> Response:
        token = params.get("continue", "")
        if token:
            if token not in self._lists or self._chance(self.bad.gone):
                return failure(410, "Expired", "the continue parameter is too old")
            version, rest = self._lists.pop(token)
        else:
            version, rest = self.version, self._in(collection, namespace)
        limit = int(params.get("limit", 0)) or len(rest)
        items, rest = rest[:limit], rest[limit:]
        metadata = {"resourceVersion": str(version)}
        if rest:
            metadata["continue"] = f"{version}-{self.rng.random()}"
            self._lists[metadata["continue"]] = (version, rest)
        return answer(200, {"kind": "List", "metadata": metadata, "items": items})

    def _watch(self, request: Request) -> FakeStream:
        match = _PATH.match(request.path)
        assert match is not None
        if "sendInitialEvents" in dict(request.params):
            return self._initial_events((match["root"], match["plural"]), match["namespace"] or "")
        since = int(dict(request.params)["resourceVersion"])
        stream = FakeStream()
        if since < self.forgotten or self._chance(self.bad.gone):
            stream.feed(_line("ERROR", status(410, "Expired", "too old resource version")))
            stream.end()
            return stream
        watcher = Watcher((match["root"], match["plural"]), match["namespace"] or "", stream)
        self._watchers.append(watcher)
        if self._chance(self.bad.repeat):
            since = max(self.forgotten, since - 2)
        for change in self._changes:
            if change.version > since:
                self._tell(watcher, change)
        return stream

    def _initial_events(self, collection: tuple[str, str], namespace: str) -> FakeStream:
        stream = FakeStream()
        watcher = Watcher(collection, namespace, stream)
        self._watchers.append(watcher)
        for tree in self._in(collection, namespace):
            self._tell(watcher, Change(0, "ADDED", collection, tree))
        metadata = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
        if watcher in self._watchers:
            self._feed(stream, _line("BOOKMARK", {"metadata": metadata}))
        return stream

    # Inside.

    def _store(self, collection: tuple[str, str], kind: str, tree: JSON) -> JSON:
        self.version += 1
        tree = {**tree, "metadata": {**tree["metadata"], "resourceVersion": str(self.version)}}
        if kind != "DELETED":
            self._objects.setdefault(collection, {})[_key(tree["metadata"])] = tree
        change = Change(self.version, kind, collection, tree)
        self._changes.append(change)
        for watcher in list(self._watchers):
            self._tell(watcher, change)
        return tree

    def _tell(self, watcher: Watcher, change: Change) -> None:
        if watcher.collection != change.collection or watcher not in self._watchers:
            return
        if watcher.namespace and watcher.namespace != change.tree["metadata"]["namespace"]:
            return
        line = _line(change.type, change.tree)
        if self._chance(self.bad.cut):
            watcher.stream.feed(line[: self.rng.randrange(len(line))])
            watcher.stream.cut() if self._chance(0.5) else watcher.stream.end()
            self._watchers.remove(watcher)
            return
        times = 2 if self._chance(self.bad.repeat) else 1
        self._feed(watcher.stream, line * times)
        if self._chance(self.bad.bookmark):
            mark = _line("BOOKMARK", {"metadata": {"resourceVersion": str(change.version)}})
            self._feed(watcher.stream, mark * 2)

    def _feed(self, stream: FakeStream, data: bytes) -> None:
        if self._chance(self.bad.split):
            at = self.rng.randrange(1, len(data))
            stream.feed(data[:at])
            data = data[at:]
        stream.feed(data)

    def _in(self, collection: tuple[str, str], namespace: str) -> list[JSON]:
        found = self._objects.get(collection, {}).values()
        return [tree for tree in found if not namespace or tree["metadata"]["namespace"] == namespace]

    def _chance(self, probability: float) -> bool:
        return probability > 0 and self.rng.random() < probability

    async def _delay(self) -> None:
        if self.bad.latency > 0:
            await self.clock.sleep(self.rng.random() * self.bad.latency)


def _line(kind: str, tree: JSON) -> bytes:
    return json.dumps({"type": kind, "object": tree}).encode() + b"\n"


def _key(metadata: JSON) -> str:
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _merged(old: Any, patch: Any) -> Any:
    """A merge patch (RFC 7386) applied."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged
