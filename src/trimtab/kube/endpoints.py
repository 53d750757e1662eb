"""The address of an API server with credentials and trust: what `config` finds and `sessions` uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from trimtab.kube.credentials import ANONYMOUS, Credentials
from trimtab.kube.errors import ConfigError
from trimtab.kube.proxies import is_local
from trimtab.kube.tls import SYSTEM_TRUST, Trust


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server and the identity to use there.

    `server` may have a path, as with gateways in front of many clusters. `impersonate` has the impersonation headers.
    """

    server: str
    credentials: Credentials = ANONYMOUS
    trust: Trust = SYSTEM_TRUST
    namespace: str = "default"
    proxy: str = field(default="", repr=False)
    impersonate: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: str = ""
    """Where the address was found, for messages."""

    def __post_init__(self) -> None:
        address = self._address()
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ConfigError(
                f"{self.origin or 'server'}: {address.hostname or self.server!r} is not an http:// or https:// address"
            )
        if address.username or address.password:
            raise ConfigError(
                f"{self.origin or 'server'}: the address must not contain a user name or password; use a token"
            )

    def _address(self) -> SplitResult:
        try:
            address = urlsplit(self.server)
            address.port  # noqa: B018 - raises where it cannot be one
        except ValueError:  # its message may show a password
            raise ConfigError(
                f"{self.origin or 'server'}: the address is not valid; write one such as https://api.example.com:6443"
            ) from None
        return address

    @property
    def base(self) -> str:
        """The address without a trailing slash."""
        return self.server.rstrip("/")

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection is TLS."""
        return self.server.startswith("https://")

    @property
    def can_send_credentials(self) -> bool:
        """Whether credentials may be sent: over TLS, or to this machine."""
        return self.is_encrypted or is_local(urlsplit(self.server).hostname or "")
