"""The generated tables of Kubernetes' Go types: `wiretypes.json` and `wirenumbers.json`, read once."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import msgspec


@cache
def types() -> dict[str, dict[str, Any]]:
    """`kinds` (name of a kind -> its type) and `types` (type -> its fields, or what it stands for)."""
    return msgspec.json.decode(_bytes("wiretypes.json"), type=dict[str, dict[str, Any]])


@cache
def numbers() -> dict[str, dict[str, int | list[int]]]:
    """Type -> field -> its number in protobuf, or the numbers of the way to it."""
    return msgspec.json.decode(_bytes("wirenumbers.json"), type=dict[str, dict[str, int | list[int]]])


def resolved(text: str) -> str | dict[str, str]:
    """What a type of a field is: the fields of a struct, or the text of anything else; marks and stars are ignored."""
    bare = text.rpartition("|")[2].rstrip("?!").lstrip("*")
    target: str | dict[str, str] = types()["types"].get(bare, bare)
    return target


def _bytes(name: str) -> bytes:
    return (resources.files(__package__) / name).read_bytes()
