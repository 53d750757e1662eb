"""An installation that is attacked, and what can be seen of it from outside."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from bench.soak.faults.hostile import caller, send_review
from bench.soak.sampling import histogram, resident
from tests.e2e.processes import CONTROLLERS, LOOPBACK, SCHEDULER, WEBHOOKS, Trimtab, cluster_wide, running
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox, skew
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.resources import untyped

COMPONENTS = (WEBHOOKS, CONTROLLERS, SCHEDULER)
EVENTS = untyped("v1", "Event", "events")
LEASES = untyped("coordination.k8s.io/v1", "Lease", "leases")
SIZE = 12
_TIMEOUT = aiohttp.ClientTimeout(total=60.0)
_LAG = "trimtab_event_loop_lag_seconds"


@dataclass(frozen=True, slots=True)
class Victim:
    """An installation for the whole cluster whose webhooks review one namespace, and a Deployment `web` of 12 pods."""

    client: Client
    sandbox: DeploymentSandbox
    trimtab: Trimtab
    strange: str
    """A namespace whose objects are watched and not reviewed."""
    caller: aiohttp.ClientSession
    """Who sends reviews of our own making."""

    @property
    def port(self) -> int:
        """The port to which API servers send reviews."""
        return int(self.trimtab.configuration["webhooks"]["port"])

    async def send(self, path: str, tree: JSON) -> JSON:
        """The answer to a review of our own making."""
        status, text = await send_review(self.caller, self.port, path, json.dumps(tree).encode())
        assert status == 200, text
        response: JSON = json.loads(text)["response"]
        return response

    def memory(self) -> float:
        """The resident memory of the webhooks, in MiB."""
        found = resident(self.trimtab.processes[WEBHOOKS].pid)
        assert found is not None
        return found

    async def restart(self, component: str) -> None:
        """Kill a component, and start it again."""
        await self.trimtab.kill(component)
        await self.trimtab.start(component)

    async def readiness(self, component: str) -> str:
        """What a component says of its readiness, in detail."""
        url = f"http://127.0.0.1:{self.trimtab.ports[component]}/readyz?verbose"
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session, session.get(url) as answer:
            return await answer.text()

    async def leases(self) -> set[tuple[str, str, int]]:
        """The leases, who holds each, and how often that has changed."""
        found = (await self.client.list(LEASES, namespace=self.trimtab.namespace)).items
        return {
            (each["metadata"]["name"], each["spec"]["holderIdentity"], each["spec"]["leaseTransitions"])
            for each in found
        }

    async def lags_above(self, seconds: float, component: str) -> float:
        """How often the event loop of a component was later than that."""
        return histogram(await self.trimtab.metrics(component), _LAG).above(seconds)

    async def kinds_with_event(self, namespace: str, reason: str, prefix: str = "") -> set[str]:
        """The kinds of the objects, with names of this prefix, that have an event with this reason."""
        found = (await self.client.list(EVENTS, namespace=namespace)).items
        about = [each["involvedObject"] for each in found if each["reason"] == reason]
        return {each["kind"] for each in about if each["name"].startswith(prefix)}

    async def annotations(self, pod: str, namespace: str = "") -> dict[str, str]:
        """The annotations of a pod."""
        found = await self.client.get(Pod, pod, namespace=namespace or self.sandbox.name)
        return dict(found.metadata.annotations)

    async def check_works(self) -> None:
        """Check that every component works: a level scale-down, and a CloneSet whose pod our own scheduler places."""
        made = self.sandbox
        await made.scale("web", SIZE // 2)
        assert skew(await made.settled(SIZE // 2)) <= 1
        await made.scale("web", SIZE)
        await made.settled(SIZE)
        tree = made.deployment("clones", 1)
        tree["spec"]["template"]["spec"]["schedulerName"] = made.name
        body = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", **tree}
        await self.client.create(CloneSet, body, namespace=made.name)
        await made.settled(SIZE + 1)
        await self.client.delete(CloneSet, "clones", namespace=made.name, propagation="Background")
        await made.settled(SIZE)
        assert [self.trimtab.processes[each].poll() for each in COMPONENTS] == [None] * len(COMPONENTS)


@asynccontextmanager
async def installed(client: Client) -> AsyncIterator[Victim]:
    """Such an installation, with its processes."""
    async with deployment_sandbox(client, {"zone-a": 4, "zone-b": 4}) as sandbox:
        strange = f"strange-{secrets.token_hex(3)}"
        await client.create(Namespace, {"metadata": {"name": strange}})
        await sandbox.deploy("web", SIZE)
        reviewed = {"kubernetes.io/metadata.name": sandbox.name}
        tree = _configuration(sandbox.name)
        async with caller() as session, running(client, tree, COMPONENTS, labels=reviewed) as trimtab:
            yield Victim(client, sandbox, trimtab, strange, session)
            await client.delete(Namespace, strange)


def _configuration(name: str) -> JSON:
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name}],
        "leaderElection": {"resourceName": name},
    }
    scale_down = {"probeNetworks": [LOOPBACK], "defaultPolicies": [{"name": "level", "mode": "Enforce"}]}
    return cluster_wide(name, leaderElection={"enabled": True}, scaleDown=scale_down, scheduler=scheduler)


@dataclass(slots=True)
class Observer:
    """Asks whether a component is ready, again and again."""

    answers: Counter[int] = field(default_factory=Counter)
    longest: float = 0.0
    """Seconds that an answer took."""

    async def watch(self, port: int) -> None:
        """Ask until cancelled."""
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            while True:
                began = time.monotonic()
                async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    self.answers[answer.status] += 1
                self.longest = max(self.longest, time.monotonic() - began)
                await asyncio.sleep(0.05)


@asynccontextmanager
async def observed(victim: Victim) -> AsyncIterator[dict[str, Observer]]:
    """Watch the readiness of all components for as long as the context."""
    observers = {each: Observer() for each in COMPONENTS}
    tasks = [asyncio.ensure_future(each.watch(victim.trimtab.ports[name])) for name, each in observers.items()]
    try:
        yield observers
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in results), results
