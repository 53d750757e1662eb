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


def event(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    """An Event of the core group: only the legacy rules apply."""
    del old
    _legacy_event(tree, tree.get("involvedObject") or {}, "reportingComponent", "message", causes)


def new_event(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    """An Event of `events.k8s.io/v1`; its messages use the field names of the core group."""
    _legacy_event(tree, tree.get("regarding") or {}, "reportingController", "note", causes)
    if old is not None:
        metadata.validate_update(tree["metadata"], old["metadata"], causes)
        for field, key in _EVENT_FIXED:
            causes += immutable(field, tree.get(key), old.get(key))
        return
    metadata.validate_create(tree["metadata"], causes, namespaced=True, name=names.subdomain)
    _series(tree.get("series"), causes)
    if not tree.get("eventTime"):
        causes.append(required("eventTime"))
    if tree.get("type", "") not in ("Normal", "Warning"):
        causes.append(invalid("type", "", f"has invalid value: {tree.get('type', '')}"))
    for field, key in _EVENT_UNSET:
        if any(tree[key].values()) if isinstance(tree.get(key), dict) else tree.get(key):
            causes.append(invalid(field, "", "needs to be unset"))


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


def _series(series: Tree | None, causes: Causes) -> None:
    if series is None:
        return
    if series.get("count", 0) < 2:
        causes.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        causes.append(required("series.lastObservedTime"))


def _legacy_event(tree: Tree, about: Tree, reporter: str, message: str, causes: Causes) -> None:
    namespace, involved = tree["metadata"].get("namespace", ""), about.get("namespace", "")
    mismatch = invalid("involvedObject.namespace", involved, "does not match event.namespace")
    if not tree.get("eventTime"):
        if namespace not in (("", "default") if not involved else (involved,)):
            causes.append(mismatch)
    else:
        if not involved and namespace not in ("default", "kube-system"):
            causes.append(mismatch)
        _reported(tree, reporter, message, causes)
    causes += each("namespace", namespace, names.subdomain(namespace))


def _reported(tree: Tree, reporter: str, message: str, causes: Causes) -> None:
    if not tree.get(reporter):
        causes.append(required(reporter))
    causes += each(reporter, tree.get(reporter, ""), names.qualified(tree.get(reporter, "")))
    for field in ("reportingInstance", "action", "reason"):
        text: Any = tree.get(field, "")
        if not text:
            causes.append(required(field))
        elif len(text) > 128:
            causes.append(invalid(field, "", "can have at most 128 characters"))
    if len(tree.get(message, "")) > 1024:
        causes.append(invalid("message", "", "can have at most 1024 characters"))
