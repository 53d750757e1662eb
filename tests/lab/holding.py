"""Trimtab's part in a scale-down, run in a test against any control plane: the server, the hook, the service.

The webhook is registered by URL and for one namespace alone, so that it can share a control plane with others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from trimtab.admission.certificates import CONFIGURATIONS, ManagedCertificates
from trimtab.admission.server import AdmissionServer
from trimtab.api.documents import JSON
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import NotFound
from trimtab.scaledown.intent.hold_settings import HoldSettings
from trimtab.scaledown.intent.holder import ScaleDownHolder
from trimtab.scaledown.intent.reviews import ScaleReviews
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.policy.defaults import LEVEL_EVERYONE, Defaults
from trimtab.scaledown.view import View

VALIDATING = "ValidatingWebhookConfiguration"
RULES = [
    {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["deployments", "deployments/scale", "replicasets", "replicasets/scale"],
    },
    {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["replicationcontrollers", "replicationcontrollers/scale"],
    },
]


@dataclass(frozen=True, slots=True)
class Holding:
    """Trimtab, as it holds requests of one namespace."""

    view: View
    holder: ScaleDownHolder
    edge: AdmissionServer
    certificates: ManagedCertificates

    @property
    def metrics(self) -> Metrics:
        """What it counts."""
        return self.holder.metrics

    def sample(self, name: str, **labels: str) -> float:
        """The value of one of its metrics; 0 where there is none yet."""
        return self.metrics.registry.get_sample_value(f"trimtab_scaledown_{name}", labels) or 0.0


def configuration(namespace: str, url: str, rules: Sequence[JSON] = RULES) -> JSON:
    """The webhook configuration, as the installation writes it, but by URL."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    hook = {
        "name": "scale.trimtab.dev",
        "clientConfig": {"url": url},
        "rules": list(rules),
        "namespaceSelector": selector,
        "failurePolicy": "Ignore",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 3,
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
    }
    return {"metadata": {"name": f"trimtab-{namespace}"}, "webhooks": [hook]}


@asynccontextmanager
async def serving(
    client: Client,
    namespace: str,
    *,
    defaults: Defaults = LEVEL_EVERYONE,
    stays_registered: bool = False,
    **settings: Any,
) -> AsyncIterator[Holding]:
    """Trimtab at work, for as long as the context; registered for a namespace, which keeps its certificates too."""
    view = View(client)
    holder = ScaleDownHolder(client, view, defaults=defaults, settings=HoldSettings(**settings))
    certificates = ManagedCertificates(
        client,
        namespace=namespace,
        name="trimtab-webhooks",
        names=["127.0.0.1"],
        configurations=[(VALIDATING, f"trimtab-{namespace}")],
    )
    edge = AdmissionServer(ScaleReviews(holder.hold).hooks, certificates=certificates, host="127.0.0.1", port=0)
    tasks = [asyncio.ensure_future(each) for each in (view.run(), holder.run(), edge.run())]
    try:
        await view.wait_synced()
        while not (edge.synced and holder.synced):
            await asyncio.sleep(0.01)
        await register(client, namespace, f"https://127.0.0.1:{edge.port}/scale")
        await certificates.check()
        yield Holding(view, holder, edge, certificates)
    finally:
        if not stays_registered:
            await unregister(client, namespace)
        await cancel(*tasks)


async def register(client: Client, namespace: str, url: str) -> None:
    """Register the webhook at that address, and no other."""
    await unregister(client, namespace)
    await client.create(CONFIGURATIONS[VALIDATING], configuration(namespace, url))


async def unregister(client: Client, namespace: str) -> None:
    """Remove the webhook configuration."""
    with suppress(NotFound):
        await client.delete(CONFIGURATIONS[VALIDATING], f"trimtab-{namespace}")
