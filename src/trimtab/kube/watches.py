"""Lists and watches as they come over the wire, read into types.

A watch is a line of JSON for each event. Reading the type of the event first and its object second would scan each
line twice; so a line is read into its final type at once, and only what does not fit there (a bookmark of a strict
type, an error) is looked at again.

An object that its type cannot read must not stop the others: a custom resource may have been stored before its schema
was tightened. It is passed on as *rejected*, by its key and with the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from trimtab.api import codec
from trimtab.api.admission import Status
from trimtab.api.errors import InvalidError
from trimtab.api.meta import ListMeta, ObjectMeta
from trimtab.api.model import Model
from trimtab.kube.errors import Malformed, from_status
from trimtab.kube.resources import Key, object_key
from trimtab.kube.transport import Stream

T = TypeVar("T")

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"
CHANGES = frozenset((ADDED, MODIFIED, DELETED))


@dataclass(frozen=True, slots=True)
class RejectedObject:
    """An object that its type could not read."""

    key: Key
    resource_version: str
    error: InvalidError


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list. `continue_token` asks for the next part, or empty."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""
    rejected: tuple[RejectedObject, ...] = ()


@dataclass(slots=True)
class WatchEvent(Generic[T]):
    """A change. `object` is None for a bookmark, and for an object that was rejected."""

    type: str
    object: T | None
    resource_version: str
    rejected: RejectedObject | None = None


class _Meta(Model):
    metadata: ObjectMeta = ObjectMeta()


class _List(Model, Generic[T]):
    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()


class _RawList(Model):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


class _RawEvent(Model):
    type: str
    object: msgspec.Raw


def page(data: bytes, model: type[T]) -> Page[T]:
    """Read a part of a list."""
    try:
        read = codec.decode(data, _List[model])  # type: ignore[valid-type]
    except InvalidError:
        return _careful_page(data, model)
    return Page(read.items, read.metadata.resource_version, read.metadata.continue_)


def reader(model: type[T]) -> Callable[[bytes], WatchEvent[T]]:
    """What reads a line of a watch. It raises the ApiError that an ERROR event stands for."""
    shape = _event_of(cast("Hashable", model))

    def read(line: bytes) -> WatchEvent[T]:
        try:
            event = codec.decode(line, shape)
        except InvalidError:
            return _careful_event(line, model)
        if event.type in CHANGES:
            return WatchEvent(event.type, event.object, _version(event.object))
        return _careful_event(line, model)

    return read


class Lines:
    """Cuts what comes into lines. What is left when a stream ends was cut off, and is no event."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        pieces = (self._rest + chunk).split(b"\n")
        self._rest = pieces.pop()
        return [piece for piece in pieces if piece]


class Watch(Generic[T]):
    """The events of a stream."""

    def __init__(self, stream: Stream, model: type[T]) -> None:
        self._stream = stream
        self._read = reader(model)
        self._lines = Lines()
        self._pending: Iterator[bytes] = iter(())

    def __aiter__(self) -> Watch[T]:
        return self

    async def __anext__(self) -> WatchEvent[T]:
        while True:
            for line in self._pending:
                return self._read(line)
            chunk = await self._stream.read()
            if not chunk:
                raise StopAsyncIteration
            self._pending = iter(self._lines.feed(chunk))


@functools.lru_cache(maxsize=256)
def _event_of(model: Any) -> Any:
    """An event of that type as a type of its own: a generic one would be hashed anew for every line."""
    return msgspec.defstruct(f"{model.__name__}Event", [("type", str), ("object", model)], frozen=True, gc=False)


def _careful_page(data: bytes, model: type[T]) -> Page[T]:
    raw = _split(data, _RawList)
    items: list[T] = []
    rejected: list[RejectedObject] = []
    for item in raw.items or ():
        try:
            items.append(codec.decode(bytes(item), model))
        except InvalidError as error:
            rejected.append(_reject(bytes(item), error))
    return Page(tuple(items), raw.metadata.resource_version, raw.metadata.continue_, tuple(rejected))


def _careful_event(line: bytes, model: type[T]) -> WatchEvent[T]:
    event = _split(line, _RawEvent)
    body = bytes(event.object)
    if event.type == ERROR:
        raise from_status(_decoded(body, Status))
    version = _decoded(body, _Meta).metadata.resource_version
    if event.type == BOOKMARK:
        return WatchEvent(BOOKMARK, None, version)
    if event.type not in CHANGES:
        raise Malformed(f"a watch event of unknown type {event.type!r}")
    try:
        return WatchEvent(event.type, codec.decode(body, model), version)
    except InvalidError as error:
        return WatchEvent(event.type, None, version, _reject(body, error))


def _reject(body: bytes, error: InvalidError) -> RejectedObject:
    metadata = _decoded(body, _Meta).metadata
    return RejectedObject(object_key(metadata.namespace, metadata.name), metadata.resource_version, error)


def _split(data: bytes, shape: type[T]) -> T:
    """The pieces, unread: codec's second look for nulls would need to look into them."""
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(f"the answer is not what Kubernetes sends: {error}") from error


def _decoded(data: bytes, model: type[T]) -> T:
    try:
        return codec.decode(data, model)
    except InvalidError as error:
        raise Malformed(f"the answer is not what Kubernetes sends: {error}") from error


def _version(an_object: Any) -> str:
    if isinstance(an_object, dict):
        return str(an_object.get("metadata", {}).get("resourceVersion", ""))
    version: str = an_object.metadata.resource_version
    return version
