"""The view of scale-downs: what its snapshot holds beside pods and nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer
from tests.unit.scaledown.policy_cluster import PolicyCluster
from trimtab.api.annotations import POLICY_COST, RANKED_AMONG
from trimtab.api.apps import StatefulSet
from trimtab.api.core import Service
from trimtab.kube.client import Client
from trimtab.kube.resources import Resource
from trimtab.scaledown.pod_costs import by_policy_annotation
from trimtab.scaledown.view import BY_NAMESPACE, BY_POLICY, View
from trimtab.testing.builders import pod
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.testing.labs import deployment


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


def test_of_pods_only_those_that_a_policy_wrote_to_are_indexed_by_namespace() -> None:
    """An entry for each of 50,000 pods is memory; costs are written to few of them."""
    view = View(Client(FakeServer(VirtualClock())))
    assert view.pods.store.values(BY_POLICY) == []
    with pytest.raises(KeyError):
        view.pods.store.values(BY_NAMESPACE)
    written = [pod("web").annotations({key: "{}"}).build() for key in (POLICY_COST, RANKED_AMONG)]
    assert [tuple(by_policy_annotation(each)) for each in written] == [("default",), ("default",)]
    assert tuple(by_policy_annotation(pod("web").build())) == ()
