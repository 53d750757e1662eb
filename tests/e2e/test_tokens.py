"""Tokens of ServiceAccounts, with which the processes of Trimtab authenticate.

The same holds on the lab and on a real control plane: nothing here knows which one it is.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import authority_of
from trimtab.api.core import Namespace
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.errors import Unauthorized
from trimtab.kube.resources import untyped
from trimtab.kube.sessions import Session
from trimtab_lab.controlplane import accounts

pytestmark = pytest.mark.e2e

ACCOUNTS = untyped("v1", "ServiceAccount", "serviceaccounts")


@pytest.fixture
async def client(control_plane: Path) -> AsyncIterator[Client]:
    """The administrator's client."""
    async with Client(Session(config.discover(control_plane))) as made:
        yield made


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A namespace with the ServiceAccount robot."""
    name = f"tokens-{secrets.token_hex(4)}"
    await client.create(Namespace, {"metadata": {"name": name}})
    await client.create(ACCOUNTS, {"metadata": {"name": "robot"}}, namespace=name)
    yield name
    await client.delete(Namespace, name)


async def who_am_i(client: Client) -> dict[str, Any]:
    """The user that the API server takes a client for."""
    body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
    answer = await client.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body)
    found: dict[str, Any] = json.loads(answer.body)["status"]["userInfo"]
    return found


async def test_a_token_is_its_service_account_until_that_is_deleted(
    client: Client, namespace: str, control_plane: Path, tmp_path: Path
) -> None:
    """An API server may remember a token for some seconds."""
    path, server = tmp_path / "robot.kubeconfig", config.discover(control_plane).server
    await accounts.write_kubeconfigs(client, server, authority_of(control_plane), {"robot": path}, namespace)
    account = await client.get(ACCOUNTS, "robot", namespace=namespace)
    async with Client(Session(config.discover(path))) as robot:
        user = await who_am_i(robot)
        assert user.pop("extra")["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")
        assert user == {
            "username": f"system:serviceaccount:{namespace}:robot",
            "uid": account["metadata"]["uid"],
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
        }
        await client.delete(ACCOUNTS, "robot", namespace=namespace)
        with pytest.raises(Unauthorized):
            await asyncio.wait_for(until_refused(robot), 60)


async def until_refused(client: Client) -> None:
    """Ask until it raises."""
    while await who_am_i(client):
        await asyncio.sleep(0.2)
