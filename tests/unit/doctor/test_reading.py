"""Reading an installation from an API server: complete, without a write, and with gaps where it is forbidden."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.install.test_removal import put, resource
from tests.unit.kube.fakes import failure
from trimtab.admission.certificates import SECRETS
from trimtab.api import crds
from trimtab.doctor import permissions, reading
from trimtab.doctor.facts import Facts
from trimtab.doctor.rules import check
from trimtab.install import definitions, manifests
from trimtab.install.options import Options
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.errors import Unreachable
from trimtab.kube.resources import untyped
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.sessions import Session
from trimtab.kube.transport import Request, Response, Stream, Transport
from trimtab_lab.apiserver.wire.server import Server

OPTIONS = Options(namespace="level")
Refuse = Callable[[Request], Response | None]


class Recording:
    """A transport that remembers requests, and answers some of them itself."""

    def __init__(self, inner: Transport, refuse: Refuse = lambda _: None) -> None:
        self.inner = inner
        self.refuse = refuse
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        """Pass a request on, or refuse it."""
        self.requests.append(request)
        return self.refuse(request) or await self.inner.send(request)

    async def stream(self, request: Request) -> Stream:
        """Pass a watch on."""
        return await self.inner.stream(request)

    async def close(self) -> None:
        """Close the connections."""
        await self.inner.close()


@asynccontextmanager
async def an_installation(folder: Path) -> AsyncIterator[Server]:
    """An API server with everything that `trimtab install` prints, as far as the lab serves it."""
    async with Server(folder) as server, Client(Session(discover(server.kubeconfig))) as client:
        chosen = definitions.choose("auto", [])
        await put(client, *manifests.everything(OPTIONS, chosen.manifests))
        yield server


async def facts_of(
    server: Server, refuse: Refuse = lambda _: None, local: Options | None = None
) -> tuple[Facts, Recording, list[str]]:
    """What is read, the requests, and the users in whose names requests were made."""
    users: list[str] = []
    transport = Recording(Session(discover(server.kubeconfig)), refuse)

    @asynccontextmanager
    async def impersonate(user: str) -> AsyncIterator[Client]:
        users.append(user)
        yield client

    async with Client(transport).using(retry=NO_RETRIES) as client:
        return await reading.read(client, namespace="level", impersonate=impersonate, local=local), transport, users


async def test_an_installation_without_nodes_has_the_findings_of_one(tmp_path: Path) -> None:
    """Nothing runs: no pod is ready, no certificate was created, nothing leads, and no webhook answers."""
    async with an_installation(tmp_path) as server:
        facts, _, users = await facts_of(server)
    found = {each.id for each in check(facts).findings}
    assert found == {"TD104", "TD303", "TD304", "TD306", "TD401"} - _unserved(facts)
    assert users == [f"system:serviceaccount:level:trimtab-{each}" for each in OPTIONS.components]
    assert facts.components == ("scheduler", "webhooks", "controllers")
    assert facts.server_version is not None
    assert facts.server_version.startswith("v1.")


def _unserved(facts: Facts) -> set[str]:
    """What the lab cannot answer: it has no EndpointSlices, and its webhooks are called by URL."""
    return {"TD303"} if facts.gaps.keys() <= {"slices"} else set()


async def test_nothing_is_written(tmp_path: Path) -> None:
    """Every request is a read, a review that is not stored, or a dry run."""
    async with an_installation(tmp_path) as server:
        _, transport, _ = await facts_of(server)
    others = [each for each in transport.requests if each.method != "GET"]
    assert others
    for each in others:
        assert each.path == permissions.ACCESS_REVIEWS.collection() or ("dryRun", "All") in each.params, each


async def test_a_refused_permission_is_found(tmp_path: Path) -> None:
    """By the answer to a SelfSubjectAccessReview."""

    def refuse(request: Request) -> Response | None:
        if request.path == permissions.ACCESS_REVIEWS.collection() and b'"pods","subresource":"eviction"' in (
            request.body or b""
        ):
            return Response(201, {}, b'{"status": {"allowed": false}}')
        return None

    async with an_installation(tmp_path) as server:
        facts, _, _ = await facts_of(server, refuse)
    (found,) = [each for each in check(facts).findings if each.id == "TD501"]
    assert found.object == "system:serviceaccount:level:trimtab-controllers"
    assert found.message == "it may not: create pods/eviction"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/secrets/", "secrets"),
        ("/leases/", "leases"),
        ("/deployments", "deployments"),
        ("/configmaps/", "configuration_text"),
        ("/customresourcedefinitions", "definitions"),
        ("webhookconfigurations/", "webhooks"),
        ("/selfsubjectaccessreviews", "denials"),
        ("/events", "events"),
        ("/namespaces/default/scaledownpolicies", "is_called"),
        ("/version", "server_version"),
    ],
)
async def test_what_is_forbidden_becomes_a_gap(path: str, field: str, tmp_path: Path) -> None:
    """The rest is checked."""

    def refuse(request: Request) -> Response | None:
        return failure(403, "Forbidden", "not you") if path in request.path else None

    async with an_installation(tmp_path) as server:
        facts, _, _ = await facts_of(server, refuse)
    assert "not you" in facts.gaps[field]
    assert getattr(facts, field) is None
    assert check(facts).checked


async def test_an_unreachable_api_server_is_an_error(tmp_path: Path) -> None:
    """Not a list of findings."""
    async with Server(tmp_path) as server:
        kubeconfig = server.kubeconfig
    with pytest.raises(Unreachable):
        async with Client(Session(discover(kubeconfig))).using(retry=NO_RETRIES) as client:
            await reading.read(client, namespace="level", impersonate=lambda _: client)


async def test_an_empty_cluster_has_one_finding(tmp_path: Path) -> None:
    """That nothing is installed."""
    async with Server(tmp_path) as server:
        facts, _, users = await facts_of(server)
    assert [each.id for each in check(facts).findings] == ["TD101"]
    assert users == []


async def test_an_invalid_configuration_is_named_with_its_field(tmp_path: Path) -> None:
    """And the other checks go on."""
    maps = untyped("v1", "ConfigMap", "configmaps")
    async with an_installation(tmp_path) as server:
        async with Client(Session(discover(server.kubeconfig))) as client:
            patch = {"data": {"trimtab.yaml": "scaleDwon: {}"}}
            await client.patch(maps, "trimtab-configuration", patch, namespace="level")
        facts, _, _ = await facts_of(server)
    (found,) = [each for each in check(facts).findings if each.id == "TD105"]
    assert "scaleDwon" in found.message


async def test_webhooks_that_are_left_behind_are_found(tmp_path: Path) -> None:
    """Their Deployments are gone: every request pays for a failed call."""
    async with an_installation(tmp_path) as server:
        async with Client(Session(discover(server.kubeconfig))) as client:
            for each in manifests.everything(OPTIONS):
                if each["kind"] == "Deployment":
                    await client.delete(resource(each), each["metadata"]["name"], namespace="level")
        facts, _, _ = await facts_of(server)
    found = {each.id for each in check(facts).findings}
    assert {"TD101", "TD304", "TD306"} <= found


async def test_processes_outside_the_cluster_are_checked_by_their_configuration(tmp_path: Path) -> None:
    """Neither Deployments nor accounts are looked for; the permissions are those of this user."""
    tree = {"webhooks": {"url": "https://127.0.0.1:9443"}, "scaleDown": {"defaultPolicies": [{"name": "level"}]}}
    local = Options(namespace="level", configuration=tree)
    async with an_installation(tmp_path) as server:
        facts, transport, users = await facts_of(server, local=replace(local, components=("webhooks",)))
    assert users == []
    assert not any(SECRETS.plural in each.path and each.method != "GET" for each in transport.requests)
    assert {each.id for each in check(facts).findings} == {"TD304", "TD306", "TD401"}
    assert [kind.name for kind in crds.KINDS] == sorted(
        (each["metadata"]["name"] for each in facts.definitions or ()), key=[kind.name for kind in crds.KINDS].index
    )
