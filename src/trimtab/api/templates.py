"""Pod templates: equality and hashes. Pure.

An API server has decoded, defaulted and encoded every template, so all are in one form except for the order of fields:
two templates are the same if they are equal as values. The label `pod-template-hash`, which a workload adds to the
template that it passes on, is ignored.

The hash is ten characters of a digest of that form. It is stable over restarts, and differs from the one that
Kubernetes computes, which depends on how Go prints a structure. If two templates have the same hash, or the name is in
use, the owner counts a collision, which changes the next hash.
"""

from __future__ import annotations

import hashlib

import msgspec

from trimtab.api import codec
from trimtab.api.documents import Document, kept, without_nulls
from trimtab.api.errors import InvalidError
from trimtab.api.pods import PodTemplateSpec

HASH_LABEL = "pod-template-hash"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The characters that Kubernetes uses in generated names: they form no words."""
_LENGTH = 10
_LONGEST_NAME = 253


@kept
def canonical(template: Document) -> bytes:
    """The canonical form of a template, equal for templates that are the same."""
    tree = without_nulls(template.tree())
    labels = tree.get("metadata", {}).get("labels")
    if labels is not None:
        labels.pop(HASH_LABEL, None)
        if not labels:
            del tree["metadata"]["labels"]
    return msgspec.json.encode(tree, order="sorted")


def has_scheduling_group(template: Document | None) -> bool:
    """Whether pods of a template belong to a scheduling group: they are placed, and may be disrupted, together."""
    try:
        return template is not None and codec.view(template, PodTemplateSpec).spec.scheduling_group is not None
    except InvalidError:
        return False


def same(one: Document | None, other: Document | None) -> bool:
    """Whether two templates create the same pods."""
    if one is None or other is None:
        return one is other
    return canonical(one) == canonical(other)


def digest(template: Document, collisions: int | None) -> str:
    """The hash of a template."""
    salt = b"" if collisions is None else b"%d" % collisions
    return safe_hash(canonical(template) + b"\0" + salt, _LENGTH)


def safe_hash(data: bytes, length: int) -> str:
    """A hash of the data of so many characters that are safe in names."""
    number = int.from_bytes(hashlib.blake2b(data, digest_size=16).digest(), "big")
    characters = []
    for _ in range(length):
        number, letter = divmod(number, len(_LETTERS))
        characters.append(_LETTERS[letter])
    return "".join(characters)


def name_of(owner: str, suffix: str) -> str:
    """The owner's name with a suffix; a long name is truncated so that the suffix fits."""
    return f"{owner[: _LONGEST_NAME - len(suffix) - 1]}-{suffix}"
