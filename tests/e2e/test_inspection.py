"""Every command that inspects a cluster, typed by an account that may only list and watch, with nothing installed.

On real binaries permissions are enforced, and the audit log shows what the account has asked for. The embedded lab
authorizes everyone; there the commands are the same.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.processes import authority_of
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox
from trimtab.api.documents import JSON
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import untyped
from trimtab.kube.sessions import Session
from trimtab_lab.controlplane import accounts

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ZONES = {"zone-a": 3, "zone-b": 3, "zone-c": 3}
ACCOUNTS = untyped("v1", "ServiceAccount", "serviceaccounts")
CLUSTER_ROLES = untyped("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_BINDINGS = untyped(
    "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
ROLES = untyped("rbac.authorization.k8s.io/v1", "Role", "roles")
BINDINGS = untyped("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
READ = ["list", "watch"]
EVERYTHING_READ: list[JSON] = [
    {"apiGroups": [""], "resources": ["pods", "nodes", "namespaces", "services", "replicationcontrollers"]},
    {"apiGroups": ["apps"], "resources": ["deployments", "replicasets", "statefulsets"]},
    {"apiGroups": ["apps.kruise.io"], "resources": ["clonesets", "unitedtopologies"]},
    {"apiGroups": ["trimtab.dev"], "resources": ["scaledownpolicies", "podgroupcosts"]},
]
"""What the commands look at, as a role lists it."""
PATIENCE = 60.0


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """An administrator, who makes what the account looks at."""
    async with Client(Session(discover())) as made:
        yield made


@asynccontextmanager
async def account(client: Client, namespace: str, folder: Path, *, everywhere: bool) -> AsyncIterator[Path]:
    """A kubeconfig of an account with list and watch rights: in the whole cluster, or to one namespace's objects."""
    name = f"reader-{namespace}"
    rules = [{**rule, "verbs": READ} for rule in EVERYTHING_READ]
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    roles, bindings = (CLUSTER_ROLES, CLUSTER_BINDINGS) if everywhere else (ROLES, BINDINGS)
    where = "" if everywhere else namespace
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": roles.kind, "name": name}
    await client.create(ACCOUNTS, {"metadata": {"name": "reader"}}, namespace=namespace)
    await client.create(roles, {"metadata": {"name": name}, "rules": rules}, namespace=where)
    body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    await client.create(bindings, body, namespace=where)
    administrator = Path(os.environ["KUBECONFIG"].split(os.pathsep)[0])
    path = folder / "reader.kubeconfig"
    server, authority = discover(administrator).server, authority_of(administrator)
    await accounts.write_kubeconfigs(client, server, authority, {"reader": path}, namespace)
    tree = yaml.safe_load(path.read_text())
    tree["contexts"][0]["context"]["namespace"] = namespace
    path.write_text(yaml.safe_dump(tree))
    try:
        yield path
    finally:
        for kind in (bindings, roles):
            with suppress(NotFound):
                await client.delete(kind, name, namespace=where)


