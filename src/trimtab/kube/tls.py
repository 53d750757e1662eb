"""TLS contexts from a CA and a client certificate.

A given CA is the only one trusted; without one, the system's CAs are. A context is reused until the CA or the client
certificate changes, because creating one takes longer than a request.
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
    """How the server's certificate is verified: by a CA, for a name other than the address, or (insecure) not."""

    authority: Material | None = None
    server_name: str = ""
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.insecure and self.authority is not None:
            raise ConfigError(
                "insecure-skip-tls-verify cannot be combined with a certificate authority; remove one of them"
            )


SYSTEM_TRUST = Trust()
"""The CAs that the system trusts."""

log = logging.getLogger(__name__)


class Contexts:
    """Creates TLS contexts, and keeps the last valid one: certificate and key files are replaced one after the other,
    so for a moment they may not match."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._current: tuple[tuple[bytes, bytes, bytes], ssl.SSLContext] | None = None

    def context(self, grant: Grant) -> ssl.SSLContext:
        """The context for a grant."""
        authority = self._trust.authority.read() if self._trust.authority else b""
        wanted = (authority, grant.certificate, grant.key)
        if self._current is None or self._current[0] != wanted:
            try:
                self._current = (wanted, self._build(authority, grant))
            except ConfigError as error:
                if self._current is None:
                    raise
                log.warning("using the previous certificates, the new ones are not valid: %s", error)
        return self._current[1]

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
    """Load the client certificate. Python reads it from files only: these are private and deleted at once."""
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
    """Make encrypted keys fail immediately: the default prompts on the terminal."""
    return ""
