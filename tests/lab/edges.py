"""Webhooks of Trimtab in front of an API server, for tests over the wire."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.unit.kube.certificates import Authority
from trimtab.admission.certificates import FileCertificates
from trimtab.admission.server import AdmissionServer
from trimtab.api.documents import JSON
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.resources import Resource, untyped
from trimtab.unitedtopology.admission.hooks import SubsetHooks

MUTATING = untyped(
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)
VALIDATING = untyped(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
UNHURRIED = 8.0
"""A budget in seconds that a busy machine does not exceed, for tests of decisions."""


@asynccontextmanager
async def serving(client: Client, subsets: SubsetHooks, folder: Path, authority: Authority) -> AsyncIterator[str]:
    """One webhook process, or what of it matters; its address."""
    pair = authority.server("127.0.0.1")
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    edge = AdmissionServer(
        subsets.hooks,
        certificates=FileCertificates(certificate, key, clock=client.clock),
        host="127.0.0.1",
        port=0,
        on_skip=subsets.report_undecided,
    )
    tasks = [asyncio.create_task(edge.run()), asyncio.create_task(subsets.run())]
    try:
        while not (edge.synced and subsets.synced):
            await asyncio.sleep(0.01)
            for task in tasks:
                if task.done():
                    task.result()
        yield f"https://127.0.0.1:{edge.port}"
    finally:
        await cancel(*tasks)


@asynccontextmanager
async def pod_webhooks(
    client: Client, folder: Path, several: Sequence[SubsetHooks], *, namespace: str, name: str = "subsets"
) -> AsyncIterator[None]:
    """Register these webhook processes for the pods of one namespace.

    Each of several receives the pods with its number in the label `shard`; the first one receives evictions.
    """
    authority = Authority()
    async with AsyncExitStack() as stack:
        urls = [
            await stack.enter_async_context(serving(client, each, folder / f"edge-{number}", authority))
            for number, each in enumerate(several)
        ]
        created: list[tuple[Resource[JSON], JSON]] = [
            (MUTATING, _configuration(name, [_creations(number, url) for number, url in enumerate(urls)])),
            (VALIDATING, _configuration(name, [_deletions(urls[0])])),
        ]
        for resource, tree in created:
            for hook in tree["webhooks"]:
                hook["clientConfig"]["caBundle"] = base64.b64encode(authority.certificate).decode()
                hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
                if len(urls) == 1:
                    hook.pop("objectSelector", None)
            await client.create(resource, {"kind": resource.kind, "apiVersion": resource.api_version, **tree})
        try:
            yield
        finally:
            for resource, _ in created:
                await client.delete(resource, name)


def _configuration(name: str, hooks: list[JSON]) -> JSON:
    return {"metadata": {"name": name}, "webhooks": hooks}


def _hook(name: str, url: str, resources: list[str], operations: list[str], **more: Any) -> JSON:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": resources, "operations": operations}
    return {
        "name": f"{name}.trimtab.dev",
        "clientConfig": {"url": url},
        "rules": [rule],
        "failurePolicy": "Ignore",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
        **more,
    }


def _creations(number: int, url: str) -> JSON:
    chosen = {"matchLabels": {"shard": str(number)}}
    return _hook(f"pods-{number}", f"{url}/pods", ["pods"], ["CREATE"], objectSelector=chosen)


def _deletions(url: str) -> JSON:
    return _hook("deletions", f"{url}/deletions", ["pods", "pods/eviction"], ["CREATE", "DELETE"])
