"""Trimtab's part in a UnitedTopology, run in a test against any control plane: webhooks and controller.

Webhooks are registered by URL and for one namespace alone, and the controller is confined to it, so that a control
plane can be shared with others. Where Trimtab is installed already, as in a lab that was started with it, that one is
used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.lab.edges import UNHURRIED
from trimtab.admission.certificates import CONFIGURATIONS, ManagedCertificates
from trimtab.admission.server import AdmissionServer
from trimtab.admission.validation import Validation
from trimtab.api import crds
from trimtab.api.annotations import NAMESPACE_LABEL, NAMESPACE_LABEL_VALUE
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.cloneset.controller import Controller as CloneSets
from trimtab.cloneset.settings import Settings as CloneSetSettings
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import AlreadyExists, ApiError, NotFound
from trimtab.kube.resources import Resource
from trimtab.scaledown.intent.requests import HoldResult, ScaleDownRequest
from trimtab.scaledown.intent.reviews import ScaleReviews
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.unitedtopology.admission.hooks import SubsetHooks
from trimtab.unitedtopology.admission.scaledown_preparation import ScaleDownPreparation
from trimtab.unitedtopology.admission.simulation import Simulation
from trimtab.unitedtopology.controller.controller import Controller, Settings
from trimtab.unitedtopology.levels import Levels
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.pod_annotator import PodAnnotator
from trimtab.unitedtopology.readiness import evaluator
from trimtab.unitedtopology.view import View

MUTATING = "MutatingWebhookConfiguration"
VALIDATING = "ValidatingWebhookConfiguration"
SCALED = [
    f"{plural}{subresource}" for plural in ("deployments", "replicasets", "clonesets") for subresource in ("", "/scale")
]
PRODUCT = "trimtab"
"""What the webhook configurations of an installation are called."""


@dataclass(slots=True)
class SubsetProcesses:
    """Trimtab's processes for UnitedTopologies of one namespace; none, where it is installed already."""

    client: Client
    namespace: str
    edges: list[tuple[AdmissionServer, list[asyncio.Future[Any]]]] = field(default_factory=list)
    controller: Controller | None = None
    controlling: asyncio.Future[Any] | None = None

    async def start_controller(self) -> None:
        """Start the controller, and the one of CloneSets beside it."""
        namespaces = frozenset({self.namespace})
        self.controller = Controller(self.client, Settings(namespaces=namespaces))
        clonesets = CloneSets(self.client, CloneSetSettings(namespaces=namespaces))
        self.controlling = asyncio.gather(self.controller.run(), clonesets.run())
        for each in (self.controller, clonesets):
            await _until_synced(each, self.controlling)

    async def kill_controller(self) -> None:
        """End the controller in the middle of whatever it does."""
        if self.controlling is not None:
            await cancel(self.controlling)

    async def start_webhooks(self) -> None:
        """Start a webhook process, or what of it matters, and have the API server ask it."""
        client = self.client
        view = View(client)
        simulation = Simulation(view, client.clock)
        simulation.follow()
        subsets = SubsetHooks(
            client,
            simulate=simulation,
            ended=view.ended_pods,
            outside=view.pods_outside,
            workload=view.workload,
            budget=UNHURRIED,
        )
        levels = Levels(view, evaluate=evaluator(pod_webhook=True))
        preparation = ScaleDownPreparation(view, levels, PodAnnotator(client, Metrics()), client.clock)

        async def hold(request: ScaleDownRequest) -> HoldResult:
            await preparation.prepare(request.kind, request.namespace, request.name, request.after)
            return HoldResult(HoldOutcome.NO_POLICY)

        scale = ScaleReviews(hold)
        certificates = ManagedCertificates(
            client,
            namespace=self.namespace,
            name="trimtab-subsets",
            names=["127.0.0.1"],
            configurations=[(kind, self.name) for kind in CONFIGURATIONS],
        )
        hooks = [*subsets.hooks, *scale.hooks, *Validation(client).hooks]
        edge = AdmissionServer(
            hooks, certificates=certificates, host="127.0.0.1", port=0, on_skip=subsets.report_undecided
        )
        tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(each.run()) for each in (subsets, view, edge)]
        self.edges.append((edge, tasks))
        for each in (subsets, view, edge):
            await _until_synced(each, *tasks)
        await self._register(edge)
        await certificates.check()

    async def kill_webhooks(self) -> None:
        """End the webhook process; it stays registered."""
        _, tasks = self.edges.pop()
        await cancel(*tasks)

    @property
    def name(self) -> str:
        """What the webhook configurations are called."""
        return f"trimtab-{self.namespace}"

    async def _register(self, edge: AdmissionServer) -> None:
        await self.unregister()
        url = f"https://127.0.0.1:{edge.port}"
        for kind, hooks in _hooks(url, self.namespace).items():
            await self.client.create(CONFIGURATIONS[kind], {"metadata": {"name": self.name}, "webhooks": hooks})

    async def unregister(self) -> None:
        """Remove the webhook configurations."""
        for kind in CONFIGURATIONS:
            with suppress(NotFound):
                await self.client.delete(CONFIGURATIONS[kind], self.name)

    async def stop(self) -> None:
        """End everything."""
        await self.unregister()
        while self.edges:
            await self.kill_webhooks()
        await self.kill_controller()


