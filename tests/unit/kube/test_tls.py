"""TLS contexts: whom we trust, and what is refused."""

from __future__ import annotations

import ssl

import pytest

from tests.unit.kube.certificates import Authority
from trimtab.kube.credentials import Grant, InlineMaterial
from trimtab.kube.errors import ConfigError
from trimtab.kube.tls import Contexts, Trust


def test_an_authority_that_is_given_is_the_only_one_trusted() -> None:
    """The machine's own authorities do not count then."""
    context = Contexts(Trust(InlineMaterial(Authority().certificate))).context(Grant())
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_insecure_verifies_nothing() -> None:
    """Nothing is verified if that is configured."""
    context = Contexts(Trust(insecure=True)).context(Grant())
    assert context.verify_mode is ssl.CERT_NONE
    assert not context.check_hostname


def test_insecure_and_an_authority_contradict_each_other() -> None:
    """As kubectl, we do not guess which one is meant."""
    with pytest.raises(ConfigError, match="cannot be combined"):
        Trust(InlineMaterial(b"x"), insecure=True)


def test_a_context_is_kept_until_something_changes() -> None:
    """Making one is slow; a new certificate needs a new one."""
    authority = Authority()
    first, second = authority.client("a"), authority.client("b")
    contexts = Contexts(Trust(InlineMaterial(authority.certificate)))
    made = contexts.context(Grant(certificate=first.certificate, key=first.key))
    assert contexts.context(Grant(certificate=first.certificate, key=first.key)) is made
    assert contexts.context(Grant("token", first.certificate, first.key)) is made
    assert contexts.context(Grant(certificate=second.certificate, key=second.key)) is not made


@pytest.mark.parametrize("authority", [b"no certificate", "nö".encode()])
def test_an_authority_that_is_not_a_certificate_is_refused(authority: bytes) -> None:
    """The message says what is wrong with it."""
    with pytest.raises(ConfigError, match="not a PEM certificate"):
        Contexts(Trust(InlineMaterial(authority))).context(Grant())


def test_a_certificate_that_is_being_replaced_leaves_the_old_one_in_use(caplog: pytest.LogCaptureFixture) -> None:
    """The new certificate is there before its key: until both are, the context from before serves."""
    authority = Authority()
    first, second = authority.client("a"), authority.client("b")
    contexts = Contexts(Trust(InlineMaterial(authority.certificate)))
    made = contexts.context(Grant(certificate=first.certificate, key=first.key))
    assert contexts.context(Grant(certificate=second.certificate, key=first.key)) is made
    assert "using the previous certificates" in caplog.text
    assert contexts.context(Grant(certificate=second.certificate, key=second.key)) is not made


def test_a_client_certificate_that_cannot_be_used_is_refused() -> None:
    """A key of another certificate, an encrypted key, and nonsense; none of them is shown."""
    authority = Authority()
    one, other = authority.client("a"), authority.client("b")
    locked = authority.client("c", password=b"hunter2")
    contexts = Contexts(Trust(InlineMaterial(authority.certificate)))
    for grant in (
        Grant(certificate=one.certificate, key=other.key),
        Grant(certificate=locked.certificate, key=locked.key),
        Grant(certificate=one.certificate, key=b"hunter2"),
    ):
        with pytest.raises(ConfigError, match="client certificate and its key cannot be used") as caught:
            contexts.context(grant)
        assert "hunter2" not in str(caught.value)
