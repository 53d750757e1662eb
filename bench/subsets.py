"""A thousand pods at once, against one UnitedTopology, through three webhook processes.

The subsets may have 300 pods, 40 % and any number; the workload wants 1,000. Every process is one of its own: the API
server, three webhooks, the UnitedTopology controller (which recounts, and so competes for the status), and this one,
which creates all pods together. A pod's label selects the webhook that is called for it, as a Service would at random.

What must hold is checked, not measured: every limit exact, no pod refused. Measured are how long reviews take in the
webhooks (99 of 100 are quicker), how many conditional writes there were, and how many pods were admitted without a
subset: none, unless the machine is too busy.

Before that, as many pods are created for which no webhook is called: what the API server, this process and the machine
take alone. A creation waits for a second at most on behalf of a webhook, whatever these take.

Then all webhook processes are stopped (they accept connections and answer nothing), and some more pods are created:
each creation must end soon after the one second for which the API server waits.

    python -m bench.subsets --kubeconfig FILE      the same on any cluster that has the CRDs
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import functools
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.figures import Figure, Limit, calibration, cpu_seconds
from bench.workers import worker
from trimtab.admission.certificate_authority import KeyPair, make_authority, sign
from trimtab.admission.certificates import FileCertificates
from trimtab.admission.metrics import ReviewOutcome
from trimtab.admission.server import AdmissionServer, Decide, Hook
from trimtab.api import annotations as keys
from trimtab.api import crds
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.config import discover
from trimtab.kube.errors import AlreadyExists
from trimtab.kube.resources import Resource, untyped
from trimtab.kube.sessions import Session
from trimtab.unitedtopology.admission.hooks import SubsetHooks
from trimtab.unitedtopology.controller.controller import Controller
from trimtab.unitedtopology.controller.controller import Settings as ControllerSettings
from trimtab.unitedtopology.view import View
from trimtab_lab.apiserver.wire.server import Server

PODS = 1_000
PROCESSES = 3
IN_FLIGHT = 200
"""How many creations are under way together: as many as API servers serve at a time, by default."""
LIMITS: tuple[int | str | None, ...] = (300, "40%", None)
STOPPED_PODS = 60
STOPPED_AT_ONCE = 20
"""How many pods are created while the webhooks are stopped, and how many of them together."""
WANTED = {"s0": 300, "s1": 400, "s2": 300}
NAME = "bench-subsets"
FINALIZER = "trimtab.dev/bench"
MUTATING = untyped(
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)


@dataclass(frozen=True, slots=True)
class Load:
    """What one run showed."""

    seconds: list[float]
    """How long each review took, in its webhook."""
    calls: list[float]
    """How long each creation took, for the client."""
    plain: list[float]
    """How long creations without a webhook took."""
    writes: int
    conflicts: int
    without_subset: int
    whole: float
    stopped: list[float]
    """How long each creation took, for the client, while all webhooks were stopped."""
    processor: dict[str, float]
    """Processor time by process, in seconds, while the pods with a webhook were created."""

    def share(self, part: float) -> float:
        """The time that this part of the reviews stayed within."""
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(len(self.seconds) * part))]


def admission_p99() -> Figure:
    """Milliseconds in which 99 of 100 reviews were answered."""
    return Figure(_on_the_lab().share(0.99) * 1e3, "ms", calibration() * 1e3, Limit(1_000, is_of_value=True))


def creation_p99() -> Figure:
    """Milliseconds that webhooks add to 99 of 100 creations; the calibration is what these take without."""
    load = _on_the_lab()
    plain = p99(load.plain)
    return Figure((p99(load.calls) - plain) * 1e3, "ms", plain * 1e3, Limit(1_000, is_of_value=True))


def p99(seconds: list[float]) -> float:
    """The time that 99 of 100 stayed within."""
    return sorted(seconds)[len(seconds) * 99 // 100]


def creation_while_stopped() -> Figure:
    """Milliseconds that the longest creation took while the webhooks were stopped."""
    return Figure(max(_on_the_lab().stopped) * 1e3, "ms", calibration() * 1e3, Limit(1_100, is_of_value=True))


def status_writes() -> Figure:
    """Conditional writes for all pods together; the calibration is the number of pods."""
    return Figure(_on_the_lab().writes, "writes", PODS, Limit(0.5))


def without_subset() -> Figure:
    """Pods that were admitted without a subset, for lack of time; the calibration is the number of pods."""
    return Figure(_on_the_lab().without_subset, "pods", PODS, Limit(0))


@functools.cache
def _on_the_lab(in_flight: int = IN_FLIGHT) -> Load:
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder, worker(serve, Path(folder)) as (lab, _):
        return asyncio.run(_measure(Path(lab.recv()), Path(folder), in_flight))


async def _measure(kubeconfig: Path, folder: Path, in_flight: int = IN_FLIGHT) -> Load:
    """Set up, create, count, tidy up."""
    async with Client(Session(discover(kubeconfig))) as client, prepared(client, kubeconfig, folder) as cluster:
        (owner,) = cluster.owners
        gate = asyncio.Semaphore(in_flight)
        plain = await asyncio.gather(*(create(client, None, number, gate) for number in range(PODS)))
        used, started = _processor(cluster), time.perf_counter()
        made = await asyncio.gather(*(create(client, owner, number, gate) for number in range(PODS)))
        whole = time.perf_counter() - started
        processor = {name: now - used[name] for name, now in _processor(cluster).items()}
        found = await cluster.reports()
        stopped = await _create_while_stopped(client, owner, cluster.processes)
        late = _late(Counter(subset for subset, _ in made), Counter(outcome for each in found for outcome in each[1]))
        seconds = [each for report in found for each in report[0]]
        writes, conflicts = (sum(report[place] for report in found) for place in (2, 3))
        calls, alone = ([call for _, call in each] for each in (made, plain))
        return Load(seconds, calls, alone, writes, conflicts, late, whole, stopped, processor)


def _processor(cluster: Cluster) -> dict[str, float]:
    """Processor time by process, in seconds; none where the system does not say (it is Linux that has /proc)."""
    with contextlib.suppress(OSError):
        ticks = os.sysconf("SC_CLK_TCK")
        busy = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        known = {
            "webhooks": sum(map(cpu_seconds, cluster.processes)),
            "controller": cpu_seconds(cluster.controller),
            "this process": cpu_seconds(os.getpid()),
        }
        return {**known, "all others": (sum(busy) - busy[3] - busy[4]) / ticks - sum(known.values())}
    return {}


async def _create_while_stopped(client: Client, owner: JSON, processes: list[int]) -> list[float]:
    """How long creations take while the webhooks do not answer. They get no subset, and none waits for the next."""
    with _stopped(processes):
        gate = asyncio.Semaphore(STOPPED_AT_ONCE)
        made = await asyncio.gather(*(create(client, owner, number, gate) for number in range(STOPPED_PODS)))
    if any(subset != "none" for subset, _ in made):
        raise AssertionError("a webhook answered while it was stopped")
    return [seconds for _, seconds in made]


@contextlib.contextmanager
def _stopped(processes: list[int]) -> Iterator[None]:
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def _late(subsets: Counter[str], outcomes: Counter[str]) -> int:
    """How many pods are without a subset. Raises if a subset has another number of pods than it should, or if a review
    ended in time without a subset, as one that is taken for forged does: the last subset takes any number."""
    late = PODS - outcomes["placed"]
    found = {name: subsets[name] for name in WANTED}
    over = {name: count for name, count in found.items() if name != "s2" and count > WANTED[name]}
    if over or outcomes["unplaced"] or subsets["none"] != late or (not late and found != WANTED):
        raise AssertionError(f"{dict(subsets)} instead of {WANTED}; reviews ended as {dict(outcomes)}")
    return late


# The cluster.


@dataclass(frozen=True, slots=True)
class Cluster:
    """Workloads with UnitedTopologies, and the processes of Trimtab that serve them."""

    owners: list[JSON]
    """References to the workloads."""
    processes: list[int]
    """The webhooks' process ids."""
    controller: int
    """The controller's process id."""
    pipes: list[Connection]
    """To the webhooks."""

    async def reports(self) -> list[Any]:
        """What each webhook has seen so far."""
        return [await asyncio.to_thread(_reported, pipe) for pipe in self.pipes]


