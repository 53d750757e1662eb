"""Validation of Events."""

from __future__ import annotations

from typing import Any

from trimtab_lab.apiserver.kinds.validation import metadata, names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    each,
    immutable,
    invalid,
    required,
)
from trimtab_lab.apiserver.storage.store import Tree


def event(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    """An Event of the core group: only the legacy rules apply."""
    del old
    _legacy_event(tree, tree.get("involvedObject") or {}, "reportingComponent", "message", found)


def new_event(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    """An Event of `events.k8s.io/v1`; its messages use the field names of the core group."""
    _legacy_event(tree, tree.get("regarding") or {}, "reportingController", "note", found)
    if old is not None:
        metadata.updated(tree["metadata"], old["metadata"], found)
        for field, key in _EVENT_FIXED:
            found += immutable(field, tree.get(key), old.get(key))
        return
    metadata.created(tree["metadata"], found, namespaced=True, name=names.subdomain)
    _series(tree.get("series"), found)
    if not tree.get("eventTime"):
        found.append(required("eventTime"))
    if tree.get("type", "") not in ("Normal", "Warning"):
        found.append(invalid("type", "", f"has invalid value: {tree.get('type', '')}"))
    for field, key in _EVENT_UNSET:
        if any(tree[key].values()) if isinstance(tree.get(key), dict) else tree.get(key):
            found.append(invalid(field, "", "needs to be unset"))


_EVENT_UNSET = (
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("source", "deprecatedSource"),
)
_EVENT_FIXED = (
    ("involvedObject", "regarding"),
    ("reason", "reason"),
    ("message", "note"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)


def _series(series: Tree | None, found: Causes) -> None:
    if series is None:
        return
    if series.get("count", 0) < 2:
        found.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        found.append(required("series.lastObservedTime"))


def _legacy_event(tree: Tree, about: Tree, reporter: str, message: str, found: Causes) -> None:
    namespace, involved = tree["metadata"].get("namespace", ""), about.get("namespace", "")
    mismatch = invalid("involvedObject.namespace", involved, "does not match event.namespace")
    if not tree.get("eventTime"):
        if namespace not in (("", "default") if not involved else (involved,)):
            found.append(mismatch)
    else:
        if not involved and namespace not in ("default", "kube-system"):
            found.append(mismatch)
        _reported(tree, reporter, message, found)
    found += each("namespace", namespace, names.subdomain(namespace))


def _reported(tree: Tree, reporter: str, message: str, found: Causes) -> None:
    if not tree.get(reporter):
        found.append(required(reporter))
    found += each(reporter, tree.get(reporter, ""), names.qualified(tree.get(reporter, "")))
    for field in ("reportingInstance", "action", "reason"):
        text: Any = tree.get(field, "")
        if not text:
            found.append(required(field))
        elif len(text) > 128:
            found.append(invalid(field, "", "can have at most 128 characters"))
    if len(tree.get(message, "")) > 1024:
        found.append(invalid("message", "", "can have at most 1024 characters"))
