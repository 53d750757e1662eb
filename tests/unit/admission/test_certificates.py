"""Certificates: created, renewed without interruption, shared by replicas, or read from files."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import verification
from cryptography.x509.oid import NameOID

from tests.lab.holding import VALIDATING, configuration
from trimtab.admission import certificate_authority, certificates
from trimtab.admission.certificate_authority import (
    BACKDATING,
    OVERLAP,
    KeyPair,
    Keyring,
    invalid_reason,
    make_authority,
    names_of,
    renew,
    sign,
)
from trimtab.admission.certificates import CONFIGURATIONS, SECRETS, FileCertificates, ManagedCertificates
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import Forbidden
from trimtab.kube.server_time import ServerTime
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.testing import InMemoryLab, Wire

DAY = 86_400.0
START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("trimtab-webhooks.trimtab-system.svc", "127.0.0.1")


def trusts(bundle: bytes, pair: KeyPair, moment: datetime) -> bool:
    """Whether a client with this CA bundle accepts the certificate at that moment."""
    store = verification.Store(x509.load_pem_x509_certificates(bundle))
    builder = verification.PolicyBuilder().store(store).time(moment)
    verifier = builder.build_server_verifier(x509.DNSName(NAMES[0]))
    try:
        verifier.verify(x509.load_pem_x509_certificate(pair.certificate), [])
    except verification.VerificationError:
        return False
    return True


def test_a_new_keyring_is_good_for_its_names() -> None:
    """Names and addresses, by an authority of its own."""
    keyring = renew(None, NAMES, START)
    assert names_of(keyring.serving) == set(NAMES)
    assert trusts(keyring.bundle, keyring.serving, START)


def test_certificates_are_valid_a_day_before_their_creation() -> None:
    """Authority and serving certificate, for API servers whose clocks are behind."""
    keyring = renew(None, NAMES, START)
    assert trusts(keyring.bundle, keyring.serving, START - timedelta(hours=23))
    assert not trusts(keyring.bundle, keyring.serving, START - timedelta(hours=25))
    assert keyring.serving.created == keyring.authority.created == START


def test_certificates_that_are_not_valid_yet_are_replaced() -> None:
    """A wrong clock created them: the authority with everything it signed, or only what is wrong."""
    earlier = START - BACKDATING - timedelta(hours=1)
    keyring = renew(None, NAMES, START)
    replaced = renew(keyring, NAMES, earlier)
    assert replaced.authority != keyring.authority
    assert trusts(replaced.bundle, replaced.serving, earlier)
    valid = renew(None, NAMES, earlier)
    signed = renew(replace(valid, serving=keyring.serving), NAMES, earlier)
    assert (signed.authority, signed.serving.is_valid(earlier)) == (valid.authority, True)
    following = renew(replace(valid, next_authority=keyring.authority), NAMES, earlier).next_authority
    assert following is not None
    assert following.is_valid(earlier)


def test_the_presented_chain_is_valid_if_one_certificate_of_each_issuer_is() -> None:
    """Expired cross-signed certificates do not matter, nor does a root that is presented."""
    root = make_authority(START - timedelta(days=4000))
    leaf = sign(root, NAMES, START)
    assert invalid_reason(leaf.certificate + root.certificate, START) == ""
    assert invalid_reason(leaf.certificate, START + timedelta(days=400)) == "the webhook certificate has expired"
    assert "is not valid before 2025-12-31" in invalid_reason(leaf.certificate, START - timedelta(days=2))
    issuer, old = (_intermediate("issuer", root, START - timedelta(days=days)) for days in (0, 4000))
    leaf = sign(issuer, NAMES, START)
    assert invalid_reason(leaf.certificate + old.certificate + issuer.certificate, START) == ""
    reason = invalid_reason(leaf.certificate + old.certificate, START)
    assert reason == "the issuer CN=issuer of the webhook certificate has expired"


def _intermediate(name: str, root: KeyPair, moment: datetime) -> KeyPair:
    """An authority that another one signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    secret = serialization.load_pem_private_key(root.key, None)
    assert isinstance(secret, ec.EllipticCurvePrivateKey)
    builder = x509.CertificateBuilder(
        issuer_name=x509.load_pem_x509_certificate(root.certificate).subject,
        subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=moment,
        not_valid_after=moment + timedelta(days=3650),
    ).sign(secret, hashes.SHA256())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return KeyPair(builder.public_bytes(encoding), key.private_bytes(encoding, form, serialization.NoEncryption()))


