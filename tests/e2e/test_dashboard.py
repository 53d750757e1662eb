"""The dashboard of `trimtab run`: callers see what the API server says they may list, and no more.

The process runs with the permissions of an installation. Callers are ServiceAccounts with rights of their own. The
embedded lab does not review tokens, so these tests need a real API server.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.e2e.processes import DASHBOARD, Trimtab, cluster_wide, running
from tests.unit.kube.certificates import Authority
from trimtab.api.apps import Deployment
from trimtab.api.core import Namespace
from trimtab.api.pods import Pod
from trimtab.dashboard.access import TOKEN_REVIEWS
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import untyped
from trimtab.kube.sessions import Session
from trimtab_lab.controlplane import accounts
from trimtab_lab.supervisor import find_free_port

pytestmark = pytest.mark.e2e

ACCOUNTS = untyped("v1", "ServiceAccount", "serviceaccounts")
RBAC = "rbac.authorization.k8s.io"
ROLES = untyped(f"{RBAC}/v1", "Role", "roles")
BINDINGS = untyped(f"{RBAC}/v1", "RoleBinding", "rolebindings")
CLUSTER_ROLES = untyped(f"{RBAC}/v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_BINDINGS = untyped(f"{RBAC}/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
LISTED = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["list"]},
]
ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}]
PATHS = ("state", "events", "plan?workload={web}&replicas=1", "rank?workload={web}", "explain?pod={pod}")
PATIENCE = 90.0


@dataclass
class Stage:
    """Two namespaces with a Deployment each, a dashboard, and callers."""

    client: Client
    shown: str
    hidden: str
    url: str
    process: Trimtab
    tokens: dict[str, str]
    """By account: robot lists its namespace, auditor everything, guest nothing."""
    session: aiohttp.ClientSession

    async def get(self, path: str, token: str = "", **headers: str) -> tuple[int, str]:
        """The status and the text of an answer; of a stream, its first event."""
        sent = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
        async with self.session.get(f"{self.url}{path}", headers=sent) as answer:
            is_stream = answer.content_type == "text/event-stream"
            body = await (answer.content.readuntil(b"\n\n") if is_stream else answer.read())
            return answer.status, body.decode()

    async def state(self, account: str) -> dict[str, Any]:
        """What an account is shown."""
        status, text = await self.get("api/state", self.tokens[account])
        assert status == 200, text
        found: dict[str, Any] = json.loads(text)
        return found

    async def pod_in(self, namespace: str) -> str:
        """The key of some pod, once its namespace has one."""
        async with asyncio.timeout(PATIENCE):
            while not (items := (await self.client.list(Pod, namespace=namespace)).items):
                await asyncio.sleep(0.1)
        return f"{namespace}/{items[0].metadata.name}"


@pytest.fixture
async def client(control_plane: Path) -> AsyncIterator[Client]:
    """The administrator's client, where tokens are reviewed."""
    async with Client(Session(discover(control_plane))) as made:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "none"}}
        try:
            await made.create(TOKEN_REVIEWS, review)
        except NotFound:
            pytest.skip("this control plane has no TokenReview")
        yield made


@pytest.fixture
async def names(client: Client) -> AsyncIterator[tuple[str, str]]:
    """A namespace that robot may look at, and one that it may not; each with a Deployment."""
    suffix = secrets.token_hex(4)
    shown, hidden = f"shown-{suffix}", f"hidden-{suffix}"
    for name in (shown, hidden):
        await client.create(Namespace, {"metadata": {"name": name}})
        await client.create(Deployment, _deployment(f"{name}-web"), namespace=name)
    for account in ("robot", "auditor", "guest"):
        await client.create(ACCOUNTS, {"metadata": {"name": account}}, namespace=shown)
    await client.create(ROLES, {"metadata": {"name": "robot"}, "rules": LISTED}, namespace=shown)
    await client.create(BINDINGS, _binding("robot", "robot", shown, "Role"), namespace=shown)
    await client.create(CLUSTER_ROLES, {"metadata": {"name": shown}, "rules": ALL})
    await client.create(CLUSTER_BINDINGS, _binding(shown, "auditor", shown, "ClusterRole"))
    yield shown, hidden
    await client.delete(CLUSTER_BINDINGS, shown)
    await client.delete(CLUSTER_ROLES, shown)
    for name in (shown, hidden):
        await client.delete(Namespace, name)


