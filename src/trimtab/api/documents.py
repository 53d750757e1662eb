"""Raw JSON documents, beside the typed views that decisions use.

A partial type loses the fields that it does not have. So a template, a patch or an admitted object is kept as bytes:
`codec.view` reads it with a type, `tree` returns a copy that may be changed and written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from trimtab.api import complexity
from trimtab.api.errors import InvalidError

JSON = dict[str, Any]
"""A JSON object as plain Python values."""

P = ParamSpec("P")
T = TypeVar("T")

_KEPT: Mapping[int, int] = {4096: 4096, 65_536: 256}
_LARGE_KEPT = 16
"""How many documents of at most so many bytes are kept, and how many larger ones: whoever may create workloads could
fill the memory with templates."""


class Document:
    """An immutable JSON object with every field, of limited depth and number of values.

    Equal documents have equal text, so a document can be a dictionary key. The limits (see `complexity`) are what
    allows functions on its tree to recurse, and to visit each value.
    """

    __slots__ = ("_text",)

    def __init__(self, value: Mapping[str, Any]) -> None:
        try:
            self._text = msgspec.json.encode(value)
        except RecursionError:
            raise ValueError(complexity.TOO_DEEP) from None
        _check(self._text)

    @classmethod
    def of_text(cls, text: bytes) -> Document:
        """The document of a JSON object that is text already, without decoding it."""
        if not text.startswith(b"{"):
            raise ValueError("is not an object")
        _check(text)
        document = cls.__new__(cls)
        document._text = text  # noqa: SLF001 - of the same class
        return document

    @property
    def text(self) -> bytes:
        """The document as JSON."""
        return self._text

    def tree(self) -> JSON:
        """A copy as plain values, which the caller may change."""
        tree: JSON = msgspec.json.decode(self._text)
        return tree

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Document) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Document({self._text.decode()})"


def without_nulls(value: Any) -> Any:
    """Plain values without the fields that are null, which Kubernetes treats as absent."""
    if isinstance(value, dict):
        return {
            name: without_nulls(part) if type(part) in _NESTED else part
            for name, part in value.items()
            if part is not None
        }
    if isinstance(value, list):
        return [without_nulls(part) if type(part) in _NESTED else part for part in value]
    return value


_NESTED = (dict, list)


def _check(text: bytes) -> None:
    if problem := complexity.problem(text):
        raise ValueError(problem)


def kept(function: Callable[Concatenate[Document, P], T]) -> Callable[Concatenate[Document, P], T]:
    """A function of a document whose results are kept; of large documents, only those of the latest few."""
    by_size = [(size, lru_cache(most)(function)) for size, most in _KEPT.items()]
    results_of_large = lru_cache(_LARGE_KEPT)(function)

    @wraps(function)
    def find(document: Document, /, *args: P.args, **kwargs: P.kwargs) -> T:
        length = len(document.text)
        found = next((results for size, results in by_size if length <= size), results_of_large)
        return found(document, *args, **kwargs)  # type: ignore[arg-type]

    return find


def pod_from_template(
    template: Document, *, namespace: str, owner: JSON, generate_name: str = "", name: str = ""
) -> JSON:
    """The pod that a controller creates from a template: every field of the template, and the owner.

    `owner` is the raw controller reference. `name` wins over `generate_name`; one of them is required.
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
