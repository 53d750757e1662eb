"""Field validation: fields that nobody knows, and keys that are written twice.

A client says with `fieldValidation` what shall become of them: `Ignore`, `Warn` (a Warning header each) or `Strict`
(400). In every case they are dropped: of a key that is written twice, the last value counts.

Decoders forget the first of two equal keys, and a decoder that remembers is slow. So most bodies are judged by
counting: written out again, a body has as many `":` as it had, unless a key was written twice. Only where the counts
differ, or cannot be compared, is the body read a second time, pair by pair.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from trimtab_lab.apiserver.kinds.serialization import wiretypes
from trimtab_lab.apiserver.kinds.serialization.wiretypes import Struct, text_of
from trimtab_lab.apiserver.kinds.serialization.wirevalues import Path
from trimtab_lab.apiserver.storage.store import Tree

MOST = 100
"""How many problems of one body are told."""

_encode = msgspec.json.Encoder().encode
# Where there is space before a colon, counting is no proof.
_SPACED_COLONS = (b" :", b"\t:", b"\n:", b"\r:")


def read(kind: str, tree: Tree, body: bytes | None = None) -> list[str]:
    """Read a tree of a built-in kind as Go does (`wiretypes.read`, in place); its problems, as Kubernetes words them.

    `body` is the JSON that the tree was decoded from, if keys that are written twice shall be found as well.
    """
    repeats = body is not None and has_repeats(body, tree)
    unknown = wiretypes.read(kind, tree)
    if repeats and body is not None:
        return _distinct(_typed_problems(_pairs(body), wiretypes.struct(kind), None))
    return unknown_fields(unknown) if unknown else []


def unknown_fields(paths: Sequence[str]) -> list[str]:
    """The problems of these unknown fields."""
    return _distinct(f'unknown field "{path}"' for path in paths)


def repeated_fields(body: bytes, tree: Any) -> list[str]:
    """The problems of keys that are written twice, in a body of a custom kind; `tree` is what was decoded from it."""
    return _distinct(_free_problems(_pairs(body), None)) if has_repeats(body, tree) else []


def has_repeats(body: bytes, tree: Any) -> bool:
    """Whether a key may be written twice in a body; `tree` is what was decoded from it, and not yet changed."""
    written = _encode(tree)
    if written == body:
        return False
    if any(spaced in body for spaced in _SPACED_COLONS):
        return True
    return body.count(b'":') != written.count(b'":')


def strict_error(problems: Sequence[str]) -> str:
    """What a `Strict` client is told."""
    return f"strict decoding error: {', '.join(problems)}"


class _Object(list[tuple[str, Any]]):
    """A JSON object as its pairs, in the order in which they were written."""


_decode = json.JSONDecoder(object_pairs_hook=_Object).decode


def _pairs(body: bytes) -> Any:
    return _decode(body.decode())


def _distinct(problems: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(problems))[:MOST]


def _typed_problems(value: Any, struct: Struct, path: Path) -> Iterator[str]:
    if not isinstance(value, _Object):
        return
    seen: set[str] = set()
    for key, item in value:
        entry = struct.fields.get(key)
        if entry is None:
            yield f'unknown field "{text_of((path, key))}"'
            continue
        if key in seen:
            yield f'duplicate field "{text_of((path, key))}"'
        seen.add(key)
        yield from _problems_of(item, entry[3].type, (path, key))


def _problems_of(value: Any, type_: str, path: Path) -> Iterator[str]:
    match wiretypes.parts(type_):
        case "struct", Struct() as inner:
            yield from _typed_problems(value, inner, path)
        case "list", str() as element if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _problems_of(item, element, (path, index))
        case "map", str() as element if isinstance(value, _Object):
            yield from _repeated(value, path)
            for key, item in value:
                yield from _problems_of(item, element, (path, key))


def _free_problems(value: Any, path: Path) -> Iterator[str]:
    """Keys written twice anywhere: the fields of a custom kind have no types here."""
    if isinstance(value, _Object):
        yield from _repeated(value, path)
        for key, item in value:
            yield from _free_problems(item, (path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _free_problems(item, (path, index))


def _repeated(value: _Object, path: Path) -> Iterator[str]:
    seen: set[str] = set()
    for key, _ in value:
        if key in seen:
            yield f'duplicate field "{text_of((path, key))}"'
        seen.add(key)
