"""ReplicaSets and Deployments in words, for tests of their controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.api import codec
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.testing.builders import uid_for
from trimtab_lab.testing import labs
from trimtab_lab.workloads.deployment import revisions, templates

START = "2026-01-01T00:00:00Z"
JSON = dict[str, Any]


def template(image: str = "app:1", **labels: str) -> JSON:
    """A template of pods with that image."""
    return {
        "metadata": {"labels": labels or {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


def replicaset(
    name: str,
    size: int,
    *,
    available: int | None = None,
    replicas: int | None = None,
    image: str = "app:1",
    revision: int | str | None = None,
    desired: int | None = None,
    most: int | None = None,
    created: str = START,
    conditions: tuple[JSON, ...] = (),
    **metadata: Any,
) -> ReplicaSet:
    """A ReplicaSet of that size; by default all its pods exist and are available."""
    told = {revisions.REVISION: revision, revisions.DESIRED_REPLICAS: desired, revisions.MAX_REPLICAS: most}
    annotations = {key: str(value) for key, value in told.items() if value is not None}
    available = size if available is None else available
    tree = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid_for(f"ReplicaSet/{name}"),
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": created,
            "labels": {"app": "web"},
            "annotations": annotations,
            **metadata,
        },
        "spec": {
            "replicas": size,
            "selector": {"matchLabels": {"app": "web", templates.HASH_LABEL: name}},
            "template": template(image, app="web", **{templates.HASH_LABEL: name}),
        },
        "status": {
            "replicas": size if replicas is None else replicas,
            "readyReplicas": available,
            "availableReplicas": available,
            "observedGeneration": 1,
            "conditions": list(conditions),
        },
    }
    return codec.convert(tree, ReplicaSet)


def deployment_tree(
    name: str = "web",
    replicas: int = 3,
    *,
    image: str = "app:1",
    surge: int | str = "25%",
    unavailable: int | str = "25%",
    strategy: str = "RollingUpdate",
    **spec: Any,
) -> JSON:
    """The manifest of a Deployment."""
    rolling = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    kind = {"type": strategy} | (rolling if strategy == "RollingUpdate" else {})
    return labs.deployment(name, replicas, image=image, strategy=kind, **spec)


def deployment(
    replicas: int = 3,
    *,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    deadline: int | None = 600,
    history: int | None = 10,
    **more: Any,
) -> Deployment:
    """A Deployment called web, as an API server would show it."""
    tree = deployment_tree("web", replicas, progressDeadlineSeconds=deadline, revisionHistoryLimit=history, **more)
    known = {"uid": uid_for("Deployment/web"), "resourceVersion": "5", "generation": 1}
    tree["metadata"] |= {**known, **(metadata or {})}
    tree["status"] = dict(status or {})
    return codec.convert(tree, Deployment)
