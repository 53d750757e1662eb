"""Decoding of request bodies: JSON, YAML or protobuf to a tree.

The rules here are the same for all kinds; `objects` converts a tree to its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import yaml

from trimtab_lab.apiserver.kinds.errors import StatusError, bad_request, status_error
from trimtab_lab.apiserver.kinds.serialization import protobuf
from trimtab_lab.apiserver.storage.store import Tree

MAX_BODY_SIZE = 3 * 1024 * 1024
"""The maximum size of a body in bytes, as in Kubernetes."""

ACCEPTED = ("application/json", "application/yaml", protobuf.MEDIA_TYPE)
_SHOWN = 30
_ENVELOPE = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
"""The Go type into which Kubernetes decodes the type of a body."""
_decode = msgspec.json.Decoder().decode
_INT64 = range(-(2**63), 2**63)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as Kubernetes reads it: timestamps stay strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_object(body: bytes, content_type: str, kind: str) -> Tree:
    """The object in a body; `kind` is the expected one. Raises a StatusError of 400 or 415."""
    read = _READERS.get(media_type(content_type))
    if read is None:
        raise unknown_format(*ACCEPTED)
    try:
        tree = read(body)
    except ValueError as error:
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {error}", body) from None
    if not isinstance(tree, dict):
        problem = f"json: cannot unmarshal {_json_type(tree)} into Go value of type {_ENVELOPE}"
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {problem}", body)
    return tree


def media_type(content_type: str) -> str:
    """The media type of a Content-Type without parameters; JSON by default."""
    return content_type.partition(";")[0].strip() or ACCEPTED[0]


def is_json(content_type: str) -> bool:
    """Whether a body is JSON."""
    return media_type(content_type) == ACCEPTED[0]


def read_json(body: bytes) -> Any:
    """Decode JSON. Raises ValueError."""
    if not body:
        raise ValueError("unexpected end of JSON input")
    try:
        return _decode(body)
    except RecursionError:
        raise ValueError("exceeded max depth") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def too_large() -> StatusError:
    """413: the body is too large."""
    return status_error(
        413, f"Request entity too large: limit is {MAX_BODY_SIZE}", reason="RequestEntityTooLarge", details={}
    )


def unknown_format(*accepted: str) -> StatusError:
    """415: the media type is not supported."""
    listed = ", ".join(accepted)
    return status_error(
        415, f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )


def without_huge_numbers(value: Any) -> Any:
    """Convert integers beyond 64 bits to floating point, as Kubernetes does; in place."""
    if isinstance(value, dict):
        for key, item in value.items():
            value[key] = without_huge_numbers(item)
    elif isinstance(value, list):
        value[:] = map(without_huge_numbers, value)
    elif type(value) is int and value not in _INT64:
        return float(value)
    return value


def _read_yaml(body: bytes) -> Any:
    try:
        tree = yaml.load(body, Loader=_Loader)  # noqa: S506 – a safe loader, with fewer types still
        if sum(1 for _ in _nodes(tree, len(body))) > len(body):
            raise ValueError("document contains excessive aliasing")
        return msgspec.json.decode(msgspec.json.encode(_with_text_keys(tree)))
    except RecursionError:
        raise ValueError("exceeded max depth") from None
    except (yaml.YAMLError, msgspec.MsgspecError, TypeError, OverflowError, UnicodeError) as error:
        raise ValueError(f"yaml: {' '.join(str(error).split())}") from None


_READERS: Mapping[str, Callable[[bytes], Any]] = {
    "application/json": read_json,
    "application/yaml": _read_yaml,
    protobuf.MEDIA_TYPE: protobuf.read,
}


def _nodes(value: Any, budget: int) -> Iterator[None]:
    """One item for each value in a tree, up to a little over the budget: with aliases, a small text can be a huge
    tree."""
    waiting = [value]
    while waiting and budget >= 0:
        budget -= 1
        yield None
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_text_key(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(item) for item in value]
    return value


def _text_key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None or not isinstance(key, (str, int, float)):
        raise TypeError(f"unsupported map key: {key!r}")
    return str(key)


def _unrecognized(kind: str, problem: str, body: bytes) -> StatusError:
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {problem} ({_excerpt(body)})")


def _excerpt(body: bytes) -> str:
    """The beginning of a body: as text if it starts like JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    start, more = body[:_SHOWN], " ..." if len(body) > _SHOWN else ""
    return (start.decode(errors="replace") if body[:1] == b"{" else start.hex()) + more


def _json_type(value: Any) -> str:
    names = {list: "array", str: "string", bool: "bool", type(None): "null"}
    return names.get(type(value), "number")
