"""Decoding of list pages and watch events.

A watch sends one line of JSON per event. Decoding the event's type first and its object second would parse each line
twice, so a line is decoded into its final type at once; only lines that do not fit (bookmarks of strict types, errors)
are decoded again.

An object that does not fit its type must not stop the others: a custom resource may have been stored before its schema
was tightened. It is reported as a `RejectedObject`, with its key and the reason.
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
    """An object that does not fit its type."""

    key: Key
    resource_version: str
    error: InvalidError


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list. `continue_token` is empty on the last page."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""
    rejected: tuple[RejectedObject, ...] = ()


@dataclass(slots=True)
class WatchEvent(Generic[T]):
    """An event of a watch. `object` is None for a bookmark and for a rejected object."""

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
    """Decode a page of a list."""
    try:
        read = codec.decode(data, _List[model])  # type: ignore[valid-type]
    except InvalidError:
        return _page_by_item(data, model)
    return Page(read.items, read.metadata.resource_version, read.metadata.continue_)


def reader(model: type[T]) -> Callable[[bytes], WatchEvent[T]]:
    """A function that decodes a line of a watch. For an ERROR event it raises the ApiError."""
    shape = _event_of(cast("Hashable", model))

    def read(line: bytes) -> WatchEvent[T]:
        try:
            event = codec.decode(line, shape)
        except InvalidError:
            return _decode_raw_event(line, model)
        if event.type in CHANGES:
            return WatchEvent(event.type, event.object, _version(event.object))
        return _decode_raw_event(line, model)

    return read


class Lines:
    """Splits chunks into lines. An incomplete last line is dropped."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        pieces = (self._rest + chunk).split(b"\n")
        self._rest = pieces.pop()
        return [piece for piece in pieces if piece]


class Watch(Generic[T]):
    """An iterator over the events of a stream."""

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
    """The event type of a model, cached: a generic alias would be hashed for every line."""
    return msgspec.defstruct(f"{model.__name__}Event", [("type", str), ("object", model)], frozen=True, gc=False)


def _page_by_item(data: bytes, model: type[T]) -> Page[T]:
    raw = _split(data, _RawList)
    items: list[T] = []
    rejected: list[RejectedObject] = []
    for item in raw.items or ():
        try:
            items.append(codec.decode(bytes(item), model))
        except InvalidError as error:
            rejected.append(_reject(bytes(item), error))
    return Page(tuple(items), raw.metadata.resource_version, raw.metadata.continue_, tuple(rejected))


def _decode_raw_event(line: bytes, model: type[T]) -> WatchEvent[T]:
    event = _split(line, _RawEvent)
    body = bytes(event.object)
    if event.type == ERROR:
        raise from_status(_decoded(body, Status))
    version = _decoded(body, _Meta).metadata.resource_version
    if event.type == BOOKMARK:
        return WatchEvent(BOOKMARK, None, version)
    if event.type not in CHANGES:
        raise Malformed(f"the watch sent an event of unknown type {event.type!r}")
    try:
        return WatchEvent(event.type, codec.decode(body, model), version)
    except InvalidError as error:
        return WatchEvent(event.type, None, version, _reject(body, error))


def _reject(body: bytes, error: InvalidError) -> RejectedObject:
    metadata = _decoded(body, _Meta).metadata
    return RejectedObject(object_key(metadata.namespace, metadata.name), metadata.resource_version, error)


def _split(data: bytes, shape: type[T]) -> T:
    """Decode only the envelope. `codec` is not used: its handling of nulls would decode the raw parts."""
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(f"the response is not what Kubernetes sends: {error}") from error


def _decoded(data: bytes, model: type[T]) -> T:
    try:
        return codec.decode(data, model)
    except InvalidError as error:
        raise Malformed(f"the response is not what Kubernetes sends: {error}") from error


def _version(an_object: Any) -> str:
    if isinstance(an_object, dict):
        return str(an_object.get("metadata", {}).get("resourceVersion", ""))
    version: str = an_object.metadata.resource_version
    return version
