"""Rows of workloads."""

from __future__ import annotations

from typing import Any

from trimtab_lab.apiserver.kinds.printers.cells import (
    NONE,
    age_of,
    container_cells,
    format_labels,
    format_selector,
    name_of,
    status_count,
)
from trimtab_lab.apiserver.storage.store import Tree


def deployment_cells(tree: Tree, now: int) -> list[Any]:
    spec, status = tree["spec"], tree.get("status") or {}
    return [
        name_of(tree),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(tree, now),
        *container_cells(spec.get("template")),
        format_selector(spec.get("selector"), empty="", bad="<invalid>"),
    ]


def replica_set_cells(tree: Tree, now: int) -> list[Any]:
    return [*_counts(tree, now), format_selector(tree["spec"].get("selector"))]


def replication_controller_cells(tree: Tree, now: int) -> list[Any]:
    return [*_counts(tree, now), format_labels(tree["spec"].get("selector"))]


def _counts(tree: Tree, now: int) -> list[Any]:
    spec, status = tree["spec"], tree.get("status") or {}
    numbers = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [name_of(tree), *numbers, age_of(tree, now), *container_cells(spec.get("template"))]


def stateful_set_cells(tree: Tree, now: int) -> list[Any]:
    ready = f"{status_count('readyReplicas')(tree)}/{tree['spec'].get('replicas', 0)}"
    return [name_of(tree), ready, age_of(tree, now), *container_cells(tree["spec"].get("template"))]


_DAEMON_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


def daemon_set_cells(tree: Tree, now: int) -> list[Any]:
    spec = tree["spec"]
    return [
        name_of(tree),
        *(status_count(field)(tree) for field in _DAEMON_COUNTS),
        format_labels(((spec.get("template") or {}).get("spec") or {}).get("nodeSelector")),
        age_of(tree, now),
        *container_cells(spec.get("template")),
        format_selector(spec.get("selector")),
    ]


def pod_template_cells(tree: Tree, _now: int) -> list[Any]:
    template = tree.get("template") or {}
    return [name_of(tree), *container_cells(template), format_labels((template.get("metadata") or {}).get("labels"))]


def controller_of(tree: Tree) -> str:
    for owner in tree["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = f"{owner['kind']}.{group}" if group else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return NONE
