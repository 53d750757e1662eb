"""Paths of objects and collections."""

from __future__ import annotations

import pytest

from trimtab_lab.apiserver.kinds.errors import StatusError
from trimtab_lab.apiserver.kinds.registry import Registry
from trimtab_lab.apiserver.wire.paths import PathParser

TARGETS = PathParser(Registry())


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        pytest.param("/api/v1/pods", ("Pod", "", "", "", False), id="all pods"),
        pytest.param("/api/v1/namespaces/a/pods", ("Pod", "a", "", "", False), id="the pods of a namespace"),
        pytest.param("/api/v1/namespaces/a/pods/b", ("Pod", "a", "b", "", False), id="a pod"),
        pytest.param("/api/v1/namespaces/a/pods/b/status", ("Pod", "a", "b", "status", False), id="its status"),
        pytest.param("/api/v1/namespaces/a/bindings", ("Pod", "a", "", "binding", False), id="a binding, the old way"),
        pytest.param("/api/v1/namespaces", ("Namespace", "", "", "", False), id="all namespaces"),
        pytest.param("/api/v1/namespaces/a", ("Namespace", "", "a", "", False), id="a namespace"),
        pytest.param(
            "/api/v1/namespaces/a/finalize", ("Namespace", "", "a", "finalize", False), id="part of a namespace"
        ),
        pytest.param(
            "/apis/apps/v1/namespaces/a/deployments/b/scale", ("Deployment", "a", "b", "scale", False), id="a scale"
        ),
        pytest.param("/api/v1/watch/namespaces/a/pods/b", ("Pod", "a", "b", "", True), id="a watch, the old way"),
        pytest.param("/api/v1/nodes/a%20b", ("Node", "", "a b", "", False), id="an escaped name"),
    ],
)
def test_a_path_names_a_target(path: str, meant: tuple[str, str, str, str, bool]) -> None:
    """Kind, namespace, name, subresource, and whether it is a watch."""
    target = TARGETS.find(path)
    assert target is not None
    assert (target.kind.kind, target.namespace, target.name, target.subresource, target.watch) == meant


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/api/v1/strange", id="an unknown resource"),
        pytest.param("/api/v1/namespaces/a/nodes", id="what has no namespace in one"),
        pytest.param("/api/v1/pods/a", id="what has a namespace without one"),
        pytest.param("/api/v1/namespaces/a/pods/b%2Fc", id="a slash in a name"),
        pytest.param("/api/v1/namespaces/a/pods/", id="an empty name"),
        pytest.param("/api/v1/namespaces/a/pods/b/c", id="an unknown part"),
        pytest.param("/api/v1/namespaces/a/pods/b/status/c", id="a part of a part"),
    ],
)
def test_an_unknown_path_under_a_known_version_is_not_found(path: str) -> None:
    """404."""
    with pytest.raises(StatusError) as refused:
        TARGETS.find(path)
    assert refused.value.code == 404


@pytest.mark.parametrize(
    "path", ["/", "/version", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/x.io/v1/y", "//api/v1/pods"]
)
def test_other_paths_have_no_target(path: str) -> None:
    """Discovery, OpenAPI and health."""
    assert TARGETS.find(path) is None


def test_the_cache_is_cleared_when_kinds_change() -> None:
    """A path may have another target then."""
    registry = Registry()
    targets = PathParser(registry)
    target = targets.find("/api/v1/pods")
    assert target is not None
    registry.remove(target.kind)
    with pytest.raises(StatusError):
        targets.find("/api/v1/pods")
