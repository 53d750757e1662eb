"""A CloneSet of 1,000 pods scaled to 300, over the wire: how long it takes, and how many calls a pod.

The lab's API server runs in a process of its own, the controller in this one, as it would in production. The pods are
on 300 nodes in three zones and ready before the clock starts; there are no kubelets, so pods end as soon as they are
deleted. The calls are the controller's own, events and status included, without its watches.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figure, Limit
from bench.scheduler import lab
from bench.workers import for_each
from trimtab.api import crds
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.nodes import ZONE, Node
from trimtab.api.pods import Pod
from trimtab.cloneset.controller import Controller
from trimtab.kube import config
from trimtab.kube.client import Client, Observation
from trimtab.kube.clocks import cancel
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Resource
from trimtab.kube.sessions import Session
from trimtab.testing.builders import node, pod

BEFORE, AFTER, NODES, ZONES = 1_000, 300, 300, 3
PATIENCE = 300
NAMESPACE = "default"
_CLONESETS = Resource.of(CloneSet).raw
_PODS = Resource.of(Pod).raw


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds for the scale-down, for as many deletions without deciding, and the calls that it took."""

    seconds: float
    plain: float
    calls: int
    skew: int


def seconds_1k_to_300() -> Figure:
    """From the request until the watch has shown the last pod gone; the calibration deletes without deciding."""
    found = _measured()
    limit = Limit(3, f"the calibration deletes without deciding; the zones' skew is then {found.skew}")
    return Figure(found.seconds, "s", found.plain, limit)


def calls_1k_to_300() -> Figure:
    """The calls of the controller for each deleted pod; the calibration is the one call that is needed."""
    return Figure(_measured().calls / (BEFORE - AFTER), "calls", 1.0, Limit(1.1, "calls a pod"))


@functools.cache
def _measured() -> Measured:
    with lab() as kubeconfig:
        return asyncio.run(_measure(kubeconfig))


async def _measure(kubeconfig: Path) -> Measured:
    calls: Counter[str] = Counter()

    def count(observed: Observation) -> None:
        calls[observed.method] += 1

    async with Client(Session(config.discover(kubeconfig))) as client:
        await _furnish(client)
        plain = await _delete_without_deciding(client)
        pods: Informer[Pod] = Informer(client, Pod, namespace=NAMESPACE)
        sets: Informer[CloneSet] = Informer(client, CloneSet, namespace=NAMESPACE)
        async with _running(pods.run(), sets.run(), Controller(client.using(on_attempt=count)).run()):
            await _prepare(client, pods, sets)
            calls.clear()
            started = time.perf_counter()
            await client.resize(CloneSet, "web", AFTER, namespace=NAMESPACE)
            await pods.wait_for(lambda store: len(store) == AFTER)
            seconds = time.perf_counter() - started
            await sets.wait_for(lambda store: all(each.status.replicas == AFTER for each in store))
        zones = Counter(int(each.spec.node_name.rpartition("-")[2]) % ZONES for each in pods.store)
    return Measured(seconds, plain, calls.total(), max(zones.values()) - min(zones.values()))


async def _furnish(client: Client) -> None:
    definitions = Resource.of(CustomResourceDefinition).raw
    for kind in crds.KINDS:
        if kind.model is CloneSet:
            await client.create(definitions, crds.manifest(kind))
    nodes = Resource.of(Node).raw
    await for_each(range(NODES), lambda number: client.create(nodes, node(_name(number), zone=_zone(number)).tree()))


async def _delete_without_deciding(client: Client) -> float:
    """As many deletions as the scale-down needs, some at a time, by UID as the controller's are."""
    count = BEFORE - AFTER
    trees = [pod(f"plain-{n}").spec(terminationGracePeriodSeconds=0).on(_name(n)).tree() for n in range(count)]
    await for_each(trees, lambda tree: client.create(_PODS, tree, namespace=NAMESPACE))
    there = (await client.list(Pod, namespace=NAMESPACE)).items
    started = time.perf_counter()
    await for_each(
        there,
        lambda each: client.delete(Pod, each.metadata.name, namespace=NAMESPACE, uid=each.metadata.uid),
    )
    return time.perf_counter() - started


async def _prepare(client: Client, pods: Informer[Pod], sets: Informer[CloneSet]) -> None:
    """The CloneSet's pods, created by the controller, bound and made ready by us."""
    async with asyncio.timeout(PATIENCE):
        await client.create(_CLONESETS, _manifest(), namespace=NAMESPACE)
        await pods.wait_for(lambda store: len(store) == BEFORE)
        names = [each.metadata.name for each in pods.store]
        await for_each(enumerate(names), lambda pair: _start(client, *pair))
        await sets.wait_for(lambda store: all(each.status.available_replicas == BEFORE for each in store))


async def _start(client: Client, number: int, name: str) -> None:
    await client.bind(name, namespace=NAMESPACE, node=_name(number))
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": f"2026-01-01T00:00:{number % 60:02d}Z"}
    patch = {"status": {"phase": "Running", "conditions": [ready]}}
    await client.patch(Pod, name, patch, namespace=NAMESPACE, subresource="status")


def _manifest() -> JSON:
    labels = {"app": "web"}
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
    spec = {
        "containers": [{"name": "main", "image": "example.com/app:1"}],
        "terminationGracePeriodSeconds": 0,
        "topologySpreadConstraints": [{**rule, "labelSelector": {"matchLabels": labels}}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"replicas": BEFORE, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "web"}, "spec": body}


def _name(number: int) -> str:
    return f"node-{number % NODES}"


def _zone(number: int) -> str:
    return f"zone-{number % ZONES}"


@asynccontextmanager
async def _running(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield
    finally:
        await cancel(*tasks)
