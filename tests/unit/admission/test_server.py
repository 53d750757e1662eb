"""The admission server: it answers, and a fault of ours never blocks a request."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.unit.kube.certificates import Authority
from trimtab.admission.certificate_authority import make_authority, sign
from trimtab.admission.certificates import FileCertificates
from trimtab.admission.server import AdmissionServer, Decide, Hook, admitted
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.kube.clocks import SECOND, SystemClock, cancel
from trimtab.testing.clocks import VirtualClock

NOW = datetime.now(UTC)
AUTHORITY = make_authority(NOW)


async def yes(request: AdmissionRequest) -> AdmissionResponse:
    """Admits everything, with a word."""
    return admitted(request, f"seen {request.name}")


async def no(request: AdmissionRequest) -> AdmissionResponse:
    """Admits nothing."""
    return AdmissionResponse(uid=request.uid, allowed=False)


async def fails(_: AdmissionRequest) -> AdmissionResponse:
    """Is at fault."""
    raise RuntimeError("it is broken")


async def never(_: AdmissionRequest) -> AdmissionResponse:
    """Has no end."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def body(**request: Any) -> bytes:
    """A review as an API server posts it."""
    tree = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", **request}}
    return json.dumps(tree).encode()


@asynccontextmanager
async def served(
    folder: Path, hooks: Sequence[Hook], *, client_ca: Path | None = None, **options: Any
) -> AsyncIterator[tuple[AdmissionServer, aiohttp.ClientSession]]:
    """A server of these hooks, and a client that trusts it."""
    pair = sign(AUTHORITY, ["127.0.0.1"], NOW)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    certificates = FileCertificates(folder / "tls.crt", folder / "tls.key", clock=SystemClock())
    server = AdmissionServer(hooks, certificates=certificates, host="127.0.0.1", port=0, client_ca=client_ca, **options)
    task = asyncio.ensure_future(server.run())
    trust = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        while not server.synced:
            await asyncio.sleep(0)
        try:
            yield server, session
        finally:
            await cancel(task)


async def post(
    server: AdmissionServer, session: aiohttp.ClientSession, data: bytes, path: str = "/h?timeout=3s"
) -> tuple[int, Any]:
    """What the server answers."""
    async with session.post(f"https://127.0.0.1:{server.port}{path}", data=data) as response:
        text = await response.text()
        return response.status, json.loads(text) if response.status == 200 else text


def hook(decide: Decide, budget: float = 2.0) -> Hook:
    """A hook at /h."""
    return Hook("h", "/h", decide, budget)


async def test_a_review_is_answered_with_its_uid_and_warnings(tmp_path: Path) -> None:
    """Over TLS, as an API server asks."""
    async with served(tmp_path, [hook(yes)]) as (server, session):
        status, answer = await post(server, session, body(name="web"))
    assert status == 200
    assert answer["kind"] == "AdmissionReview"
    assert answer["response"] == {"uid": "u", "allowed": True, "warnings": ["seen web"]}


async def test_a_refusal_is_passed_on(tmp_path: Path) -> None:
    """A decision is a decision."""
    async with served(tmp_path, [hook(no)]) as (server, session):
        _, answer = await post(server, session, body())
    assert answer["response"]["allowed"] is False


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"{", id="no JSON"),
        pytest.param(b"{}", id="no review"),
        pytest.param(body().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"), id="another version"),
        pytest.param(b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', id="no request"),
    ],
)
async def test_a_body_that_is_no_review_is_refused(data: bytes, tmp_path: Path) -> None:
    """No API server sends such a thing."""
    async with served(tmp_path, [hook(yes)]) as (server, session):
        status, _ = await post(server, session, data)
    assert status == 400


async def decided(
    decide: Decide, *, timeout: float | None = None, in_flight: int = 10, waited: float = 0.0
) -> tuple[Any, AdmissionServer, list[Any]]:
    """The answer of a hook in virtual time, and the reasons given to `on_skip`."""
    clock, reasons = VirtualClock(), []
    server = AdmissionServer(
        [hook(decide)],
        certificates=FileCertificates(Path("none"), Path("none"), clock=clock),
        host="",
        port=0,
        clock=clock,
        on_skip=lambda *what: reasons.append(what[2]),
        max_in_flight=in_flight,
    )
    arrived = clock.monotonic() - round(waited * SECOND)
    task = asyncio.ensure_future(
        server.decide(server.hooks["/h"], AdmissionRequest(uid="u"), timeout=timeout, arrived=arrived)
    )
    started = clock.now()
    while not task.done():
        await clock.advance(0.05)
    return (task.result(), (clock.now() - started) / 1e9), server, reasons


async def test_a_hook_is_told_when_a_review_arrived() -> None:
    """By the server's clock, whatever the review says."""
    clock, seen = VirtualClock(), []

    async def decide(request: AdmissionRequest) -> AdmissionResponse:
        seen.append(request.arrived)
        return admitted(request)

    pair = FileCertificates(Path("none"), Path("none"), clock=clock)
    server = AdmissionServer([hook(decide)], certificates=pair, host="", port=0, clock=clock)
    earlier = clock.monotonic() - SECOND
    await server.decide(server.hooks["/h"], AdmissionRequest(uid="u", arrived=5), arrived=earlier)
    await server.decide(server.hooks["/h"], AdmissionRequest(uid="u", arrived=5))
    assert seen == [earlier, clock.monotonic()]


