"""Pods that are seen before their owners: caches of different kinds lag by different times."""

from __future__ import annotations

import pytest

from tests.unit.kube.fakes import ScriptedTransport
from trimtab.api import annotations as keys
from trimtab.api import codec
from trimtab.api.apps import ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.stores import key_of
from trimtab.testing.builders import pod, uid_for
from trimtab.unitedtopology.view import View

KRUISE = "apps.kruise.io/v1alpha1"


def topology(kind: str, api_version: str) -> UnitedTopology:
    """A UnitedTopology of a workload called `web`."""
    target = {"apiVersion": api_version, "kind": kind, "name": "web"}
    tree = {
        "metadata": {"name": "spread", "namespace": "default"},
        "spec": {"targetRef": target, "subsets": [{"name": "a"}]},
    }
    return codec.convert(tree, UnitedTopology)


def annotated(kind: str, api_version: str, owner: str) -> Pod:
    """A pod with a reservation."""
    known = keys.SubsetAnnotations("spread", "a", "r").written()
    return pod("p").annotations(known).owned_by(owner, kind=kind, api_version=api_version).build()


@pytest.mark.parametrize(
    ("kind", "api_version", "owner_kind", "owner"),
    [
        pytest.param("Deployment", "apps/v1", "ReplicaSet", "web-1", id="a Deployment's"),
        pytest.param("ReplicaSet", "apps/v1", "ReplicaSet", "web", id="a ReplicaSet's"),
        pytest.param("CloneSet", KRUISE, "CloneSet", "web", id="a CloneSet's"),
    ],
)
def test_an_annotated_pod_counts_before_its_workload_is_cached(
    kind: str, api_version: str, owner_kind: str, owner: str
) -> None:
    """A controller that has just started must not count nothing, and free all capacity."""
    view = View(Client(ScriptedTransport()))
    of = topology(kind, api_version)
    seen = annotated(owner_kind, api_version, owner)
    view.pods.store.put(key_of(seen), seen)
    assert view.target(of) is None
    assert view.pods_of(of, None) == [seen]
    assert view.former_pods(of, None) == []


def replica_set(deployment: str) -> ReplicaSet:
    """The ReplicaSet `web-1` of a Deployment."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": "d", "controller": True}
    metadata = {"name": "web-1", "uid": uid_for("ReplicaSet/web-1"), "namespace": "default", "ownerReferences": [owner]}
    return codec.convert({"metadata": metadata, "spec": {"selector": {}, "template": {}}}, ReplicaSet)


@pytest.mark.parametrize(
    ("deployment", "early"),
    [
        pytest.param("web", True, id="of the target, which is not seen yet"),
        pytest.param("other", False, id="of another owner"),
    ],
)
def test_an_annotated_pod_counts_before_its_deployment_is_cached(deployment: str, early: bool) -> None:
    """A cache of ReplicaSets may be ahead of the one of Deployments; the pods are counted all the same."""
    view = View(Client(ScriptedTransport()))
    of, seen, above = (
        topology("Deployment", "apps/v1"),
        annotated("ReplicaSet", "apps/v1", "web-1"),
        replica_set(deployment),
    )
    view.pods.store.put(key_of(seen), seen)
    view.sets.store.put(key_of(above), above)
    assert view.pods_of(of, view.target(of)) == ([seen] if early else [])
    assert view.former_pods(of, view.target(of)) == ([] if early else [seen])


def test_an_annotated_pod_of_another_owner_is_a_former_pod() -> None:
    """Its owner is known, and is not the target."""
    view = View(Client(ScriptedTransport()))
    of = topology("CloneSet", KRUISE)
    seen = annotated("CloneSet", KRUISE, "other")
    metadata = {"name": "other", "uid": uid_for("CloneSet/other"), "namespace": seen.metadata.namespace}
    other = codec.convert({"metadata": metadata, "spec": {"selector": {}, "template": {}}}, CloneSet)
    view.pods.store.put(key_of(seen), seen)
    view.clonesets.store.put(key_of(other), other)
    assert view.pods_of(of, None) == []
    assert view.former_pods(of, None) == [seen]
