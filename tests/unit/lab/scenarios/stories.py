"""A small story to change in tests."""

from __future__ import annotations

import copy
from typing import Any

from trimtab_lab.scenarios import stories
from trimtab_lab.scenarios.stories import Story

TREE: dict[str, Any] = {
    "name": "small",
    "cluster": {"zones": [{"name": "zone-a", "nodes": 2}, {"name": "zone-b", "nodes": 2}]},
    "workloads": [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 4,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "example.com/web:1", "stdin": True}]},
                },
            },
        }
    ],
    "steps": [{"wait": {"ready": 4}}],
}


def tree(**changes: Any) -> dict[str, Any]:
    """The story as plain values, with other fields."""
    return {**copy.deepcopy(TREE), **changes}


def story(*steps: dict[str, Any], **changes: Any) -> Story:
    """The story with these steps."""
    return stories.read(tree(**changes, **({"steps": list(steps)} if steps else {})))


def scale(replicas: int, **more: Any) -> dict[str, Any]:
    """A step that scales the workload."""
    return {"scale": {"kind": "Deployment", "name": "web", "replicas": replicas}, **more}
