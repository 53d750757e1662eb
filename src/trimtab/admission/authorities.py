"""An authority of our own, what it signs, and when either is renewed. Pure, but for the keys that it draws.

Everything follows from the certificates themselves, so that whoever reads them decides the same:

1. The serving certificate is signed anew when a third of its life is left, or the names that it is for change.
2. When a third of the authority's life is left, the next authority is made, and stands in the bundle beside the present
   one: API servers learn to trust it before anything is signed by it.
3. After the overlap, the next authority becomes the present one and signs the serving certificate. The one before stays
   in the bundle for another overlap, for servers that have not taken the new certificate yet.
4. Then it is dropped.
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

AUTHORITY_LIFE = timedelta(days=3650)
SERVING_LIFE = timedelta(days=365)
OVERLAP = timedelta(minutes=10)
"""How long two authorities are trusted together, before and after one takes over from the other."""
_LEEWAY = timedelta(minutes=5)
"""Clocks differ: a certificate is good from a little before it was made."""
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
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    @property
    def made(self) -> datetime:
        """When it was made."""
        return x509.load_pem_x509_certificate(self.certificate).not_valid_before_utc + _LEEWAY

    @property
    def ends(self) -> datetime:
        """When it stops being good."""
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc

    def is_due(self, now: datetime) -> bool:
        """Whether no more than a third of its life is left."""
        return now >= self.ends - (self.ends - self.made) / 3


@dataclass(frozen=True, slots=True)
class Keyring:
    """All that there is at one time."""

    authority: Pair
    serving: Pair
    following: Pair | None = None
    """The authority that takes over next."""
    before: bytes | None = None
    """The certificate of the authority before this one."""

    @property
    def bundle(self) -> bytes:
        """The authorities to trust."""
        others = [self.following.certificate if self.following else b"", self.before or b""]
        return b"".join([self.authority.certificate, *others])


def renewed(keyring: Keyring | None, names: Sequence[str], now: datetime) -> Keyring:
    """The keyring as it should be now; the same one, where nothing is due."""
    if keyring is None or keyring.authority.ends <= now:
        authority = make_authority(now)
        return Keyring(authority, sign(authority, names, now))
    if keyring.following is not None and now >= keyring.following.made + OVERLAP:
        authority = keyring.following
        return Keyring(authority, sign(authority, names, now), before=keyring.authority.certificate)
    if keyring.following is None and keyring.before is None and keyring.authority.is_due(now):
        return replace(keyring, following=make_authority(now))
    if keyring.before is not None and now >= keyring.serving.made + OVERLAP:
        return replace(keyring, before=None)
    if keyring.serving.is_due(now) or names_of(keyring.serving) != set(names):
        return replace(keyring, serving=sign(keyring.authority, names, now))
    return keyring


def names_of(pair: Pair) -> set[str]:
    """Whom a certificate is for: names and addresses."""
    found = x509.load_pem_x509_certificate(pair.certificate).extensions
    value = found.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*value.get_values_for_type(x509.DNSName), *map(str, value.get_values_for_type(x509.IPAddress))}


def make_authority(now: datetime) -> Pair:
    """An authority that trusts itself. Its name tells it from others, so that a chain can be found in a bundle."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"trimtab-webhooks {now:%Y-%m-%dT%H:%M:%S}")])
    usage = x509.KeyUsage(**{each: each in ("key_cert_sign", "crl_sign", "digital_signature") for each in _USAGES})
    builder = _builder(name, key, now, AUTHORITY_LIFE).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return _pair(builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256()), key)


def sign(authority: Pair, names: Sequence[str], now: datetime) -> Pair:
    """A certificate for a server of these names and addresses."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    secret = serialization.load_pem_private_key(authority.key, None)
    if not isinstance(secret, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not an elliptic one")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trimtab-webhooks")])
    builder = _builder(subject, key, now, SERVING_LIFE).issuer_name(issuer.subject)
    builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(secret.public_key())
    return _pair(builder.add_extension(identifier, critical=False).sign(secret, hashes.SHA256()), key)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _LEEWAY).not_valid_after(now + life)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(encoding, form, serialization.NoEncryption())
    return Pair(certificate.public_bytes(encoding), secret)
