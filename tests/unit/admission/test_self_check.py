"""The call to our own webhook: over real TLS on loopback, verified as API servers do, by their clock."""

from __future__ import annotations

import asyncio
import base64
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kube.certificates import Authority
from tests.unit.kube.fakes import ScriptedTransport, answer, failure
from trimtab.admission.certificate_authority import KeyPair, make_authority, sign
from trimtab.admission.certificates import FileCertificates
from trimtab.admission.metrics import Metrics
from trimtab.admission.self_check import PATH, Registrations, SelfCheck, Target, own_address
from trimtab.admission.server import AdmissionServer, Hook, admitted
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.kube.client import Client
from trimtab.kube.clocks import SystemClock, cancel
from trimtab.kube.retries import RetryPolicy
from trimtab.kube.server_time import ServerTime
from trimtab.testing.clocks import VirtualClock

NAME = "trimtab-webhooks.trimtab-system.svc"
NOW = datetime.now(UTC)
AUTHORITY = make_authority(NOW)
OTHER = make_authority(NOW + timedelta(seconds=1))


async def admit(request: AdmissionRequest) -> AdmissionResponse:
    """Admit everything."""
    return admitted(request)


@dataclass
class Replica:
    """A server, the call to itself, and what API servers verify."""

    server: AdmissionServer
    check: SelfCheck
    targets: list[Target]
    server_time: ServerTime

    async def problem(self) -> str:
        """What a call finds now."""
        return await self.check.check("127.0.0.1", self.server.port)

    async def first_result(self) -> list[str]:
        """What /readyz reports after the first call."""
        while self.check.problems == ["our own webhook has not been called yet"]:
            await asyncio.sleep(0.001)
        return self.server.problems


