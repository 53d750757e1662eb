"""`trimtab doctor` on a control plane: a healthy installation, and what it says when parts of it are broken.

The same holds on the lab and on a real control plane; only the lab authorizes every request.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.breakages import BINDINGS, writing_binding
from tests.e2e.processes import CONTROLLERS, WEBHOOKS, Trimtab, configuration, running
from trimtab.api import times
from trimtab.api.core import Namespace
from trimtab.install import deployments
from trimtab.install.options import Options
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.leases import LEASES
from trimtab.kube.resources import untyped
from trimtab.kube.sessions import Session

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

LEVEL = {"defaultPolicies": [{"name": "level"}]}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


async def doctor(*options: str, prefix: tuple[str, ...] = ()) -> tuple[int, dict[str, list[str]], Any]:
    """The exit status, the objects of all findings by ID, and everything that was printed."""
    command = (*prefix, sys.executable, "-m", "trimtab", "doctor", "-o", "json", *options)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    output, errors = await process.communicate()
    assert process.returncode in (0, 1), errors.decode()
    result = json.loads(output)
    found: dict[str, list[str]] = {}
    for each in result["findings"]:
        found.setdefault(each["id"], []).append(f"{each['object']}: {each['message']}")
    return process.returncode, found, result


async def test_a_running_installation_is_healthy_until_its_webhooks_are_gone(client: Client) -> None:
    """The API server itself calls the webhooks, and then gets no answer."""
    namespace = f"doctor-{secrets.token_hex(3)}"
    await client.create(Namespace, {"metadata": {"name": namespace}})
    try:
        async with running(client, configuration(namespace, scaleDown=LEVEL), [WEBHOOKS, CONTROLLERS]) as made:
            options = ("--config", str(made.folder / "trimtab.json"), "--fail-on", "error")
            status, found, result = await doctor(*options)
            assert (status, _errors(result)) == (0, []), found
            assert "TD304" in result["checked"]
            await made.kill(WEBHOOKS)
            status, found, result = await doctor(*options)
            assert status == 1
            assert _errors(result) == ["TD304"], found
    finally:
        await client.delete(Namespace, namespace)


async def test_an_installation_whose_pods_do_not_run_is_diagnosed(client: Client, tmp_path: Path) -> None:
    """Deployments without nodes: not ready, no certificate, no leader; and permissions that were taken away."""
    namespace = f"doctor-{secrets.token_hex(3)}"
    tree = {**configuration(namespace, scaleDown=LEVEL), "leaderElection": {"enabled": True}}
    await client.create(Namespace, {"metadata": {"name": namespace}})
    made = Trimtab(client, tree["namespace"], tmp_path, tree)
    try:
        await made.install([WEBHOOKS, CONTROLLERS])
        await _deploy(client, tree)
        says_when = await _lease_of_a_slow_clock(client, made.namespace)
        _, found, result = await doctor("--namespace", made.namespace)
        assert {"TD104", "TD304", "TD306", "TD401"} <= found.keys(), found
        slow = [line for line in found.get("TD402" if says_when else "TD401", []) if "trimtab-webhooks" in line]
        assert len(slow) == 1, found
        assert "TD501" in result["checked"]
        assert "TD501" not in found, found
        await _take_away(client, made, namespace)
        status, found, _ = await doctor("--namespace", made.namespace)
        assert status == 1
        if await authorizes(made):
            (line,) = found["TD501"]
            assert "trimtab-controllers: it may not" in line
            assert "create pods/eviction" in line
    finally:
        await made.uninstall()
        await client.delete(Namespace, namespace)


async def _lease_of_a_slow_clock(client: Client, namespace: str) -> bool:
    """A lease that was just renewed by a process whose clock is ten minutes behind; whether the API server says when.

    Without its word (`managedFields`), such a lease looks like one that is not renewed any more.
    """
    renewed = times.format_micro(client.clock.now() - 600 * SECOND)
    spec = {"holderIdentity": "a_1", "leaseDurationSeconds": 15, "acquireTime": renewed, "renewTime": renewed}
    body = {"metadata": {"name": "trimtab-webhooks"}, "spec": spec}
    created = await client.create(LEASES, body, namespace=namespace)
    return bool(created["metadata"].get("managedFields"))


def _errors(result: Any) -> list[str]:
    return [each["id"] for each in result["findings"] if each["severity"] == "error"]


async def _deploy(client: Client, tree: Any) -> None:
    """The ConfigMap and the Deployments, which need nodes that are not there."""
    options = Options(namespace=tree["namespace"], configuration=tree, components=("webhooks", "controllers"))
    plurals = {"ConfigMap": "configmaps", "Deployment": "deployments"}
    for each in deployments.manifests(options):
        if each["kind"] in plurals:
            kind = untyped(each["apiVersion"], each["kind"], plurals[each["kind"]])
            if each["kind"] == "Deployment":
                each["spec"]["template"]["spec"]["nodeSelector"] = {"example.com/none": "true"}
            await client.create(kind, each, namespace=tree["namespace"])


async def _take_away(client: Client, made: Trimtab, namespace: str) -> None:
    """Remove the binding of the controllers' role for writing."""
    await client.delete(BINDINGS, writing_binding(made), namespace=namespace)


async def authorizes(made: Trimtab) -> bool:
    """Whether the API server refuses anything: the lab's allows every user everything."""
    endpoint = config.discover(made.kubeconfigs[WEBHOOKS])
    async with Client(Session(endpoint)) as account:
        review = {"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}}
        answer = await account.create(
            untyped("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False),
            review,
        )
    return not answer["status"]["allowed"]
