"""Leases: made with their nodes, renewed while these are alive."""

from __future__ import annotations

from tests.unit.kube.fakes import failure
from tests.unit.lab.nodes.controlplane import TWO_ZONES, ControlPlane, running
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import VirtualClock


async def test_a_node_has_a_lease_that_goes_with_it() -> None:
    """Held by the node, owned by the node."""
    async with running() as stage:
        lease, node = stage.server.one("leases", "a-1"), stage.server.one("nodes", "a-1")
        assert lease["metadata"]["namespace"] == "kube-node-lease"
        assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("a-1", 40)


async def test_a_lease_is_renewed_every_ten_seconds() -> None:
    """By each node, at a moment of its own."""
    async with running() as stage:
        await stage.advance(10)
        stage.server.requests.clear()
        await stage.advance(100)
        assert 36 <= stage.server.written()["PATCH leases"] <= 40
        assert len({stage.server.one("leases", name)["spec"]["renewTime"] for name in TWO_ZONES.nodes}) == 4


async def test_a_lease_that_is_gone_is_made_again() -> None:
    """Also if another component deleted it."""
    async with running() as stage:
        stage.server.drop("/apis/coordination.k8s.io/v1", "leases", "kube-node-lease/a-1")
        await stage.advance(15)
        assert stage.server.has("leases", "a-1")


async def test_a_control_plane_may_lack_the_namespace() -> None:
    """Then it is made with the first Lease."""
    server = ControlPlane(VirtualClock())

    def without_namespace(request: Request) -> Response | None:
        if (
            request.method == "POST"
            and request.path.endswith("/leases")
            and not server.has("namespaces", "kube-node-lease")
        ):
            return failure(404, "NotFound", 'namespaces "kube-node-lease" not found')
        return None

    server.intercept = without_namespace
    async with running(server=server):
        assert server.has("leases", "a-1")
        assert server.has("leases", "b-2")
