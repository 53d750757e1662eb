"""An informer, controllers and two leaders against an API server that misbehaves.

The embedded API server runs in this process and answers with errors, late, or not at all. In the end the informer holds
what the server holds, every ReplicaSet has what it wants, and no two leaders ever acted at the same time.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.config import discover
from trimtab.kube.errors import ApiError, LeadershipLost
from trimtab.kube.informers import Informer
from trimtab.kube.leases import Elector, LeaseTimings
from trimtab.kube.sessions import Session
from trimtab_lab.apiserver.wire.faults import Fault
from trimtab_lab.apiserver.wire.server import Server
from trimtab_lab.workloads.service import Workloads

CONVERGES_WITHIN = 90.0
NAMES = ("red", "green", "blue")
KINDS = ("latency", "cut", "conflict", "throttle", "gone", "error", "unavailable")
SHORT = LeaseTimings(lease_duration=3.0, renew_deadline=2.0, retry_period=0.4)


@dataclass
class WireResult:
    """How it ended."""

    faults: int = 0
    problems: list[str] = field(default_factory=list)
    leaders: int = 0
    """How many of the candidates have led."""


def trouble(rng: random.Random) -> Fault:
    """Something that goes wrong with some requests."""
    kind = rng.choice(KINDS)
    seconds = {"latency": rng.uniform(0.05, 0.6), "cut": rng.uniform(0, 0.5), "throttle": 1.0}.get(kind, 0.0)
    watches = {"cut": True, "gone": True, "conflict": False}.get(kind)
    return Fault(kind, probability=rng.uniform(0.05, 0.4), seconds=seconds, watches=watches)


def replica_set(name: str) -> dict[str, object]:
    """A ReplicaSet of two."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}


class Leaders:
    """Two candidates for one lease, and when each of them acted."""

    def __init__(self, client: Client, rng: random.Random) -> None:
        self._client = client
        self._rng = rng
        self.spans: list[tuple[float, float, str]] = []

    async def candidate(self, identity: str) -> None:
        """Lead whenever possible, until cancelled."""
        while True:
            elector = Elector(self._client, name="chaos", namespace="default", identity=identity, timings=SHORT)
            with suppress(LeadershipLost, ApiError):
                await elector.run(lambda: self._act(identity))
            await asyncio.sleep(2 * SHORT.retry_period)  # the other candidate has its turn

    async def _act(self, identity: str) -> None:
        began = time.monotonic()
        try:
            await asyncio.sleep(self._rng.uniform(1, 6))
        finally:
            self.spans.append((began, time.monotonic(), identity))

    def overlaps(self) -> list[tuple[str, str]]:
        """Pairs that acted at the same time."""
        spans = sorted(self.spans)
        pairs = [(one, other) for at, one in enumerate(spans) for other in spans[at + 1 :]]
        return [(one[2], other[2]) for one, other in pairs if other[0] < one[1]]


async def churn(server: Server, calm: Client, rng: random.Random, seconds: float) -> int:
    """Scale, delete and break things for some time; how many faults there were."""
    ends = time.monotonic() + seconds
    faults = 0
    while time.monotonic() < ends:
        server.faults.clear()
        for _ in range(rng.randrange(3)):
            server.faults.add(trouble(rng))
            faults += 1
        with suppress(ApiError):
            await calm.resize(ReplicaSet, rng.choice(NAMES), rng.randrange(8), namespace="default")
            pods = (await calm.list(Pod, namespace="default")).items
            if pods and rng.random() < 0.5:
                victim = rng.choice(pods)
                await calm.delete(Pod, victim.metadata.name, namespace="default", grace_period_seconds=0)
        await asyncio.sleep(rng.uniform(0.2, 1.0))
    server.faults.clear()
    return faults


async def misbehave(folder: Path, seed: int, seconds: float) -> WireResult:
    """Let a server misbehave for some time, and find out what is wrong in the end."""
    rng = random.Random(seed)
    result = WireResult()
    async with (
        Server(folder, seed=seed) as server,
        Client(Session(discover(server.kubeconfig))) as client,
        Client(Session(discover(server.kubeconfig))) as calm,
    ):
        for name in NAMES:
            await calm.create(ReplicaSet, replica_set(name), namespace="default")
        informer: Informer[Pod] = Informer(client, Pod)
        leaders = Leaders(client, random.Random(f"{seed}/leaders"))
        works: Mapping[str, Any] = {
            "the informer": informer.run(),
            "the controllers": Workloads(client).run(),
            "candidate one": leaders.candidate("one"),
            "candidate two": leaders.candidate("two"),
        }
        tasks = {name: asyncio.create_task(work) for name, work in works.items()}
        try:
            result.faults = await churn(server, calm, rng, seconds)
            async with asyncio.timeout(CONVERGES_WITHIN):
                await converged(calm, informer)
        except TimeoutError:
            result.problems.append(f"not as it should be {CONVERGES_WITHIN:.0f} s after the last fault")
        finally:
            result.problems += [f"{name} has ended: {task!r}" for name, task in tasks.items() if task.done()]
            await cancel(*tasks.values())
    result.leaders = len({identity for *_, identity in leaders.spans})
    result.problems += [f"{one} and {other} led at the same time" for one, other in leaders.overlaps()]
    return result


async def converged(calm: Client, informer: Informer[Pod]) -> None:
    """Wait until the cluster is as it should be and the informer has seen all of it."""
    while True:
        sets = (await calm.list(ReplicaSet, namespace="default")).items
        pods = (await calm.list(Pod, namespace="default")).items
        wanted = {each.metadata.name: each.spec.replicas for each in sets}
        have = {name: sum(pod.metadata.labels["app"] == name and pod.active for pod in pods) for name in wanted}
        settled = all(each.status.replicas == each.spec.replicas for each in sets)
        versions = {(pod.key, pod.metadata.resource_version) for pod in pods}
        if wanted == have and settled and versions == {(p.key, p.metadata.resource_version) for p in informer.store}:
            return
        await asyncio.sleep(0.2)
