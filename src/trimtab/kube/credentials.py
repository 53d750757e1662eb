"""Who we are: tokens and client certificates, from wherever they come, and never shown to anyone but the server.

Whatever holds a secret hides it from `repr`, so that neither a log nor a traceback nor a failed assertion can show it.

Files are read again once a minute, because whoever writes them (a kubelet, a certificate manager) replaces them long
before the old content expires; and at once when the server answers 401.
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
    """What a request proves its identity with: a bearer token, a client certificate, both, or neither."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""

    def __repr__(self) -> str:
        parts = [name for name in ("token", "certificate") if getattr(self, name)]
        return f"Grant({', '.join(parts) or 'anonymous'})"


class Credentials(Protocol):
    """Where grants come from."""

    async def grant(self) -> Grant:
        """What to send with the next request. Raises CredentialsError."""
        ...

    async def renew(self, refused: Grant) -> bool:
        """The server refused this grant: whether there is another one now."""
        ...


class Material(Protocol):
    """A secret, or a certificate, and where it comes from."""

    def read(self) -> bytes:
        """The content as of now. Raises CredentialsError."""
        ...

    def reread(self) -> None:
        """Forget what was read: it may have changed."""
        ...


class InlineMaterial:
    """Material that was given as such."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __repr__(self) -> str:
        return "InlineMaterial(…)"

    def read(self) -> bytes:
        """The content."""
        return self._content

    def reread(self) -> None:
        """It cannot change."""


class FileMaterial:
    """Material in a file. Once read, the last good content serves until the file can be read again."""

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
        """Read the file anew next time."""
        self._read_at = None

    def _load(self) -> None:
        try:
            content = self.path.read_bytes().strip()
        except OSError as error:
            if not self._content:
                raise CredentialsError(f"{self.path} cannot be read: {error.strerror}") from error
            log.warning("%s cannot be read, going on with what it said before: %s", self.path, error.strerror)
            return
        if not content and not self._content:
            raise CredentialsError(f"{self.path} is empty")
        self._content = content or self._content


class StaticCredentials:
    """Credentials that are at hand: any of a token and a certificate with its key, inline or in files."""

    def __init__(
        self, *, token: Material | None = None, certificate: Material | None = None, key: Material | None = None
    ) -> None:
        self._token = token
        self._certificate = certificate
        self._key = key

    def __repr__(self) -> str:
        return f"StaticCredentials(token={self._token!r}, certificate={self._certificate!r})"

    async def grant(self) -> Grant:
        """What the files say now."""
        return Grant(
            token=_read(self._token).decode("ascii", "replace"),
            certificate=_read(self._certificate),
            key=_read(self._key),
        )

    async def renew(self, refused: Grant) -> bool:
        """Whether a file says something else by now."""
        for material in (self._token, self._certificate, self._key):
            if material is not None:
                material.reread()
        return await self.grant() != refused


ANONYMOUS: Credentials = StaticCredentials()


def _read(material: Material | None) -> bytes:
    return b"" if material is None else material.read()
