"""Nodes that fail and come back, and what the lab's lifecycle does about it, under a virtual clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.lab.nodes.controlplane import CORE, TWO_ZONES, ControlPlane, Stage, running
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.nodes.settings import LAB, SETTINGS, NodeLifecycleSettings

PATIENT: dict[str, Any] = {
    "tolerations": [
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    ]
}
"""What an API server's admission adds to every pod."""


async def test_a_failed_node_sends_no_heartbeats() -> None:
    """No renewals, no status; the control plane may think of it what it wants."""
    async with running() as stage:
        await stage.nodes.fail(["a-1"])
        renewed = stage.server.one("leases", "a-1")["spec"]["renewTime"]
        stage.server.change("nodes", "a-1", status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
        await stage.advance(600)
        assert stage.server.one("leases", "a-1")["spec"]["renewTime"] == renewed
        assert stage.server.stands("nodes", "a-1") == "Unknown"
        assert stage.server.stands("nodes", "a-2") == "True"
        await stage.nodes.recover(["a-1"])
        await stage.settle()
        assert stage.server.one("leases", "a-1")["spec"]["renewTime"] > renewed
        assert stage.server.stands("nodes", "a-1") == "True"


async def test_the_pods_of_a_failed_node_are_not_touched() -> None:
    """Neither started nor removed; when the node is back, they are."""
    async with running() as stage:
        stage.server.add_pod("runs", "a-1")
        await stage.advance(5)
        await stage.nodes.fail(["a-1"])
        stage.server.add_pod("new", "a-1")
        stage.server.delete_pod("runs")
        await stage.advance(600)
        assert stage.server.has("pods", "runs")
        assert stage.server.pod("new")["phase"] == "Pending"
        await stage.nodes.recover(["a-1"])
        await stage.advance(2)
        assert not stage.server.has("pods", "runs")
        assert stage.server.stands("pods", "new") == "True"


async def test_a_node_stays_failed_over_a_restart() -> None:
    """The annotation is in the object."""
    async with running() as stage:
        await stage.nodes.fail(["a-1"])
        await stage.restart()
        renewed = stage.server.one("leases", "a-1")["spec"]["renewTime"]
        await stage.advance(60)
        assert stage.server.one("leases", "a-1")["spec"]["renewTime"] == renewed


async def test_a_longer_lease_extends_the_grace_period() -> None:
    """A Lease that is meant to last 200 s is waited for a quarter longer."""
    async with running(settings=replace(LAB, renew_seconds=100.0)) as stage:
        await stage.advance(200)
        assert stage.server.stands("nodes", "a-1") == "True"
        await stage.nodes.fail(["a-1"])
        await stage.advance(140)
        assert stage.server.stands("nodes", "a-1") == "True"
        await stage.advance(120)
        assert stage.server.stands("nodes", "a-1") == "Unknown"


async def test_without_lifecycle_nothing_is_marked() -> None:
    """Beside a controller manager that is its business."""
    async with running() as stage:
        await stage.nodes.fail(["a-1"])
        await stage.advance(3600)
        assert stage.server.stands("nodes", "a-1") == "True"
        assert stage.server.taints("a-1") == set()


async def test_a_failed_node_is_tainted_and_its_pods_are_evicted() -> None:
    """Unknown after a while, tainted, its pods not ready, and evicted when their tolerations end; then it recovers."""
    async with running(settings=LAB) as stage:
        stage.server.add_pod("p", "a-1", None, **PATIENT)
        stage.server.add_pod("stoic", "a-1", None, tolerations=[{"operator": "Exists"}])
        await stage.advance(20)
        await stage.nodes.fail(["a-1"])
        await stage.advance(39)
        assert stage.server.stands("nodes", "a-1") == "True"
        await stage.advance(25)
        assert stage.server.stands("nodes", "a-1") == "Unknown"
        assert stage.server.taints("a-1") == {"unreachable:NoSchedule", "unreachable:NoExecute"}
        assert stage.server.stands("pods", "p") == "False"
        await stage.advance(270)
        assert "deletionTimestamp" not in stage.server.one("pods", "p")["metadata"]
        await stage.advance(40)
        assert "deletionTimestamp" in stage.server.one("pods", "p")["metadata"]
        assert stage.server.stands("pods", "p", "DisruptionTarget") == "True"
        assert "deletionTimestamp" not in stage.server.one("pods", "stoic")["metadata"]
        await stage.nodes.recover(["a-1"])
        await stage.advance(3)
        assert stage.server.stands("nodes", "a-1") == "True"
        assert stage.server.taints("a-1") == set()
        assert not stage.server.has("pods", "p")
        assert stage.server.stands("pods", "stoic") == "True"


async def test_a_node_that_returns_in_time_keeps_its_pods() -> None:
    """Patience that is not at its end is forgotten."""
    async with running(settings=LAB) as stage:
        stage.server.add_pod("p", "a-1", None, **PATIENT)
        await stage.advance(20)
        await stage.nodes.fail(["a-1"])
        await stage.advance(200)
        await stage.nodes.recover(["a-1"])
        await stage.advance(600)
        assert "deletionTimestamp" not in stage.server.one("pods", "p")["metadata"]
        assert stage.server.stands("pods", "p") == "True"


async def test_a_zone_that_fails_is_tainted_node_by_node() -> None:
    """One every ten seconds; the other zone is not touched."""
    async with running(settings=LAB) as stage:
        await stage.advance(20)
        await stage.nodes.fail(TWO_ZONES.names("b"))
        await stage.advance(53)
        marked = [name for name in ("b-1", "b-2") if "unreachable:NoExecute" in stage.server.taints(name)]
        assert [stage.server.stands("nodes", name) for name in ("b-1", "b-2")] == ["Unknown", "Unknown"]
        assert len(marked) == 1
        await stage.advance(15)
        assert all("unreachable:NoExecute" in stage.server.taints(name) for name in ("b-1", "b-2"))
        assert stage.server.taints("a-1") == set()


async def test_no_pod_is_evicted_if_all_nodes_are_down() -> None:
    """It is rather the control plane that is cut off."""
    async with running(settings=LAB) as stage:
        stage.server.add_pod("p", "a-1")
        await stage.advance(20)
        await stage.nodes.fail(TWO_ZONES.nodes)
        await stage.advance(900)
        assert {stage.server.stands("nodes", name) for name in TWO_ZONES.nodes} == {"Unknown"}
        assert stage.server.taints("a-1") == {"unreachable:NoSchedule"}
        assert stage.server.has("pods", "p")


async def test_a_taint_of_a_person_drives_pods_out() -> None:
    """NoExecute means now, for those that do not tolerate it."""
    async with running(settings=LAB) as stage:
        stage.server.add_pod("p", "a-1")
        stage.server.add_pod("safe", "a-1", None, tolerations=[{"key": "leave", "operator": "Exists"}])
        await stage.advance(20)
        stage.server.change("nodes", "a-1", spec={"taints": [{"key": "leave", "effect": "NoExecute"}]})
        await stage.advance(5)
        assert not stage.server.has("pods", "p")
        assert stage.server.has("pods", "safe")
        stage.server.add_pod("late", "a-1")
        await stage.advance(5)
        assert not stage.server.has("pods", "late")


async def test_a_cordoned_node_is_tainted() -> None:
    """And not any more when it is not."""
    async with running(settings=LAB) as stage:
        await stage.nodes.cordon(["a-1"])
        await stage.settle()
        assert stage.server.taints("a-1") == {"unschedulable:NoSchedule"}
        await stage.nodes.uncordon(["a-1"])
        await stage.settle()
        assert stage.server.taints("a-1") == set()


async def test_a_node_without_a_kubelet_is_noticed() -> None:
    """One that was created by hand and has no heartbeats, after a minute."""
    server = ControlPlane(VirtualClock())
    server.put(CORE, "nodes", {"metadata": {"name": "by-hand"}, "spec": {}, "status": {}})
    async with running(settings=LAB, server=server) as stage:
        await stage.advance(59)
        assert server.stands("nodes", "by-hand") == ""
        await stage.advance(2)
        assert server.stands("nodes", "by-hand") == "Unknown"
        conditions = server.one("nodes", "by-hand")["status"]["conditions"]
        assert {each["reason"] for each in conditions} == {"NodeStatusNeverUpdated"}


async def test_the_pods_of_a_node_that_is_no_more_are_removed() -> None:
    """After a while, for it might come back; without grace, for no kubelet will see to it."""
    smaller = replace(TWO_ZONES, nodes={"a-1": TWO_ZONES.nodes["a-1"]})
    async with running(settings=LAB) as stage:
        stage.server.add_pod("p", "b-1")
        await stage.advance(5)
        await stage.nodes.reshape(smaller)
        await stage.advance(39)
        assert stage.server.has("pods", "p")
        await stage.advance(2)
        assert not stage.server.has("pods", "p")


async def test_a_node_that_was_gone_for_a_while_keeps_its_pods() -> None:
    """The time that it was away is not counted when it goes again."""
    smaller = replace(TWO_ZONES, nodes={"a-1": TWO_ZONES.nodes["a-1"]})
    async with running(settings=LAB) as stage:
        stage.server.add_pod("p", "b-1")
        for shape in (smaller, TWO_ZONES, smaller):
            await stage.nodes.reshape(shape)
            await stage.advance(30)
        assert stage.server.has("pods", "p")
        await stage.advance(15)
        assert not stage.server.has("pods", "p")


async def _outage(stage: Stage) -> None:
    await stage.nodes.fail(["a-1"])
    await stage.advance(120)


@pytest.mark.parametrize("settings", [pytest.param(SETTINGS, id="off"), pytest.param(LAB, id="on")])
async def test_a_healthy_cluster_is_quiet(settings: Any) -> None:
    """Nothing is written but heartbeats."""
    async with running(settings=settings) as stage:
        stage.server.add_pod("p", "a-1")
        await stage.advance(30)
        stage.server.requests.clear()
        await stage.advance(200)
        assert set(stage.server.written()) == {"PATCH leases"}


async def test_a_restart_gives_every_node_its_grace_period_again() -> None:
    """It cannot know how long a node has been silent before; what was marked stays marked."""
    quick = replace(LAB, lifecycle=NodeLifecycleSettings(grace_seconds=20.0))
    async with running(settings=quick) as stage:
        await stage.advance(20)
        await _outage(stage)
        assert stage.server.stands("nodes", "a-1") == "Unknown"
        await stage.nodes.fail(["b-1"])
        await stage.restart()
        await stage.advance(10)
        assert stage.server.stands("nodes", "b-1") == "True"
        assert stage.server.taints("a-1") == {"unreachable:NoSchedule", "unreachable:NoExecute"}
        await stage.advance(60)
        assert stage.server.stands("nodes", "b-1") == "Unknown"
