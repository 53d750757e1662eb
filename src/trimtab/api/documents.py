"""Raw JSON kept whole, beside the typed view that decisions use.

A partial type forgets what it does not know. So a template, a patch or an admitted object is kept as the bytes it was
written in: `codec.view` reads it with a type, `tree` gives a copy that may be changed and written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trimtab.api.errors import InvalidError

JSON = dict[str, Any]
"""A JSON object as plain Python values."""


class Document:
    """A JSON object, immutable and whole: no field is lost between reading and writing it.

    Equal documents have equal text, so a document can key a table; a thousand ReplicaSets of one template cost one.
    """

    __slots__ = ("_text",)

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._text = msgspec.json.encode(value)

    @property
    def text(self) -> bytes:
        """The document as JSON."""
        return self._text

    def tree(self) -> JSON:
        """A fresh copy as plain values, the caller's to change."""
        tree: JSON = msgspec.json.decode(self._text)
        return tree

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Document) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Document({self._text.decode()})"


def pod_from_template(
    template: Document, *, namespace: str, owner: JSON, generate_name: str = "", name: str = ""
) -> JSON:
    """The pod that a controller creates from a template: every field of the template, and its owner.

    `owner` is the raw controller reference. A name wins over a prefix; one of them must be given.
    """
    tree = template.tree()
    metadata = tree.get("metadata") or {}
    if not name and not generate_name:
        raise InvalidError("metadata.name", "a pod needs a name or a generateName")
    made: JSON = {**metadata, "namespace": namespace, "ownerReferences": [owner]}
    made.pop("creationTimestamp", None)
    made.pop("name", None)
    made.pop("generateName", None)
    made |= {"name": name} if name else {"generateName": generate_name}
    return {**tree, "apiVersion": "v1", "kind": "Pod", "metadata": made}