def counted(server: AdmissionServer, outcome: str) -> float:
    """How many reviews ended like that."""
    labels = {"hook": "h", "outcome": outcome}
    return server.metrics.registry.get_sample_value("trimtab_webhook_reviews_total", labels) or 0.0


async def test_a_hook_that_fails_admits() -> None:
    """The failure is counted and reported."""
    (response, _), server, reasons = await decided(fails)
    assert response.allowed
    assert counted(server, "failed") == 1
    assert reasons == ["RuntimeError: it is broken"]


async def test_a_report_that_fails_admits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged."""

    def on_skip(*_: Any) -> None:
        raise RuntimeError("cannot be reported")

    async with served(tmp_path, [hook(fails)], on_skip=on_skip) as (server, session):
        status, answer = await post(server, session, body())
    assert (status, answer["response"]["allowed"], counted(server, "failed")) == (200, True, 1)
    assert "cannot be reported" in caplog.text


async def test_a_hook_that_is_not_done_within_its_budget_admits() -> None:
    """The budget is the hook's."""
    (response, took), server, reasons = await decided(never)
    assert response.allowed
    assert took == pytest.approx(2.0, abs=0.06)
    assert counted(server, "late") == 1
    assert reasons == ["no decision within 2 s"]


async def test_an_api_server_with_less_timeout_is_answered_in_time() -> None:
    """A shorter timeout of the API server is met."""
    (response, took), _, _ = await decided(never, timeout=1.0)
    assert response.allowed
    assert took == pytest.approx(0.75, abs=0.06)


async def test_requests_beyond_the_limit_in_flight_are_admitted() -> None:
    """Requests beyond the limit do not wait."""
    (response, took), server, _ = await decided(never, in_flight=0)
    assert response.allowed
    assert took < 0.1
    assert counted(server, "busy") == 1


async def test_a_feature_that_is_not_ready_admits_without_a_decision() -> None:
    """And is counted; the hook is not called."""
    clock, reasons = VirtualClock(), list[str]()
    server = AdmissionServer(
        [replace(hook(no), is_ready=lambda: False)],
        certificates=FileCertificates(Path("none"), Path("none"), clock=clock),
        host="",
        port=0,
        clock=clock,
        on_skip=lambda *what: reasons.append(what[2]),
    )
    response = await server.decide(server.hooks["/h"], AdmissionRequest(uid="u"))
    assert response.allowed
    assert reasons == ["the caches have not synced yet"]
    assert counted(server, "not-ready") == 1


def test_two_hooks_cannot_share_a_path() -> None:
    """One of them would never be called."""
    certificates = FileCertificates(Path("none"), Path("none"), clock=SystemClock())
    with pytest.raises(ValueError, match="the same path"):
        AdmissionServer([hook(yes), hook(no)], certificates=certificates, host="", port=0)


async def test_an_overloaded_process_admits_without_a_decision() -> None:
    """Its loop is late: it could not keep the budget."""
    clock = VirtualClock()
    certificates = FileCertificates(Path("none"), Path("none"), clock=clock)
    server = AdmissionServer([hook(no)], certificates=certificates, host="", port=0, clock=clock, lag=lambda: 0.6)
    response = await server.decide(server.hooks["/h"], AdmissionRequest(uid="u"))
    assert response.allowed
    assert counted(server, "busy") == 1


@pytest.mark.parametrize(
    ("signer", "answered"),
    [
        pytest.param("ours", True, id="the API server's own"),
        pytest.param("another", False, id="signed by another authority"),
        pytest.param("", False, id="none"),
    ],
)
async def test_client_certificates_are_asked_for_where_configured(tmp_path: Path, signer: str, answered: bool) -> None:
    """The administrator names the authority that signs the API server's client certificate."""
    signers = {"ours": Authority(), "another": Authority()}
    (tmp_path / "client-ca.crt").write_bytes(signers["ours"].certificate)
    trust = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    if signer:
        pair = signers[signer].client("kube-apiserver")
        (tmp_path / "client.pem").write_bytes(pair.certificate + pair.key)
        trust.load_cert_chain(tmp_path / "client.pem")
    async with (
        served(tmp_path, [hook(yes)], client_ca=tmp_path / "client-ca.crt") as (server, _),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session,
    ):
        try:
            status, _ = await post(server, session, body())
        except (aiohttp.ClientError, ssl.SSLError):
            status = 0
    assert (status == 200) is answered


async def test_reviews_under_way_are_answered_when_the_server_ends(tmp_path: Path) -> None:
    """No connection is cut off."""
    entered, go = asyncio.Event(), asyncio.Event()

    async def waits(request: AdmissionRequest) -> AdmissionResponse:
        entered.set()
        await go.wait()
        return admitted(request, "at last")

    async with served(tmp_path, [hook(waits)]) as (server, session):
        asking = asyncio.ensure_future(post(server, session, body()))
        await entered.wait()
        asyncio.get_running_loop().call_later(0.05, go.set)
    status, answer = await asking
    assert status == 200
    assert answer["response"]["warnings"] == ["at last"]
