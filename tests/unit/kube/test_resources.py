"""What kinds are called on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api.apps import Deployment, Scale
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace
from trimtab.api.crds import KINDS
from trimtab.api.leases import Lease
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import RESOURCES, Key, Resource, object_key, split, untyped


@pytest.mark.parametrize(
    ("model", "name", "namespace", "subresource", "want"),
    [
        pytest.param(Pod, "web", "prod", "", "/api/v1/namespaces/prod/pods/web", id="the core group"),
        pytest.param(Node, "n1", "", "", "/api/v1/nodes/n1", id="a kind without namespaces"),
        pytest.param(Namespace, "prod", "", "", "/api/v1/namespaces/prod", id="a namespace itself"),
        pytest.param(
            Deployment, "d", "p", "scale", "/apis/apps/v1/namespaces/p/deployments/d/scale", id="a subresource"
        ),
        pytest.param(
            Lease,
            "a:b",
            "p",
            "",
            "/apis/coordination.k8s.io/v1/namespaces/p/leases/a%3Ab",
            id="what a path must encode",
        ),
    ],
)
def test_the_path_of_an_object(model: type[Any], name: str, namespace: str, subresource: str, want: str) -> None:
    """Paths are as an API server expects them."""
    assert Resource.of(model).object(name, namespace, subresource) == want


def test_the_path_of_a_collection() -> None:
    """All objects, or those of a namespace."""
    assert Resource.of(Pod).collection() == "/api/v1/pods"
    assert Resource.of(Pod).collection("prod") == "/api/v1/namespaces/prod/pods"
    assert Resource.of(CloneSet).collection() == "/apis/apps.kruise.io/v1alpha1/clonesets"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2Fb", "../../secrets"])
def test_a_name_that_would_be_another_path_is_refused(name: str) -> None:
    """A name from outside must not lead elsewhere: there is no such object, which callers handle."""
    with pytest.raises(NotFound, match="is not a valid object name"):
        Resource.of(Pod).object(name, "prod")
    if name:
        with pytest.raises(ValueError, match="is not a valid object name"):
            Resource.of(Pod).object("web", name)


def test_a_namespace_is_required_or_refused_by_scope() -> None:
    """A pod without one and a node with one are mistakes of the caller."""
    with pytest.raises(ValueError, match="Pod 'web' needs a namespace"):
        Resource.of(Pod).object("web")
    with pytest.raises(ValueError, match="Node is cluster-scoped"):
        Resource.of(Node).object("n1", "prod")


def test_a_type_without_a_resource_is_named() -> None:
    """A Scale is a subresource's answer, and no kind of its own."""
    with pytest.raises(LookupError, match="Scale is not in RESOURCES"):
        Resource.of(Scale)


@pytest.mark.parametrize("model", [pytest.param(model, id=resource.kind) for model, resource in RESOURCES.items()])
def test_every_resource_has_the_type_of_its_entry(model: type[Any]) -> None:
    """Key and model agree, and the plural is the kind's."""
    resource = RESOURCES[model]
    assert resource.model is model
    assert resource.kind == model.__name__
    assert resource.plural.startswith(resource.kind.lower()[:-1])


def test_our_own_kinds_match_their_definitions() -> None:
    """The registry and the CRD manifests must not drift apart."""
    for kind in KINDS:
        resource = Resource.of(kind.model)
        assert (resource.api_version, resource.kind, resource.plural) == (kind.api_version, kind.kind, kind.plural)
        assert resource.namespaced


def test_a_kind_without_a_type_is_plain_json() -> None:
    """Group and version come from the apiVersion; `raw` is the same for a kind with a type."""
    config_maps = untyped("v1", "ConfigMap", "configmaps")
    assert config_maps.object("c", "n") == "/api/v1/namespaces/n/configmaps/c"
    assert untyped("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False).collection() == (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    )
    assert Resource.of(Pod).raw.collection() == Resource.of(Pod).collection()
    assert Resource.of(Pod).raw.model == dict[str, Any]


@pytest.mark.parametrize(("namespace", "name", "want"), [("prod", "web", "prod/web"), ("", "n1", "n1")])
def test_keys_can_be_split(namespace: str, name: str, want: str) -> None:
    """A key is namespace and name, or the name alone."""
    assert object_key(namespace, name) == want
    assert split(Key(want)) == (namespace, name)
