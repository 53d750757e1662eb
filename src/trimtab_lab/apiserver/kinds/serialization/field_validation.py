"""Field validation: unknown fields and repeated keys.

The client decides with `fieldValidation` what they lead to: nothing (`Ignore`), warnings (`Warn`) or a 400 (`Strict`).
They are dropped in every case: of a repeated key the last value is used.

Decoders do not report repeated keys, and one that does is slow. Most bodies are therefore checked by counting: encoded
again, a body has as many `":` as before, unless a key was repeated. Only where the counts differ, or cannot be
compared, is the body decoded a second time, pair by pair.
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
"""The maximum number of reported problems of one body."""

_encode = msgspec.json.Encoder().encode
# With space before a colon the counts cannot be compared.
_SPACED_COLONS = (b" :", b"\t:", b"\n:", b"\r:")


def read(kind: str, tree: Tree, body: bytes | None = None) -> list[str]:
    """Read a tree of a built-in kind (`wiretypes.read`, in place); returns its problems, with Kubernetes' messages.

    `body` is the JSON from which the tree was decoded, if repeated keys are to be reported as well.
    """
    repeats = body is not None and has_repeats(body, tree)
    unknown = wiretypes.read(kind, tree)
    if repeats and body is not None:
        return _distinct(_typed_problems(_pairs(body), wiretypes.struct(kind), None))
    return unknown_fields(unknown) if unknown else []


def unknown_fields(paths: Sequence[str]) -> list[str]:
    """The messages for unknown fields."""
    return _distinct(f'unknown field "{path}"' for path in paths)


def repeated_fields(body: bytes, tree: Any) -> list[str]:
    """The messages for repeated keys in a body of a custom kind; `tree` is its decoded form."""
    return _distinct(_free_problems(_pairs(body), None)) if has_repeats(body, tree) else []


def has_repeats(body: bytes, tree: Any) -> bool:
    """Whether a body may have a repeated key; `tree` is its decoded form, not changed yet."""
    written = _encode(tree)
    if written == body:
        return False
    if any(spaced in body for spaced in _SPACED_COLONS):
        return True
    return body.count(b'":') != written.count(b'":')


def strict_error(problems: Sequence[str]) -> str:
    """The message of the error for `Strict`."""
    return f"strict decoding error: {', '.join(problems)}"


class _Object(list[tuple[str, Any]]):
    """A JSON object as its pairs, in the order of the body."""


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
    """Repeated keys anywhere in an object of a custom kind."""
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
