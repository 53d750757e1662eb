"""The encoding of responses: an object as it is, as a row of a table, or as its metadata alone.

kubectl asks for tables (`Accept: application/json;as=Table;v=v1;g=meta.k8s.io`) and prints the cells it receives;
garbage collectors ask for metadata. Everything is encoded as JSON; YAML is converted from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import yaml

from trimtab_lab.apiserver.kinds.conversions import FROM_STORED
from trimtab_lab.apiserver.kinds.printers import tables
from trimtab_lab.apiserver.kinds.printers.cells import Layout
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.serialization import wiretypes
from trimtab_lab.apiserver.storage.broadcaster import Render
from trimtab_lab.apiserver.storage.store import Entry, EventType, Tree, encode
from trimtab_lab.apiserver.verbs.negotiation import OutputFormat

Clock = Callable[[], int]
"""Nanoseconds since 1970."""


INITIAL_EVENTS_END = "k8s.io/initial-events-end"


_PIECE = 100
"""Objects in a piece of a list: some hundred kilobytes of pods."""


_TAIL = b"]}"


@dataclass(frozen=True, slots=True)
class StreamedBody:
    """A body that is encoded while it is sent, to save memory."""

    length: int
    pieces: Iterator[bytes]


class ResponseEncoder:
    """Encodes objects of one kind in one output format."""

    def __init__(self, kind: Kind, output: OutputFormat, clock: Clock) -> None:
        self.kind = kind
        self.output = output
        self._clock = clock

    def object(self, entry: Entry) -> bytes:
        """One object."""
        if self.output.shape == "table":
            return self._table([entry], {"resourceVersion": str(entry.version)})
        return self._plain(entry)

    def list(self, entries: Sequence[Entry], metadata: Tree) -> StreamedBody:
        """A list of objects, in pieces."""
        if self.output.shape == "table":
            table = self._table(entries, metadata)
            return StreamedBody(len(table), iter([table]))
        kind, version = self._list_kind(), self._list_version()
        head = encode({"kind": kind, "apiVersion": version, "metadata": metadata, "items": []})[:-2]
        items = list(self._items(entries))
        length = len(head) + sum(map(len, items)) + max(len(items) - 1, 0) + len(_TAIL)
        return StreamedBody(length, _joined(head, items))

    def render(self) -> Render:
        """The function that encodes events as lines of a watch."""
        return self._line if self.output.shape != "table" else self._row_line

    def header(self) -> Render | None:
        """The function that encodes the first line of a watch, where that differs: a table names its columns once."""
        return self._header_line if self.output.shape == "table" else None

    def bookmark(self, version: int, *, initial: bool = False) -> bytes:
        """A bookmark with the version that a watch has reached, as a line."""
        metadata: Tree = {"resourceVersion": str(version)}
        if initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return b'{"type":"BOOKMARK","object":%b}\n' % encode(self._empty(metadata))

    def _empty(self, metadata: Tree) -> Tree:
        if self.output.shape == "metadata":
            return {**_PARTIAL, "metadata": metadata}
        if self.output.shape == "table":
            row = {"cells": [], "object": {**_PARTIAL, "metadata": metadata}}
            shown = {"resourceVersion": metadata["resourceVersion"]}
            return {**_TABLE, "metadata": shown, "columnDefinitions": None, "rows": [row]}
        tree: Tree = {"metadata": metadata}
        if wiretypes.known(self.kind.name):
            wiretypes.read(self.kind.name, tree)
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version, **tree}

    def _plain(self, entry: Entry) -> bytes:
        if self.output.shape == "metadata":
            return encode({**_PARTIAL, "metadata": entry.tree()["metadata"]})
        return encode_entry(self.kind, entry)

    def _items(self, entries: Iterable[Entry]) -> Iterable[bytes]:
        """The items of a list. Those of built-in kinds have no `kind` and `apiVersion`, those of custom kinds do."""
        if self.output.shape == "metadata" or self.kind.custom is not None:
            return map(self._plain, entries)
        if self.kind.name in FROM_STORED:
            return (encode(versioned_tree(self.kind, entry)) for entry in entries)
        return (entry.data for entry in entries)

    def _list_kind(self) -> str:
        return "PartialObjectMetadataList" if self.output.shape == "metadata" else self.kind.list_kind

    def _list_version(self) -> str:
        return "meta.k8s.io/v1" if self.output.shape == "metadata" else self.kind.api_version

    def _line(self, kind: EventType, entry: Entry) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), self._plain(entry))

    def _row_line(self, kind: EventType, entry: Entry) -> bytes:
        table = self._table([entry], {"resourceVersion": str(entry.version)}, header=False)
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), table)

    def _header_line(self, kind: EventType, entry: Entry) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), self.object(entry))

    def _table(self, entries: Iterable[Entry], metadata: Tree, *, header: bool = True) -> bytes:
        table = self.kind.custom.layout if self.kind.custom else tables.layout(self.kind.name)
        now = self._clock()
        rows = [self._row(table, entry, now) for entry in entries]
        columns = table.columns if header else None
        return encode({**_TABLE, "metadata": metadata, "columnDefinitions": columns, "rows": rows})

    def _row(self, table: Layout, entry: Entry, now: int) -> Tree:
        tree = versioned_tree(self.kind, entry)
        row: Tree = {"cells": table.cells(tree, now), "object": None}
        if self.output.included in ("", "Metadata"):
            row["object"] = {**_PARTIAL, "metadata": tree["metadata"]}
        elif self.output.included == "Object":
            row["object"] = msgspec.Raw(encode_entry(self.kind, entry))
        return row


def _joined(head: bytes, items: Sequence[bytes]) -> Iterator[bytes]:
    yield head + b",".join(items[:_PIECE])
    for start in range(_PIECE, len(items), _PIECE):
        yield b",".join([b"", *items[start : start + _PIECE]])
    yield _TAIL


_PARTIAL: Tree = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


_TABLE: Tree = {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}


def encode_entry(kind: Kind, entry: Entry) -> bytes:
    """An object with its kind and version, encoded as this kind represents it."""
    return kind.wrap(encode(versioned_tree(kind, entry)) if kind.name in FROM_STORED else entry.data)


def versioned_tree(kind: Kind, entry: Entry) -> Tree:
    """A decoded copy of an object, as this kind represents it."""
    tree = entry.tree()
    convert = FROM_STORED.get(kind.name)
    return tree if convert is None else convert(tree)


def as_yaml(body: bytes) -> bytes:
    """Convert JSON to YAML."""
    text: str = yaml.safe_dump(msgspec.json.decode(body), sort_keys=True, allow_unicode=True)
    return text.encode()
