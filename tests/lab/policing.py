"""The controllers of policies on any control plane, for one namespace alone; and the stories of the proposals."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network
from typing import Any

import pytest
from aiohttp import web

from tests.lab.deployments import DeploymentSandbox
from trimtab.admission.certificates import CONFIGURATIONS, ManagedCertificates
from trimtab.admission.server import AdmissionServer
from trimtab.admission.validation import PATH, Validation
from trimtab.api import crds
from trimtab.api.annotations import DELETION_COST
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.meta import Condition
from trimtab.api.nodes import ZONE, Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.kube.caches import Cache
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel, within
from trimtab.kube.errors import AlreadyExists, ApiError, NotFound, ServerError
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Resource
from trimtab.kube.stores import Store
from trimtab.scaledown.continuous.delivery import ContinuousSettings
from trimtab.scaledown.intent.settle_time import INITIAL
from trimtab.scaledown.policy.controller import ScaleDownPolicies
from trimtab.scaledown.policy.defaults import Defaults
from trimtab.scaledown.sources.targets import sources_for
from trimtab.scaledown.view import View

DEFINITIONS = Resource.of(CustomResourceDefinition)
POLICIES = Resource.of(ScaleDownPolicy)
LOOPBACK = [ip_network("127.0.0.0/8")]
VALIDATING = "ValidatingWebhookConfiguration"
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


async def define(client: Client) -> None:
    """Have our kinds served. What is there already stays as it is."""
    for kind in crds.KINDS:
        with suppress(AlreadyExists):
            await client.create(DEFINITIONS.raw, crds.manifest(kind))
    await within(client.clock, 60.0, _established(client))


async def _established(client: Client) -> None:
    """Wait until all our kinds are served."""
    names = {kind.name for kind in crds.KINDS}
    while True:
        found = (await client.list(CustomResourceDefinition)).items
        served = {each.metadata.name for each in found if any(map(_is_established, each.status.conditions))}
        if names <= served:
            return
        await client.clock.sleep(0.1)


def _is_established(condition: Condition) -> bool:
    return condition.type == "Established" and condition.status == "True"


class Policies:
    """The policies of one namespace, and an informer that shows their statuses."""

    def __init__(
        self, client: Client, namespace: str, informer: Informer[ScaleDownPolicy] | Cache[ScaleDownPolicy]
    ) -> None:
        self.client = client
        self.namespace = namespace
        self.informer = informer

    async def policy(self, name: str = "web", **spec: Any) -> None:
        """Create a policy, for the Deployment web by default."""
        if "selector" not in spec:
            spec = {"targetRef": DEPLOYMENT, **spec}
        body = {"apiVersion": POLICIES.api_version, "kind": "ScaleDownPolicy", "metadata": {"name": name}}
        await self.client.create(POLICIES.raw, {**body, "spec": spec}, namespace=self.namespace)

    async def wait_for_status(self, condition: Callable[[ScaleDownPolicy], bool], name: str = "web") -> ScaleDownPolicy:
        """Wait until the status of a policy satisfies a condition."""

        def is_satisfied(store: Store[ScaleDownPolicy]) -> bool:
            found = store.get(f"{self.namespace}/{name}")  # type: ignore[arg-type]
            return found is not None and condition(found)

        await within(self.client.clock, 60.0, self.informer.wait_for(is_satisfied))
        found = self.informer.get(f"{self.namespace}/{name}")  # type: ignore[arg-type]
        assert found is not None
        return found

    async def ranked(self, count: int, name: str = "web") -> ScaleDownPolicy:
        """Wait until a policy ranks so many pods, and is ready."""
        return await self.wait_for_status(lambda policy: is_ready(policy) and policy.status.ranked_pods == count, name)


class PolicyControllers(Policies):
    """The controllers of policies, at work in one namespace, in this process."""

    def __init__(self, client: Client, namespace: str, **settings: Any) -> None:
        defaults = Defaults(only=frozenset({namespace}))
        self.view = View(client)
        super().__init__(client, namespace, self.view.policies)
        self.sources = sources_for(client, self.view, lambda: defaults, networks=LOOPBACK)
        made = ContinuousSettings(**{"batch": 0.1, "resync_sampled": 1.0, **settings})
        self.controller = ScaleDownPolicies(client, self.view, self.sources, defaults=defaults, settings=made)


def is_ready(policy: ScaleDownPolicy) -> bool:
    """Whether a policy is ready in its present generation."""
    current = policy.status.observed_generation == policy.metadata.generation
    return current and any(each.type == "Ready" and each.status == "True" for each in policy.status.conditions)


@asynccontextmanager
async def running_policies(client: Client, namespace: str, **settings: Any) -> AsyncIterator[PolicyControllers]:
    """Run the controllers of policies for one namespace, for as long as the context."""
    await define(client)
    made = PolicyControllers(client, namespace, **settings)
    tasks = [asyncio.ensure_future(each) for each in (made.view.run(), made.sources.run(), made.controller.run())]
    try:
        await made.view.wait_synced()
        await made.view.policies.wait_synced()
        yield made
    finally:
        await client.delete_all(POLICIES, namespace=namespace)
        await client.delete_all(Resource.of(PodGroupCost), namespace=namespace)
        for task in reversed(tasks):  # the view last: the others use it while they end
            await cancel(task)


# The hook that refuses bad policies.


@asynccontextmanager
async def validating(client: Client, namespace: str) -> AsyncIterator[None]:
    """Policies of one namespace reviewed when they are written, for as long as the context."""
    name = f"trimtab-policies-{namespace}"
    certificates = ManagedCertificates(
        client, namespace=namespace, name=name, names=["127.0.0.1"], configurations=[(VALIDATING, name)]
    )
    edge = AdmissionServer(Validation(client).hooks, certificates=certificates, host="127.0.0.1", port=0)
    task = asyncio.ensure_future(edge.run())
    try:
        while not edge.synced:
            await client.clock.sleep(0.01)
        body = _reviews(name, namespace, f"https://127.0.0.1:{edge.port}{PATH}")
        await client.create(CONFIGURATIONS[VALIDATING], body)
        await certificates.check()
        yield
    finally:
        with suppress(NotFound):
            await client.delete(CONFIGURATIONS[VALIDATING], name)
        await cancel(task)


def _reviews(name: str, namespace: str, url: str) -> JSON:
    rule = {
        "apiGroups": ["trimtab.dev"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["scaledownpolicies"],
    }
    hook = {
        "name": "policies.trimtab.dev",
        "clientConfig": {"url": url},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",  # so that nothing is stored without a review
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": name}, "webhooks": [hook]}


BAD_POLICIES: dict[str, tuple[JSON, str]] = {
    "no target": ({}, "spec: selects no pods; write a targetRef or a selector"),
    "an unknown strategy": (
        {"targetRef": DEPLOYMENT, "strategies": [{"name": "Balanse"}]},
        'spec.strategies[0].name: "Balanse" is not a strategy; known are',
    ),
    "several strategies without thresholds": (
        {"targetRef": DEPLOYMENT, "strategies": [{"name": "Balance"}, {"name": "Taints"}]},
        "spec.strategies[1].threshold: is required with several strategies",
    ),
    "a StatefulSet": (
        {"targetRef": {**DEPLOYMENT, "kind": "StatefulSet"}},
        "spec.targetRef.kind: StatefulSet is not supported: a StatefulSet removes its highest ordinal first",
    ),
    "a Job": (
        {"targetRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "web"}},
        "spec.targetRef.kind: Job is not supported: a Job does not choose its victims by cost",
    ),
}
"""Invalid policies, and their errors."""


async def bad_policies_are_refused(client: Client, namespace: str) -> None:
    """Each with the field and what to write; and a good one is admitted."""
    await define(client)
    async with validating(client, namespace):
        await within(client.clock, 30.0, _taken(client, namespace, _policy(targetRef=DEPLOYMENT)))
        await each_bad_policy_is_refused(client, namespace)


def _policy(**spec: Any) -> JSON:
    return {
        "apiVersion": POLICIES.api_version,
        "kind": "ScaleDownPolicy",
        "metadata": {"name": "web"},
        "spec": spec,
    }


async def each_bad_policy_is_refused(client: Client, namespace: str) -> None:
    """With the field and what to write, where the webhook is registered; and a good one is admitted."""
    for spec, words in BAD_POLICIES.values():
        with pytest.raises(ApiError, match=re.escape(words)):
            await client.create(POLICIES.raw, _policy(**spec), namespace=namespace)
    await client.create(POLICIES.raw, _policy(targetRef=DEPLOYMENT), namespace=namespace)
    await client.delete(POLICIES, "web", namespace=namespace)


async def _taken(client: Client, namespace: str, good: JSON) -> None:
    """Wait until a valid policy is admitted: an API server needs a moment to load the certificates."""
    while True:
        with suppress(ServerError):
            await client.create(POLICIES.raw, good, namespace=namespace, dry_run=True)
            return
        await client.clock.sleep(0.1)


# Costs as the fleet's own informer shows them.


def costed(store: Store[Pod], annotation: str) -> dict[str, int]:
    """The costs on pods that are there to stay, by name."""
    found = {pod.metadata.name: pod.metadata.annotations.get(annotation) for pod in store if pod.active}
    return {name: int(cost) for name, cost in found.items() if cost is not None}


# Pods that answer what they cost.


class Workers:
    """An endpoint for each pod, at an address of its own on this machine.

    Endpoints are closed with the sandbox, after the controllers that probe them have ended: asyncio leaks a connection
    that it accepts while it closes a server.
    """

    def __init__(self, made: DeploymentSandbox) -> None:
        self.answers: dict[str, str] = {}
        """What each pod answers, by name."""
        self.port = 0
        self._fleet = made
        self._names: dict[str, str] = {}

    async def employ(self) -> None:
        """Give every pod of the fleet its address and its endpoint."""
        for at, pod in enumerate(sorted(self._fleet.pods.store, key=lambda pod: pod.metadata.name)):
            await self._open(pod.metadata.name, f"127.77.{at // 250}.{at % 250 + 1}")

    async def _open(self, name: str, address: str) -> None:
        application = web.Application()
        application.router.add_get("/cost", self._answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        self._fleet.exits.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, address, self.port).start()
        self.port = runner.addresses[0][1]
        self._names[address] = name
        status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        await self._fleet.client.patch(Pod, name, status, namespace=self._fleet.name, subresource="status")

    async def _answer(self, request: web.Request) -> web.Response:
        name = self._names[request.transport.get_extra_info("sockname")[0]] if request.transport else ""
        return web.Response(text=self.answers.get(name, "0"))


# The stories.


async def settle(made: DeploymentSandbox) -> None:
    """Wait for the settle time: the cache of a controller cannot be read."""
    await made.client.clock.sleep(2 * INITIAL)


async def long_work_is_spared(made: DeploymentSandbox, policies: Policies) -> None:
    """The pods that have worked longest are deleted last: six workers, four of them busy, scaled down to three."""
    await made.deploy("web", 6)
    workers = Workers(made)
    await workers.employ()
    names = sorted(pod.metadata.name for pod in made.pods.store)
    workers.answers = {name: str(600 * at) for at, name in enumerate(names)}
    probe = {"name": "Probe", "args": {"port": workers.port, "periodSeconds": 5, "maxAgeSeconds": 60}}
    await policies.policy(strategies=[probe], delivery="Continuous")
    await policies.ranked(6)
    await made.until(lambda store: len(costed(store, DELETION_COST)) == len(names))
    await settle(made)
    await made.scale("web", 3)
    await made.settled(3)
    assert {pod.metadata.name for pod in made.pods.store} == set(names[3:])


async def unwanted_nodes_empty_first(made: DeploymentSandbox, policies: Policies) -> None:
    """Nodes get a PreferNoSchedule taint while their pods run; those pods go first."""
    await made.deploy("web", 8)
    marked = {node.metadata.name for node in made.machines.store if node.metadata.labels.get(ZONE) == "zone-a"}
    await policies.policy(strategies=[{"name": "PreferNoSchedule"}], delivery="Continuous")
    await policies.ranked(8)
    for name in marked:
        node = await made.client.get(Resource.of(Node).raw, name)
        taints = [*node["spec"].get("taints", []), {"key": "retire", "effect": "PreferNoSchedule"}]
        await made.client.patch(Resource.of(Node).raw, name, {"spec": {"taints": taints}})
    there = {pod.metadata.name for pod in made.pods.store if pod.spec.node_name in marked}
    await made.until(lambda store: _cheaper(costed(store, DELETION_COST), there))
    await settle(made)
    await made.scale("web", 8 - len(there))
    await made.settled(8 - len(there))
    assert not [pod for pod in made.pods.store if pod.spec.node_name in marked]


def _cheaper(costs: dict[str, int], there: set[str]) -> bool:
    """Whether all of these cost less than all others."""
    cheap = [cost for name, cost in costs.items() if name in there]
    dear = [cost for name, cost in costs.items() if name not in there]
    return bool(cheap and dear) and max(cheap) < min(dear)


async def three_stay_on_two_zones(made: DeploymentSandbox, policies: Policies) -> None:
    """Three replicas on two zones, scaled down to two, over and over."""
    await policies.policy(delivery="Continuous")
    await made.deploy("web", 3)
    for _ in range(3):
        await policies.ranked(3)
        await made.until(lambda store: len(costed(store, DELETION_COST)) == 3)
        await settle(made)
        await made.scale("web", 2)
        assert await made.settled(2) == (1, 1)
        await made.scale("web", 3)
        await made.settled(3)


STORIES: dict[str, Any] = {
    "long-running work is spared": long_work_is_spared,
    "pods on PreferNoSchedule nodes go first": unwanted_nodes_empty_first,
    "three replicas on two zones stay on two zones": three_stay_on_two_zones,
}


async def policy_json(client: Client, namespace: str, name: str = "web") -> JSON:
    """A policy as it is, every field."""
    return await client.get(POLICIES.raw, name, namespace=namespace)
