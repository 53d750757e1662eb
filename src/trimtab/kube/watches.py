"""Decoding of list pages and watch events.

A watch sends one line of JSON per event. Decoding the event's type first and its object second would parse each line
twice, so a line is decoded into its final type at once; only lines that do not fit (bookmarks of strict types, errors)
are decoded again.

An object that cannot be read must not stop the others: a custom resource may have been stored before its schema was
tightened, and whoever may create an object may try to stop us with it. It is returned as a `RejectedObject`, with its
key and the reason, whatever the decoder raised. `unreadable` reports them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from trimtab.api import codec, complexity
from trimtab.api.admission import Status
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Labels, ListMeta
from trimtab.api.model import Model
from trimtab.kube.errors import Malformed, from_status
from trimtab.kube.resources import Key, object_key
from trimtab.kube.threads import LARGE_OBJECT, read_beside
from trimtab.kube.transport import Stream

T = TypeVar("T")

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"
PRESENT = frozenset((ADDED, MODIFIED))
CHANGES = PRESENT | {DELETED}
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark after the initial events of a watch."""
PART = 100
"""How many objects of a list are handled before other tasks run: about four milliseconds for pods."""
_LARGE = 1 << 18
"""Bytes of objects that are handled before other tasks run, unless it is one."""
_LARGE_PAGE = 4 << 20
"""Bytes of a page that is decoded at once. One of 250 pods usually has one to two megabytes."""
_LONG = 2 * complexity.MAX_VALUES
"""Bytes of text that may have too many values to be decoded; its values are counted first."""


@dataclass(frozen=True, slots=True)
class RejectedObject:
    """An object that cannot be read, and why."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    error: Exception

    @property
    def key(self) -> Key:
        """The key of the object."""
        return object_key(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list. `continue_token` is empty on the last page."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""
    rejected: tuple[RejectedObject, ...] = ()
    deleted: tuple[Key, ...] = ()
    """Objects that were deleted while the list was sent (see `lists`)."""


@dataclass(slots=True)
class WatchEvent(Generic[T]):
    """An event of a watch. `object` is None for a bookmark and for a rejected object."""

    type: str
    object: T | None
    resource_version: str
    rejected: RejectedObject | None = None
    ends_initial_events: bool = False
    """Whether it is the bookmark after the initial events."""


class _Identity(Model):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(Model):
    """An object of which only its identity is read, however strange the rest is."""

    metadata: _Identity = _Identity()


class _BookmarkMeta(Model):
    resource_version: str = ""
    annotations: Labels = {}


class _Bookmark(Model):
    metadata: _BookmarkMeta = _BookmarkMeta()


class _RawList(Model):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


class _RawEvent(Model):
    type: str
    object: msgspec.Raw


def parts(data: bytes, model: type[T]) -> Iterator[Page[T]]:
    """Decode a page of a list, and return it in parts of a few objects, at least one; each has its version and token.

    Between two parts the reader can let other tasks run. A page of which all objects can be read is decoded at once,
    unless they have free-form parts, or the page is large; any other one is split first, and its objects are decoded
    one by one.
    """
    page = _decode_page(data, model)
    if page is not None:
        items, metadata = page.items or (), page.metadata
        for start in range(0, len(items) or 1, PART):
            yield Page(items[start : start + PART], metadata.resource_version, metadata.continue_)
        return
    split = _split(data, _RawList)
    for bodies in _grouped(split.items or ()):
        yield _part(bodies, split.metadata, model)


def _grouped(items: Iterable[msgspec.Raw]) -> Iterator[list[bytes]]:
    """Objects of a list a few at a time, fewer of large ones; at least one group."""
    group: list[bytes] = []
    size = 0
    for body in map(bytes, items):
        if group and (len(group) == PART or size + len(body) > _LARGE):
            yield group
            group, size = [], 0
        group.append(body)
        size += len(body)
    yield group


def analyse(model: type[Any]) -> None:
    """Find out now how objects of a type are decoded: for all kinds of a process, that takes tens of milliseconds."""
    _event_of(cast("Hashable", model))
    codec.has_free_form(cast("Hashable", model))


def reader(model: type[T]) -> Callable[[bytes], WatchEvent[T]]:
    """A function that decodes a line of a watch. For an ERROR event it raises the ApiError."""
    shape = _event_of(cast("Hashable", model))
    has_free_form = codec.has_free_form(cast("Hashable", model))

    def read(line: bytes) -> WatchEvent[T]:
        if has_free_form and len(line) > _LONG:
            return _decode_raw_event(line, model)
        try:
            event = codec.decode_exactly(line, shape)
        except Exception:  # noqa: BLE001 - whatever it is, it is raised again for the object alone
            return _decode_raw_event(line, model)
        if event.type in CHANGES:
            return WatchEvent(event.type, event.object, _version(event.object))
        return _decode_raw_event(line, model)

    return read


def objects_reader(model: type[T]) -> Callable[[bytes], list[T] | None]:
    """A function that decodes several lines of a watch at once: a call for each takes as long as a small object.

    It returns the objects if each line adds or changes one that can be read; None if there is any other line, or one
    so long that it may have too many values.
    """
    shape = _event_of(cast("Hashable", model))
    has_free_form = codec.has_free_form(cast("Hashable", model))

    def read_all(lines: bytes) -> list[T] | None:
        if has_free_form and max(map(len, lines.split(b"\n"))) > _LONG:
            return None
        try:
            events = codec.decode_lines_exactly(lines, shape)
        except Exception:  # noqa: BLE001 - whatever it is, it is found again in its line
            return None
        if not PRESENT.issuperset([event.type for event in events]):
            return None
        return [event.object for event in events]

    return read_all


class Lines:
    """Splits chunks into lines. An incomplete last line is dropped."""

    def __init__(self) -> None:
        self._incomplete: list[bytes] = []
        """The pieces of a line whose end has not come yet: a large one comes in many."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._incomplete.append(chunk)
            return []
        lines = b"".join((*self._incomplete, chunk[:end])).split(b"\n")
        self._incomplete = [chunk[end + 1 :]]
        return [line for line in lines if line]


