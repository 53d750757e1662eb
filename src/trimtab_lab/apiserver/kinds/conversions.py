"""Kinds that are stored as another kind.

There is one: the Event of `events.k8s.io`, which is the core Event with other field names. The versions of a custom
kind need no conversion: they differ in `apiVersion` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trimtab_lab.apiserver.kinds.serialization import wiretypes
from trimtab_lab.apiserver.storage.store import Tree

_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
"""The field names of the core Event, and those of the Event of `events.k8s.io`."""


def _renamed(names: Mapping[str, str], kind: str) -> Callable[[Tree], Tree]:
    """A function that renames fields, and normalizes empty values as the other kind does."""

    def renamed(tree: Tree) -> Tree:
        other = {names.get(key, key): value for key, value in tree.items()}
        wiretypes.read(kind, other)
        return other

    return renamed


FROM_STORED: Mapping[str, Callable[[Tree], Tree]] = {
    "events.k8s.io/v1 Event": _renamed(_EVENT_FIELDS, "events.k8s.io/v1 Event")
}
"""By kind: the conversion from the stored kind."""

TO_STORED: Mapping[str, Callable[[Tree], Tree]] = {
    "events.k8s.io/v1 Event": _renamed({other: core for core, other in _EVENT_FIELDS.items()}, "v1 Event")
}
"""By kind: the conversion to the stored kind."""
