"""From a request's body to an object of its kind: types are checked, unknown fields dropped, defaults set.

A built-in kind is read as Kubernetes' Go types read it (`wiretypes`), a custom one by its schema (`schemas`). Fields
that clients cannot set are removed: system fields on creation, managed fields always (the lab does not track field
managers, and therefore has no server-side apply).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from trimtab_lab.apiserver.kinds.defaults import apply_defaults
from trimtab_lab.apiserver.kinds.errors import bad_request, invalid, status_error
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.serialization import decoding, field_validation, wiretypes
from trimtab_lab.apiserver.kinds.serialization.wirevalues import WrongTypeError
from trimtab_lab.apiserver.kinds.validation import causes
from trimtab_lab.apiserver.storage.store import Tree

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SUFFIX = 5
_LONGEST_BASE = 63 - _SUFFIX
_METADATA = (None, "metadata")
_SET_BY_SERVER = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")

UNMANAGED = ("managedFields", "selfLink")


def read(kind: Kind, body: bytes, content_type: str, level: str, warnings: list[str]) -> Tree:
    """The object in the body of a request. `level` is the field validation: unknown fields are rejected (Strict),
    reported as warnings (Warn) or dropped silently (Ignore). Raises a StatusError of 400, 415 or 422."""
    tree = decoding.read_object(body, content_type, kind.kind)
    check_type(kind, tree)
    written = body if level != "Ignore" and decoding.is_json(content_type) else None
    try:
        problems = _problems(kind, tree, written)
    except WrongTypeError as error:
        raise bad_request(f"{_handled(kind.kind, kind.version)}: {error}") from None
    handle_problems(_handled(kind.kind, kind.version), problems, level, warnings)
    return tree


def _problems(kind: Kind, tree: Tree, body: bytes | None) -> list[str]:
    """Convert a tree to its kind, in place; returns the unknown and repeated fields."""
    if kind.custom is None:
        problems = field_validation.read(kind.name, tree, body)
        _drop_type(tree)
        return problems
    repeated = field_validation.repeated_fields(body, tree) if body is not None else []
    _drop_type(tree)
    return repeated + field_validation.unknown_fields(conform(kind, tree))


def _drop_type(tree: Tree) -> None:
    tree.pop("apiVersion", None)
    tree.pop("kind", None)
    metadata = tree["metadata"] if isinstance(tree.get("metadata"), dict) else {}
    for field in UNMANAGED:
        metadata.pop(field, None)


def read_subresource(
    api_version: str, kind: str, body: bytes, content_type: str, level: str, warnings: list[str]
) -> Tree:
    """The same for the body of a subresource request that has its own kind: a Scale, a Binding, an Eviction."""
    tree = decoding.read_object(body, content_type, kind)
    version, name = _sent_type(tree, api_version, kind)
    if (version, name) != (api_version, kind):
        problem = _conversion_error(api_version.rpartition("/")[0], kind, version, name)
        raise bad_request(f'{name} in version "{version}" cannot be handled as a {kind}: {problem}')
    handled = _handled(kind, api_version.rpartition("/")[2])
    try:
        problems = field_validation.read(f"{api_version} {kind}", tree)
    except WrongTypeError as error:
        raise bad_request(f"{handled}: {error}") from None
    handle_problems(handled, problems, level, warnings)
    return tree


def check_type(kind: Kind, tree: Tree) -> None:
    """Raise a StatusError if an object is of another kind."""
    sent_version, sent_kind = tree.get("apiVersion"), tree.get("kind")
    if sent_kind == kind.kind and sent_version == kind.api_version:
        return
    if kind.custom is not None:
        _check_custom_type(kind, sent_version, sent_kind, tree)
    version, name = _sent_type(tree, kind.api_version, kind.kind)
    if (version, name) != (kind.api_version, kind.kind):
        why = _conversion_error(kind.group, kind.kind, version, name)
        raise bad_request(f'{name} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def _sent_type(tree: Tree, api_version: str, kind: str) -> tuple[str, str]:
    """The type that an object states, by default the expected one. Raises a StatusError of 400."""
    sent = tree.get("apiVersion") or api_version, tree.get("kind") or kind
    for field, value in zip(("apiVersion", "kind"), sent, strict=True):
        if not isinstance(value, str):
            problem = f"json: cannot unmarshal into Go struct field .{field} of type string"
            raise bad_request(f"{_handled(kind, api_version.rpartition('/')[2])}: {problem}")
    return sent


def _conversion_error(group: str, kind: str, version: str, name: str) -> str:
    """Go's message for an object of another kind: there is no conversion, or no such kind."""
    if not wiretypes.known(f"{version} {name}"):
        scheme = "pkg/api/legacyscheme/scheme.go:30"
        return f'no kind "{name}" is registered for version "{version}" in scheme "{scheme}"'
    package = group.partition(".")[0] or "core"
    short = version.rpartition("/")[2]
    return f"converting ({short}.{name}) to ({package}.{kind}): unknown conversion"


