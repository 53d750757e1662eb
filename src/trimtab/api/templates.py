"""Templates of pods: when two are the same, and the hash that names one. Pure.

An API server has read, defaulted and written every template, so what they say is in one form, except for the order of
fields: two are the same if they are equal as values. A workload that writes its hash into the template it hands on adds
a label, `pod-template-hash`, which does not count.

The hash is ten letters of a digest of that form. It is stable over restarts and the same for the same template, and
differs from the one that Kubernetes would compute, which hangs on how Go prints a structure. Where two templates have
the same hash, or somebody else has taken the name, their owner counts a collision, which goes into the next hash.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import msgspec

from trimtab.api.documents import Document

HASH_LABEL = "pod-template-hash"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Those that Kubernetes uses for generated names: no words come of them."""
_LENGTH = 10
_LONGEST_NAME = 253


@functools.lru_cache(maxsize=4096)
def canonical(template: Document) -> bytes:
    """The one form of all templates that are the same."""
    tree = _without_nulls(template.tree())
    labels = tree.get("metadata", {}).get("labels")
    if labels is not None:
        labels.pop(HASH_LABEL, None)
        if not labels:
            del tree["metadata"]["labels"]
    return msgspec.json.encode(tree, order="sorted")


def same(one: Document | None, other: Document | None) -> bool:
    """Whether pods made from them would be the same."""
    if one is None or other is None:
        return one is other
    return canonical(one) == canonical(other)


def digest(template: Document, collisions: int | None) -> str:
    """The hash of a template."""
    salt = b"" if collisions is None else b"%d" % collisions
    return safe_hash(canonical(template) + b"\0" + salt, _LENGTH)


def safe_hash(data: bytes, length: int) -> str:
    """So many letters that follow from the data: the same from the same, others from others."""
    number = int.from_bytes(hashlib.blake2b(data, digest_size=16).digest(), "big")
    found = []
    for _ in range(length):
        number, letter = divmod(number, len(_LETTERS))
        found.append(_LETTERS[letter])
    return "".join(found)


def name_of(owner: str, suffix: str) -> str:
    """What is called after its owner; a long name is cut so that the suffix fits."""
    return f"{owner[: _LONGEST_NAME - len(suffix) - 1]}-{suffix}"


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value]
    return value
