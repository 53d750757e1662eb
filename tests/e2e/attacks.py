"""What someone who means harm sends, stores and opens, and what a busy minute does to a process."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from functools import cache
from http.client import HTTPSConnection
from multiprocessing.connection import Connection
from pathlib import Path

from bench.soak.faults.hostile import send_review
from bench.soak.players import TOPOLOGIES, forged_pod, forged_scale, review
from bench.workers import worker
from tests.e2e.hostility import Victim
from tests.e2e.test_privileges import until_refused
from trimtab.api.apps import Deployment
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.clocks import cancel
from trimtab.kube.resources import Resource, untyped

_ADMISSION = "admissionregistration.k8s.io/v1"
_POLICIES = untyped(_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
_BINDINGS = untyped(
    _ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)
_PATIENCE = 60.0
_REQUEST = b"POST /pods HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n{"
_AT_ONCE = 20


def target(name: str) -> JSON:
    """A reference to a Deployment."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}


def policy(name: str, *strategies: JSON) -> JSON:
    """A policy of the Deployment web."""
    spec = {"targetRef": target("web"), "strategies": list(strategies)}
    return {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "ScaleDownPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def topology(name: str, *subsets: JSON) -> JSON:
    """A UnitedTopology of the Deployment of the same name."""
    spec = {"targetRef": target(name), "subsets": list(subsets)}
    return {"apiVersion": TOPOLOGIES.api_version, "kind": TOPOLOGIES.kind, "metadata": {"name": name}, "spec": spec}


# Reviews.


def policy_review(namespace: str, tree: JSON) -> JSON:
    """The creation of a policy."""
    kind = {"group": "trimtab.dev", "version": "v1alpha1"}
    request = {
        "kind": {**kind, "kind": "ScaleDownPolicy"},
        "resource": {**kind, "resource": "scaledownpolicies"},
        "name": tree["metadata"]["name"],
        "operation": "CREATE",
        "object": tree,
    }
    return review(namespace, request)


def large_review(namespace: str, size: int) -> bytes:
    """A review of about so many bytes. Make it before anything is timed: that takes seconds, too."""
    tree = forged_scale("web", namespace, 1)
    tree["request"]["object"]["metadata"]["annotations"] = {f"a{n:07}": "x" for n in range(size // 16)}
    return json.dumps(tree).encode()


async def send_large(victim: Victim, body: bytes) -> int:
    """The status of the answer to a large review; 0 if the connection was closed before all was sent."""
    with suppress(OSError):
        return (await send_review(victim.caller, victim.port, "/scale", body))[0]
    return 0


async def forge_pods(victim: Victim, owner: str, uid: str, count: int) -> list[JSON]:
    """The answers to the reviews of so many pods that nobody creates."""
    tree = forged_pod(victim.sandbox.name, owner, uid)
    free = asyncio.Semaphore(_AT_ONCE)

    async def forge() -> JSON:
        async with free:
            request = {**tree["request"], "uid": secrets.token_hex(16)}
            return await victim.send("/pods", {**tree, "request": request})

    return await asyncio.gather(*(forge() for _ in range(count)))


# Annotations.


def forged_plan(of: Deployment, *, to: int, at: int | None = None, before: str | None = None) -> str:
    """The annotation of a plan as Trimtab would write it for a Deployment, now or at another time."""
    about = {"workload": f"Deployment/{of.metadata.name}", "uid": of.metadata.uid, "generation": of.metadata.generation}
    sizes = {"to": to, "share": to, "was": of.spec.replicas}
    moment = int(time.time() * 1000) if at is None else at
    plan = {"plan": "forged", **about, **sizes, "at": moment, "side": "victims", "cost": -5, "before": before}
    return json.dumps(plan)


def forged_cost(before: str) -> str:
    """The annotation of a policy's cost whose policy does not exist."""
    return json.dumps({"policy": "gone", "carrier": "Annotation", "cost": -5, "before": before})


# Connections.


async def connect_slowly(port: int) -> asyncio.StreamWriter:
    """A TLS connection to the webhooks that announces a megabyte, and sends one byte of it."""
    _, writer = await _open(port)
    writer.write(_REQUEST % 1_000_000)
    return writer


async def call_quickly(port: int) -> bool:
    """Connect, send a request and read its answer; whether there was one."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await _open(port)
            writer.write(_REQUEST % 2 + b"}")
            answer = await reader.read()
            writer.close()
            return bool(answer)
    return False


async def _open(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, ssl=_trusting(), ssl_handshake_timeout=_PATIENCE)


@cache
def _trusting() -> ssl.SSLContext:
    """The context of a client that trusts any certificate; one for all connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


# Overload.


@contextmanager
def overload(loops: int) -> Iterator[None]:
    """Have so many busy loops share the processors with everything else."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


async def hold_under_load(victim: Victim, rounds: int) -> list[float]:
    """Ask for decreases while large reviews arrive all the time; how many seconds each answer took.

    A process of its own asks, so that nothing else delays the caller.
    """
    found = await victim.client.get(Resource.of(Deployment).raw, "web", namespace=victim.sandbox.name)
    wide = forged_scale("web", victim.sandbox.name, 1)
    wide["request"]["object"]["metadata"]["annotations"] = {f"a{n}": "x" * 10 for n in range(20_000)}
    noise = [asyncio.ensure_future(_repeat(victim, json.dumps(wide).encode())) for _ in range(3)]
    decreases = [json.dumps(_decrease(victim, found, size=1 + number % 9)).encode() for number in range(rounds)]
    try:
        with worker(_time_reviews, victim.port, decreases) as (pipe, _):
            times: list[float] = await asyncio.to_thread(pipe.recv)
            return times
    finally:
        await cancel(*noise)


async def _repeat(victim: Victim, body: bytes) -> None:
    while True:
        await send_review(victim.caller, victim.port, "/scale", body)


def _decrease(victim: Victim, found: JSON, size: int) -> JSON:
    tree = {**found, "apiVersion": "apps/v1", "kind": "Deployment"}
    request = forged_scale("web", victim.sandbox.name, 0)["request"]
    request |= {"object": {**tree, "spec": {**tree["spec"], "replicas": size}}, "oldObject": tree}
    return review(victim.sandbox.name, request)


def _time_reviews(pipe: Connection, port: int, bodies: Sequence[bytes]) -> None:
    """Send reviews one after the other, each over a connection of its own; how many seconds each took, to the pipe."""
    times: list[float] = []
    for body in bodies:
        began = time.monotonic()
        with closing(HTTPSConnection("127.0.0.1", port, context=_trusting(), timeout=_PATIENCE)) as connection:
            connection.request("POST", "/scale?timeout=10s", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
        times.append(time.monotonic() - began)
    pipe.send(times)


# Removal.


async def uninstall(kubeconfig: Path, namespace: str) -> tuple[int | None, str]:
    """`trimtab uninstall`: its exit status, and what it printed."""
    command = (sys.executable, "-m", "trimtab", "uninstall", "--namespace", namespace, "--yes")
    process = await asyncio.create_subprocess_exec(
        *(*command, "--kubeconfig", str(kubeconfig)), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


@asynccontextmanager
async def frozen(victim: Victim) -> AsyncIterator[None]:
    """Have the API server refuse every update of the pods with the label `app=frozen` in the strange namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}
    constraints = {"resourceRules": [rule], "objectSelector": {"matchLabels": {"app": "frozen"}}}
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": victim.strange}}}
    refusal = {"expression": "false", "message": "it is frozen", "reason": "Forbidden"}
    specs = {
        _POLICIES: {"matchConstraints": constraints, "validations": [refusal]},
        _BINDINGS: {"policyName": victim.strange, "validationActions": ["Deny"], "matchResources": where},
    }
    for kind, spec in specs.items():
        await victim.client.create(kind, {"metadata": {"name": victim.strange}, "spec": spec})
    await create_pod(victim, "tried", "frozen", {})

    async def change() -> None:
        label = {"metadata": {"labels": {"tried": secrets.token_hex(4)}}}
        await victim.client.patch(Pod, "tried", label, namespace=victim.strange)

    try:
        await until_refused(change, "it is frozen")
        yield
    finally:
        for kind in reversed(specs):
            await victim.client.delete(kind, victim.strange)


async def create_pod(victim: Victim, name: str, app: str, annotations: Mapping[str, str]) -> None:
    """A pod in the strange namespace, which is never scheduled."""
    spec = {"schedulerName": "none", "containers": [{"name": "main", "image": "example.com/app:1"}]}
    metadata = {"name": name, "labels": {"app": app}, "annotations": dict(annotations)}
    await victim.client.create(Pod, {"metadata": metadata, "spec": spec}, namespace=victim.strange)
