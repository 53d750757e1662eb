"""From what a client sent to an object of its kind: types checked, unknown fields dropped, defaults filled in.

A built-in kind is read as Kubernetes' Go types read it (`wiretypes`), a custom one by its schema (`schemas`). What the
client must not decide is taken away here: system fields on creation, managed fields always (the lab does not keep
track of who owns which field, which is why it has no server-side apply).
"""

from __future__ import annotations

import os
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
    """The object in the body of a request, as its kind has it. `level` says what is done about unknown fields:
    Strict refuses them, Warn tells, Ignore drops them silently. Raises a Status of 400, 415 or 422."""
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
    """Make the tree what its kind allows; what was wrong with it, as far as that is not refused outright."""
    if kind.custom is None:
        problems = field_validation.read(kind.name, tree, body)
        _forget_type(tree)
        return problems
    repeated = field_validation.repeated_fields(body, tree) if body is not None else []
    _forget_type(tree)
    return repeated + field_validation.unknown_fields(conform(kind, tree))


def _forget_type(tree: Tree) -> None:
    tree.pop("apiVersion", None)
    tree.pop("kind", None)
    metadata = tree["metadata"] if isinstance(tree.get("metadata"), dict) else {}
    for field in UNMANAGED:
        metadata.pop(field, None)


def read_subresource(
    api_version: str, kind: str, body: bytes, content_type: str, level: str, warnings: list[str]
) -> Tree:
    """The same for what is sent to a subresource and is no kind of its own: a Scale, a Binding, an Eviction."""
    tree = decoding.read_object(body, content_type, kind)
    version, name = _sent_type(tree, api_version, kind)
    if (version, name) != (api_version, kind):
        group = api_version.rpartition("/")[0]
        raise bad_request(
            f'{name} in version "{version}" cannot be handled as a {kind}: {_why(group, kind, version, name)}'
        )
    handled = _handled(kind, api_version.rpartition("/")[2])
    try:
        problems = field_validation.read(f"{api_version} {kind}", tree)
    except WrongTypeError as error:
        raise bad_request(f"{handled}: {error}") from None
    handle_problems(handled, problems, level, warnings)
    return tree


def check_type(kind: Kind, tree: Tree) -> None:
    """Refuse what is another kind's."""
    sent_version, sent_kind = tree.get("apiVersion"), tree.get("kind")
    if sent_kind == kind.kind and sent_version == kind.api_version:
        return
    if kind.custom is not None:
        _check_custom_type(kind, sent_version, sent_kind, tree)
    version, name = _sent_type(tree, kind.api_version, kind.kind)
    if (version, name) != (kind.api_version, kind.kind):
        why = _why(kind.group, kind.kind, version, name)
        raise bad_request(f'{name} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def _sent_type(tree: Tree, api_version: str, kind: str) -> tuple[str, str]:
    """What an object says that it is; where it says nothing, what is expected. Raises a Status of 400."""
    sent = tree.get("apiVersion") or api_version, tree.get("kind") or kind
    for field, value in zip(("apiVersion", "kind"), sent, strict=True):
        if not isinstance(value, str):
            problem = f"json: cannot unmarshal into Go struct field .{field} of type string"
            raise bad_request(f"{_handled(kind, api_version.rpartition('/')[2])}: {problem}")
    return sent


def _why(group: str, kind: str, version: str, name: str) -> str:
    """What Go says of an object of another kind: that it cannot be converted, or that there is no such kind."""
    if not wiretypes.known(f"{version} {name}"):
        scheme = "pkg/api/legacyscheme/scheme.go:30"
        return f'no kind "{name}" is registered for version "{version}" in scheme "{scheme}"'
    package = group.partition(".")[0] or "core"
    short = version.rpartition("/")[2]
    return f"converting ({short}.{name}) to ({package}.{kind}): unknown conversion"


def conform(kind: Kind, tree: Tree) -> list[str]:
    """Make a tree without type what its kind allows, in place; the paths of what had to go. Raises WrongTypeError."""
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
    """Fill in the defaults of the kind."""
    if kind.custom is None:
        apply_defaults(kind.name, tree)
    else:
        kind.custom.schema.default(tree)


def handle_problems(prefix: str, problems: Sequence[str], level: str, warnings: list[str]) -> None:
    """Refuse, or tell, what was found in the body that should not be there."""
    if not problems or level == "Ignore":
        return
    if level == "Strict":
        raise bad_request(f"{prefix}: {field_validation.strict_error(problems)}")
    warnings.extend(problems)


def set_namespace(kind: Kind, tree: Tree, namespace: str) -> None:
    """Put the object where the path says. Raises a Status of 400 if it says otherwise itself."""
    metadata = tree["metadata"]
    if not kind.namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def wipe_system_fields(tree: Tree) -> None:
    """Forget what only the server may set on a new object."""
    metadata = tree["metadata"]
    for field in _SET_BY_SERVER:
        metadata.pop(field, None)


def fill_system_fields(tree: Tree, now: str) -> None:
    """Give a new object its identity."""
    metadata = tree["metadata"]
    metadata["uid"] = _uid()
    metadata["creationTimestamp"] = now


def _uid() -> str:
    """A random identity, written as a UUID of version 4."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def generate_name(base: str, rng: random.Random) -> str:
    """A name that starts with the base and is most likely not taken: five more letters, none that could make a word."""
    draw, pairs = rng.random, len(_PAIRS)
    first, second, last = int(draw() * pairs), int(draw() * pairs), int(draw() * len(_ALPHABET))
    return base[:_LONGEST_BASE] + _PAIRS[first] + _PAIRS[second] + _ALPHABET[last]


def check_new_version(tree: Tree) -> None:
    """A new object has no version yet."""
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
