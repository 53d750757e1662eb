"""Decoding of built-in kinds from protobuf, which Go clients send.

    application/vnd.kubernetes.protobuf     k8s\\0, then an envelope: kind and version (1), the message (2)

The message becomes the tree that the same object has in JSON. The server never responds in protobuf: every client
understands JSON.

A message is a sequence of fields, each a key (number and wire type) and a value. Types come from the table of Go types,
numbers from a second table. Fields with unknown numbers are skipped.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from trimtab.api import times
from trimtab_lab.apiserver.kinds.serialization import typetable
from trimtab_lab.apiserver.storage.store import Tree

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_DEEPEST = 100

Value = int | bytes
Convert = Callable[[Value, int], Any]
"""Converts a value, given the nesting depth of its message, to its JSON form."""


def read(body: bytes) -> Tree:
    """The object in a body, with its kind and version. Raises ValueError."""
    if not body.startswith(_MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message, expected prefix")
    envelope = dict(_fields(body[len(_MAGIC) :]))
    meta = {number: _text(value) for number, value in _fields(_bytes(envelope.get(1, b"")))}
    api_version, kind = meta.get(1, ""), meta.get(2, "")
    name = typetable.types()["kinds"].get(f"{api_version} {kind}") or _SHARED.get(kind)
    if name is None:
        raise ValueError(f'no kind "{kind}" is registered for version "{api_version}"')
    tree: Tree = {"kind": kind, "apiVersion": api_version}
    _message(name).read(_bytes(envelope.get(2, b"")), tree, 0)
    return tree


_SHARED = {"DeleteOptions": "meta.v1.DeleteOptions"}
"""Kinds that are sent in the version of the kind of the request."""


# --- the wire --------------------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a message: number, and an integer or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire_type == 2:
            size, at = _varint(data, at)
        elif wire_type in _SIZES:
            size = _SIZES[wire_type]
        else:
            raise ValueError(f"proto: illegal wireType {wire_type}")
        if at + size > len(data):
            raise ValueError("unexpected EOF")
        yield number, data[at : at + size]
        at += size


_SIZES = {1: 8, 5: 4}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("unexpected EOF")
        if shift > 63:
            raise ValueError("proto: integer overflow")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("proto: wrong wireType")
    return value


def _whole(value: Value) -> int:
    """A signed integer of 64 bits."""
    if isinstance(value, bytes):
        raise ValueError("proto: wrong wireType")
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def _text(value: Value) -> str:
    return _bytes(value).decode()


# --- messages --------------------------------------------------------------------------------------------------------


class _Message:
    """A struct, by the numbers of its fields."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._fields: dict[tuple[int, ...], tuple[str, str]] = {}
        self._inner: set[tuple[int, ...]] = set()
        declared = typetable.types()["types"][name]
        for field, number in typetable.numbers()[name].items():
            path = tuple(number) if isinstance(number, list) else (number,)
            self._fields[path] = field, declared[field]
            self._inner.update(path[:length] for length in range(1, len(path)))

    def read(self, data: bytes, tree: Tree, depth: int, path: tuple[int, ...] = ()) -> None:
        """Add what a message says to a tree."""
        if depth > _DEEPEST:
            raise ValueError("exceeded max depth")
        for number, value in _fields(data):
            here = (*path, number)
            if here in self._inner:
                self.read(_bytes(value), tree, depth, here)
            elif here in self._fields:
                field, text = self._fields[here]
                _add(tree, field, text, value, depth + 1)


@cache
def _message(name: str) -> _Message:
    return _Message(name)


def _add(tree: Tree, field: str, text: str, value: Value, depth: int) -> None:
    target = typetable.resolved(text)
    if isinstance(target, str) and target.startswith("[]") and target != "[]byte":
        tree.setdefault(field, []).append(_convert(target[2:], value, depth))
    elif isinstance(target, str) and target.startswith("map["):
        entry = dict(_fields(_bytes(value)))
        element = target.partition("]")[2]
        tree.setdefault(field, {})[_text(entry.get(1, b""))] = _convert(element, entry.get(2, b""), depth)
    else:
        tree[field] = _convert(text, value, depth)


def _convert(text: str, value: Value, depth: int) -> Any:
    target = typetable.resolved(text)
    if isinstance(target, dict):
        tree: Tree = {}
        _message(text.rpartition("|")[2].rstrip("?!").lstrip("*")).read(_bytes(value), tree, depth)
        return tree
    if target.startswith("[]") and target != "[]byte":
        raise ValueError(f"a list of lists cannot be read: {target}")
    return _LEAVES[target](value, depth)


def _quantity(value: Value, _depth: int) -> str:
    return _text(dict(_fields(_bytes(value))).get(1, b"0"))


def _int_or_string(value: Value, _depth: int) -> int | str:
    parts = dict(_fields(_bytes(value)))
    return _text(parts.get(3, b"")) if parts.get(1) else _whole(parts.get(2, 0))


def _moment(value: Value) -> int | None:
    parts = dict(_fields(_bytes(value)))
    if not parts:
        return None
    return _whole(parts.get(1, 0)) * 10**9 + _whole(parts.get(2, 0))


def _time(value: Value, _depth: int) -> str | None:
    moment = _moment(value)
    return None if moment is None else times.format_time(moment)


def _micro_time(value: Value, _depth: int) -> str | None:
    moment = _moment(value)
    return None if moment is None else times.format_micro(moment)


def _raw(value: Value, _depth: int) -> Any:
    inner = _bytes(dict(_fields(_bytes(value))).get(1, b""))
    try:
        return msgspec.json.decode(inner) if inner else None
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


_SCHEMA = "apiextensions.v1.JSONSchemaProps"


def _schema_or_list(value: Value, depth: int) -> Any:
    parts = list(_fields(_bytes(value)))
    one = [_convert(_SCHEMA, part, depth + 1) for number, part in parts if number == 1]
    return one[0] if one else [_convert(_SCHEMA, part, depth + 1) for number, part in parts if number == 2]


def _schema_or_bool(value: Value, depth: int) -> Any:
    parts = dict(_fields(_bytes(value)))
    return _convert(_SCHEMA, parts[2], depth + 1) if 2 in parts else bool(parts.get(1, 0))


def _schema_or_texts(value: Value, depth: int) -> Any:
    parts = list(_fields(_bytes(value)))
    schemas = [_convert(_SCHEMA, part, depth + 1) for number, part in parts if number == 1]
    return schemas[0] if schemas else [_text(part) for number, part in parts if number == 2]


_LEAVES: Mapping[str, Convert] = {
    "string": lambda value, _: _text(value),
    "types.UID": lambda value, _: _text(value),
    "bool": lambda value, _: bool(_whole(value)),
    "int": lambda value, _: _whole(value),
    "int32": lambda value, _: _whole(value),
    "int64": lambda value, _: _whole(value),
    "float64": lambda value, _: struct.unpack("<d", _bytes(value).rjust(8, b"\0"))[0],
    "[]byte": lambda value, _: base64.b64encode(_bytes(value)).decode(),
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _time,
    "MicroTime": _micro_time,
    "RawExtension": _raw,
    "FieldsV1": _raw,
    "JSON": _raw,
    "JSONSchemaPropsOrArray": _schema_or_list,
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrStringArray": _schema_or_texts,
}