def _deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]}}
    return {"metadata": {"name": name}, "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}}


def _binding(role: str, account: str, namespace: str, kind: str) -> dict[str, Any]:
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    reference = {"apiGroup": RBAC, "kind": kind, "name": role}
    return {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}


@asynccontextmanager
async def served(client: Client, names: tuple[str, str], scheme: str = "http", **section: Any) -> AsyncIterator[Stage]:
    """`trimtab run` with the dashboard, and a token for each account."""
    port = find_free_port()
    tree = cluster_wide(names[0], dashboard={"port": port, **section})
    async with running(client, tree, [DASHBOARD]) as process, aiohttp.ClientSession() as session:
        made = Stage(client, *names, f"{scheme}://127.0.0.1:{port}/", process, {}, session)
        for account in ("robot", "auditor", "guest"):
            made.tokens[account] = await accounts.request_token(client, account, names[0])
        yield made


@pytest.fixture
async def stage(client: Client, names: tuple[str, str]) -> AsyncIterator[Stage]:
    """The dashboard as it is installed: on loopback."""
    async with served(client, names) as made:
        yield made


async def test_callers_see_what_they_may_list(stage: Stage) -> None:
    """In every section and on every path; who may list nothing sees an empty cluster."""
    shown, hidden = await stage.pod_in(stage.shown), await stage.pod_in(stage.hidden)
    web = f"{stage.shown}/Deployment/{stage.shown}-web"
    other = f"{stage.hidden}/Deployment/{stage.hidden}-web"
    async with asyncio.timeout(PATIENCE):
        while not {shown, hidden} <= (found := await stage.state("auditor"))["pods"].keys():
            await asyncio.sleep(0.1)
    assert {web, other} <= found["workloads"].keys()
    assert not any("you may not list" in gap for gap in found["status"]["cluster"]["gaps"])
    found = await stage.state("robot")
    assert set(found["workloads"]) == {web}
    assert shown in found["pods"]
    assert stage.hidden not in str(found)
    assert (found["nodes"], found["topologies"]) == ({}, {})
    assert any(gap.startswith("nodes (cluster): you may not list them") for gap in found["status"]["cluster"]["gaps"])
    for path in PATHS[2:]:
        status, text = await stage.get(f"api/{path.format(web=web, pod=shown)}", stage.tokens["robot"])
        assert status == 200, text
        status, text = await stage.get(f"api/{path.format(web=other, pod=hidden)}", stage.tokens["robot"])
        assert (status, stage.hidden in text) == (404, False)
    assert stage.hidden not in (await stage.get(f"api/events?workload={other}", stage.tokens["robot"]))[1].replace(
        other, ""
    )
    found = await stage.state("guest")
    assert [found[name] for name in ("nodes", "pods", "workloads", "decisions", "topologies")] == [{}] * 5


async def test_without_a_valid_token_nothing_is_answered(stage: Stage) -> None:
    """Missing, made up, in the address, or of an account that is gone; and no token is ever logged."""
    pod = await stage.pod_in(stage.shown)
    web = f"{stage.shown}/Deployment/{stage.shown}-web"
    token = stage.tokens["robot"]
    await stage.client.delete(ACCOUNTS, "guest", namespace=stage.shown)
    tried = ("", "made.up.token", token[:-2], stage.tokens["guest"], f"{token}x")
    for path in PATHS:
        for wrong in tried:
            status, text = await stage.get(f"api/{path.format(web=web, pod=pod)}", wrong)
            assert (status, stage.shown in text) == (401, False), (path, wrong)
    assert (await stage.get(f"api/state?token={token}&access_token={token}"))[0] == 401
    assert (await stage.get("api/state", Authorization=f"Basic {token}"))[0] == 401
    assert (await stage.get("api/state", token))[0] == 200
    log = (stage.process.folder / f"{DASHBOARD}.log").read_text()
    assert not any(part in log for part in (token, "made.up.token", stage.tokens["guest"]))


async def test_rights_that_are_taken_away_end_an_open_page(stage: Stage) -> None:
    """Within the time for which answers count; connected again, the page has nothing any more."""
    await stage.pod_in(stage.shown)
    headers = {"Authorization": f"Bearer {stage.tokens['robot']}"}
    async with stage.session.get(f"{stage.url}api/events", headers=headers) as answer:
        assert stage.shown in (await answer.content.readuntil(b"\n\n")).decode()
        await stage.client.delete(BINDINGS, "robot", namespace=stage.shown)
        async with asyncio.timeout(PATIENCE):
            await answer.content.read()
    found = await stage.state("robot")
    assert (found["workloads"], found["pods"]) == ({}, {})


async def test_beyond_loopback_with_tls_and_known_names(client: Client, names: tuple[str, str], tmp_path: Path) -> None:
    """Plain HTTP is not answered, and neither is a name that is not ours."""
    authority = Authority()
    pair = authority.server("127.0.0.1")
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    trusted = ssl.create_default_context(cadata=authority.certificate.decode())
    files = {"certificateFile": str(tmp_path / "tls.crt"), "keyFile": str(tmp_path / "tls.key")}
    section = {"host": "0.0.0.0", "hostNames": ["dashboard.example.com"], **files}  # noqa: S104 - what is tested
    async with served(client, names, "https", **section) as stage:
        token = {"Authorization": f"Bearer {stage.tokens['auditor']}"}
        for host, status in (("dashboard.example.com", 200), ("evil.example.com", 421)):
            for path in ("", "api/state"):
                sent = {**token, "Host": host}
                async with stage.session.get(f"{stage.url}{path}", headers=sent, ssl=trusted) as answer:
                    assert answer.status == status, (host, path)
                    assert names[0] not in await answer.text() or (path, status) == ("api/state", 200)
        async with stage.session.get(f"{stage.url}api/state", ssl=trusted) as answer:
            assert answer.status == 401
        with pytest.raises(aiohttp.ClientError):
            await stage.session.get(f"{stage.url.replace('https', 'http')}api/state", headers=token)
