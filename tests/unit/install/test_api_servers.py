"""The addresses of API servers, as a cluster publishes them."""

from __future__ import annotations

import pytest

from tests.unit.kube.fakes import FakeServer
from trimtab.api.documents import JSON
from trimtab.install.api_servers import ranges
from trimtab.kube.client import Client
from trimtab.testing.clocks import VirtualClock

SLICES = ("/apis/discovery.k8s.io/v1", "endpointslices")
ENDPOINTS = ("/api/v1", "endpoints")


def published(name: str, *endpoints: JSON) -> JSON:
    """An EndpointSlice of the API servers' Service."""
    labels = {"kubernetes.io/service-name": "kubernetes"}
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "endpoints": list(endpoints)}


@pytest.mark.parametrize(
    ("slices", "endpoints", "want"),
    [
        pytest.param(
            [published("a", {"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.10"]}), published("b")],
            [],
            ("10.0.0.2/32", "10.0.0.10/32"),
            id="in slices",
        ),
        pytest.param(
            [published("a", {"addresses": ["10.0.0.2"], "conditions": {"ready": False}})], [], (), id="not ready"
        ),
        pytest.param([], ["10.0.0.3", "127.0.0.1"], ("10.0.0.3/32",), id="in Endpoints, loopback aside"),
        pytest.param([], None, (), id="nowhere"),
    ],
)
async def test_the_addresses_are_found(slices: list[JSON], endpoints: list[str] | None, want: tuple[str, ...]) -> None:
    """In EndpointSlices, or else in Endpoints."""
    clock = VirtualClock()
    server = FakeServer(clock)
    for each in slices:
        server.put(*SLICES, each)
    if endpoints is not None:
        subsets = [{"addresses": [{"ip": address} for address in endpoints]}]
        server.put(*ENDPOINTS, {"metadata": {"name": "kubernetes", "namespace": "default"}, "subsets": subsets})
    assert await ranges(Client(server, clock=clock)) == want
    assert dict(server.requests[0].params)["labelSelector"] == "kubernetes.io/service-name=kubernetes"
