"""Certificates: made, renewed without anybody noticing, shared by replicas, or given."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.x509 import verification

from tests.lab.holding import VALIDATING, configuration
from tests.unit.lab.workloads.clusters import InMemoryLab, Wire
from trimtab.admission import authorities, certificates
from trimtab.admission.authorities import OVERLAP, Keyring, Pair, make_authority, names_of, renewed, sign
from trimtab.admission.certificates import CONFIGURATIONS, SECRETS, GivenCertificates, MadeCertificates
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import Forbidden
from trimtab.testing.clocks import VirtualClock

DAY = 86_400.0
START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("trimtab-webhooks.trimtab-system.svc", "127.0.0.1")


def trusts(bundle: bytes, pair: Pair, moment: datetime) -> bool:
    """Whether who trusts a bundle accepts a server with this certificate at that moment."""
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
    keyring = renewed(None, NAMES, START)
    assert names_of(keyring.serving) == set(NAMES)
    assert trusts(keyring.bundle, keyring.serving, START)


def test_nothing_is_renewed_before_it_is_due() -> None:
    """The same keyring, day after day."""
    keyring = renewed(None, NAMES, START)
    assert renewed(keyring, NAMES, START + timedelta(days=200)) is keyring


def test_other_names_need_another_certificate() -> None:
    """By the same authority."""
    keyring = renewed(None, NAMES, START)
    changed = renewed(keyring, ["other.svc"], START)
    assert names_of(changed.serving) == {"other.svc"}
    assert changed.authority == keyring.authority


def test_over_thirty_years_nobody_ever_meets_a_certificate_that_they_do_not_trust() -> None:
    """Every replica and every API server may be one look behind: all old and new bundles and certificates fit."""
    keyring, moment = renewed(None, NAMES, START), START
    step, authorities_seen, changes = timedelta(days=20), set(), 0
    while moment < START + timedelta(days=30 * 365):
        before, keyring = keyring, renewed(keyring, NAMES, moment)
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
    """The next one before it signs anything, the last one until nobody shows what it signed."""
    keyring = renewed(None, NAMES, START)
    due = keyring.authority.ends - timedelta(days=1000)
    keyring = replace(keyring, serving=sign(keyring.authority, NAMES, due))
    announced = renewed(keyring, NAMES, due)
    assert announced.following is not None
    assert announced.serving == keyring.serving
    assert announced.bundle.count(b"BEGIN CERTIFICATE") == 2
    assert renewed(announced, NAMES, due + OVERLAP / 2) == announced
    switched = renewed(announced, NAMES, due + OVERLAP)
    assert switched.authority == announced.following
    assert switched.bundle.count(b"BEGIN CERTIFICATE") == 2
    alone = renewed(switched, NAMES, due + 2 * OVERLAP)
    assert alone.bundle.count(b"BEGIN CERTIFICATE") == 1


def test_a_keyring_survives_a_secret() -> None:
    """With and without a second authority."""
    keyring = renewed(None, NAMES, START)
    whole = Keyring(keyring.authority, keyring.serving, make_authority(START), keyring.authority.certificate)
    for each in (keyring, whole):
        assert certificates.read({"data": certificates.written(each)}) == each


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"ca.crt": "!"}, id="no base64"),
        pytest.param(dict.fromkeys(("ca.crt", "ca.key", "tls.crt", "tls.key"), "YQ=="), id="no certificates"),
    ],
)
def test_a_secret_that_is_not_whole_is_no_keyring(data: dict[str, str]) -> None:
    """It is made anew."""
    assert certificates.read({"data": data}) is None


@pytest_asyncio.fixture
async def world() -> AsyncIterator[InMemoryLab]:
    """A cluster with a webhook configuration in it."""
    made = InMemoryLab()
    await made.start()
    await made.user.create(CONFIGURATIONS[VALIDATING], configuration("default", "https://127.0.0.1:1/scale"))
    yield made
    await made.close()


def made(world: InMemoryLab, *, leads: bool, client: Client | None = None) -> MadeCertificates:
    """The certificates of one replica."""
    return MadeCertificates(
        client or world.user,
        namespace="default",
        name="keys",
        names=NAMES,
        configurations=[(VALIDATING, "trimtab-default")],
        leads=lambda: leads,
        look_every=DAY,
    )


async def test_the_leader_writes_and_the_others_take_what_they_find(world: InMemoryLab) -> None:
    """A replica without a certificate waits for one."""
    leader, other = made(world, leads=True), made(world, leads=False)
    await other.look()
    found = [other.synced]
    await leader.look()
    await other.look()
    assert [*found, other.synced] == [False, True]
    secret = await world.user.get(SECRETS, "keys", namespace="default")
    assert other._shown.pair == leader._shown.pair  # noqa: SLF001 - what new connections are shown
    assert secret["data"]["tls.crt"]


async def test_the_configurations_trust_the_bundle(world: InMemoryLab) -> None:
    """Written once, and again only when it changes."""
    leader = made(world, leads=True)
    await leader.look()
    found = await world.user.get(CONFIGURATIONS[VALIDATING], "trimtab-default")
    secret = await world.user.get(SECRETS, "keys", namespace="default")
    bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])
    assert bundle == base64.b64decode(secret["data"]["ca.crt"])
    await leader.look()
    again = await world.user.get(CONFIGURATIONS[VALIDATING], "trimtab-default")
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]


async def test_what_is_due_is_renewed_in_place(world: InMemoryLab) -> None:
    """The Secret and the context change; the authority stays."""
    leader = made(world, leads=True)
    await leader.look()
    first = await world.user.get(SECRETS, "keys", namespace="default")
    await world.clock.advance(timedelta(days=300).total_seconds())
    await leader.look()
    second = await world.user.get(SECRETS, "keys", namespace="default")
    assert second["data"]["tls.crt"] != first["data"]["tls.crt"]
    assert second["data"]["ca.crt"] == first["data"]["ca.crt"]
    assert leader.problems == []


async def test_a_certificate_that_cannot_be_shown_yet_is_told_and_tried_again(
    world: InMemoryLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full for a while ends nothing."""
    leader = made(world, leads=True)
    show = leader._shown.show  # noqa: SLF001 - what new connections are shown

    def refuse(_: Pair) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(type(leader._shown), "show", lambda _, pair: refuse(pair))  # noqa: SLF001
    running = asyncio.ensure_future(leader.run())
    await world.settle()
    assert leader.problems == ["no space left on device"]
    monkeypatch.setattr(type(leader._shown), "show", lambda _, pair: show(pair))  # noqa: SLF001
    await world.advance(2)
    assert (leader.synced, leader.problems, running.done()) == (True, [], False)
    await cancel(running)


