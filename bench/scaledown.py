"""How long a request to scale down is held, over the wire, and how many costs are written for it.

The lab's API server runs in a process of its own and asks the webhook in this one, as in production. A ReplicaSet of so
many pods, half of them in one of three zones, shrinks by a third again and again; no controller deletes its pods, so
that every round is the same, and costs are reverted in between. What is measured is what a user waits for `/scale`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import statistics
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, Limit
from bench.scheduler import lab
from bench.workers import for_each
from trimtab.admission.certificates import CONFIGURATIONS, ManagedCertificates
from trimtab.admission.server import AdmissionServer
from trimtab.api.apps import ReplicaSet
from trimtab.api.documents import JSON
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.resources import Resource
from trimtab.kube.sessions import Session
from trimtab.scaledown.intent.hold_settings import HoldSettings
from trimtab.scaledown.intent.holder import ScaleDownHolder
from trimtab.scaledown.intent.ratelimits import Rates
from trimtab.scaledown.intent.requests import BUDGET, HoldResult, ScaleDownRequest
from trimtab.scaledown.intent.reviews import ScaleReviews
from trimtab.scaledown.policy.defaults import LEVEL_EVERYONE
from trimtab.scaledown.view import View
from trimtab.testing.builders import node, pod

NAMESPACE = "default"
NAME = "trimtab-bench"
NODES = 60
AT_ONCE = 32
ROUNDS = {60: 40, 1_000: 12, 5_000: 6}
_NODES, _PODS = Resource.of(Node).raw, Resource.of(Pod).raw
_UNLIMITED = Rates(each=1e6, each_burst=10**6, all=1e6, all_burst=10**6, writes=1e6, writes_burst=10**6)
_ZONES = ("a", "a", "a", "b", "b", "c")
"""Half of the pods in one zone, a third in another: there is something to level."""


def held_60() -> Figure:
    """60 pods."""
    return _held(60)


def held_1k() -> Figure:
    """1,000 pods."""
    return _held(1_000)


def held_5k() -> Figure:
    """5,000 pods: more costs than fit into the budget, so this shows that the budget holds."""
    return _held(5_000)


@dataclass(frozen=True, slots=True)
class _Measurement:
    """The measurements of all rounds."""

    seconds: list[float]
    written: float
    reverted: float
    plain: float
    """Seconds that writing as many annotations takes, as many at a time."""


def _held(pods: int) -> Figure:
    with lab() as kubeconfig:
        found = asyncio.run(_measure(kubeconfig, pods))
    median, worst = statistics.median(found.seconds), percentile(found.seconds, 0.99)
    rounds = len(found.seconds)
    print(
        f"  {pods} pods to {pods * 2 // 3}: held p50 {median:.3f} s, p99 {worst:.3f} s over {rounds} requests; "
        f"{found.written / rounds:.0f} costs written and {found.reverted / rounds:.0f} reverted a request"
    )
    limit = Limit(BUDGET, "the calibration writes as many annotations and no more", is_of_value=True)
    return Figure(worst, "s (p99)", found.plain, limit)


async def _measure(kubeconfig: Path, size: int) -> _Measurement:
    logging.getLogger("trimtab").setLevel(logging.ERROR)
    async with Client(Session(config.discover(kubeconfig))) as client:
        await create_cluster(client, {"web": size})
        plain = await _plain(client, size // 3)
        async with serving(client, _UNLIMITED) as (view, holder):
            seconds = [await _round(client, view, size) for _ in range(ROUNDS[size])]
            registry = holder.metrics.registry
            written = registry.get_sample_value("trimtab_scaledown_costs_written_total") or 0.0
            back = registry.get_sample_value("trimtab_scaledown_costs_reverted_total", {"reason": "not-applied"}) or 0.0
    return _Measurement(seconds, written, back, plain)


async def _round(client: Client, view: View, size: int) -> float:
    """Scale down, and up again."""
    started = time.perf_counter()
    await client.resize(ReplicaSet, "web", size * 2 // 3, namespace=NAMESPACE)
    took = time.perf_counter() - started
    await client.resize(ReplicaSet, "web", size, namespace=NAMESPACE)
    async with asyncio.timeout(120):
        while view.plans:
            await asyncio.sleep(0.02)
    return took


async def _plain(client: Client, count: int) -> float:
    started = time.perf_counter()
    patch = {"metadata": {"annotations": {"bench": "1"}}}
    await for_each(range(count), lambda n: client.patch(Pod, f"web-{n}", patch, namespace=NAMESPACE), at_once=AT_ONCE)
    return time.perf_counter() - started


@asynccontextmanager
async def serving(
    client: Client, rates: Rates, *, observe: Callable[[ScaleDownRequest, HoldResult], None] | None = None
) -> AsyncIterator[tuple[View, ScaleDownHolder]]:
    """The webhook for scale-downs, in this process; `observe` is called with each request and its result."""

    async def hold(request: ScaleDownRequest) -> HoldResult:
        result = await holder.hold(request)
        if observe:
            observe(request, result)
        return result

    view = View(client)
    holder = ScaleDownHolder(client, view, defaults=LEVEL_EVERYONE, settings=HoldSettings(patience=0.0, rates=rates))
    certificates = ManagedCertificates(
        client,
        namespace=NAMESPACE,
        name=NAME,
        names=["127.0.0.1"],
        configurations=[("ValidatingWebhookConfiguration", NAME)],
    )
    edge = AdmissionServer(ScaleReviews(hold).hooks, certificates=certificates, host="127.0.0.1", port=0)
    tasks = [asyncio.ensure_future(each) for each in (view.run(), holder.run(), edge.run())]
    try:
        await view.wait_synced()
        while not (edge.synced and holder.synced):
            await asyncio.sleep(0.01)
        await client.create(CONFIGURATIONS["ValidatingWebhookConfiguration"], _configuration(edge.port))
        await certificates.check()
        yield view, holder
    finally:
        await cancel(*tasks)


def _configuration(port: int) -> JSON:
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["replicasets", "replicasets/scale"],
    }
    hook = {
        "name": "scale.trimtab.dev",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/scale"},
        "rules": [rule],
        "failurePolicy": "Ignore",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 3,
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": NAME}, "webhooks": [hook]}


# --- the cluster -----------------------------------------------------------------------------------------------------


async def create_cluster(client: Client, sizes: Mapping[str, int]) -> None:
    """Nodes in three zones, and ReplicaSets of these sizes with their pods."""
    names = {zone: [f"{zone}-{number}" for number in range(NODES // 3)] for zone in "abc"}
    nodes = [node(name, zone=zone).tree() for zone, some in names.items() for name in some]
    await for_each(nodes, lambda tree: client.create(_NODES, tree), at_once=AT_ONCE)
    places = {zone: itertools.cycle(nodes) for zone, nodes in names.items()}
    for name, size in sizes.items():
        made = await client.create(ReplicaSet, _replica_set(name, size), namespace=NAMESPACE)
        trees = [_pod(n, made, next(places[_ZONES[n % len(_ZONES)]])) for n in range(size)]
        await for_each(trees, lambda tree: _start(client, tree), at_once=AT_ONCE)


def _replica_set(name: str, size: int) -> JSON:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    spec = {"replicas": size, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def _pod(number: int, owner: ReplicaSet, place: str) -> JSON:
    name = owner.metadata.name
    tree = pod(f"{name}-{number}").labels(app=name).on(place).tree()
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": owner.metadata.uid}
    tree["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return {**tree, "status": {}}


async def _start(client: Client, tree: JSON) -> None:
    name = tree["metadata"]["name"]
    await client.create(_PODS, tree, namespace=NAMESPACE)
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"status": {"phase": "Running", "conditions": [condition]}}
    await client.patch(_PODS, name, status, namespace=NAMESPACE, subresource="status")


def percentile(values: list[float], share: float) -> float:
    """The value that this share of all stays within."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