@contextlib.asynccontextmanager
async def prepared(
    client: Client, kubeconfig: Path, folder: Path, names: Sequence[str] = (NAME,)
) -> AsyncIterator[Cluster]:
    """Workloads of these names with a UnitedTopology each, webhooks and a controller; everything is removed again."""
    authority = make_authority(datetime.now(UTC))
    _write_pair(sign(authority, ["127.0.0.1"], datetime.now(UTC)), folder)
    async with contextlib.AsyncExitStack() as stack:
        owners = await _furnish(client, names)
        stack.push_async_callback(_tidy, client)
        counting, controller = stack.enter_context(worker(_control, kubeconfig))
        webhooks = [stack.enter_context(worker(_answer, kubeconfig, folder)) for _ in range(PROCESSES)]
        pipes, processes = [pipe for pipe, _ in webhooks], [process for _, process in webhooks]
        *ports, _ = [await asyncio.to_thread(each.recv) for each in (*pipes, counting)]
        await client.create(MUTATING, _configuration(ports, authority))
        await _wait_counted(client)
        yield Cluster(owners, processes, controller, pipes)


async def _furnish(client: Client, names: Sequence[str]) -> list[JSON]:
    """The kinds, a namespace, and some workloads with a UnitedTopology each; returns references to the workloads."""
    for manifest in crds.manifests():
        with contextlib.suppress(AlreadyExists):
            await client.create(Resource.of(CustomResourceDefinition).raw, manifest)
    await client.create(Namespace, _typed(Namespace, NAME))
    await _available(client)
    return [await _workload(client, name) for name in names]