@asynccontextmanager
async def running_subsets(client: Client, namespace: str) -> AsyncIterator[SubsetProcesses]:
    """Trimtab at work on the UnitedTopologies of a namespace, for as long as the context."""
    await define(client)
    made = SubsetProcesses(client, namespace)
    installed = await is_installed(client)
    if not installed:
        await made.start_controller()
        await made.start_webhooks()
    try:
        yield made
    finally:
        await client.delete_all(UnitedTopology, namespace=namespace)
        if not installed:
            await made.stop()


async def define(client: Client) -> None:
    """Have the API server serve our kinds as they are today; it may do so already."""
    for manifest in crds.manifests():
        try:
            await client.create(CustomResourceDefinition, manifest)
        except AlreadyExists:
            await client.patch(CustomResourceDefinition, manifest["metadata"]["name"], manifest)
    async with asyncio.timeout(30):
        for kind in crds.KINDS:
            while not await _is_served(client, kind.model):
                await asyncio.sleep(0.05)


async def is_installed(client: Client) -> bool:
    """Whether Trimtab is installed already."""
    try:
        await client.get(CONFIGURATIONS[MUTATING], PRODUCT)
    except NotFound:
        return False
    return True


async def _is_served(client: Client, model: type[Any]) -> bool:
    try:
        await client.list(Resource.of(model), limit=1)
    except ApiError:
        return False
    return True


async def _until_synced(component: Any, *tasks: asyncio.Future[Any]) -> None:
    async with asyncio.timeout(60):
        while not component.synced:
            await asyncio.sleep(0.01)
            for task in tasks:
                if task.done():
                    task.result()


def _hooks(url: str, namespace: str) -> dict[str, list[JSON]]:
    labelled = {NAMESPACE_LABEL: NAMESPACE_LABEL_VALUE}
    pods = ("", "v1")
    return {
        MUTATING: [_hook("pods", f"{url}/pods", namespace, (*pods, ["pods"], ["CREATE"]), labelled)],
        VALIDATING: [
            _hook("deletions", f"{url}/deletions", namespace, (*pods, ["pods"], ["DELETE"]), labelled),
            _hook("evictions", f"{url}/deletions", namespace, (*pods, ["pods/eviction"], ["CREATE"]), labelled),
            _hook("scale", f"{url}/scale", namespace, ("*", "*", SCALED, ["UPDATE"])),
            _hook(
                "validation",
                f"{url}/validate",
                namespace,
                ("apps.kruise.io", "*", ["unitedtopologies"], ["CREATE", "UPDATE"]),
            ),
        ],
    }


def _hook(
    name: str,
    url: str,
    namespace: str,
    rule: tuple[str, str, list[str], list[str]],
    labelled: dict[str, str] | None = None,
) -> JSON:
    group, version, resources, operations = rule
    return {
        "name": f"{name}.trimtab.dev",
        "clientConfig": {"url": url},
        "rules": [{"apiGroups": [group], "apiVersions": [version], "resources": resources, "operations": operations}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace, **(labelled or {})}},
        "failurePolicy": "Ignore",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    }
