"""What every request has to pass, and what every answer carries."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.unit.dashboard.serving import SETTINGS, WEB, dashboard, running, web
from tests.unit.kube.certificates import Authority
from trimtab.api.errors import InvalidError
from trimtab.dashboard.access import TokenAccess
from trimtab.dashboard.guards import is_allowed_host, is_loopback
from trimtab.dashboard.server import DashboardServer, Listening
from trimtab.dashboard.sources import FileSource

PATHS = [
    "/api/events",
    "/api/state",
    f"/api/plan?workload={WEB}&replicas=5",
    f"/api/rank?workload={WEB}",
    "/api/explain?pod=default/web-1-00",
]


@pytest.mark.parametrize(
    ("header", "is_allowed"),
    [
        ("127.0.0.1:10280", True),
        ("localhost:8080", True),
        ("LOCALHOST", True),
        ("[::1]:10280", True),
        ("10.1.2.3", True),
        ("board.example.com", True),
        ("Board.Example.com.:443", True),
        ("evil.example.com", False),
        ("localhost.evil.example.com", False),
        ("127.0.0.1.evil.example.com", False),
        ("127.0.0.1@evil.example.com", False),
        ("", False),
        ("[::1", False),
    ],
)
def test_a_host_header_must_name_this_server(header: str, is_allowed: bool) -> None:
    """By address, as localhost, or by a name that the operator allows."""
    assert is_allowed_host(header, {"board.example.com"}) is is_allowed


@pytest.mark.parametrize("path", ["/", "/assets/style.css", *PATHS])
async def test_a_request_for_another_site_is_refused(path: str) -> None:
    """A name that was made to point here is that of another site, and its pages get nothing."""
    async with dashboard(web()) as served:
        answer = await served.get(path, Host="evil.example.com")
        assert answer.status == 421
        assert "web" not in await answer.text()


@pytest.mark.parametrize("path", ["/", "/assets/style.css", "/api/state", "/api/plan", "/nowhere", "/assets/../x"])
async def test_every_answer_forbids_everything_from_outside(path: str) -> None:
    """Errors included. Nothing inline, nothing from elsewhere, no frames."""
    async with dashboard(web()) as served:
        answer = await served.get(path)
        policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert {policy[name] for name in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("token", ["", "wrong", "righ", "rightt"])
@pytest.mark.parametrize("path", PATHS)
async def test_without_the_token_nothing_of_the_cluster_is_answered(path: str, token: str) -> None:
    """401 with what to do, and no name of any object."""
    async with dashboard(web(), access=TokenAccess("right")) as served:
        answer = await served.get(path, **({"Authorization": f"Bearer {token}"} if token else {}))
        assert answer.status == 401
        assert "token" in (await answer.json())["error"]
        assert "web" not in await answer.text()
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_with_the_token_the_cluster_is_shown() -> None:
    """The pages themselves need none: they hold nothing."""
    async with dashboard(web(), access=TokenAccess("right")) as served:
        assert (await served.get("/")).status == 200
        state = await served.json("/api/state", Authorization="Bearer right")
        assert WEB in state["workloads"]


@pytest.mark.parametrize(
    ("site", "status"), [("same-origin", 200), ("none", 200), ("cross-site", 403), ("same-site", 403)]
)
async def test_data_is_for_our_own_page(site: str, status: int) -> None:
    """Browsers say which page asks; a link from anywhere still leads to the page."""
    async with dashboard(web()) as served:
        assert (await served.get("/api/state", **{"Sec-Fetch-Site": site})).status == status
        assert (await served.get("/", **{"Sec-Fetch-Site": site})).status == 200


def test_beyond_this_machine_tls_and_a_token_are_needed() -> None:
    """The error says what is missing."""
    files = {"certificate": Path("tls.crt"), "key": Path("tls.key")}
    with pytest.raises(InvalidError, match="TLS is needed"):
        Listening("0.0.0.0").check(is_authenticated=True)  # noqa: S104 - refused
    with pytest.raises(InvalidError, match="a token is needed"):
        Listening("0.0.0.0", **files).check(is_authenticated=False)  # type: ignore[arg-type]  # noqa: S104 - refused
    with pytest.raises(InvalidError, match="give both files"):
        Listening("127.0.0.1", certificate=Path("tls.crt")).check(is_authenticated=False)
    Listening("0.0.0.0", **files).check(is_authenticated=True)  # type: ignore[arg-type]  # noqa: S104 - protected
    Listening("127.0.0.1").check(is_authenticated=False)


async def test_with_a_certificate_tls_is_served(tmp_path: Path) -> None:
    """And nothing without it."""
    authority = Authority()
    pair = authority.server("127.0.0.1")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    trusting = ssl.create_default_context(cadata=authority.certificate.decode())
    listening = Listening(port=0, certificate=certificate, key=key)
    server = DashboardServer(FileSource(web(), SETTINGS), SETTINGS, listening, TokenAccess("right"))
    async with running(server) as url, aiohttp.ClientSession() as session:
        assert url.startswith("https://127.0.0.1:")
        answer = await session.get(f"{url}api/state", headers={"Authorization": "Bearer right"}, ssl=trusting)
        assert WEB in (await answer.json())["workloads"]
        with pytest.raises(aiohttp.ClientError):
            await session.get(url.replace("https", "http"))
    certificate.write_text("nonsense")
    with pytest.raises(InvalidError, match="cannot be used"):
        async with running(server):
            pass


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("board", False)],  # noqa: S104
)
def test_loopback_addresses(host: str, expected: bool) -> None:
    """Only these can be listened on without protection."""
    assert is_loopback(host) is expected


async def test_the_dashboard_takes_no_requests_that_change_anything() -> None:
    """Outside the lab there is no such path, whoever asks."""
    async with dashboard(web()) as served:
        origin = str(served.client.make_url("/")).rstrip("/")
        answer = await served.client.post("/api/lab/scale", json={}, headers={"Origin": origin})
        assert answer.status == 404
        answer = await served.client.post("/api/state", headers={"Origin": origin})
        assert answer.status == 405
        answer = await served.client.post("/api/state", headers={"Origin": "https://evil.example.com"})
        assert answer.status == 403


@pytest.mark.parametrize(
    "header", [b"Authorization: Bearer right\x00", b"Auth orization: Bearer right", b"Authorization: Bearer \xff\xfe"]
)
async def test_a_malformed_header_is_refused_and_not_logged(header: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It may have a token in it."""
    caplog.set_level(logging.DEBUG)
    server = DashboardServer(FileSource(web(), SETTINGS), SETTINGS, Listening(port=0), TokenAccess("right"))
    async with running(server) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        writer.write(b"GET /api/state HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + header + b"\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert answer.split(b" ")[1] in (b"400", b"401")
    assert b"zone" not in answer
    assert "right" not in caplog.text
