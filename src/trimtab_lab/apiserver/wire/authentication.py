"""Who asks: a bearer token that the server was given, or a client certificate that its authority signed.

There is no authorization: whoever is known may do everything, as `system:masters` may. Nobody else gets more than the
health endpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab_lab.apiserver.admission.users import AUTHENTICATED, User


class Authenticator:
    """Knows tokens; certificates were checked when the connection was made."""

    def __init__(self, tokens: Mapping[str, User] | None = None) -> None:
        self._tokens = dict(tokens or {})

    def add_token(self, token: str, user: User) -> None:
        """Let somebody in from now on."""
        self._tokens[token] = user

    def user(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> User | None:
        """The user behind a request, or None."""
        if authorization:
            scheme, _, token = authorization.partition(" ")
            return self._tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        return _from_certificate(certificate) if certificate else None


def _from_certificate(certificate: Mapping[str, Any]) -> User | None:
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in subject if key == "commonName"]
    groups = [value for key, value in subject if key == "organizationName"]
    return User(names[0], (*groups, AUTHENTICATED)) if names else None
