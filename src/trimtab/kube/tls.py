"""Whom we trust, and how we prove who we are, as a TLS context.

A CA that is given is the only one trusted; without one, the machine's are. Contexts are kept as long as neither the
CA nor the client certificate changes, for making one costs more than a request.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from trimtab.kube.credentials import Grant, Material
from trimtab.kube.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Trust:
    """How the server proves who it is: by a CA, by a name that differs from its address, or (insecure) not at all."""

    authority: Material | None = None
    server_name: str = ""
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.insecure and self.authority is not None:
            raise ConfigError("insecure-skip-tls-verify cannot be combined with a certificate authority")


SYSTEM_TRUST = Trust()
"""Whatever the machine trusts."""

log = logging.getLogger(__name__)


class Contexts:
    """Makes TLS contexts, and remembers the last good one: files are replaced one after the other, and for a moment a
    certificate stands beside the key of its predecessor."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._made: tuple[tuple[bytes, bytes, bytes], ssl.SSLContext] | None = None

    def context(self, grant: Grant) -> ssl.SSLContext:
        """The context for a grant."""
        authority = self._trust.authority.read() if self._trust.authority else b""
        wanted = (authority, grant.certificate, grant.key)
        if self._made is None or self._made[0] != wanted:
            try:
                self._made = (wanted, self._build(authority, grant))
            except ConfigError as error:
                if self._made is None:
                    raise
                log.warning("going on with the certificates from before: %s", error)
        return self._made[1]

    def _build(self, authority: bytes, grant: Grant) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._trust.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif authority:
            _load_authority(context, authority)
        else:
            context.load_default_certs()
        if grant.certificate:
            _load_certificate(context, grant)
        return context


def _load_authority(context: ssl.SSLContext, authority: bytes) -> None:
    try:
        context.load_verify_locations(cadata=authority.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(f"the certificate authority is not a PEM certificate: {error}") from error


def _load_certificate(context: ssl.SSLContext, grant: Grant) -> None:
    """Python reads certificates from files only: these exist for a moment, where nobody else can read them."""
    with tempfile.TemporaryDirectory(prefix="trimtab-") as directory:
        certificate, key = Path(directory, "crt"), Path(directory, "key")
        for path, content in ((certificate, grant.certificate), (key, grant.key)):
            _write(path, content)
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise ConfigError(f"the client certificate and its key cannot be used: {reason}") from error


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _no_password() -> str:
    """An encrypted key fails right away: the default would ask on the terminal, and a daemon has none."""
    return ""
