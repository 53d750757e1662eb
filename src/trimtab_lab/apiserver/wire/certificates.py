"""The lab's certificates: an authority, the certificates that it signs, and the kubeconfig that trusts it.

The authority and the key of the server are kept in the state folder, so that a kubeconfig stays valid when the server
is restarted. Keys are elliptic (P-256), which are generated in a millisecond. Certificates are valid for a year.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_YEAR = timedelta(days=365)
_LEEWAY = timedelta(minutes=5)
_ADDRESSES = ("127.0.0.1", "::1", "10.0.0.1")
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADMIN = "kubernetes-admin"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, certificate: Path, key: Path) -> None:
        """Write the pair to two files; only the owner can read the key."""
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)


class Authority:
    """A certificate authority."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(
                "the authority's key is not an elliptic-curve key: delete the state folder to create a new one"
            )
        self._key = key

    @classmethod
    def create(cls, name: str = "trimtab-lab") -> Authority:
        """A new, self-signed authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = _builder(subject, key).issuer_name(subject)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        return cls(_pair(builder.sign(key, hashes.SHA256()), key))

    def server(self) -> Pair:
        """A certificate for a server on this machine."""
        alternatives: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(a)) for a in _ADDRESSES]
        alternatives += [x509.DNSName(name) for name in _NAMES]
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")]
        names = x509.SubjectAlternativeName(alternatives)
        return self._sign(subject, ExtendedKeyUsageOID.SERVER_AUTH, alternatives=names)

    def client(self, user: str, *groups: str) -> Pair:
        """A client certificate: the common name is the user, the organizations are the groups."""
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._sign(subject, ExtendedKeyUsageOID.CLIENT_AUTH)

    def peer(self, name: str) -> Pair:
        """A certificate for a server on this machine that is also a client of its own kind, such as etcd."""
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in _ADDRESSES[:2]]
        alternatives = x509.SubjectAlternativeName([*addresses, x509.DNSName("localhost")])
        usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        return self._sign([x509.NameAttribute(NameOID.COMMON_NAME, name)], *usages, alternatives=alternatives)

    def _sign(
        self,
        subject: list[x509.NameAttribute[str]],
        *usages: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None = None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(x509.Name(subject), key).issuer_name(self._certificate.subject)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return _pair(builder.sign(self._key, hashes.SHA256()), key)


class Identity:
    """The authority and the certificate of a server, kept in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self._server = folder / "server.crt", folder / "server.key"
        self.authority = self._load()

    def ssl_context(self) -> ssl.SSLContext:
        """The server's TLS context: client certificates of the authority are optional."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._server)
        context.load_verify_locations(cadata=self.authority.pair.certificate.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context

    def write_kubeconfig(self, path: Path, url: str, context: str = "lab") -> None:
        """Write a kubeconfig for an administrator."""
        user = client_credentials(self.authority.client(ADMIN, MASTERS))
        write_kubeconfig(path, url, self.authority.pair.certificate, ADMIN, user, context=context)

    def _load(self) -> Authority:
        certificate, key = self.folder / "ca.crt", self.folder / "ca.key"
        if certificate.exists() and key.exists() and _is_valid(certificate.read_bytes()):
            authority = Authority(Pair(certificate.read_bytes(), key.read_bytes()))
        else:
            authority = Authority.create()
            authority.pair.write(certificate, key)
            self._server[0].unlink(missing_ok=True)
        if not self._server[0].exists() or not _is_valid(self._server[0].read_bytes()):
            authority.server().write(*self._server)
        return authority


def client_credentials(pair: Pair) -> dict[str, str]:
    """The user of a kubeconfig who presents a client certificate."""
    return {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}


def write_kubeconfig(
    path: Path, url: str, authority: bytes, name: str, user: Mapping[str, str], *, context: str = "lab"
) -> None:
    """Write a kubeconfig for a user, which only its owner can read, in one step."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": {"server": url, "certificate-authority-data": _base64(authority)}}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": name}}],
        "current-context": context,
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.touch(mode=0o600)
    partial.write_text(yaml.safe_dump(config, sort_keys=False))
    partial.replace(path)


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LEEWAY)
        .not_valid_after(now + _YEAR)
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(encoding, form, serialization.NoEncryption())
    return Pair(certificate.public_bytes(encoding), secret)


def _is_valid(certificate: bytes) -> bool:
    """Whether a certificate is valid for another day at least."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc > datetime.now(UTC) + timedelta(days=1)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