def conform(kind: Kind, tree: Tree) -> list[str]:
    """Convert a tree without type to its kind, in place; returns the paths of dropped fields. Raises WrongTypeError."""
    if kind.custom is None:
        unknown = wiretypes.read(kind.name, tree)
    else:
        decoding.without_huge_numbers(tree)
        unknown = []
        metadata = tree.get("metadata")
        tree["metadata"] = _OBJECT_META.read({} if metadata is None else metadata, _METADATA, unknown)
        unknown += kind.custom.schema.prune(tree)
    metadata = tree["metadata"]
    for field in UNMANAGED:
        metadata.pop(field, None)
    return unknown


_OBJECT_META = wiretypes.struct_named("meta.v1.ObjectMeta")


def complete(kind: Kind, tree: Tree) -> None:
    """Set the defaults of the kind."""
    if kind.custom is None:
        apply_defaults(kind.name, tree)
    else:
        kind.custom.schema.default(tree)


def handle_problems(prefix: str, problems: Sequence[str], level: str, warnings: list[str]) -> None:
    """Reject the body, or add warnings, for unknown and repeated fields."""
    if not problems or level == "Ignore":
        return
    if level == "Strict":
        raise bad_request(f"{prefix}: {field_validation.strict_error(problems)}")
    warnings.extend(problems)


def set_namespace(kind: Kind, tree: Tree, namespace: str) -> None:
    """Set the namespace of the path. Raises a StatusError of 400 if the object states another one."""
    metadata = tree["metadata"]
    if not kind.namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def wipe_system_fields(tree: Tree) -> None:
    """Remove the fields of a new object that only the server may set."""
    metadata = tree["metadata"]
    for field in _SET_BY_SERVER:
        metadata.pop(field, None)


def fill_system_fields(tree: Tree, now: str, rng: random.Random) -> None:
    """Set uid and creation time of a new object."""
    metadata = tree["metadata"]
    metadata["uid"] = _uid(rng)
    metadata["creationTimestamp"] = now


def _uid(rng: random.Random) -> str:
    """A random UUID of version 4."""
    digits = f"{rng.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def generate_name(base: str, rng: random.Random) -> str:
    """The base with five random characters, from an alphabet that forms no words."""
    draw, pairs = rng.random, len(_PAIRS)
    first, second, last = int(draw() * pairs), int(draw() * pairs), int(draw() * len(_ALPHABET))
    return base[:_LONGEST_BASE] + _PAIRS[first] + _PAIRS[second] + _ALPHABET[last]


def check_new_version(tree: Tree) -> None:
    """Raise a StatusError if a new object states a resource version."""
    if tree["metadata"].get("resourceVersion"):
        raise status_error(500, "resourceVersion should not be set on objects to be created", reason="")


def _check_custom_type(kind: Kind, version: object, name: object, tree: Tree) -> None:
    if not name:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing"
        )
    if version != kind.api_version:
        expected = f"does not match the expected API version ({kind.api_version})"
        raise bad_request(f"the API version in the data ({version or ''}) {expected}")
    metadata = tree.get("metadata")
    object_name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    raise invalid(kind.group, str(name), str(object_name), [causes.invalid("kind", name, f"must be {kind.kind}")])


def _handled(kind: str, version: str) -> str:
    return f'{kind} in version "{version}" cannot be handled as a {kind}'
