"""The generated tables of Kubernetes' types (`wiretypes.json`, `wirenumbers.json`, `descriptions.json`), read once."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import msgspec


@cache
def types() -> dict[str, dict[str, Any]]:
    """`kinds` (kind → its type) and `types` (type → its fields, or the type it is defined as)."""
    return msgspec.json.decode(_bytes("wiretypes.json"), type=dict[str, dict[str, Any]])


@cache
def numbers() -> dict[str, dict[str, int | list[int]]]:
    """Type → field → its protobuf number, or a path of numbers for a field of an embedded struct."""
    return msgspec.json.decode(_bytes("wirenumbers.json"), type=dict[str, dict[str, int | list[int]]])


@cache
def descriptions() -> dict[str, dict[str, str | list[str]]]:
    """Type → field → its description; the type's own is under the empty name, values of enumerations under `field=`."""
    return msgspec.json.decode(_bytes("descriptions.json"), type=dict[str, dict[str, str | list[str]]])


def resolved(text: str) -> str | dict[str, str]:
    """The fields of a struct type, or the name of any other type, without flags and pointers."""
    bare = text.rpartition("|")[2].rstrip("?!").lstrip("*")
    target: str | dict[str, str] = types()["types"].get(bare, bare)
    return target


def _bytes(name: str) -> bytes:
    return (resources.files(__package__) / name).read_bytes()