class Watch(Generic[T]):
    """An iterator over the events of a stream."""

    def __init__(self, stream: Stream, model: type[T]) -> None:
        self._stream = stream
        self._read = reader(model)
        self._lines = Lines()
        self._pending: Iterator[bytes] = iter(())
        self._size = 0
        """Bytes since other tasks have run."""

    def __aiter__(self) -> Watch[T]:
        return self

    async def __anext__(self) -> WatchEvent[T]:
        while True:
            for line in self._pending:
                self._size += len(line)
                if self._size > _LARGE:
                    self._size = 0
                    await asyncio.sleep(0)
                return await read_beside(len(line), self._read, line, limit=LARGE_OBJECT)
            chunk = await self._stream.read()
            if not chunk:
                raise StopAsyncIteration
            self._pending = iter(self._lines.feed(chunk))


@functools.lru_cache(maxsize=256)
def _event_of(model: Any) -> Any:
    """The event type of a model, cached: a generic alias would be hashed for every line."""
    return msgspec.defstruct(f"{model.__name__}Event", [("type", str), ("object", model)], frozen=True, gc=False)


@functools.lru_cache(maxsize=256)
def _page_of(model: Any) -> Any:
    """The type of a page of a model's objects."""
    fields = [("metadata", ListMeta, ListMeta()), ("items", tuple[model, ...] | None, None)]
    return msgspec.defstruct(f"{model.__name__}Page", fields, frozen=True, gc=False)


def _decode_page(data: bytes, model: type[T]) -> Any:
    """The page, if all objects fit their type as they are."""
    if len(data) > _LARGE_PAGE or codec.has_free_form(cast("Hashable", model)):
        return None
    try:
        return codec.decode_exactly(data, _page_of(cast("Hashable", model)))
    except Exception:  # noqa: BLE001 - whatever it is, it is found again in the slow path
        return None


def _part(bodies: Iterable[bytes], metadata: ListMeta, model: type[T]) -> Page[T]:
    read = [_read(body, model) for body in bodies]
    rejected = tuple(each for each in read if isinstance(each, RejectedObject))
    items = tuple(each for each in read if not isinstance(each, RejectedObject)) if rejected else tuple(read)
    return Page(cast("tuple[T, ...]", items), metadata.resource_version, metadata.continue_, rejected)


def _decode_raw_event(line: bytes, model: type[T]) -> WatchEvent[T]:
    event = _split(line, _RawEvent)
    body = bytes(event.object)
    if event.type == ERROR:
        raise from_status(_decoded(body, Status))
    if event.type == BOOKMARK:
        metadata = _decoded(body, _Bookmark).metadata
        is_end = metadata.annotations.get(INITIAL_EVENTS_END) == "true"
        return WatchEvent(BOOKMARK, None, metadata.resource_version, ends_initial_events=is_end)
    identity = _identity(body)
    version = identity.resource_version
    if event.type not in CHANGES:
        raise Malformed(f"the watch sent an event of unknown type {event.type!r}")
    read = _read(body, model, identity)
    if isinstance(read, RejectedObject):
        return WatchEvent(event.type, None, version, read)
    return WatchEvent(event.type, read, version)


def _read(body: bytes, model: type[T], identity: _Identity | None = None) -> T | RejectedObject:
    """The object, unless it cannot be read. Plain JSON is not read from text that may have lost its deepest levels.

    `identity` is the object's, if it is known: to find it in a large one takes milliseconds.
    """
    try:
        if codec.is_partial(model):
            return codec.decode_object(body, model)
        if complexity.is_too_deep(body):
            raise InvalidError("", complexity.TOO_DEEP)
        return codec.decode(body, model)
    except Exception as error:  # noqa: BLE001 - no object may end a watch
        identity = _identity(body) if identity is None else identity
        return RejectedObject(identity.namespace, identity.name, identity.uid, identity.resource_version, error)


def _identity(body: bytes) -> _Identity:
    """The identity of an object; empty if even that cannot be read."""
    try:
        return codec.decode(body, _Identified).metadata
    except InvalidError:
        return _Identity()


def _split(data: bytes, shape: type[T]) -> T:
    """Decode only the envelope, exactly: the handling of nulls would decode the raw parts."""
    try:
        try:
            return codec.decode_exactly(data, shape)
        except RecursionError:
            return codec.decode_exactly(complexity.cut(data), shape)
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
