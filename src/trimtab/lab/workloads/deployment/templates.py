"""Templates of pods: when two are the same, the hash that names one, and the ReplicaSet that is made from it. Pure.

A ReplicaSet's template is its Deployment's with one label more, `pod-template-hash`. The API server has read, defaulted
and written both, so what they say is in one form, except for the order of fields: two are the same if they are equal
as values without that label.

The hash is ten letters of a digest of that form. It is stable over restarts and the same for the same template, and
differs from the one that Kubernetes would compute, which hangs on how Go prints a structure. Where two templates have
the same hash, or somebody else has taken the name, the Deployment counts a collision, which goes into the next hash.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import msgspec

from trimtab.api import codec
from trimtab.api.apps import Deployment
from trimtab.api.documents import JSON, Document
from trimtab.api.meta import LabelSelector

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
    number = int.from_bytes(hashlib.blake2b(canonical(template) + b"\0" + salt, digest_size=16).digest(), "big")
    letters = []
    for _ in range(_LENGTH):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)


def name_of(deployment: str, a_digest: str) -> str:
    """What the ReplicaSet is called; a long name is cut so that the hash fits."""
    return f"{deployment[: _LONGEST_NAME - len(a_digest) - 1]}-{a_digest}"


def labelled(template: Document, a_digest: str) -> JSON:
    """The template with its hash."""
    tree = template.tree()
    metadata = tree.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), HASH_LABEL: a_digest}
    return tree


def selector_with(selector: LabelSelector, a_digest: str) -> JSON:
    """The selector, narrowed to pods of one template."""
    tree: JSON = codec.to_tree(selector)
    return {**tree, "matchLabels": {**selector.match_labels, HASH_LABEL: a_digest}}


def hash_for(deployment: Deployment) -> str:
    """The hash of a Deployment's template now."""
    return digest(template_of(deployment), deployment.status.collision_count)


def template_of(deployment: Deployment) -> Document:
    """A Deployment's template; no API server takes one without."""
    return deployment.spec.template or Document({})


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value]
    return value
