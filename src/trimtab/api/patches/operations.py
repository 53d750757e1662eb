"""JSON patch (RFC 6902): a list of operations, applied one after the other, all or none.

The library `jsonpatch` applies the operations. Each operation is validated before, so that an error names the operation
and its member (`[2].path`).

The RFC is followed strictly. A Kubernetes API server is more lenient: it counts negative indices from the end of a
list, and `replace` may create a field. Patches that rely on that are refused here.

`diff` is the inverse. It is our own, because it only has to be correct and readable in an audit log: it never moves or
copies, and it replaces a list as a whole if its length changes. (Older versions of the library compute some
differences wrongly.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonpatch
from jsonpatch import JsonPointer, JsonPointerException

from trimtab.api.errors import InvalidError
from trimtab.api.patches.elements import brief, copied, kind_of

Operation = dict[str, Any]

# For each operation, its required members, and the member that must point to an existing value.
_MEMBERS = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("from", "path"),
    "copy": ("from", "path"),
    "test": ("path", "value"),
}
_EXISTING = {"remove": "path", "replace": "path", "test": "path", "move": "from", "copy": "from"}
_NOTHING = object()
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")


def json_patch(document: Any, operations: Any) -> Any:
    """The document after all operations; neither argument is changed."""
    if not isinstance(operations, list):
        raise InvalidError("", f"a JSON patch must be a list of operations, not {kind_of(operations)}")
    try:
        return _apply_all(copied(document), operations)
    except RecursionError:
        raise InvalidError("", "is nested too deeply to be patched") from None


def diff(before: Any, after: Any) -> list[Operation]:
    """The operations that turn `before` into `after`; 1, 1.0 and true are different values."""
    try:
        return list(_changes("", before, after))
    except RecursionError:
        raise InvalidError("", "is nested too deeply to be compared") from None


def _apply_all(document: Any, operations: list[Any]) -> Any:
    for index, operation in enumerate(operations):
        try:
            _check(operation)
            document = _apply(document, copied(operation))
        except InvalidError as error:
            raise error.under(f"[{index}]") from None
    return document


def _check(operation: Any) -> None:
    if not isinstance(operation, dict):
        raise InvalidError("", f"must be an object, not {kind_of(operation)}")
    name = operation.get("op")
    if not isinstance(name, str) or name not in _MEMBERS:
        raise InvalidError("op", f"must be one of {', '.join(sorted(_MEMBERS))}, not {brief(name)}")
    for member in _MEMBERS[name]:
        if member not in operation:
            raise InvalidError(member, f"is missing; {name} needs it")
        if member != "value":
            _check_pointer(member, operation[member])


def _check_pointer(member: str, pointer: Any) -> None:
    if not isinstance(pointer, str):
        raise InvalidError(member, f"must be a string, not {kind_of(pointer)}")
    try:
        JsonPointer(pointer)
    except JsonPointerException:
        raise InvalidError(member, f"{brief(pointer)} is not a JSON pointer, like /metadata/labels/a~1b") from None


def _apply(document: Any, operation: Operation) -> Any:
    existing = _EXISTING.get(operation["op"])
    if existing and _resolved(document, JsonPointer(operation[existing]).parts) is _NOTHING:
        raise InvalidError(existing, f"{brief(operation[existing])} does not exist in the document")
    try:
        return jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
    except jsonpatch.JsonPatchTestFailed:
        raise InvalidError("value", f"is not what the document has at {brief(operation['path'])}") from None
    except (jsonpatch.JsonPatchException, JsonPointerException, LookupError, TypeError, ValueError) as error:
        raise InvalidError("path", _refusal(document, operation, error)) from error


def _refusal(document: Any, operation: Operation, error: Exception) -> str:
    parent = _resolved(document, JsonPointer(operation["path"]).parts[:-1])
    if isinstance(parent, (dict, list)):
        return f"{brief(operation['path'])} cannot be used: {error}"
    # The library's message would contain the whole document.
    return f"{brief(operation['path'])} is not in an object or a list of the document"


def _resolved(value: Any, parts: list[str]) -> Any:
    """The value at the pointer. Unlike the library's lookup, it does not index strings, and `-` is nothing."""
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and _INDEX.fullmatch(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return _NOTHING
    return value


def _changes(path: str, before: Any, after: Any) -> Iterator[Operation]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _changes_of_object(path, before, after)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (left, right) in enumerate(zip(before, after, strict=True)):
            yield from _changes(f"{path}/{index}", left, right)
    elif type(before) is not type(after) or before != after:
        yield {"op": "replace", "path": path, "value": copied(after)}


def _changes_of_object(path: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Operation]:
    for key, value in before.items():
        pointer = f"{path}/{_escaped(key)}"
        if key in after:
            yield from _changes(pointer, value, after[key])
        else:
            yield {"op": "remove", "path": pointer}
    for key, value in after.items():
        if key not in before:
            yield {"op": "add", "path": f"{path}/{_escaped(key)}", "value": copied(value)}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
