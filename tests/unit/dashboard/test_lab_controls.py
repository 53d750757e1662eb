"""The lab's buttons: passed on with a secret, carried out by the lab, and there in the lab only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.unit.dashboard.serving import dashboard, web
from tests.unit.inspection.clusters import three_zones
from trimtab.api.apps import Deployment
from trimtab.api.nodes import ZONE, Node
from trimtab.dashboard.lab_controls import ACTIONS, LabControls
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.config import discover
from trimtab.kube.resources import Resource
from trimtab.kube.sessions import Session
from trimtab.testing.builders import node
from trimtab_lab.apiserver.wire.server import Server
from trimtab_lab.controls import Controls, read_address, write_address

RACK = "example.com/rack"
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "example.com/web:1"}]},
}


@asynccontextmanager
async def lab(folder: Path) -> AsyncIterator[tuple[Client, int]]:
    """The lab's API server with a Deployment, and its controls."""
    async with Server(folder, port=0) as server, Client(Session(discover(server.kubeconfig))) as client:
        spec = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
        await client.create(
            Resource.of(Deployment).raw, {"metadata": {"name": "web"}, "spec": spec}, namespace="default"
        )
        controls = Controls(client, "secret")
        running = asyncio.ensure_future(controls.run())
        try:
            async with controls.served(0) as port:
                yield client, port
        finally:
            await cancel(running)


async def press(port: int, action: str, body: Any, *, origin: str = "") -> tuple[int, Any]:
    """Press a button of a page that is served on a lab."""
    async with dashboard(web(), lab=LabControls(f"http://127.0.0.1:{port}", "secret")) as served:
        own = str(served.client.make_url("/")).rstrip("/")
        answer = await served.client.post(f"/api/lab/{action}", json=body, headers={"Origin": origin or own})
        return answer.status, await answer.json()


async def nodes_in(client: Client, zone: str) -> list[Node]:
    """The nodes of a zone."""
    return [each for each in (await client.list(Node)).items if each.metadata.labels.get(ZONE) == zone]


async def test_the_buttons_do_what_they_say(tmp_path: Path) -> None:
    """A zone is added, fails and recovers; a workload is scaled; each answer names a command."""
    async with lab(tmp_path) as (client, port):
        status, answer = await press(port, "add-zone", {"zone": "zone-x", "nodes": 2})
        assert (status, answer["said"]) == (200, f"added 2 nodes in zone-x: kubectl get nodes -l {ZONE}=zone-x")
        while len(await nodes_in(client, "zone-x")) < 2:
            await asyncio.sleep(0.02)
        for action, is_failed in (("fail-zone", True), ("recover-zone", False)):
            status, _ = await press(port, action, {"zone": "zone-x"})
            failed = [
                "lab.trimtab.dev/failed" in each.metadata.annotations for each in await nodes_in(client, "zone-x")
            ]
            assert (status, failed) == (200, [is_failed, is_failed])
        status, answer = await press(port, "scale", {"workload": "default/Deployment/web", "replicas": 2})
        assert (status, answer["said"]) == (200, "kubectl scale -n default deployment/web --replicas=2")
        assert (await client.get(Deployment, "web", namespace="default")).desired_replicas == 2


@pytest.mark.parametrize(
    ("action", "body", "text"),
    [
        ("add-zone", {"zone": "zone-x", "nodes": 1000}, "nodes: 1000 is not a number from 1 to 50"),
        ("add-zone", {"zone": "<b>", "nodes": 1}, "<b>"),
        ("add-zone", {"nodes": 1}, "zone"),
        ("fail-zone", {"zone": "none"}, 'there is no zone "none"'),
        ("scale", {"workload": "web", "replicas": 1}, "is not namespace/Kind/name"),
        ("scale", {"workload": "default/Deployment/web", "replicas": -1}, "is not a number from 0"),
        ("scale", {"workload": "default/Deployment/none", "replicas": 1}, "none"),
    ],
)
async def test_what_cannot_be_done_is_answered_with_the_reason(
    tmp_path: Path, action: str, body: Any, text: str
) -> None:
    """And changes nothing."""
    async with lab(tmp_path) as (client, port):
        status, answer = await press(port, action, body)
        assert status in (400, 409)
        assert text in answer["error"]
        assert (await client.list(Node)).items == ()


async def test_the_buttons_are_for_zones_whatever_nodes_are_grouped_by() -> None:
    """The map may be grouped by racks; outside the lab there are no buttons to list zones for."""
    builder = three_zones().put(node("d1", zone="z9", **{RACK: "r1"}).build())
    async with dashboard(builder.build(), lab=LabControls("http://127.0.0.1:1", "secret")) as served:
        state = await served.json(f"/api/state?key={RACK}")
        assert state["nodes"]["d1"]["domain"] == "r1"
        assert state["status"]["cluster"]["zones"] == ["z1", "z2", "z3", "z9"]
    async with dashboard(web()) as served:
        assert (await served.json("/api/state"))["status"]["cluster"]["zones"] == []


async def test_only_the_page_may_press(tmp_path: Path) -> None:
    """Another site is refused by the dashboard, and a caller without the secret by the lab."""
    async with lab(tmp_path) as (_, port):
        status, _ = await press(port, "scale", {}, origin="https://evil.example.com")
        assert status == 403
        status, _ = await press(port, "reboot", {})
        assert status == 404
        async with aiohttp.ClientSession() as session:
            for action in ACTIONS:
                answer = await session.post(f"http://127.0.0.1:{port}/{action}", json={"zone": "zone-x"})
                assert answer.status == 401


async def test_a_lab_that_does_not_answer_is_reported() -> None:
    """The rest of the dashboard works on."""
    status, answer = await press(1, "scale", {"workload": "default/Deployment/web", "replicas": 1})
    assert status == 502
    assert answer["error"].startswith("the lab does not answer")


def test_the_secret_is_for_the_owner_alone(tmp_path: Path) -> None:
    """It is chosen anew at each start."""
    write_address(tmp_path, 1234)
    path = tmp_path / "controls.json"
    first = read_address(path)
    assert path.stat().st_mode & 0o077 == 0
    assert (first.url, first.port) == ("http://127.0.0.1:1234", 1234)
    write_address(tmp_path, 1234)
    assert read_address(path).secret != first.secret
