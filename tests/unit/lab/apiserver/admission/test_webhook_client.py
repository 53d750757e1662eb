"""Webhook calls over HTTPS; recorded failures are in `test_webhook_dispatcher`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tools.webhooks import WebhookServer
from trimtab_lab.apiserver.admission.admission_reviews import CallError
from trimtab_lab.apiserver.admission.webhook_client import WebhookClient

Tree = dict[str, Any]

REVIEW = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u"}}).encode()


@pytest.fixture
async def server() -> AsyncIterator[WebhookServer]:
    """A webhook server."""
    async with WebhookServer() as started:
        yield started


async def test_a_review_is_posted_and_the_response_returned(server: WebhookServer) -> None:
    """The query has the timeout, and the connection is kept alive."""
    async with WebhookClient() as call:
        for _ in range(2):
            answer = json.loads(await call({"url": f"{server.url}/allow", "caBundle": server.ca}, REVIEW, 7))
            assert answer["response"] == {"uid": "u", "allowed": True}
    assert [review["query"] for review in server.reviews] == [{"timeout": "7s"}] * 2


async def test_a_service_without_a_resolver_is_an_error(server: WebhookServer) -> None:
    """The error says what to do instead."""
    config = {"service": {"name": "hooks", "namespace": "team", "path": "/allow"}, "caBundle": server.ca}
    async with WebhookClient() as call:
        with pytest.raises(CallError, match=r"cannot reach hooks\.team\.svc:443; give the webhook a clientConfig\.url"):
            await call(config, REVIEW, 5)
    async with WebhookClient(lambda *_: None) as call:
        with pytest.raises(CallError, match="cannot reach"):
            await call(config, REVIEW, 5)


async def test_a_service_is_resolved(server: WebhookServer) -> None:
    """The certificate must be for the name of the Service, whatever its address."""
    port = int(server.url.rpartition(":")[2])
    resolved: list[tuple[str, str, int]] = []

    def resolve(namespace: str, name: str, service_port: int) -> tuple[str, int]:
        resolved.append((namespace, name, service_port))
        return "127.0.0.1", port

    config = {"service": {"name": "hooks", "namespace": "team", "path": "/allow", "port": 8443}, "caBundle": server.ca}
    async with WebhookClient(resolve) as call:
        with pytest.raises(CallError, match=r"tls: failed to verify certificate: x509: .*hooks\.team\.svc"):
            await call(config, REVIEW, 5)
    assert resolved == [("team", "hooks", 8443)]


@pytest.mark.parametrize("bundle", ["####", "aGVsbG8="])
async def test_a_bundle_without_certificates_is_a_call_error(bundle: str, server: WebhookServer) -> None:
    """The failure policy then applies."""
    async with WebhookClient() as call:
        with pytest.raises(CallError, match="unable to load root certificates"):
            await call({"url": f"{server.url}/allow", "caBundle": bundle}, REVIEW, 5)


async def test_an_invalid_address_is_a_call_error() -> None:
    """Whatever is wrong with the address."""
    async with WebhookClient() as call:
        with pytest.raises(CallError, match="Post"):
            await call({"url": "https://"}, REVIEW, 5)
