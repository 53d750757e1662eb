"""Authentication: a bearer token that the server was given, or a client certificate that its authority signed.

There is no authorization: every authenticated user may do everything, like `system:masters`. Without authentication
only the health endpoints respond.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab_lab.apiserver.admission.users import AUTHENTICATED, User


class Authenticator:
    """Maps tokens and client certificates to users; certificates were verified when the connection was made."""

    def __init__(self, tokens: Mapping[str, User] | None = None) -> None:
        self._tokens = dict(tokens or {})

    def add_token(self, token: str, user: User) -> None:
        """Accept a token from now on."""
        self._tokens[token] = user

    def user(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> User | None:
        """The user of a request, None if it is not authenticated."""
        if authorization:
            scheme, _, token = authorization.partition(" ")
            return self._tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        return _from_certificate(certificate) if certificate else None


def _from_certificate(certificate: Mapping[str, Any]) -> User | None:
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in subject if key == "commonName"]
    groups = [value for key, value in subject if key == "organizationName"]
    return User(names[0], (*groups, AUTHENTICATED)) if names else None
