"""The objects that a request selects: by namespace, name, labels and fields.

Every entry has its labels at hand. Fields are read from a decoded copy when they are first needed for a selection, and
then remembered; only a few fields can be selected by, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trimtab.api.selectors import EVERYTHING, FieldTerm, Selector
from trimtab_lab.apiserver.storage.store import Entry, Event, EventType, Tree

Getter = Callable[[Tree], str]


def _at(path: str) -> Getter:
    steps = path.split(".")

    def get(tree: Tree) -> str:
        value: Any = tree
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return text(value)

    return get


def text(value: Any) -> str:
    """A field's value as selectors compare it; a missing field is the empty string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _flag(path: str) -> Getter:
    get = _at(path)
    return lambda tree: get(tree) or "false"


def _number(path: str) -> Getter:
    get = _at(path)
    return lambda tree: get(tree) or "0"


def _either(first: str, second: str) -> Getter:
    get, other = _at(first), _at(second)
    return lambda tree: get(tree) or other(tree)


def _paths(*paths: str) -> dict[str, Getter]:
    return {path: _at(path) for path in paths}


METADATA_FIELDS = _paths("metadata.name", "metadata.namespace")


REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


FIELDS: Mapping[str, Mapping[str, Getter]] = {
    "/pods": {
        **_paths(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
        "spec.hostNetwork": _flag("spec.hostNetwork"),
    },
    "/events": {
        **_paths(*(f"involvedObject.{part}" for part in REFERENCE), "reason", "type"),
        "reportingComponent": _at("reportingComponent"),
        "source": _either("source.component", "reportingComponent"),
    },
    "/nodes": {"spec.unschedulable": _flag("spec.unschedulable")},
    "/namespaces": _paths("status.phase"),
    "/secrets": _paths("type"),
    "/services": _paths("spec.clusterIP", "spec.type"),
    "/replicationcontrollers": {"status.replicas": _number("status.replicas")},
    "apps/replicasets": {"status.replicas": _number("status.replicas")},
}
"""The fields that can be selected by, besides name and namespace, by collection."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects that a list or a watch selects. Watches with equal selections share a feed."""

    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: tuple[FieldTerm, ...] = ()
    collection: str = ""
    selectable: tuple[str, ...] = ()

    @property
    def is_unrestricted(self) -> bool:
        """Whether nothing but the namespace restricts the selection."""
        return self.labels.empty and not self.fields

    @property
    def prefix(self) -> str:
        """The prefix of the keys of all selected objects."""
        return f"{self.namespace}/" if self.namespace else ""

    def matches(self, entry: Entry) -> bool:
        """Whether an object is selected."""
        if self.namespace and entry.namespace != self.namespace:
            return False
        if not self.labels.empty and not self.labels.matches(entry.labels):
            return False
        return not self.fields or self._fields_match(entry)

    def view(self, event: Event) -> tuple[EventType, Entry] | None:
        """An event as a watch with this selection shows it: an object that enters is ADDED, one that leaves is
        DELETED."""
        if self.is_unrestricted:
            inside = not self.namespace or event.entry.namespace == self.namespace
            return (event.type, event.entry) if inside else None
        now = event.type != "DELETED" and self.matches(event.entry)
        before = event.previous is not None and self.matches(event.previous)
        if now:
            return ("MODIFIED" if before else "ADDED"), event.entry
        if not before or event.previous is None:
            return None
        return "DELETED", event.entry if event.type == "DELETED" else _last_view(event.previous, event.version)

    def _fields_match(self, entry: Entry) -> bool:
        values = entry.fields
        if values is None:
            tree = entry.tree()
            values = entry.fields = {
                name: get(tree) for name, get in _getters(self.collection, self.selectable).items()
            }
        return all(term.matches(values) for term in self.fields)


@lru_cache(maxsize=256)
def _getters(collection: str, selectable: tuple[str, ...]) -> Mapping[str, Getter]:
    return {**METADATA_FIELDS, **FIELDS.get(collection, {}), **_paths(*selectable)}


def _last_view(previous: Entry, version: int) -> Entry:
    """The last selected state of an object, with the version at which it left the selection."""
    return Entry(previous.key, previous.tree(), version)