def test_nothing_is_renewed_before_it_is_due() -> None:
    """The same keyring, day after day."""
    keyring = renew(None, NAMES, START)
    assert renew(keyring, NAMES, START + timedelta(days=200)) is keyring


def test_other_names_need_another_certificate() -> None:
    """By the same authority."""
    keyring = renew(None, NAMES, START)
    changed = renew(keyring, ["other.svc"], START)
    assert names_of(changed.serving) == {"other.svc"}
    assert changed.authority == keyring.authority


def test_over_thirty_years_every_certificate_is_trusted_by_old_and_new_bundles() -> None:
    """Every replica and every API server may be one check behind: all old and new bundles and certificates match."""
    keyring, moment = renew(None, NAMES, START), START
    step, authorities_seen, changes = timedelta(days=20), set(), 0
    while moment < START + timedelta(days=30 * 365):
        before, keyring = keyring, renew(keyring, NAMES, moment)
        authorities_seen.add(keyring.authority.certificate)
        if keyring != before:
            changes += 1
            assert trusts(keyring.bundle, keyring.serving, moment)
            assert trusts(before.bundle, keyring.serving, moment), "an API server that has the bundle from before"
            assert trusts(keyring.bundle, before.serving, moment), "a replica that shows the certificate from before"
            moment += OVERLAP
        else:
            moment += step
    assert len(authorities_seen) >= 4
    assert changes > 40


def test_two_authorities_stand_in_the_bundle_while_they_change() -> None:
    """The next one before it signs anything, the previous one until no replica serves what it signed."""
    keyring = renew(None, NAMES, START)
    due = keyring.authority.expires - timedelta(days=1000)
    keyring = replace(keyring, serving=sign(keyring.authority, NAMES, due))
    announced = renew(keyring, NAMES, due)
    assert announced.next_authority is not None
    assert announced.serving == keyring.serving
    assert announced.bundle.count(b"BEGIN CERTIFICATE") == 2
    assert renew(announced, NAMES, due + OVERLAP / 2) == announced
    switched = renew(announced, NAMES, due + OVERLAP)
    assert switched.authority == announced.next_authority
    assert switched.bundle.count(b"BEGIN CERTIFICATE") == 2
    alone = renew(switched, NAMES, due + 2 * OVERLAP)
    assert alone.bundle.count(b"BEGIN CERTIFICATE") == 1


def test_a_keyring_survives_a_secret() -> None:
    """With and without a second authority."""
    keyring = renew(None, NAMES, START)
    whole = Keyring(keyring.authority, keyring.serving, make_authority(START), keyring.authority.certificate)
    for each in (keyring, whole):
        assert certificates.keyring_in({"data": certificates.secret_data(each)}) == each


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"ca.crt": "!"}, id="no base64"),
        pytest.param(dict.fromkeys(("ca.crt", "ca.key", "tls.crt", "tls.key"), "YQ=="), id="no certificates"),
    ],
)
def test_a_secret_that_is_not_whole_is_no_keyring(data: dict[str, str]) -> None:
    """It is created again."""
    assert certificates.keyring_in({"data": data}) is None


@pytest_asyncio.fixture
async def world() -> AsyncIterator[InMemoryLab]:
    """A cluster with a webhook configuration in it."""
    cluster = InMemoryLab()
    await cluster.start()
    await cluster.user.create(CONFIGURATIONS[VALIDATING], configuration("default", "https://127.0.0.1:1/scale"))
    yield cluster
    await cluster.close()


def certificates_of(world: InMemoryLab, *, is_leader: bool, client: Client | None = None) -> ManagedCertificates:
    """The certificates of one replica."""
    return ManagedCertificates(
        client or world.user,
        namespace="default",
        name="keys",
        names=NAMES,
        configurations=[(VALIDATING, "trimtab-default")],
        is_leader=lambda: is_leader,
        interval=DAY,
    )


