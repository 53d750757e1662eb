"""Reading a cluster: list rights alone, and what is missing without them."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.kube.fakes import FakeServer, failure, pod_tree
from trimtab.api.apps import Deployment
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.inspection import reading
from trimtab.inspection.observing import FOLLOWED
from trimtab.kube.client import Client
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import VirtualClock

POD = ("/api/v1", "pods")


def server(intercept: Callable[[Request], Response | Exception | None] | None = None) -> tuple[FakeServer, Client]:
    """A server with a pod in each of two namespaces."""
    clock = VirtualClock()
    made = FakeServer(clock)
    for namespace in ("shop", "other"):
        tree = pod_tree("web")
        made.put(*POD, {**tree, "metadata": {**tree["metadata"], "namespace": namespace}})
    made.intercept = intercept
    return made, Client(made, clock=clock)


def forbidden(request: Request) -> Response | None:
    """An account that may list the objects of the namespace shop, but no Services."""
    is_allowed = "/namespaces/shop/" in request.path and "services" not in request.path
    return None if is_allowed else failure(403, "Forbidden", "no")


async def test_the_whole_cluster_is_read_without_a_write() -> None:
    """Kinds that are not installed are no gaps."""

    def intercept(request: Request) -> Response | None:
        return failure(404, "NotFound", "no such kind") if "trimtab.dev" in request.path else None

    made, client = server(intercept)
    cluster = await reading.read(client, namespace="shop")
    assert sorted(pod.metadata.namespace for pod in cluster.all(Pod)) == ["other", "shop"]
    assert cluster.gaps == ()
    assert {request.method for request in made.requests} == {"GET"}


async def test_what_is_forbidden_in_the_cluster_is_read_in_the_namespace() -> None:
    """What is forbidden there too is a gap that says what is shown without it."""
    _, client = server(forbidden)
    cluster = await reading.read(client, namespace="shop")
    assert [pod.metadata.namespace for pod in cluster.all(Pod)] == ["shop"]
    gaps = {gap.resource: gap for gap in cluster.gaps}
    assert gaps["pods"].effect == "only those of namespace shop are considered"
    assert gaps["nodes"].scope == "cluster"
    assert "domains are not known" in gaps["nodes"].sentence()
    assert gaps["services"].scope == "namespace shop"
    assert "may not be listed" in gaps["services"].reason


async def test_what_may_be_followed_is_found_out_first() -> None:
    """So that a watch does not try for ever what it may not do."""
    _, client = server(forbidden)
    scope, kinds, gaps = await reading.readable(client, namespace="shop", kinds=FOLLOWED)
    assert scope == "shop"
    assert Pod in kinds
    assert Deployment in kinds
    assert Node not in kinds
    assert {gap.resource for gap in gaps} == {"nodes", "namespaces", "pods"}
    _, client = server()
    scope, kinds, gaps = await reading.readable(client, namespace="shop", kinds=FOLLOWED)
    assert (scope, len(kinds), gaps) == ("", len(FOLLOWED), ())
