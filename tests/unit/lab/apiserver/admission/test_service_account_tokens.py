"""Tokens of ServiceAccounts: what they say, and for how long they are accepted."""

from __future__ import annotations

import base64
import json

import pytest

from trimtab_lab.apiserver.admission.service_account_tokens import ISSUER, ServiceAccountTokens
from trimtab_lab.apiserver.storage.store import HISTORY, Entry, Store

NOW = 1_800_000_000


class Accounts:
    """Tokens of the ServiceAccount shop/robot, at a time that the test sets."""

    def __init__(self) -> None:
        self.now = NOW
        self.store = Store(HISTORY)
        self.tokens = ServiceAccountTokens(self.store, lambda: self.now * 10**9)
        self.account = self.create("1")

    def create(self, uid: str) -> Entry:
        """Create the ServiceAccount."""
        tree = {"metadata": {"namespace": "shop", "name": "robot", "uid": uid}}
        return self.store.insert(self.store.collection("/serviceaccounts"), "shop/robot", tree)

    def delete(self) -> None:
        """Delete the ServiceAccount."""
        self.store.remove(self.store.collection("/serviceaccounts"), self.account)


@pytest.fixture
def accounts() -> Accounts:
    """A ServiceAccount."""
    return Accounts()


def claims(token: str) -> dict[str, object]:
    """The claims of a JSON Web Token."""
    part = token.split(".")[1]
    decoded: dict[str, object] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return decoded


def test_a_token_says_whose_it_is_and_until_when(accounts: Accounts) -> None:
    """With the claims of Kubernetes."""
    found = claims(accounts.tokens.issue(accounts.account, ["vault"], 600))
    assert len(str(found.pop("jti"))) == 36
    assert found == {
        "aud": ["vault"],
        "exp": NOW + 600,
        "iat": NOW,
        "iss": ISSUER,
        "kubernetes.io": {"namespace": "shop", "serviceaccount": {"name": "robot", "uid": "1"}},
        "nbf": NOW,
        "sub": "system:serviceaccount:shop:robot",
    }


def test_a_token_is_accepted_until_it_expires(accounts: Accounts) -> None:
    """And another one is issued meanwhile."""
    token = accounts.tokens.issue(accounts.account, [ISSUER], 600)
    accounts.now += 599
    user = accounts.tokens.user(token)
    assert user is not None
    assert user.tree()["username"] == "system:serviceaccount:shop:robot"
    accounts.tokens.issue(accounts.account, [ISSUER], 600)
    assert accounts.tokens.user(token) == user
    accounts.now += 1
    assert accounts.tokens.user(token) is None


def test_a_token_ends_with_its_account(accounts: Accounts) -> None:
    """An account of the same name that is created later is another one."""
    token = accounts.tokens.issue(accounts.account, [ISSUER], 600)
    accounts.delete()
    assert accounts.tokens.user(token) is None
    accounts.create("2")
    assert accounts.tokens.user(token) is None


def test_only_tokens_for_this_server_are_accepted(accounts: Accounts) -> None:
    """Neither those for others, nor made-up ones."""
    token = accounts.tokens.issue(accounts.account, ["vault"], 600)
    assert accounts.tokens.user(token) is None
    assert accounts.tokens.user("made-up") is None
    assert accounts.tokens.user(accounts.tokens.issue(accounts.account, ["vault", ISSUER], 600)) is not None
