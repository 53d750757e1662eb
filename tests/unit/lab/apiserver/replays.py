"""Recordings as test cases for the parts of the API server that are functions of values.

A recording is a sequence of steps; each starts from the state that the previous ones left. A recording is walked
through with its own responses as the state, and every step that a pure function can reproduce becomes a case:

- `Creation`: the request, and the object in the response;
- `Rejection`: the object that was to be stored, the one before, and the causes of the 422;
- `Decoding`: a body, and the error or the warnings of its field validation;
- `Printing`: an object, and its row in a table.

Values that were normalised are replaced by arbitrary valid ones.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import jsonpatch

from tools import record
from trimtab.api.patches.merge import json_merge
from trimtab.api.patches.mergekeys import schema_for
from trimtab.api.patches.strategic import strategic_merge
from trimtab_lab.apiserver.kinds.defaults import apply_defaults
from trimtab_lab.apiserver.kinds.serialization import wiretypes

Tree = dict[str, Any]

_STAND_INS = {
    "<time>": "2024-01-01T00:00:00Z",
    "<uid>": "0b7b5c9e-6b9e-4f0e-9c5a-0d0c9a1f1a11",
    "<version>": "7",
    "<address>": "10.0.0.7",
    "<suffix>": "abcde",
    "<certificate>": "LS0tLS1CRUdJTiBD",
    "${full}": "web-abcde",
}
_KEPT = {"version": "7", "first": "7", "lease": "7", "next": "next", "full": "web-abcde", "ca": "LS0tLS1CRUdJTiBD"}
_SUBRESOURCES = ("status", "scale", "binding", "eviction")
_MICROSECONDS = ("renewTime", "acquireTime", "eventTime")


@dataclass(frozen=True)
class Creation:
    """An object that was created; `warnings` are the texts of its headers."""

    kind: str
    sent: Tree
    answered: Tree
    warnings: list[str]


@dataclass(frozen=True)
class Rejection:
    """An object, or an update from `old`, that was rejected with 422."""

    kind: str
    tree: Tree
    old: Tree | None
    subresource: str
    status: Tree


@dataclass(frozen=True)
class Decoding:
    """A body, and the message of its error, or the warnings about it."""

    kind: str
    body: bytes
    level: str
    message: str
    warnings: list[str]


@dataclass(frozen=True)
class Printing:
    """An object, and the cells of its row; `columns` are the names of the columns."""

    kind: str
    tree: Tree
    columns: list[Tree]
    cells: list[Any]


Case = Creation | Rejection | Decoding | Printing


@cache
def cases() -> list[tuple[str, Case]]:
    """All cases of all recordings, each with a name that says where it is from."""
    return [
        (f"{name}: {step}", case)
        for name, recording in record.recordings().items()
        for step, case in _walk(name, recording)
    ]


def of(kind: type[Case]) -> list[tuple[str, Any]]:
    """The cases of one type."""
    return [(name, case) for name, case in cases() if isinstance(case, kind)]


def denormalised(value: Any, field: str = "") -> Any:
    """A part of a normalised response with values for its placeholders."""
    if isinstance(value, dict):
        return {key: denormalised(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [denormalised(item, field) for item in value]
    if field == "nodePort":
        return 30007
    if isinstance(value, str):
        for name, stand_in in _STAND_INS.items():
            value = value.replace(name, stand_in)
        if field in _MICROSECONDS and value == _STAND_INS["<time>"]:
            value = value.replace("Z", ".000000Z")
    return value


def _walk(name: str, recording: Tree) -> Iterator[tuple[str, Case]]:
    state: dict[str, Tree] = {}
    known = _Known({"namespace": f"recorded-{name}"})
    if recording.get("webhooks"):
        return  # there the responses are those of webhooks
    for step in recording["steps"]:
        request = record.filled(copy.deepcopy(step["request"]), known)
        for case in _cases(request, step["response"], state):
            yield step["name"], case
        _advance(request, step["response"], state)


class _Known(dict[str, str]):
    """Placeholders; kept values are arbitrary."""

    def __missing__(self, key: str) -> str:
        return _KEPT.get(key, _STAND_INS["<uid>"])


def _cases(request: Tree, answer: Tree, state: dict[str, Tree]) -> Iterator[Case]:
    body = answer["body"]
    if not isinstance(body, dict):
        return
    if request["method"] == "POST":
        yield from _of_creation(request, answer, body)
    elif request["method"] in ("PATCH", "PUT") and answer["status"] == 422:
        yield from _of_change(request, body, state)
    elif body.get("kind") == "Table":
        yield from _of_table(request, body, state)


def _of_creation(request: Tree, answer: Tree, body: Tree) -> Iterator[Case]:
    text = request["text"] if "text" in request else json.dumps(request.get("body"))
    sent = _json_object(text) if request.get("content", "application/json") == "application/json" else None
    if sent is None or "kind" not in sent:
        return
    kind, resource = f"{sent['apiVersion']} {sent['kind']}", request["path"].rpartition("/")[2]
    warnings = [json.loads(text[6:]) for text in answer["headers"].get("warning") or ()]
    if not wiretypes.known(kind) or resource in ("binding", "eviction", "token"):
        return
    level = (request.get("query") or {}).get("fieldValidation", "Warn")
    if answer["status"] == 400 and f"cannot be handled as a {sent['kind']}" in body["message"]:
        yield Decoding(kind, text.encode(), level, body["message"], [])
    elif answer["status"] == 201:
        yield Decoding(kind, text.encode(), level, "", warnings)
        yield Creation(kind, sent, body, warnings)
    elif answer["status"] == 422 and body["details"]["kind"] == sent["kind"]:
        yield Rejection(kind, _ready(kind, sent, request["path"]), None, "", body)


def _json_object(text: str) -> Tree | None:
    try:
        tree = json.loads(text)
    except ValueError:
        return None
    return tree if isinstance(tree, dict) else None


def _ready(kind: str, sent: Tree, path: str) -> Tree:
    """An object as it reaches validation: decoded, defaulted, named, and in the namespace of its path."""
    tree = copy.deepcopy(sent)
    wiretypes.read(kind, tree)
    apply_defaults(kind, tree)
    found = re.search(r"/namespaces/([^/]+)/", f"{path}/")
    metadata = tree["metadata"]
    metadata.pop("namespace", None)
    if found and not path.endswith("/namespaces"):
        metadata["namespace"] = found[1]
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName']}abcde"
    return tree


def _of_change(request: Tree, body: Tree, state: dict[str, Tree]) -> Iterator[Case]:
    path, _, last = request["path"].rpartition("/")
    subresource = last if last in _SUBRESOURCES else ""
    old = state.get(path if subresource else request["path"])
    if old is None or subresource == "scale" or "causes" not in (body.get("details") or {}):
        return
    kind = f"{old['apiVersion']} {old['kind']}"
    if not wiretypes.known(kind) or body["details"]["kind"] != old["kind"]:
        return
    new = _changed(request, old)
    wiretypes.read(kind, new)
    apply_defaults(kind, new)
    if "generation" in old["metadata"]:
        new["metadata"]["generation"] = old["metadata"]["generation"]
    if not subresource and "status" in old:
        new["status"] = copy.deepcopy(old["status"])
    yield Rejection(kind, new, old, subresource, body)


def _changed(request: Tree, old: Tree) -> Tree:
    change = request["body"]
    if request["method"] == "PUT":
        return dict(change)
    match request["content"]:
        case "application/merge-patch+json":
            return json_merge(copy.deepcopy(old), change)
        case "application/strategic-merge-patch+json":
            return strategic_merge(copy.deepcopy(old), change, schema_for(old["apiVersion"], old["kind"]))
        case _:
            patched: Tree = jsonpatch.apply_patch(copy.deepcopy(old), change)
            return patched


def _of_table(request: Tree, body: Tree, state: dict[str, Tree]) -> Iterator[Case]:
    """The rows whose objects are known from previous steps."""
    for row in body["rows"]:
        metadata = (row.get("object") or {}).get("metadata") or {}
        name = metadata.get("name", "")
        path = request["path"]
        tree = state.get(path if path.endswith(f"/{name}") else f"{path}/{name}")
        if tree is not None and tree["metadata"].get("deletionTimestamp") == denormalised(
            metadata.get("deletionTimestamp")
        ):
            yield Printing(f"{tree['apiVersion']} {tree['kind']}", tree, body["columnDefinitions"], row["cells"])


def _advance(request: Tree, answer: Tree, state: dict[str, Tree]) -> None:
    body, path = answer["body"], request["path"]
    if not isinstance(body, dict) or (request.get("query") or {}).get("dryRun"):
        return
    if request["method"] == "POST" and answer["status"] == 201 and "metadata" in body and body["kind"] != "Status":
        state[f"{path}/{body['metadata'].get('name', '')}"] = denormalised(body)  # a review has no name
    elif request["method"] in ("PATCH", "PUT", "DELETE") and answer["status"] == 200:
        target = path.removesuffix("/status")
        if body["kind"] == "Status":
            state.pop(target, None)
        elif body["kind"] == "Scale":
            state[path.removesuffix("/scale")]["spec"]["replicas"] = body["spec"]["replicas"]
        elif not body["kind"].endswith("List"):
            state[target] = denormalised(body)
    elif request["method"] == "GET" and path in state and body["kind"] == state[path]["kind"]:
        state[path] = denormalised(body)


_COMBINATION = re.compile(r'Invalid value: "": "(?P<path>[^"]+)" must (?:not )?validate')


def is_about_values(status: Tree) -> bool:
    """Whether a Status has the causes of an OpenAPI schema: of a custom resource, or of a default in a definition."""
    details = status.get("details") or {}
    causes = details.get("causes") or ()
    defaults = any(cause.get("field", "").endswith(".default") for cause in causes)
    return status.get("code") == 422 and bool(causes) and (defaults or details.get("group", "").endswith("example.com"))


def places(causes: list[Tree]) -> list[str]:
    """The reasons and fields of a schema's causes, each once; the words are the lab's own.

    Of a combination (`anyOf`, …) Kubernetes has the field in the message, and adds the causes of one alternative.
    """
    combined = {found["path"] for cause in causes if (found := _COMBINATION.match(cause["message"]))}
    inside = tuple(f"{path}." for path in combined)
    single = {
        f"{cause['reason']} {cause['field']}"
        for cause in causes
        if not _COMBINATION.match(cause["message"]) and not cause["field"].startswith(inside)
    }
    return sorted(single | {f"FieldValueInvalid {path}" for path in combined})
