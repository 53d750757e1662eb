"""Node objects: made, kept and taken away as the shape has it."""

from __future__ import annotations

from tests.unit.lab.nodes.controlplane import CORE, TWO_ZONES, ControlPlane, running
from trimtab.api.nodes import ZONE
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.nodes import shapes
from trimtab_lab.nodes.settings import SETTINGS


async def test_nodes_register_and_are_ready() -> None:
    """With labels, capacity and addresses, and without the taint that new nodes have."""
    async with running() as stage:
        await stage.nodes.ready()
        assert sorted(node["metadata"]["name"] for node in stage.server.objects("nodes")) == [
            "a-1",
            "a-2",
            "b-1",
            "b-2",
        ]
        node = stage.server.one("nodes", "b-1")
        assert node["metadata"]["labels"][ZONE] == "b"
        assert node["status"]["capacity"] == node["status"]["allocatable"] == dict(TWO_ZONES.nodes["b-1"].capacity)
        assert {each["type"] for each in node["status"]["addresses"]} == {"InternalIP", "Hostname"}
        assert node["status"]["nodeInfo"]["kubeletVersion"]
        assert all(stage.server.stands("nodes", name) == "True" for name in TWO_ZONES.nodes)
        assert stage.server.taints("b-1") == set()


async def test_taints_of_the_shape_are_there_from_the_beginning() -> None:
    """A pod must not slip in before."""
    shape = shapes.read({"virtualPools": [{"name": "burst"}]})
    async with running(shape) as stage:
        created = next(r for r in stage.server.requests if r.method == "POST" and r.path.endswith("/nodes"))
        assert b"virtual-kubelet.io/provider" in (created.body or b"")
        assert stage.server.taints("burst-1") == {"virtual-kubelet.io/provider:NoSchedule"}


async def test_a_node_that_is_as_it_should_be_is_confirmed_from_time_to_time() -> None:
    """Every five minutes, and not in between."""
    async with running() as stage:
        first = stage.server.written()["PATCH nodes/status"]
        await stage.advance(299)
        assert stage.server.written()["PATCH nodes/status"] == first
        await stage.advance(2)
        assert stage.server.written()["PATCH nodes/status"] == first + 4
        ready = stage.server.one("nodes", "a-1")["status"]["conditions"][-1]
        assert ready["lastHeartbeatTime"] > ready["lastTransitionTime"]


async def test_our_labels_are_restored_and_others_stay() -> None:
    """Our labels and status are restored; a label, a taint and a resource from elsewhere stay."""
    async with running() as stage:
        node = stage.server.one("nodes", "a-1")
        stage.server.change(
            "nodes",
            "a-1",
            metadata={"labels": {**node["metadata"]["labels"], ZONE: "wrong", "mine": "too"}},
            spec={"taints": [{"key": "mine", "effect": "NoSchedule"}]},
            status={
                "conditions": [{"type": "Ready", "status": "Unknown"}],
                "capacity": {**node["status"]["capacity"], "cpu": "1", "example.com/gpu": "2"},
            },
        )
        await stage.advance(1)
        node = stage.server.one("nodes", "a-1")
        assert (node["metadata"]["labels"][ZONE], node["metadata"]["labels"]["mine"]) == ("a", "too")
        assert stage.server.taints("a-1") == {"mine:NoSchedule"}
        assert (node["status"]["capacity"]["cpu"], node["status"]["capacity"]["example.com/gpu"]) == ("8", "2")
        assert stage.server.stands("nodes", "a-1") == "True"


async def test_a_node_that_was_deleted_comes_back() -> None:
    """The shape has it."""
    async with running() as stage:
        stage.server.drop(CORE, "nodes", "a-1")
        await stage.advance(1)
        assert stage.server.stands("nodes", "a-1") == "True"


async def test_a_node_without_our_label_is_not_changed() -> None:
    """Even if it has a name of the shape."""
    server = ControlPlane(VirtualClock())
    foreign = server.put(CORE, "nodes", {"metadata": {"name": "a-1"}, "spec": {}, "status": {}})
    async with running(server=server) as stage:
        server.add_pod("p", "a-1")
        await stage.advance(60)
        assert server.one("nodes", "a-1") == foreign
        assert server.pod("p")["phase"] == "Pending"
        assert not server.has("leases", "a-1")
        assert server.stands("nodes", "a-2") == "True"


async def test_a_process_that_starts_again_keeps_the_nodes() -> None:
    """The same nodes, untouched."""
    async with running() as stage:
        before = stage.server.objects("nodes")
        await stage.restart()
        assert stage.server.objects("nodes") == before


async def test_another_shape_adds_and_takes_away() -> None:
    """After a restart with another file: a zone that is new, and one that is gone."""
    other = shapes.read({"zones": [{"name": "a", "nodes": 3}, {"name": "c", "nodes": 1}]})
    async with running() as stage:
        uid = stage.server.one("nodes", "a-1")["metadata"]["uid"]
        await stage.restart(other)
        names = {node["metadata"]["name"] for node in stage.server.objects("nodes")}
        assert names == {"a-1", "a-2", "a-3", "c-1"}
        assert stage.server.one("nodes", "a-1")["metadata"]["uid"] == uid


async def test_a_running_cluster_can_be_reshaped() -> None:
    """Without a restart."""
    other = shapes.read({"zones": [{"name": "a", "nodes": 1}, {"name": "c", "nodes": 1}]})
    async with running() as stage:
        await stage.nodes.reshape(other)
        await stage.settle()
        await stage.nodes.ready()
        assert {node["metadata"]["name"] for node in stage.server.objects("nodes")} == {"a-1", "c-1"}
        await stage.nodes.reshape(shapes.Shape())
        await stage.settle()
        assert stage.server.objects("nodes") == []


async def test_a_creation_without_an_answer_is_not_repeated() -> None:
    """A server that fails on the way is asked again."""
    server = ControlPlane(VirtualClock())
    server.bad.lose_answer = 0.3
    async with running(server=server) as stage:
        await stage.advance(120)
        server.bad.lose_answer = 0.0
        await stage.advance(120)
        assert len(server.objects("nodes")) == 4
        assert all(server.stands("nodes", name) == "True" for name in TWO_ZONES.nodes)
        assert stage.nodes.settings == SETTINGS


async def test_conflicting_changes_are_repeated_once_a_second() -> None:
    """Each has its way for a second; a mistake must not keep the API server busy."""
    server = ControlPlane(VirtualClock())
    large = shapes.read({"zones": [{"name": "a", "nodes": 2, "capacity": {"cpu": 64}}, {"name": "b", "nodes": 2}]})
    async with running(server=server) as stage, running(large, server=server):
        await stage.advance(10)
        server.requests.clear()
        await stage.advance(60)
        assert 0 < server.written()["PATCH nodes/status"] <= 4 * 60
