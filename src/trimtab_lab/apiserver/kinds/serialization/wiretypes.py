"""Trees as Kubernetes' Go types read and write them.

An API server decodes a request into Go structs, and responds with these structs encoded. The lab keeps trees, and
applies the effects of that round trip to the tree. `read` works in place and in one walk:

1. An unknown field is dropped and reported.
2. A value of the wrong type raises `WrongTypeError` with Go's message.
3. What Go would not write is dropped: null, and the empty value of a field that is `omitempty` and no pointer.
4. What Go would write is added: the empty value of a field that is not `omitempty`, and of a struct that is no pointer
   (`resources: {}`).
5. Values with their own encoding are normalized: quantities in canonical form, times in UTC.

The table of types is generated (`tools/wiretypes.py`), and compiled for a kind when its first object is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trimtab_lab.apiserver.kinds.serialization.typetable import types
from trimtab_lab.apiserver.kinds.serialization.wirevalues import (
    INT32,
    INT64,
    Path,
    Reader,
    WrongTypeError,
    json_type,
    read_anything,
    read_bytes,
    read_float,
    read_int_or_string,
    read_micro_time,
    read_quantity,
    read_time,
)
from trimtab_lab.apiserver.storage.store import Tree


class Field:
    """How one field of a struct is read. `drops` says that its empty value is not written."""

    __slots__ = ("drops", "plain", "read", "step", "type", "wanted")

    def __init__(self, text: str, name: str) -> None:
        embedded, _, written = text.rpartition("|")
        self.type = bare = written.rstrip("?!")
        resolved = _resolved(bare.lstrip("*"))
        is_struct = isinstance(types()["types"].get(resolved), dict)
        self.drops = written != bare and not bare.startswith("*") and not is_struct
        self.step = f"{embedded.replace('|', '.')}.{name}" if embedded else name
        self.wanted = _go_name(bare)
        self.plain = _PLAIN.get(resolved)
        self.read = _reader(bare.lstrip("*"), self.wanted)

    def check(self, value: Any) -> None:
        """Raise WrongTypeError for a plain value of the wrong type, or an integer out of range."""
        bits = INT64 if self.wanted.endswith("int64") else INT32
        if type(value) is self.plain and (self.plain is not int or value in bits):
            return
        name = json_type(value)
        raise WrongTypeError(f"number {value}" if self.plain is int and name == "number" else name, self.wanted)


class Struct:
    """A Go struct, compiled."""

    __slots__ = ("fields", "name", "zeros")

    def __init__(self, name: str) -> None:
        self.name = name.rpartition(".")[2]
        # Tuples instead of attributes: these would double the cost of the walk.
        self.fields: dict[str, tuple[type | None, bool, Reader, Field]] = {}
        self.zeros: list[tuple[str, Callable[[], Any]]] = []

    def compile(self, fields: Mapping[str, str]) -> None:
        """Compile the fields. A second step, because types may be recursive (JSON schemas)."""
        for name, text in fields.items():
            field = Field(text, name)
            self.fields[name] = field.plain, field.drops, field.read, field
            zero = _zero(text.rpartition("|")[2])
            if zero is not None:
                self.zeros.append((name, zero))

    def read(self, tree: Any, path: Path, unknown: list[str]) -> Any:
        """Read a tree in place."""
        if type(tree) is not dict:
            raise WrongTypeError(json_type(tree), f"v1.{self.name}")
        dropped = self._read_fields(tree, path, unknown)
        for key in dropped:
            del tree[key]
        for name, zero in self.zeros:
            if name not in tree:
                tree[name] = zero()
        return tree

    def _read_fields(self, tree: Tree, path: Path, unknown: list[str]) -> list[str]:
        """Read each field in place; returns the keys to drop."""
        dropped: list[str] = []
        find = self.fields.get
        for key, value in tree.items():
            entry = find(key)
            if entry is None or value is None:
                if entry is None:
                    unknown.append(text_of((path, key)))
                dropped.append(key)
                continue
            plain, drops, read_value, field = entry
            if plain is None:
                try:
                    new = read_value(value, (path, key), unknown)
                except WrongTypeError as error:
                    raise error.inside(self.name, field.step) from None
                if new is not value:
                    tree[key] = value = new
            elif plain is int or type(value) is not plain:
                self._check(field, value)
            if drops and not value:
                dropped.append(key)
        return dropped

    def _check(self, field: Field, value: Any) -> None:
        try:
            field.check(value)
        except WrongTypeError as error:
            raise error.inside(self.name, field.step) from None


def read(kind: str, tree: Tree) -> list[str]:
    """Make a tree of this kind (`apps/v1 Deployment`) what Go would make of it; the paths of its unknown fields."""
    unknown: list[str] = []
    struct(kind).read(tree, None, unknown)
    return unknown


def known(kind: str) -> bool:
    """Whether the table has the kind."""
    return kind in types()["kinds"]


def struct(kind: str) -> Struct:
    """The compiled type of a kind."""
    return _struct(types()["kinds"][kind])


def struct_named(name: str) -> Struct:
    """A compiled type by its name in the table: `meta.v1.ObjectMeta`."""
    return _struct(name)


def text_of(path: Path) -> str:
    """A path as Kubernetes writes it: `spec.containers[0].image`."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(f"[{step}]" if type(step) is int else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