async def start(kubeconfig: Path, *arguments: str) -> asyncio.subprocess.Process:
    """Start `trimtab` as the account."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "NO_COLOR": "1"}
    command = (sys.executable, "-m", "trimtab", *arguments)
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, env=environment, stdout=pipe, stderr=pipe)


async def trimtab(kubeconfig: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    """Run `trimtab` as the account; its output, and what it says beside it."""
    process = await start(kubeconfig, *arguments)
    output, errors = await process.communicate()
    assert process.returncode == code, errors.decode()
    return output.decode(), errors.decode()


async def values(kubeconfig: Path, *arguments: str) -> Any:
    """The values that a command prints for programs."""
    output, _ = await trimtab(kubeconfig, *arguments, "-o", "json")
    return json.loads(output)


def audited(user: str) -> set[str] | None:
    """The verbs that an account has used, from the audit log; None where there is none."""
    log = Path(os.environ["KUBECONFIG"].split(os.pathsep)[0]).parent / "logs" / "audit.log"
    if not log.exists():
        return None
    events = (json.loads(line) for line in log.read_text().splitlines() if line)
    return {event["verb"] for event in events if event.get("user", {}).get("username") == user}


async def test_every_command_works_with_list_and_watch_rights_alone(client: Client, tmp_path: Path) -> None:
    """And the audit log shows that nothing else was asked for."""
    async with deployment_sandbox(client, ZONES) as made, account(client, made.name, tmp_path, everywhere=True) as own:
        await made.deploy("web", 9)
        await look(own, made, tmp_path)
        await follow(own, made)
        verbs = audited(f"system:serviceaccount:{made.name}:reader")
        if verbs is not None:
            assert verbs == {"list", "watch"}


async def look(own: Path, made: DeploymentSandbox, folder: Path) -> None:
    """The commands that look once, live and from a file."""
    plan = await values(own, "plan", "deploy/web", "--replicas", "6")
    assert len(plan["controllers"][0]["victims"]) == 3
    assert plan["gaps"] == []
    names = {pod.metadata.name for pod in made.pods.store}
    ranks = await values(own, "rank", "deploy/web")
    order = [pod["pod"] for pod in ranks["controllers"][0]["pods"]]
    assert set(order) == names
    explained = await values(own, "explain", f"pod/{order[0]}")
    assert explained["owners"][-1] == f"Deployment {made.name}/web"
    manifest = folder / "web.json"
    manifest.write_text(json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", **made.deployment("web", 9)}))
    placed = await values(own, "place", "-f", str(manifest), "--count", "3")
    assert placed["placed"] == 3
    assert {node.rpartition("-")[0].rpartition("-")[2] for node in placed["byNode"]} <= {"a", "b", "c"}
    linted, _ = await trimtab(own, "lint", "-o", "json", "--fail-on", "never")
    assert json.loads(linted)["checked"] >= 1
    assert (await values(own, "report"))["total"] == 0
    capture = folder / "cluster.json.zst"
    await trimtab(own, "snapshot", "-f", str(capture))
    again = await values(own, "plan", "deploy/web", "--replicas", "6", "--snapshot", str(capture))
    ranks = await values(own, "rank", "deploy/web", "--snapshot", str(capture))
    first = ranks["controllers"][0]["pods"][0]["pod"]
    explained = await values(own, "explain", f"pod/{first}", "--snapshot", str(capture))
    assert explained["order"]["position"] == 1, "live, the order of young pods depends on the time"
    live, file = ([each["before"] for each in found["controllers"][0]["constraints"]] for found in (plan, again))
    assert live == file, "what may become of it depends on the time"
    text, _ = await trimtab(own, "plan", "deploy/web", "--replicas", "6")
    assert text.startswith(f"Deployment {made.name}/web: 9 → 6")


async def follow(own: Path, made: DeploymentSandbox) -> None:
    """`watch`, while the workload shrinks."""
    before = {pod.metadata.name for pod in made.pods.store}
    process = await start(own, "watch", "-n", made.name, "--count", "1", "--for", str(PATIENCE), "-o", "json")
    assert process.stderr is not None
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert b"following the scale-downs" in await process.stderr.readline()
        await made.scale("web", 4)
        await made.settled(4)
        record = json.loads(await process.stdout.readline())
        assert await process.wait() == 0
    assert (record["kind"], record["name"], record["from"], record["to"]) == ("Deployment", "web", 9, 4)
    assert set(record["deleted"]) == before - {pod.metadata.name for pod in made.pods.store}
    assert set(record["deleted"]) <= set(record["possible"])
    zones = next(each for each in record["distributions"] if each["topologyKey"].endswith("/zone"))
    assert tuple(zones["left"]) == made.spread()
    assert b"1 scale-down, " in await process.stderr.read()


async def test_what_is_forbidden_is_named_and_the_rest_is_shown(client: Client, tmp_path: Path) -> None:
    """An account of one namespace sees its pods, and learns what is missing without nodes."""
    async with deployment_sandbox(client, ZONES) as made, account(client, made.name, tmp_path, everywhere=False) as own:
        await made.deploy("web", 6)
        output, errors = await trimtab(own, "rank", "deploy/web", "-o", "json")
        pods = json.loads(output)["controllers"][0]["pods"]
        assert {pod["pod"] for pod in pods} == {pod.metadata.name for pod in made.pods.store}
        if audited(f"system:serviceaccount:{made.name}:reader") is None:
            assert errors == ""  # the embedded lab authorizes everyone
            return
        assert "trimtab: nodes (cluster): may not be listed" in errors
        assert "domains are not known" in errors
        assert f"only those of namespace {made.name} are considered" in errors
        assert "nodes" in {gap["resource"] for gap in json.loads(output)["gaps"]}
