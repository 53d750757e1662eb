"""The OpenAPI documents, where Kubernetes' own tests found differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.lab.wire import CRDS, Wire


def empty_values(value: Any, path: str = "") -> Iterator[str]:
    """The paths of empty lists and objects in a document."""
    if value in ([], {}):
        yield path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from empty_values(item, f"{path}.{key}")


async def test_documents_have_no_empty_values(wire: Wire) -> None:
    """Clients in Go drop them: a document that is decoded and encoded again must be the same."""
    paths = (await wire.get("/openapi/v3"))["paths"]
    documents = {path: await wire.get(f"/openapi/v3/{path}") for path in paths}
    assert len(documents) > 10
    assert [f"{path}{found}" for path, document in documents.items() for found in empty_values(document)] == []


async def test_a_kind_with_unknown_fields_lists_no_fields_in_version_2(wire: Wire) -> None:
    """kubectl would reject all others."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Dial", "plural": "dials"}
    spec = {"group": "shop.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    await wire.create(CRDS, {**kind, "metadata": {"name": "dials.shop.example.com"}, "spec": spec})
    name = "com.example.shop.v1.Dial"
    document = (await wire.get("/openapi/v2"))["definitions"][name]
    assert document.keys() == {"type", "x-kubernetes-group-version-kind"}
    document = (await wire.get("/openapi/v3/apis/shop.example.com/v1"))["components"]["schemas"][name]
    assert document["x-kubernetes-preserve-unknown-fields"] is True
    assert document["properties"].keys() == {"apiVersion", "kind", "metadata"}
