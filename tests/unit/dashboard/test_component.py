"""The dashboard as a component of `trimtab run`: its address, its permissions, and what it asks of the API server."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from tests.unit.inspection.test_observing import populate
from tests.unit.kube.fakes import FakeServer, answer
from trimtab.api import configuration
from trimtab.api.errors import InvalidError
from trimtab.app import COMPONENTS, dashboard
from trimtab.app import check as check_configuration
from trimtab.app.dashboard import ServedDashboard
from trimtab.app.dependencies import Dependencies
from trimtab.dashboard.boards import Boards
from trimtab.dashboard.server import Listening
from trimtab.inspection.settings import Settings
from trimtab.install import access, deployments
from trimtab.install.options import Options
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.clocks import SystemClock, cancel
from trimtab.kube.transport import Request, Response
from trimtab.snapshot import MIRRORED, Snapshot

REVIEWS = {"tokenreviews", "subjectaccessreviews"}


class ReviewingServer(FakeServer):
    """A fake API server that knows the token `good`, whose user may list everything."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.asked: list[tuple[str, str]] = []

    async def send(self, request: Request) -> Response:
        """Answer reviews here, and everything else as the fake does."""
        plural = request.path.rpartition("/")[2]
        self.asked.append((request.method, plural))
        if plural == "tokenreviews":
            is_good = msgspec.json.decode(request.body or b"")["spec"]["token"] == "good"
            return answer(201, {"status": {"authenticated": is_good, "user": {"username": "jane"}}})
        if plural == "subjectaccessreviews":
            return answer(201, {"status": {"allowed": True}})
        return await super().send(request)


async def test_users_of_the_api_server_see_the_cluster() -> None:
    """With a token that it knows; without one they see nothing."""
    server = ReviewingServer()
    populate(server)
    served = ServedDashboard(Caches(Client(server), Snapshot(), MIRRORED), Settings(), Listening(port=0))
    running = asyncio.ensure_future(served.run())
    try:
        while not (served.synced and served.url):
            await asyncio.sleep(0.01)
        async with aiohttp.ClientSession() as session:
            refused = await session.get(f"{served.url}api/state", headers={"Authorization": "Bearer bad"})
            assert refused.status == 401
            shown = await session.get(f"{served.url}api/state", headers={"Authorization": "Bearer good"})
            assert set((await shown.json())["workloads"]) == {"default/Deployment/web"}
    finally:
        await cancel(running)
    granted = {
        ("POST" if "create" in permission.verbs else "GET", plural)
        for permission in (*access.ACCESS["dashboard"].cluster, *access.ACCESS["dashboard"].named(Options().read()))
        for plural in permission.resources
    }
    assert {call for call in server.asked if call[1] in REVIEWS} == {("POST", plural) for plural in REVIEWS}
    assert set(server.asked) == granted


async def test_it_ends_when_its_boards_are_not_kept_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages would show what was, and nothing would say so."""

    async def fail(_: Boards) -> None:
        raise RuntimeError("a board is broken")

    monkeypatch.setattr(Boards, "run", fail)
    caches = Caches(Client(FakeServer(SystemClock())), Snapshot(), MIRRORED)
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match="a board is broken"):
            await ServedDashboard(caches, Settings(), Listening(port=0)).run()


def test_nothing_is_granted_unless_the_dashboard_is_chosen() -> None:
    """Neither the ServiceAccount nor the reviews; with it, and nothing that writes."""
    without = list(access.manifests(Options()))
    assert "tokenreviews" not in str(without)
    chosen = Options(components=("dashboard",), configuration={"namespaces": ["shop"]})
    roles = {
        each["metadata"]["name"]: each["rules"]
        for each in access.manifests(chosen)
        if each["kind"] in ("ClusterRole", "Role") and each["metadata"]["name"].startswith("trimtab-dashboard")
    }
    assert list(roles) == ["trimtab-dashboard"]
    writing = [rule for rule in roles["trimtab-dashboard"] if set(rule["verbs"]) - {"list", "watch"}]
    assert {plural for rule in writing for plural in rule["resources"]} == REVIEWS
    made = [each for each in deployments.manifests(chosen) if each["kind"] == "Deployment"]
    assert [each["metadata"]["name"] for each in made] == ["trimtab-dashboard"]


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ({"host": "0.0.0.0"}, "dashboard.host: 0.0.0.0 can be reached from other machines: TLS is needed"),  # noqa: S104
        ({"certificateFile": "tls.crt"}, "dashboard.certificate: a certificate needs its key"),
        ({"prot": 1}, 'dashboard.prot: is not a field; did you mean "port"?'),
    ],
)
def test_an_address_without_protection_is_refused(section: dict[str, Any], text: str) -> None:
    """Before anything starts, with the field."""
    with pytest.raises(InvalidError) as raised:
        check_configuration(configuration.read({"components": ["dashboard"], "dashboard": section}))
    assert str(raised.value).startswith(text)


def test_its_metrics_are_those_of_the_process() -> None:
    """They are served at /metrics."""
    registry = CollectorRegistry()
    dashboard.component(Dependencies(Client(FakeServer(SystemClock())), configuration.read({}), registry))
    assert "trimtab_dashboard_pages_refused" in {family.name for family in registry.collect()}


def test_a_default_process_runs_no_dashboard() -> None:
    """It is a component that is chosen."""
    assert "dashboard" in COMPONENTS
    assert "dashboard" not in configuration.read({}).components
    dashboard.check(configuration.read({"components": ["dashboard"]}))