async def test_a_certificate_that_nobody_renews_is_told(world: InMemoryLab, caplog: pytest.LogCaptureFixture) -> None:
    """In the log, in good time and once; on health pages, which API servers go by, not before it has ended."""
    leader, other = made(world, leads=True), made(world, leads=False)
    await leader.look()
    running = asyncio.ensure_future(other.run())
    await world.settle()
    await world.clock.advance(authorities.SERVING_LIFE.total_seconds() - 7200)
    assert [text for text in caplog.messages if "has not been renewed" in text] == [
        "the webhook certificate ends at 2027-01-01T00:00:00+00:00, and has not been renewed"
    ]
    assert other.problems == []
    await world.clock.advance(7200)
    assert other.problems == ["the webhook certificate has ended"]
    await cancel(running)


async def test_a_good_certificate_serves_although_the_next_one_cannot_be_had(world: InMemoryLab) -> None:
    """An API server that does not let us read, or write, the Secret for a while takes nobody out of service."""
    wire = Wire(world.cluster)
    leader = made(world, leads=True, client=Client(wire, clock=world.clock))
    running = asyncio.ensure_future(leader.run())
    await world.settle()
    wire.refuse = lambda _: Forbidden("not any more")
    await world.clock.advance(2 * DAY)
    assert (leader.synced, leader.problems) == (True, [])
    await world.clock.advance(authorities.SERVING_LIFE.total_seconds())
    assert leader.problems == ["the webhook certificate has ended", "not any more"]
    await cancel(running)


def test_given_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    """Half replaced, the old ones stay; whole, the new ones are used."""
    clock = VirtualClock()
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    given = GivenCertificates(certificate, key, clock=clock)
    given.look()
    found = [given.synced]
    assert given.problems
    authority = make_authority(datetime.now(UTC))
    first, second = (sign(authority, NAMES, datetime.now(UTC)) for _ in range(2))
    certificate.write_bytes(first.certificate)
    key.write_bytes(first.key)
    given.look()
    assert [*found, given.synced] == [False, True]
    certificate.write_bytes(second.certificate)
    given.look()
    assert given._shown.pair == first  # noqa: SLF001 - what new connections are shown
    assert given.problems == [], "what is shown is as good as before"
    key.write_bytes(second.key)
    given.look()
    assert given._shown.pair == second  # noqa: SLF001 - as above
    assert given.problems == []