async def test_the_leader_writes_the_keyring_and_the_others_read_it(world: InMemoryLab) -> None:
    """A replica without a certificate waits for one."""
    leader, other = certificates_of(world, is_leader=True), certificates_of(world, is_leader=False)
    await other.check()
    found = [other.synced]
    await leader.check()
    await other.check()
    assert [*found, other.synced] == [False, True]
    secret = await world.user.get(SECRETS, "keys", namespace="default")
    assert other.pair == leader.pair
    assert secret["data"]["tls.crt"]


async def test_the_configurations_trust_the_bundle(world: InMemoryLab) -> None:
    """Written once, and again only when it changes."""
    leader = certificates_of(world, is_leader=True)
    await leader.check()
    found = await world.user.get(CONFIGURATIONS[VALIDATING], "trimtab-default")
    secret = await world.user.get(SECRETS, "keys", namespace="default")
    bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])
    assert bundle == base64.b64decode(secret["data"]["ca.crt"])
    await leader.check()
    again = await world.user.get(CONFIGURATIONS[VALIDATING], "trimtab-default")
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]


async def test_what_is_due_is_renewed_in_place(world: InMemoryLab) -> None:
    """The Secret and the context change; the authority stays."""
    leader = certificates_of(world, is_leader=True)
    await leader.check()
    first = await world.user.get(SECRETS, "keys", namespace="default")
    await world.clock.advance(timedelta(days=300).total_seconds())
    await leader.check()
    second = await world.user.get(SECRETS, "keys", namespace="default")
    assert second["data"]["tls.crt"] != first["data"]["tls.crt"]
    assert second["data"]["ca.crt"] == first["data"]["ca.crt"]
    assert leader.problems == []


