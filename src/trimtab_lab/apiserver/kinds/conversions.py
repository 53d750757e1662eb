"""Kinds that are stored in another form than they are asked for.

There is one: the event of `events.k8s.io`, which is the core event under other names. The versions of a custom kind
need no conversion: they differ in `apiVersion` alone.
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
"""The core event's name of a field, and the other's."""


def _renamed(names: Mapping[str, str], kind: str) -> Callable[[Tree], Tree]:
    """Rename fields, and leave out or write out what is empty as the other kind does."""

    def renamed(tree: Tree) -> Tree:
        other = {names.get(key, key): value for key, value in tree.items()}
        wiretypes.read(kind, other)
        return other

    return renamed


FROM_STORED: Mapping[str, Callable[[Tree], Tree]] = {
    "events.k8s.io/v1 Event": _renamed(_EVENT_FIELDS, "events.k8s.io/v1 Event")
}
"""By kind: how it looks, given what is stored."""

TO_STORED: Mapping[str, Callable[[Tree], Tree]] = {
    "events.k8s.io/v1 Event": _renamed({other: core for core, other in _EVENT_FIELDS.items()}, "v1 Event")
}
"""By kind: what is stored, given how it looks."""
