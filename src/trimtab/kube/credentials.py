"""Credentials: tokens and client certificates, inline or in files.

Every class that holds a secret hides it from `repr`, so that no log, traceback or failed assertion shows it.

Files are read again every minute, because kubelets and certificate managers replace them long before the old content
expires; and immediately when the server answers 401.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.errors import CredentialsError

_FRESH = 60 * SECOND

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """The credentials of one request: a bearer token, a client certificate, both, or neither."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""

    def __repr__(self) -> str:
        parts = [name for name in ("token", "certificate") if getattr(self, name)]
        return f"Grant({', '.join(parts) or 'anonymous'})"


class Credentials(Protocol):
    """A source of grants."""

    async def grant(self) -> Grant:
        """The grant for the next request. Raises CredentialsError."""
        ...

    async def renew(self, refused: Grant) -> bool:
        """Reload after the server refused this grant; return whether there is a different one now."""
        ...


class Material(Protocol):
    """A secret or a certificate, with its source."""

    def read(self) -> bytes:
        """The current content. Raises CredentialsError."""
        ...

    def reread(self) -> None:
        """Discard the cached content: it may have changed."""
        ...


class InlineMaterial:
    """Material given as bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __repr__(self) -> str:
        return "InlineMaterial(…)"

    def read(self) -> bytes:
        """The content."""
        return self._content

    def reread(self) -> None:
        """Do nothing: inline material cannot change."""


class FileMaterial:
    """Material in a file. While the file cannot be read, the last content is used."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._content = b""
        self._read_at: int | None = None

    def __repr__(self) -> str:
        return f"FileMaterial({str(self.path)!r})"

    def read(self) -> bytes:
        """The content, at most a minute old."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= _FRESH:
            self._load()
            self._read_at = now
        return self._content

    def reread(self) -> None:
        """Read the file again next time."""
        self._read_at = None

    def _load(self) -> None:
        try:
            content = self.path.read_bytes().strip()
        except (OSError, ValueError) as error:  # ValueError: a path with a null byte
            reason = getattr(error, "strerror", None) or str(error)
            if not self._content:
                raise CredentialsError(f"the credentials file {self.path} cannot be read: {reason}") from error
            log.warning("credentials file %s cannot be read, using its previous content: %s", self.path, reason)
            return
        if not content and not self._content:
            raise CredentialsError(f"the credentials file {self.path} is empty")
        self._content = content or self._content


class StaticCredentials:
    """A token, a certificate with its key, or both, inline or in files."""

    def __init__(
        self, *, token: Material | None = None, certificate: Material | None = None, key: Material | None = None
    ) -> None:
        self._token = token
        self._certificate = certificate
        self._key = key

    def __repr__(self) -> str:
        return f"StaticCredentials(token={self._token!r}, certificate={self._certificate!r})"

    async def grant(self) -> Grant:
        """The current token, certificate and key."""
        return Grant(
            token=_read(self._token).decode("ascii", "replace"),
            certificate=_read(self._certificate),
            key=_read(self._key),
        )

    async def renew(self, refused: Grant) -> bool:
        """Reread the files; return whether any has changed."""
        for material in (self._token, self._certificate, self._key):
            if material is not None:
                material.reread()
        return await self.grant() != refused


ANONYMOUS: Credentials = StaticCredentials()


def _read(material: Material | None) -> bytes:
    return b"" if material is None else material.read()