async def _workload(client: Client, name: str) -> JSON:
    """A workload for which no controller creates pods, and its UnitedTopology."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    spec = {"replicas": PODS, "selector": {"matchLabels": {"app": name}}, "template": template}
    workload = await client.create(CloneSet, _held(_typed(CloneSet, name, spec=spec)), namespace=NAME)
    await client.delete(CloneSet, name, namespace=NAME)
    subsets = [
        {
            "name": f"s{place}",
            "nodeSelectorTerm": {"matchExpressions": [{"key": "zone", "operator": "In", "values": [f"z{place}"]}]},
            **({} if limit is None else {"maxReplicas": limit}),
        }
        for place, limit in enumerate(LIMITS)
    ]
    target = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": name}
    divided = _typed(UnitedTopology, name, spec={"targetRef": target, "subsets": subsets})
    await client.create(UnitedTopology, divided, namespace=NAME)
    uid = workload.metadata.uid
    return {**target, "uid": uid, "controller": True}


def _typed(kind: type[Any], name: str, **fields: JSON) -> JSON:
    resource = Resource.of(kind)
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **fields}


def _held(workload: JSON) -> JSON:
    """A workload that is being deleted and cannot be yet: other controllers of the cluster create no pods for it."""
    return {**workload, "metadata": {**workload["metadata"], "finalizers": [FINALIZER]}}


async def _available(client: Client) -> None:
    """Wait until the kinds are served."""
    while True:
        try:
            await client.list(UnitedTopology, namespace=NAME)
            await client.list(CloneSet, namespace=NAME)
        except Exception:  # noqa: BLE001 - a server that has just been told of a kind answers in many ways
            await asyncio.sleep(0.1)
        else:
            return


async def _wait_counted(client: Client) -> None:
    """Wait until the controller has counted, and webhooks are called."""
    while not all(each.status.subset_statuses for each in (await client.list(UnitedTopology, namespace=NAME)).items):
        await asyncio.sleep(0.05)
    await asyncio.sleep(1.5)  # an API server reads webhook configurations about once a second


async def create(client: Client, owner: JSON | None, number: int, gate: asyncio.Semaphore) -> tuple[str, float]:
    """Create a pod: its subset, and how long it took. Without an owner no webhook is called for it."""
    shard = {} if owner is None else {"shard": str(number % PROCESSES), "app": owner["name"]}
    labels = {"controller-revision-hash": "r1", **shard}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": f"{NAME}-", "labels": labels, "ownerReferences": [owner] if owner else []},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "web:1"}]},
    }
    async with gate:
        started = time.perf_counter()
        pod = await client.create(Pod, body, namespace=NAME)
        seconds = time.perf_counter() - started
    mark = keys.subset_annotations(pod.metadata.annotations)
    return mark.subset if mark is not None else "none", seconds


async def _tidy(client: Client) -> None:
    """Remove everything but the kinds."""
    await client.delete(MUTATING, NAME)
    for each in (await client.list(UnitedTopology, namespace=NAME)).items:
        await client.delete(UnitedTopology, each.metadata.name, namespace=NAME)
        await client.patch(CloneSet, each.metadata.name, {"metadata": {"finalizers": None}}, namespace=NAME)
    await client.delete_all(Pod, namespace=NAME, grace_period_seconds=0)
    await client.delete(Namespace, NAME)


def _configuration(ports: list[int], authority: KeyPair) -> JSON:
    """The webhooks of some processes, each for a third of the pods."""
    bundle = base64.b64encode(authority.certificate).decode()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    hooks = [
        {
            "name": f"pods-{number}.trimtab.dev",
            "clientConfig": {"url": f"https://127.0.0.1:{port}/pods", "caBundle": bundle},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAME}},
            "objectSelector": {"matchLabels": {"shard": str(number)}},
            "failurePolicy": "Ignore",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 1,
            "reinvocationPolicy": "Never",
            "admissionReviewVersions": ["v1"],
        }
        for number, port in enumerate(ports)
    ]
    kind = {"apiVersion": MUTATING.api_version, "kind": MUTATING.kind}
    return {**kind, "metadata": {"name": NAME}, "webhooks": hooks}


# Processes: each reports when it is ready, ends on request, and reports what it has measured.


def serve(pipe: Connection, folder: Path) -> None:
    """The lab's API server."""

    async def run() -> None:
        async with Server(folder / "lab") as server:
            pipe.send(str(server.kubeconfig))
            await asyncio.to_thread(pipe.recv)

    asyncio.run(run())


