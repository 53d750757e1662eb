"""Tokens of ServiceAccounts: issued on request, valid until they expire or their ServiceAccount is deleted.

They have the form that Kubernetes gives them, JSON Web Tokens, for clients that read the claims. The server recognizes
the tokens that it has issued: it keeps them in memory, as it keeps the ServiceAccounts.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from trimtab_lab.apiserver.admission.users import AUTHENTICATED, User
from trimtab_lab.apiserver.storage.store import Entry, Store, Tree, encode

ISSUER = "https://kubernetes.default.svc.cluster.local"
"""The issuer, and the audience of tokens for the API server itself."""
CREDENTIAL = "authentication.kubernetes.io/credential-id"
_SECOND = 10**9
_COORDINATE = 32


@dataclass(frozen=True, slots=True)
class _IssuedToken:
    key: str
    """The key of the ServiceAccount."""
    uid: str
    expires: int
    user: User


class ServiceAccountTokens:
    """The tokens of one cluster; times are in nanoseconds."""

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        self._accounts = store.collection("/serviceaccounts")
        self._clock = clock
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._issued: dict[str, _IssuedToken] = {}
        """The tokens for this API server; those for other audiences are not accepted here."""

    def issue(self, account: Entry, audiences: Sequence[str], seconds: int) -> str:
        """A token of a ServiceAccount for some audiences, valid for so many seconds."""
        now = self._clock()
        identifier, name = str(uuid.uuid4()), f"system:serviceaccount:{account.namespace}:{account.name}"
        issued = now // _SECOND
        claims = {
            "aud": list(audiences),
            "exp": issued + seconds,
            "iat": issued,
            "iss": ISSUER,
            "jti": identifier,
            "kubernetes.io": {
                "namespace": account.namespace,
                "serviceaccount": {"name": account.name, "uid": account.uid},
            },
            "nbf": issued,
            "sub": name,
        }
        token = self._sign(claims)
        if ISSUER in audiences:
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", AUTHENTICATED)
            user = User(name, groups, account.uid, ((CREDENTIAL, (f"JTI={identifier}",)),))
            self._issued = {each: known for each, known in self._issued.items() if known.expires > now}
            self._issued[token] = _IssuedToken(account.key, account.uid, now + seconds * _SECOND, user)
        return token

    def user(self, token: str) -> User | None:
        """The user of a token; None for one that was not issued here, has expired, or whose account is gone."""
        found = self._issued.get(token)
        if found is None or found.expires <= self._clock():
            return None
        account = self._accounts.entries.get(found.key)
        return found.user if account is not None and account.uid == found.uid else None

    def _sign(self, claims: Tree) -> str:
        text = f"{_encoded(encode({'alg': 'ES256', 'typ': 'JWT'}))}.{_encoded(encode(claims))}"
        signature = utils.decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_encoded(b''.join(each.to_bytes(_COORDINATE, 'big') for each in signature))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