async def test_a_certificate_that_cannot_be_loaded_is_reported_and_retried(
    world: InMemoryLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full for a while ends nothing."""
    leader = certificates_of(world, is_leader=True)
    load = leader._serving.load  # noqa: SLF001 - what new connections are shown

    def refuse(_: KeyPair) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(type(leader._serving), "load", lambda _, pair: refuse(pair))  # noqa: SLF001
    running = asyncio.ensure_future(leader.run())
    await world.settle()
    assert leader.problems == ["no space left on device"]
    monkeypatch.setattr(type(leader._serving), "load", lambda _, pair: load(pair))  # noqa: SLF001
    await world.advance(2)
    assert (leader.synced, leader.problems, running.done()) == (True, [], False)
    await cancel(running)


async def test_a_certificate_that_is_not_renewed_is_reported(
    world: InMemoryLab, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, in time and once; on /readyz, which takes a replica out of service, only after it has expired."""
    leader, other = certificates_of(world, is_leader=True), certificates_of(world, is_leader=False)
    await leader.check()
    running = asyncio.ensure_future(other.run())
    await world.settle()
    await world.clock.advance(certificate_authority.SERVING_LIFETIME.total_seconds() - 7200)
    assert [text for text in caplog.messages if "has not been renewed" in text] == [
        "the webhook certificate expires at 2027-01-01T00:00:00+00:00 and has not been renewed; check what renews it"
    ]
    assert other.problems == []
    await world.clock.advance(7200)
    assert other.problems == ["the webhook certificate has expired"]
    await cancel(running)


async def test_a_valid_certificate_is_served_although_it_cannot_be_renewed(world: InMemoryLab) -> None:
    """A Secret that cannot be read or written for a while takes no replica out of service."""
    wire = Wire(world.cluster)
    leader = certificates_of(world, is_leader=True, client=Client(wire, clock=world.clock))
    running = asyncio.ensure_future(leader.run())
    await world.settle()
    wire.refuse = lambda _: Forbidden("not any more")
    await world.clock.advance(2 * DAY)
    assert (leader.synced, leader.problems) == (True, [])
    await world.clock.advance(certificate_authority.SERVING_LIFETIME.total_seconds())
    assert leader.problems == ["the webhook certificate has expired", "not any more"]
    await cancel(running)


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    """Half replaced, the old ones stay; whole, the new ones are used."""
    clock = VirtualClock()
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    given = FileCertificates(certificate, key, clock=clock)
    given.check()
    found = [given.synced]
    assert given.problems
    authority = make_authority(START)
    first, second = (sign(authority, NAMES, START) for _ in range(2))
    certificate.write_bytes(first.certificate)
    key.write_bytes(first.key)
    given.check()
    assert [*found, given.synced] == [False, True]
    certificate.write_bytes(second.certificate)
    given.check()
    assert given.pair == first
    assert given.problems == [], "what is shown is as good as before"
    key.write_bytes(second.key)
    given.check()
    assert given.pair == second
    assert given.problems == []


class OffsetWire(Wire):
    """An API server whose clock differs from ours."""

    ahead = timedelta(0)

    def __init__(self, world: InMemoryLab) -> None:
        super().__init__(world.cluster)
        self._clock = world.clock

    async def send(self, request: Request) -> Response:
        """The answer, with the server's time."""
        response = await super().send(request)
        return replace(response, headers={**response.headers, "Date": date_header(self._clock, self.ahead)})


def date_header(clock: VirtualClock, ahead: timedelta) -> str:
    """The Date header of a server whose clock is ahead of this one."""
    moment = datetime.fromtimestamp(clock.now() / 1_000_000_000, UTC) + ahead
    return format_datetime(moment.replace(microsecond=0), usegmt=True)


@pytest.mark.parametrize("hours", [pytest.param(-30, id="our clock is ahead"), pytest.param(30, id="ours is behind")])
async def test_certificates_are_created_by_the_api_servers_clock(world: InMemoryLab, hours: int) -> None:
    """They are valid there from the first moment, and nothing is reported here."""
    wire = OffsetWire(world)
    wire.ahead = timedelta(hours=hours)
    leader = certificates_of(world, is_leader=True, client=Client(wire, clock=world.clock))
    await leader.check()
    assert leader.pair is not None
    assert abs(leader.pair.created - (START + wire.ahead)) < timedelta(minutes=1)
    assert leader.problems == []


async def test_a_certificate_of_a_clock_that_was_ahead_is_reported_and_renewed(
    world: InMemoryLab, caplog: pytest.LogCaptureFixture
) -> None:
    """Other replicas report it until the leader has renewed it; the report names the offset, once."""
    wire = OffsetWire(world)
    leader = certificates_of(world, is_leader=True)
    await leader.check()
    wire.ahead = timedelta(hours=-25)
    client = Client(wire, clock=world.clock)
    other = certificates_of(world, is_leader=False, client=client)
    running = asyncio.ensure_future(other.run())
    await world.settle()
    invalid = (
        "the webhook certificate is not valid before 2025-12-31T00:00:00+00:00 by the API server's clock "
        "(this process's clock is 90000 s ahead of the API server's)"
    )
    assert other.problems == [invalid]
    await world.clock.advance(DAY / 100)
    assert caplog.messages == [f"{invalid}; API servers refuse it until it is replaced"]
    successor = certificates_of(world, is_leader=True, client=client)
    await successor.check()
    assert successor.problems == []
    await other.check()
    assert (other.pair, other.problems) == (successor.pair, [])
    assert caplog.messages[-1].startswith("the webhook certificates were renewed: the webhook certificate is not valid")
    await cancel(running)


def test_files_are_valid_by_the_api_servers_clock(tmp_path: Path) -> None:
    """An expired certificate is reported although our own clock is behind."""
    clock = VirtualClock()
    server_time = ServerTime(clock)
    pair = sign(make_authority(START), NAMES, START)
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    given = FileCertificates(tmp_path / "tls.crt", tmp_path / "tls.key", clock=clock, server_time=server_time)
    given.check()
    assert given.problems == []
    sent = clock.monotonic()
    server_time.observe(date_header(clock, timedelta(days=366)), sent=sent, received=sent)
    assert [problem.split(" by the")[0] for problem in given.problems] == ["the webhook certificate has expired"]
