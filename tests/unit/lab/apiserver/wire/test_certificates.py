"""Certificates and the kubeconfig that trusts them."""

from __future__ import annotations

import base64
import ssl
import stat
from pathlib import Path

import yaml
from cryptography import x509

from trimtab_lab.apiserver.admission.users import User
from trimtab_lab.apiserver.wire.authentication import Authenticator
from trimtab_lab.apiserver.wire.certificates import Identity


def test_an_identity_survives_a_restart(tmp_path: Path) -> None:
    """After a restart in the same folder the kubeconfig is still trusted; only the owner can read the keys."""
    first = Identity(tmp_path / "lab")
    second = Identity(tmp_path / "lab")
    assert first.authority == second.authority
    for name in ("ca.key", "server.key"):
        assert stat.S_IMODE((tmp_path / "lab" / name).stat().st_mode) == 0o600
    assert isinstance(second.ssl_context(), ssl.SSLContext)


def test_a_server_without_its_authority_gets_a_new_one(tmp_path: Path) -> None:
    """And a certificate that the new one signed."""
    first = Identity(tmp_path)
    (tmp_path / "ca.key").unlink()
    second = Identity(tmp_path)
    assert first.authority != second.authority
    server = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    authority = x509.load_pem_x509_certificate(second.authority)
    server.verify_directly_issued_by(authority)


def test_the_kubeconfig_authenticates_an_administrator(tmp_path: Path) -> None:
    """It has the server, its authority and the certificate of an administrator."""
    identity = Identity(tmp_path)
    identity.write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1")
    assert stat.S_IMODE((tmp_path / "kubeconfig").stat().st_mode) == 0o600
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    pem = base64.b64decode(config["users"][0]["user"]["client-certificate-data"])
    subject = x509.load_pem_x509_certificate(pem).subject.rfc4514_string()
    assert subject == "CN=kubernetes-admin,OU=lab,O=system:masters"


def test_the_user_comes_from_a_token_or_a_certificate() -> None:
    """A certificate decides for a client that presents both; an unknown token alone is not authenticated."""
    authenticator = Authenticator({"secret": User("robot")})
    certificate = {"subject": ((("organizationName", "ops"),), (("commonName", "ada"),))}
    assert authenticator.user("Bearer secret", None) == User("robot")
    assert authenticator.user(None, certificate) == User("ada", ("ops", "system:authenticated"))
    assert authenticator.user("Bearer guess", certificate) == User("ada", ("ops", "system:authenticated"))
    assert authenticator.user("Bearer guess", None) is None
    assert authenticator.user("Basic secret", None) is None
    assert authenticator.user(None, None) is None
