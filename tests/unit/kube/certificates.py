"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

from dataclasses import dataclass

import trustme
from cryptography.hazmat.primitives import serialization


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self.certificate = self._authority.cert_pem.bytes()

    def server(self, *names: str) -> Pair:
        """A certificate for a server of these names and addresses."""
        return self._signed("server", *names)

    def client(self, name: str, *, password: bytes = b"") -> Pair:
        """A certificate for a client of that name, which is no name of a server; its key may be encrypted."""
        pair = self._signed(name, "client@example.com")
        return Pair(pair.certificate, _encrypted(pair.key, password)) if password else pair

    def _signed(self, common_name: str, *identities: str) -> Pair:
        issued = self._authority.issue_cert(*identities, common_name=common_name)
        return Pair(issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes())


def _encrypted(key: bytes, password: bytes) -> bytes:
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password),
    )