def _control(pipe: Connection, kubeconfig: Path) -> None:
    """The UnitedTopology controller."""

    async def run() -> None:
        async with Client(Session(discover(kubeconfig))) as client:
            controller = Controller(client, ControllerSettings(namespaces=frozenset({NAME})))
            async with _running(controller.run()):
                pipe.send(0)
                await asyncio.to_thread(pipe.recv)

    asyncio.run(run())


def _answer(pipe: Connection, kubeconfig: Path, folder: Path) -> None:
    """Webhooks."""

    async def run() -> None:
        async with Client(Session(discover(kubeconfig))) as client:
            view, watch = View(client), _Watch()
            subsets = SubsetHooks(client, ended=view.ended_pods, outside=view.pods_outside, workload=view.workload)
            hooks = [replace(hook, decide=watch.over(hook.decide)) for hook in subsets.hooks]
            certificates = FileCertificates(folder / "tls.crt", folder / "tls.key", clock=client.clock)
            edge = AdmissionServer(
                hooks, certificates=certificates, host="127.0.0.1", port=0, on_skip=watch.let_go, clock=client.clock
            )
            async with _running(view.run()), _running(subsets.run()), _running(edge.run()):
                while not (edge.synced and subsets.synced and view.synced):
                    await asyncio.sleep(0.01)
                pipe.send(edge.port)
                await asyncio.to_thread(pipe.recv)
                count = functools.partial(subsets.batcher.metrics.registry.get_sample_value, f"{_WRITES}_total")
                written = [int(count({"outcome": outcome}) or 0) for outcome in ("written", "conflict")]
                pipe.send((watch.seconds, watch.outcomes, *written))
                await asyncio.to_thread(pipe.recv)

    asyncio.run(run())


_WRITES = "trimtab_subset_status_writes"


class _Watch:
    """Notes how long decisions take and how they end."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.outcomes: list[str] = []

    def over(self, decide: Decide) -> Decide:
        """The same decision, watched."""

        async def watched(request: AdmissionRequest) -> AdmissionResponse:
            started = time.perf_counter()
            try:
                response = await decide(request)
            finally:
                self.seconds.append(time.perf_counter() - started)
            self.outcomes.append("placed" if response.patch is not None else "unplaced")
            return response

        return watched

    def let_go(self, hook: Hook, request: AdmissionRequest, reason: str, _: ReviewOutcome) -> None:
        """A request was admitted without a decision."""
        del hook, request
        self.outcomes.append(reason)


@contextlib.asynccontextmanager
async def _running(work: Any) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        await cancel(task)


def _reported(pipe: Connection) -> Any:
    """What a process has seen so far."""
    pipe.send("report")
    return pipe.recv()


def _write_pair(pair: KeyPair, folder: Path) -> None:
    """Write the certificate that webhooks serve with."""
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)


def main() -> None:
    """Run once, on the lab or on a cluster, and print what was seen."""
    parser = argparse.ArgumentParser(prog="python -m bench.subsets")
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="creations under way together")
    parser.add_argument("--kubeconfig", type=Path, help="a cluster; otherwise a lab is started")
    chosen = parser.parse_args()
    if chosen.kubeconfig is None:
        load = _on_the_lab(chosen.in_flight)
    else:
        with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
            load = asyncio.run(_measure(chosen.kubeconfig, Path(folder), chosen.in_flight))
    print(f"{PODS} pods in {load.whole:.2f} s through {PROCESSES} webhooks: limits exact, none refused")
    print(f"admitted without a subset for lack of time: {load.without_subset}")
    print(f"reviews: median {load.share(0.5):.3f} s, p99 {load.share(0.99):.3f} s, longest {max(load.seconds):.3f} s")
    for what, calls in (("with webhooks", sorted(load.calls)), ("without", sorted(load.plain))):
        median = calls[len(calls) // 2]
        print(f"creations {what}: median {median:.3f} s, p99 {p99(calls):.3f} s, longest {calls[-1]:.3f} s")
    stopped = sorted(load.stopped)
    print(f"webhooks stopped: median {stopped[len(stopped) // 2]:.3f} s, longest {stopped[-1]:.3f} s")
    shares = ", ".join(f"{name} {seconds / PODS * 1e3:.1f}" for name, seconds in load.processor.items())
    print(f"processor time, ms a pod: {shares}")
    print(f"status writes: {load.writes}, conflicts: {load.conflicts}")


if __name__ == "__main__":
    main()
