"""The view of scale-downs: what its snapshot holds beside pods and nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.scaledown.policy_cluster import PolicyCluster, deployment
from trimtab.api.apps import StatefulSet
from trimtab.api.core import Service
from trimtab.kube.resources import Resource


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        pytest.param(Service, {"selector": {"app": "web"}, "ports": [{"port": 80}]}, id="services"),
        pytest.param(StatefulSet, deployment("web", 0)["spec"], id="stateful sets"),
    ],
)
async def test_the_snapshot_has_what_selectors_are_deduced_from(kind: type[Any], spec: dict[str, Any]) -> None:
    """Schedulers deduce the selector of default constraints from these: so does `Scheduled`."""
    cluster = PolicyCluster()
    await cluster.start()
    resource = Resource.of(kind).raw
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "web"}, "spec": spec}
    await cluster.user.create(resource, body, namespace="default")
    await cluster.settle()
    assert cluster.view.snapshot.group(kind, "default", "web") is not None
    await cluster.user.delete(resource, "web", namespace="default")
    await cluster.settle()
    assert cluster.view.snapshot.group(kind, "default", "web") is None
    await cluster.close()
