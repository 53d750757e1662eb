"""The certificate authority of the webhooks, the certificates that it signs, and when each is renewed.

Pure, but for the keys that it generates. Every decision follows from the certificates alone, so that all replicas
decide the same. Time is the API server's, because API servers check the certificates:

1. The serving certificate is replaced when a third of its lifetime is left, or when its names change.
2. When a third of the authority's lifetime is left, the next authority is created and added to the CA bundle: API
   servers trust it before anything is signed by it.
3. After `OVERLAP`, the next authority replaces the current one and signs a new serving certificate. The previous one
   stays in the bundle for another `OVERLAP`, for replicas that still serve the old certificate.
4. Then the previous authority is removed from the bundle.
5. A certificate that is not valid yet was created by a wrong clock: it is replaced at once.

Certificates are valid from `BACKDATING` before their creation, for API servers whose clocks differ from one another.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME = timedelta(days=3650)
SERVING_LIFETIME = timedelta(days=365)
OVERLAP = timedelta(minutes=10)
"""How long two authorities are trusted together, before and after one replaces the other."""
BACKDATING = timedelta(days=1)
"""How long before its creation a certificate is valid."""
_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    @property
    def created(self) -> datetime:
        """When the certificate was created, if Trimtab created it."""
        return self.valid_from + BACKDATING

    @property
    def valid_from(self) -> datetime:
        """When the certificate becomes valid."""
        return x509.load_pem_x509_certificate(self.certificate).not_valid_before_utc

    @property
    def expires(self) -> datetime:
        """When the certificate expires."""
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc

    def is_due(self, now: datetime) -> bool:
        """Whether no more than a third of the lifetime is left, or the certificate is not valid yet."""
        return now < self.valid_from or now >= self.expires - (self.expires - self.created) / 3

    def is_valid(self, now: datetime) -> bool:
        """Whether the certificate is neither too new nor expired."""
        return self.valid_from <= now < self.expires


@dataclass(frozen=True, slots=True)
class Keyring:
    """The authorities and the serving certificate that are in use at one time."""

    authority: KeyPair
    serving: KeyPair
    next_authority: KeyPair | None = None
    """The authority that replaces `authority`."""
    previous_certificate: bytes | None = None
    """The certificate of the authority that `authority` replaced."""

    @property
    def bundle(self) -> bytes:
        """The certificates of all authorities to trust: the `caBundle`."""
        others = [self.next_authority.certificate if self.next_authority else b"", self.previous_certificate or b""]
        return b"".join([self.authority.certificate, *others])


def renew(keyring: Keyring | None, names: Sequence[str], now: datetime) -> Keyring:
    """The keyring as it should be now; the same object if nothing is due."""
    if keyring is None or not keyring.authority.is_valid(now):
        authority = make_authority(now)
        return Keyring(authority, sign(authority, names, now))
    if keyring.next_authority is not None and not keyring.next_authority.is_valid(now):
        return replace(keyring, next_authority=make_authority(now))
    if keyring.next_authority is not None and now >= keyring.next_authority.created + OVERLAP:
        authority = keyring.next_authority
        return Keyring(authority, sign(authority, names, now), previous_certificate=keyring.authority.certificate)
    if keyring.next_authority is None and keyring.previous_certificate is None and keyring.authority.is_due(now):
        return replace(keyring, next_authority=make_authority(now))
    if keyring.previous_certificate is not None and now >= keyring.serving.created + OVERLAP:
        return replace(keyring, previous_certificate=None)
    if keyring.serving.is_due(now) or names_of(keyring.serving) != set(names):
        return replace(keyring, serving=sign(keyring.authority, names, now))
    return keyring


def invalid_reason(chain: bytes, now: datetime) -> str:
    """Why a serving certificate or an intermediate one after it (PEM) is not valid now; empty if all are.

    Of several certificates of one issuer, one valid one is enough. Roots are up to those who verify.
    """
    current, *others = x509.load_pem_x509_certificates(chain)
    what = "the webhook certificate"
    while True:
        if now < current.not_valid_before_utc:
            return f"{what} is not valid before {current.not_valid_before_utc.isoformat()}"
        if now >= current.not_valid_after_utc:
            return f"{what} has expired"
        issuers = [each for each in others if each.subject == current.issuer and each.subject != each.issuer]
        if not issuers:
            return ""
        current = next((each for each in issuers if is_current(each, now)), issuers[0])
        others = [each for each in others if each is not current]
        what = f"the issuer {current.subject.rfc4514_string()} of the webhook certificate"


def is_current(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether a certificate is neither too new nor expired."""
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def names_of(pair: KeyPair) -> set[str]:
    """The DNS names and IP addresses that a certificate is valid for."""
    extensions = x509.load_pem_x509_certificate(pair.certificate).extensions
    value = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*value.get_values_for_type(x509.DNSName), *map(str, value.get_values_for_type(x509.IPAddress))}


def make_authority(now: datetime) -> KeyPair:
    """A self-signed authority. Its name is unique, so that chains can be built from a bundle of several."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"trimtab-webhooks {now:%Y-%m-%dT%H:%M:%S}")])
    usage = x509.KeyUsage(**{each: each in ("key_cert_sign", "crl_sign", "digital_signature") for each in _USAGES})
    builder = _builder(name, key, now, AUTHORITY_LIFETIME).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return _key_pair(builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256()), key)


def sign(authority: KeyPair, names: Sequence[str], now: datetime) -> KeyPair:
    """A serving certificate for these names and addresses."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    secret = serialization.load_pem_private_key(authority.key, None)
    if not isinstance(secret, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not an elliptic-curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trimtab-webhooks")])
    builder = _builder(subject, key, now, SERVING_LIFETIME).issuer_name(issuer.subject)
    builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(secret.public_key())
    return _key_pair(builder.add_extension(identifier, critical=False).sign(secret, hashes.SHA256()), key)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - BACKDATING).not_valid_after(now + lifetime)


def _key_pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(encoding, form, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(encoding), secret)