def parts(type_: str) -> tuple[str, str | Struct]:
    """The structure of a type: `("list", element)`, `("map", element)`, `("struct", its struct)` or `("leaf",
    name)`."""
    resolved = _resolved(type_.lstrip("*"))
    if resolved in _OWN_READERS or resolved in _PLAIN:
        return "leaf", resolved
    if resolved.startswith("[]"):
        return "list", resolved[2:]
    if resolved.startswith("map["):
        return "map", resolved.partition("]")[2]
    return "struct", _struct(resolved)


_STRUCTS: dict[str, Struct] = {}


def _struct(name: str) -> Struct:
    known_one = _STRUCTS.get(name)
    if known_one is None:
        known_one = _STRUCTS[name] = Struct(name)
        known_one.compile(types()["types"][name])
    return known_one


def _resolved(type_: str) -> str:
    """The definition of a named type that is not a struct: `string` for `core.v1.RestartPolicy`."""
    target = types()["types"].get(type_, type_)
    return target if isinstance(target, str) else type_


def _go_name(type_: str) -> str:
    """A type as Go's messages write it: `[]v1.Container`."""
    bare = type_.lstrip("*")
    for prefix in ("[]", "map[string]"):
        if bare.startswith(prefix):
            return prefix + _go_name(bare.removeprefix(prefix))
    return ".".join(bare.split(".")[-2:])


# Fields of these types are checked inline; all others by a reader.
_PLAIN: Mapping[str, type] = {
    "string": str,
    "types.UID": str,
    "bool": bool,
    "int32": int,
    "int": int,
    "int64": int,
}


def _reader(type_: str, wanted: str) -> Reader:
    resolved = _resolved(type_)
    if resolved in _PLAIN:
        return _plain_reader(_PLAIN[resolved], wanted)
    if resolved in _OWN_READERS:
        return _OWN_READERS[resolved]
    if resolved.startswith("[]"):
        return _list_reader(resolved[2:], wanted)
    if resolved.startswith("map["):
        return _map_reader(resolved.partition("]")[2], wanted)
    return _struct(resolved).read


def _plain_reader(plain: type, wanted: str) -> Reader:
    def read_plain(value: Any, _path: Path, _unknown: list[str]) -> Any:
        if value is None:
            return plain()
        if type(value) is not plain:
            raise WrongTypeError(json_type(value), wanted)
        return value

    return read_plain


def _list_reader(element: str, wanted: str) -> Reader:
    plain = _PLAIN.get(_resolved(element))
    element_reader = _reader(element.lstrip("*"), _go_name(element))

    def read_list(value: Any, path: Path, unknown: list[str]) -> Any:
        if type(value) is not list:
            raise WrongTypeError(json_type(value), wanted)
        for index, item in enumerate(value):
            if type(item) is not plain:
                value[index] = element_reader({} if item is None and plain is None else item, (path, index), unknown)
        return value

    return read_list


def _map_reader(element: str, wanted: str) -> Reader:
    plain = _PLAIN.get(_resolved(element))
    element_reader = _reader(element.lstrip("*"), _go_name(element))

    def read_map(value: Any, path: Path, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise WrongTypeError(json_type(value), wanted)
        for key, item in value.items():
            if type(item) is not plain:
                value[key] = element_reader(item, (path, key), unknown)
        return value

    return read_map


def _zero(text: str) -> Callable[[], Any] | None:
    """A function that returns the value that Go writes for a missing field; None if it writes nothing."""
    bare = text.rstrip("?!")
    resolved = _resolved(bare)
    optional = text != bare
    if resolved in ("Time", "MicroTime"):
        return None if text.endswith("!") else _null
    if bare.startswith("*") or resolved.startswith(("[]", "map[")):
        return None if optional else _null
    if resolved in _PLAIN:
        return None if optional else _PLAIN[resolved]
    if resolved in _OWN_ZEROS:
        return _OWN_ZEROS[resolved]
    return None if text.endswith("!") else lambda: _struct(resolved).read({}, None, [])


def _null() -> None:
    return None


def _read_schema(value: Any) -> Any:
    """Read a schema inside a union; its unknown fields are dropped without being reported."""
    return _struct("apiextensions.v1.JSONSchemaProps").read(value, None, [])


def _read_schema_or_list(value: Any, _path: Path, _unknown: list[str]) -> Any:
    if isinstance(value, list):
        return [_read_schema(item) for item in value]
    return _read_schema(value) if isinstance(value, dict) else None


def _read_schema_or_bool(value: Any, _path: Path, _unknown: list[str]) -> Any:
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise WrongTypeError("boolean or JSON schema expected")
    return _read_schema(value)


def _read_schema_or_strings(value: Any, _path: Path, _unknown: list[str]) -> Any:
    return _read_schema(value) if isinstance(value, dict) else value


_OWN_READERS: Mapping[str, Reader] = {
    "Quantity": read_quantity,
    "IntOrString": read_int_or_string,
    "float64": read_float,
    "Time": read_time,
    "MicroTime": read_micro_time,
    "[]byte": read_bytes,
    "RawExtension": read_anything,
    "JSON": read_anything,
    "FieldsV1": read_anything,
    "JSONSchemaPropsOrArray": _read_schema_or_list,
    "JSONSchemaPropsOrBool": _read_schema_or_bool,
    "JSONSchemaPropsOrStringArray": _read_schema_or_strings,
}

# Structs in Go, which are written even if they are empty.
_OWN_ZEROS: Mapping[str, Callable[[], Any]] = {
    "Quantity": lambda: "0",
    "IntOrString": int,
    "RawExtension": _null,
}
