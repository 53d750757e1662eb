"""Merge keys of the built-in types: which fields are lists, which lists are merged, and by which key.

`mergekeys.json` is generated from Kubernetes' published schemas (`tools/mergekeys.py` describes its format). It is
read once, when the first schema is requested.

A field is looked up by its exact name, then case-insensitively, as Kubernetes does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

import msgspec

from trimtab.api import codec
from trimtab.api.errors import InvalidError

# Two letters beyond ASCII fold to an ASCII letter in Kubernetes' lookup: the long s and the kelvin sign.
_FOLDED = str.maketrans({"\u017f": "s", "\u212a": "k"})


class NoSchemaError(LookupError):
    """A kind without strategic merge patch; an API server answers 415 for it."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(api_version, kind)
        self.api_version = api_version
        self.kind = kind

    def __str__(self) -> str:
        return (
            f"{self.kind} in {self.api_version} is not a built-in kind and has no merge keys: "
            "send a JSON merge patch (application/merge-patch+json) instead of a strategic one"
        )


class _Field(msgspec.Struct, frozen=True):
    type: str = ""
    list: bool = False
    strategy: str = ""
    key: str = ""


class _Type(msgspec.Struct, frozen=True):
    fields: dict[str, _Field]
    plain: frozenset[str]


class _Table(msgspec.Struct, frozen=True):
    kinds: dict[str, dict[str, str]]
    types: dict[str, _Type]


@dataclass(frozen=True, slots=True)
class Schema:
    """The merge rules of one type. `name` is empty for types without fields."""

    name: str

    def object_field(self, key: str) -> Merging:
        """How the value of `key` is merged, when both documents have an object there."""
        field = self._field(key)
        # An object in place of a list is accepted, but it does not have the fields of the list's elements.
        return _merging(field, "" if field.list else field.type)

    def list_field(self, key: str) -> Merging:
        """How the value of `key` is merged, when both documents have a list there; `schema` is of its elements."""
        field = self._field(key)
        if not field.list:
            raise InvalidError("", f"is a list in the patch, but not in {self.name}")
        return _merging(field, field.type)

    def _field(self, key: str) -> _Field:
        if not self.name:
            raise InvalidError("", "cannot be merged: its parent has no known fields")
        known = _table().types[self.name]
        field = _find(known, key) or _find(known, _folded_names(self.name).get(_fold(key), ""))
        if field is None:
            raise InvalidError("", f"is not a field of {self.name}")
        return field


@dataclass(frozen=True, slots=True)
class Merging:
    """How one field is merged: `strategy` is `merge`, `replace` or empty, `key` identifies the elements of a list."""

    schema: Schema
    strategy: str
    key: str


def schema_for(api_version: str, kind: str) -> Schema:
    """The schema of a built-in kind, or of `v1` `PodTemplateSpec`, which is patched like a kind."""
    name = _table().kinds.get(api_version, {}).get(kind)
    if name is None:
        raise NoSchemaError(api_version, kind)
    return Schema(name)


@cache
def _table() -> _Table:
    text = resources.files(__package__).joinpath("mergekeys.json").read_bytes()
    return codec.decode_exactly(text, _Table)


_PLAIN = _Field()


def _find(known: _Type, key: str) -> _Field | None:
    return known.fields.get(key) or (_PLAIN if key in known.plain else None)


def _merging(field: _Field, type_name: str) -> Merging:
    # `retainKeys` matters for computing a patch; when applying one, the directive in the patch decides.
    strategy = next((part for part in field.strategy.split(",") if part != "retainKeys"), "")
    return Merging(Schema(type_name), strategy, field.key)


def _fold(key: str) -> str:
    folded = key.translate(_FOLDED)
    return folded.lower() if folded.isascii() else key


@cache
def _folded_names(name: str) -> dict[str, str]:
    known = _table().types[name]
    return {_fold(field): field for field in (*known.fields, *known.plain)}
