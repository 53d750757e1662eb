"""Tokens for Trimtab's processes: on a real API server they have the permissions of an installation only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from trimtab.api import codec
from trimtab.kube.client import Client
from trimtab_lab.apiserver.wire.certificates import write_kubeconfig

NAMESPACE = "trimtab-system"
"""The namespace of an installation unless --namespace names another."""
TOKEN_SECONDS = 30 * 24 * 3600


async def request_token(client: Client, name: str, namespace: str = NAMESPACE) -> str:
    """Request a token of a ServiceAccount."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    response = await client.call("POST", path, body=codec.encode(body))
    token: str = json.loads(response.body)["status"]["token"]
    return token


async def write_kubeconfigs(
    client: Client, url: str, authority: bytes, paths: Mapping[str, Path], namespace: str = NAMESPACE
) -> None:
    """Write a kubeconfig with a token for each of these ServiceAccounts."""
    tokens = await asyncio.gather(*(request_token(client, account, namespace) for account in paths))
    for (account, path), token in zip(paths.items(), tokens, strict=True):
        write_kubeconfig(path, url, authority, account, {"token": token})
