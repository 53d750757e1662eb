"""Authentication: a client certificate that the server's authority signed, or a bearer token.

Tokens are those that the server was given, and those of ServiceAccounts. As in Kubernetes, the certificate decides for
a client that presents both. There is no authorization: every authenticated user may do everything, like
`system:masters`. Without authentication only the health endpoints respond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trimtab_lab.apiserver.admission.users import AUTHENTICATED, User


def _no_accounts(_token: str) -> None:
    """There are no ServiceAccounts."""


class Authenticator:
    """Maps tokens and client certificates to users; certificates were verified when the connection was made."""

    def __init__(
        self,
        tokens: Mapping[str, User] | None = None,
        service_account: Callable[[str], User | None] = _no_accounts,
    ) -> None:
        self._tokens = dict(tokens or {})
        self._service_account = service_account

    def user(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> User | None:
        """The user of a request, None if it is not authenticated."""
        found = _from_certificate(certificate) if certificate else None
        if found is not None or not authorization:
            return found
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        return (self._tokens.get(token) or self._service_account(token)) if scheme.lower() == "bearer" else None


def _from_certificate(certificate: Mapping[str, Any]) -> User | None:
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in subject if key == "commonName"]
    groups = [value for key, value in subject if key == "organizationName"]
    return User(names[0], (*groups, AUTHENTICATED)) if names else None
