"""What callers of the dashboard may see, by the API server's own answers (TokenReview, SubjectAccessReview)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from trimtab.api.core import Namespace
from trimtab.dashboard.access import ClusterAccess, UnauthenticatedError
from trimtab.dashboard.rights import Rights
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import untyped
from trimtab.kube.sessions import Session
from trimtab_lab.controlplane import accounts

pytestmark = pytest.mark.e2e

ACCOUNTS = untyped("v1", "ServiceAccount", "serviceaccounts")
ROLES = untyped("rbac.authorization.k8s.io/v1", "Role", "roles")
BINDINGS = untyped("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")


@pytest.fixture
async def client(control_plane: Path) -> AsyncIterator[Client]:
    """The administrator's client."""
    async with Client(Session(discover(control_plane))) as made:
        yield made


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A namespace whose account robot may list pods and Deployments in it."""
    name = f"dashboard-{secrets.token_hex(4)}"
    await client.create(Namespace, {"metadata": {"name": name}})
    await client.create(ACCOUNTS, {"metadata": {"name": "robot"}}, namespace=name)
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
    ]
    await client.create(ROLES, {"metadata": {"name": "viewer"}, "rules": rules}, namespace=name)
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": name}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"}
    binding = {"metadata": {"name": "viewer"}, "roleRef": reference, "subjects": [subject]}
    await client.create(BINDINGS, binding, namespace=name)
    yield name
    await client.delete(Namespace, name)


async def rights_of(client: Client, token: str) -> Rights:
    """What the API server says of a token; the embedded lab does not review tokens."""
    try:
        return await ClusterAccess(client).rights(token)
    except NotFound:
        pytest.skip("this control plane has no TokenReview")


async def test_a_caller_may_see_what_its_role_lists(client: Client, namespace: str) -> None:
    """In its namespace, and nowhere else."""
    rights = await rights_of(client, await accounts.request_token(client, "robot", namespace))
    assert rights.cluster == frozenset()
    assert rights.namespaced == {("pods", namespace), ("deployments", namespace)}


async def test_a_made_up_token_is_refused(client: Client) -> None:
    """By the API server."""
    with pytest.raises(UnauthenticatedError):
        await rights_of(client, "made.up.token")
