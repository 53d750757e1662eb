"""Patches, by the media type of the request.

application/json-patch+json              a list of operations
application/merge-patch+json             the fields that change; lists are replaced
application/strategic-merge-patch+json   the fields that change; lists are merged by key; built-in kinds only
application/apply-patch+yaml             server-side apply: not supported, 415
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.api.errors import InvalidError
from trimtab.api.patches.merge import json_merge
from trimtab.api.patches.mergekeys import NoSchemaError, schema_for
from trimtab.api.patches.operations import json_patch
from trimtab.api.patches.strategic import strategic_merge
from trimtab_lab.apiserver.kinds import objects
from trimtab_lab.apiserver.kinds.errors import REJECTED, StatusError, bad_request, invalid, status_error
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.serialization import decoding, field_validation
from trimtab_lab.apiserver.kinds.serialization.wirevalues import WrongTypeError
from trimtab_lab.apiserver.kinds.validation import causes
from trimtab_lab.apiserver.storage.store import Tree, encode

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = ("application/apply-patch+yaml", "application/apply-patch+cbor")

_MOST_OPERATIONS = 10_000
_APPLY = (
    "server-side apply is not supported by the lab, which does not keep track of field managers: "
    "use kubectl apply without --server-side, or send a strategic merge patch, a merge patch or a JSON patch"
)


def _strategic(document: Tree, change: Any) -> Any:
    return strategic_merge(document, change, schema_for(document["apiVersion"], document["kind"]))


def _operations(document: Tree, change: Any) -> Any:
    """Apply a JSON patch as Kubernetes does: to replace a missing field is to add it."""
    try:
        return json_patch(document, change)
    except InvalidError:
        if not any(_replaces(operation) for operation in change):
            raise
    for operation in change:
        if _replaces(operation) and _is_missing(document, operation["path"]):
            operation = {**operation, "op": "add"}
        document = json_patch(document, [operation])
    return document


def _replaces(operation: Any) -> bool:
    return isinstance(operation, dict) and operation.get("op") == "replace" and isinstance(operation.get("path"), str)


def _is_missing(document: Tree, path: str) -> bool:
    """Whether a path names a missing field of an object that exists."""
    *steps, last = (step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])
    value: Any = document
    for step in steps:
        if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return isinstance(value, dict) and last not in value


_METHODS: Mapping[str, Callable[[Tree, Any], Any]] = {
    JSON_PATCH: _operations,
    MERGE_PATCH: json_merge,
    STRATEGIC_PATCH: _strategic,
}


@dataclass(frozen=True, slots=True)
class Patch:
    """A decoded patch."""

    media_type: str
    change: Any

    @classmethod
    def read(cls, kind: Kind, content_type: str, body: bytes) -> Patch:
        """The patch in the body of a request. Raises a StatusError of 400, 413 or 415."""
        media_type = decoding.media_type(content_type)
        if media_type in APPLY_PATCH:
            raise status_error(415, _APPLY)
        if media_type not in _METHODS:
            raise status_error(415, "415: Unsupported Media Type", details={})
        if kind.custom is not None and media_type == STRATEGIC_PATCH:
            raise decoding.unknown_format(JSON_PATCH, MERGE_PATCH)
        try:
            change = decoding.read_json(body)
        except ValueError as error:
            raise bad_request(f"error decoding patch: {error}") from None
        _check_shape(media_type, change)
        return cls(media_type, change)

    def apply(self, kind: Kind, present: Tree, level: str, warnings: list[str]) -> Tree:
        """The patched object, decoded and defaulted like the body of a request. Raises StatusError."""
        document = {"kind": kind.kind, "apiVersion": kind.api_version, **present}
        patched = self.apply_to(document)
        try:
            objects.check_type(kind, patched)
            problems = _read(kind, patched)
        except (WrongTypeError, StatusError) as error:
            raise self.invalid_result(document, str(error)) from None
        if problems and level == "Strict":
            raise self.invalid_result(document, field_validation.strict_error(problems))
        objects.handle_problems("", problems, level, warnings)
        objects.complete(kind, patched)
        return patched

    def apply_to(self, document: Tree) -> Tree:
        """Patch a document with `kind` and `apiVersion`. Raises a StatusError of 400, 415 or 422."""
        try:
            patched = _METHODS[self.media_type](document, self.change)
        except NoSchemaError as error:
            raise status_error(415, str(error)) from None
        except InvalidError as error:
            raise self._inapplicable(error) from None
        if not isinstance(patched, dict):
            raise invalid("", "", "", [causes.invalid("patch", encode(patched).decode(), "is no object")])
        return patched

    def _inapplicable(self, error: InvalidError) -> StatusError:
        """The error for a patch that cannot be applied to the object. For a JSON patch Kubernetes gives no reason."""
        if self.media_type == JSON_PATCH:
            return status_error(422, REJECTED, details={})
        return bad_request(str(error))

    def invalid_result(self, document: Tree, problem: str) -> StatusError:
        """422: the patched document is not a valid object of its kind."""
        shown = self.apply_to(document) if self.media_type != STRATEGIC_PATCH else self.change
        return invalid("", "", "", [causes.invalid("patch", encode(shown).decode(), problem)])


def _check_shape(media_type: str, change: Any) -> None:
    if media_type == JSON_PATCH:
        if not isinstance(change, list):
            raise bad_request("error decoding patch: a JSON patch is a list of operations")
        if len(change) > _MOST_OPERATIONS:
            limit = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(change)}"
            raise status_error(413, limit, reason="RequestEntityTooLarge", details={})
    elif not isinstance(change, dict):
        raise bad_request("error decoding patch: a merge patch is an object")


def _read(kind: Kind, patched: Tree) -> list[str]:
    patched.pop("kind", None)
    patched.pop("apiVersion", None)
    return field_validation.unknown_fields(objects.conform(kind, patched))