@asynccontextmanager
async def replica(
    folder: Path,
    pair: KeyPair | None = None,
    *,
    target: Target | None = None,
    client_ca: Path | None = None,
    ahead: timedelta = timedelta(0),
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> AsyncIterator[Replica]:
    """A replica that listens, with an API server whose clock is ahead."""
    pair = pair or sign(AUTHORITY, [NAME], NOW)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    clock, targets = SystemClock(), [target or Target(NAME, AUTHORITY.certificate)]
    server_time = ServerTime(clock)
    date = format_datetime((datetime.now(UTC) + ahead).replace(microsecond=0), usegmt=True)
    server_time.observe(date, sent=clock.monotonic(), received=clock.monotonic())

    async def current() -> Sequence[Target]:
        return targets

    check = SelfCheck(
        current, server_time=server_time, clock=clock, needs_client_certificate=client_ca is not None, interval=0.01
    )
    certificates = FileCertificates(
        folder / "tls.crt", folder / "tls.key", clock=clock, server_time=server_time, interval=0.01
    )
    certificates.context.maximum_version = version
    server = AdmissionServer(
        [Hook("h", "/h", admit, 1.0)],
        certificates=certificates,
        host="0.0.0.0",  # noqa: S104 - as configured by default
        port=0,
        client_ca=client_ca,
        check=check,
        metrics=Metrics(),
    )
    running = asyncio.ensure_future(server.run())
    try:
        while not server.synced:
            await asyncio.sleep(0)
        yield Replica(server, check, targets, server_time)
    finally:
        await cancel(running)


async def test_a_replica_is_ready_once_it_has_called_itself(tmp_path: Path) -> None:
    """By the Service's name, which needs no DNS; the call counts as no review."""
    async with replica(tmp_path) as each:
        assert await each.first_result() == []
        samples = [s for family in each.server.metrics.registry.collect() for s in family.samples]
        assert [s for s in samples if s.name == "trimtab_webhook_reviews_total"] == []


@pytest.mark.parametrize(
    ("target", "words"),
    [
        pytest.param(Target(NAME, OTHER.certificate), "unable to get local issuer certificate", id="another CA"),
        pytest.param(Target("a.b.svc", AUTHORITY.certificate), "Hostname mismatch", id="another name"),
        pytest.param(Target("10.0.0.1", AUTHORITY.certificate), "IP address mismatch", id="an address"),
        pytest.param(Target(NAME, b""), "the CA bundle is empty", id="no CA yet"),
        pytest.param(Target(NAME, b"what?"), "check caBundle", id="no certificates"),
    ],
)
async def test_what_api_servers_do_not_trust_is_not_ready(tmp_path: Path, target: Target, words: str) -> None:
    """With the reason, until it is corrected."""
    async with replica(tmp_path, target=target) as each:
        (problem,) = await each.first_result()
        assert problem.startswith(f"API servers cannot call the webhooks as {target.server_name}: ")
        assert words in problem
        each.targets[:] = [Target(NAME, AUTHORITY.certificate)]
        while each.server.problems:
            await asyncio.sleep(0.001)
        each.targets.append(target)
        while not each.server.problems:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("hours", [-1, 1, -23, 300 * 24])
async def test_certificates_are_verified_by_the_api_servers_clock(tmp_path: Path, hours: int) -> None:
    """A certificate that is valid there is trusted, whatever our own clock says."""
    ahead = timedelta(hours=hours)
    pair = sign(AUTHORITY, [NAME], NOW + ahead)
    async with replica(tmp_path, pair, ahead=ahead) as each:
        assert await each.first_result() == []


@pytest.mark.parametrize(
    ("created", "words"),
    [
        pytest.param(timedelta(hours=25), "is not valid before", id="by a clock that was ahead"),
        pytest.param(timedelta(days=-366), "has expired", id="expired"),
    ],
)
async def test_certificates_that_are_invalid_at_the_api_server_are_not_ready(
    tmp_path: Path, created: timedelta, words: str
) -> None:
    """Although they are valid by our own clock, by which they were created."""
    ahead = -created
    async with replica(tmp_path, sign(AUTHORITY, [NAME], NOW), ahead=ahead) as each:
        (problem,) = each.server.problems
        assert words in problem
        assert "this process's clock is" in problem


async def test_a_ca_that_is_invalid_at_the_api_server_is_not_ready(tmp_path: Path) -> None:
    """The serving certificate is valid, its authority not yet."""
    authority = make_authority(NOW + timedelta(hours=25))
    target = Target(NAME, authority.certificate)
    async with replica(tmp_path, sign(authority, [NAME], NOW), target=target) as each:
        assert "no certificate of the CA bundle is valid by the API server's clock" in await each.problem()


async def test_a_common_name_does_not_replace_a_san(tmp_path: Path) -> None:
    """As in Go: the common name is not a name of the server."""
    authority = Authority()
    without_san = authority.client(NAME)
    pair = KeyPair(without_san.certificate, without_san.key)
    async with replica(tmp_path, pair, target=Target(NAME, authority.certificate)) as each:
        assert "mismatch" in await each.problem()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_server_that_requires_a_client_certificate_serves(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """Its refusal comes after (in TLS 1.2: in) the handshake; its own certificate is verified all the same."""
    ca = tmp_path / "client-ca.crt"
    ca.write_bytes(Authority().certificate)
    async with replica(tmp_path, client_ca=ca, version=version) as each:
        without = await self_check_of(each.targets, SystemClock())
        assert "API servers cannot call the webhooks" in await without.check("127.0.0.1", each.server.port)
        assert [await each.problem() for _ in range(20)] == [""] * 20
        each.targets[:] = [Target(NAME, OTHER.certificate)]
        assert "unable to get local issuer certificate" in await each.problem()


async def self_check_of(targets: Sequence[Target], clock: Any, **options: Any) -> SelfCheck:
    """A check of these targets, alone."""

    async def current() -> Sequence[Target]:
        return targets

    return SelfCheck(current, server_time=ServerTime(SystemClock()), clock=clock, **options)


@pytest.mark.parametrize("needs_client_certificate", [False, True])
async def test_a_server_that_does_not_listen_is_a_problem(needs_client_certificate: bool) -> None:
    """Whoever may call it."""
    listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    listener.close()
    await listener.wait_closed()
    check = await self_check_of(
        [Target(NAME, AUTHORITY.certificate)], SystemClock(), needs_client_certificate=needs_client_certificate
    )
    assert f"the call to 127.0.0.1:{port} failed" in await check.check("127.0.0.1", port)


async def test_a_server_that_does_not_answer_is_a_problem() -> None:
    """After the timeout."""
    clock = VirtualClock()
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    listener = await asyncio.start_server(lambda _, writer: accepted.put_nowait(writer), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    check = await self_check_of([Target(NAME, AUTHORITY.certificate)], clock)
    calling = asyncio.ensure_future(check.check("127.0.0.1", port))
    server_side = await accepted.get()
    await clock.advance(5)
    assert f"no answer from 127.0.0.1:{port} within 5 s" in await calling
    server_side.close()
    listener.close()
    await listener.wait_closed()


@pytest.mark.parametrize(
    ("host", "address"),
    [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.1.2.3", "10.1.2.3"), ("fd00::1", "fd00::1")],  # noqa: S104
)
def test_the_own_address_is_where_the_server_listens(host: str, address: str) -> None:
    """Any address means loopback."""
    assert own_address(host, 9443) == (address, 9443)


def configuration(*clients: Any) -> Any:
    """A webhook configuration with these `clientConfig`s."""
    return {"webhooks": [{"name": str(at), "clientConfig": client} for at, client in enumerate(clients)]}


def encoded(text: bytes) -> str:
    """A CA bundle as it is in an object."""
    return base64.b64encode(text).decode()


def registrations(transport: ScriptedTransport, *, managed: bool = True) -> Registrations:
    """What a client reads there; our own name is `own`."""
    client = Client(transport, clock=VirtualClock()).using(retry=RetryPolicy(attempts=1))
    return Registrations(client, "trimtab", own=lambda: Target("own", b"our CA"), managed=managed)


SERVICE = {"namespace": "trimtab-system", "name": "trimtab-webhooks", "port": 443, "path": "/scale"}


async def test_targets_are_what_the_webhook_configurations_name() -> None:
    """By Service or URL, each once."""
    by_service = {"service": SERVICE, "caBundle": encoded(b"one")}
    by_url = {"url": "https://127.0.0.1:9443/scale", "caBundle": encoded(b"two")}
    transport = ScriptedTransport(
        answer(200, configuration(by_service, by_service)), answer(200, configuration(by_url))
    )
    assert await registrations(transport).targets() == (Target(NAME, b"one"), Target("127.0.0.1", b"two"))


@pytest.mark.parametrize(("managed", "bundle"), [(True, b""), (False, b"our CA")])
async def test_an_empty_ca_bundle_is_a_fault_only_if_trimtab_writes_it(managed: bool, bundle: bytes) -> None:
    """Otherwise API servers trust the roots of their machines, which are not known here."""
    transport = ScriptedTransport(answer(200, configuration({"service": SERVICE})), failure(404, "NotFound"))
    assert await registrations(transport, managed=managed).targets() == (Target(NAME, bundle),)


async def test_without_webhook_configurations_our_own_name_and_ca_count() -> None:
    """They may be created after the process, and only for ready replicas."""
    transport = ScriptedTransport(failure(404, "NotFound"), failure(404, "NotFound"))
    assert await registrations(transport).targets() == (Target("own", b"our CA"),)


async def test_an_api_server_that_fails_does_not_change_what_is_known(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once."""
    known = answer(200, configuration({"service": SERVICE, "caBundle": encoded(b"one")}))
    refusals = [failure(403, "Forbidden") for _ in range(3)]
    transport = ScriptedTransport(refusals[0], known, failure(404, "NotFound"), *refusals[1:])
    reader = registrations(transport)
    assert await reader.targets() == (Target("own", b"our CA"),)
    assert [await reader.targets() for _ in range(3)] == [(Target(NAME, b"one"),)] * 3
    assert len([text for text in caplog.messages if "cannot be read" in text]) == 2


async def test_a_ping_that_is_no_review_is_refused(tmp_path: Path) -> None:
    """As on every other path."""
    async with replica(tmp_path, sign(AUTHORITY, [NAME, "127.0.0.1"], NOW)) as each:
        trust = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
        url = f"https://127.0.0.1:{each.server.port}{PATH}"
        with pytest.raises(urllib.error.HTTPError, match="400") as refused:
            await asyncio.to_thread(urllib.request.urlopen, url, b"{}", 5, context=trust)
        refused.value.close()
