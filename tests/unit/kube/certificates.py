"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_FROM = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_UNTIL = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)
_SIGNS = x509.KeyUsage(
    False, False, False, False, False, key_cert_sign=True, crl_sign=False, encipher_only=False, decipher_only=False
)
"""What an authority's certificate must say to be one: Python 3.13 checks it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = _builder(self._name, self._name, self._key).add_extension(basic, critical=True)
        builder = builder.add_extension(identifier, critical=False).add_extension(_SIGNS, critical=True)
        self.certificate = _pem(builder.sign(self._key, hashes.SHA256()))

    def server(self, *names: str) -> Pair:
        """A certificate for a server of these names and addresses."""
        return self._signed("server", x509.SubjectAlternativeName([_general(name) for name in names]))

    def client(self, name: str, *, password: bytes = b"") -> Pair:
        """A certificate for a client of that name; its key is encrypted if a password is given."""
        return self._signed(name, None, password)

    def _signed(self, name: str, extension: x509.SubjectAlternativeName | None, password: bytes = b"") -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = _builder(_name(name), self._name, key).add_extension(issuer, critical=False)
        if extension is not None:
            builder = builder.add_extension(extension, critical=False)
        protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), private)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
