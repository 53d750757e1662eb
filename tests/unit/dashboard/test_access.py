"""Callers of `trimtab run` see what they may list, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.dashboard.serving import WEB, dashboard, rows
from tests.unit.inspection.clusters import three_zones
from tests.unit.kube.fakes import answer
from trimtab.dashboard.access import VALID_SECONDS, ClusterAccess, UnauthenticatedError
from trimtab.dashboard.rights import EVERYTHING, Rights, visible
from trimtab.inspection.cluster import KINDS
from trimtab.kube.client import Client
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import VirtualClock

Allows = Callable[[str, str], bool]


class Reviewer:
    """An API server that authenticates the token `good`, and says what its user may list."""

    def __init__(self, allows: Allows) -> None:
        self.allows = allows
        self.reviews: list[Any] = []
        self.is_authenticated = True

    async def send(self, request: Request) -> Response:
        """Answer reviews, and the list of namespaces."""
        if request.path.endswith("/namespaces"):
            items = [{"metadata": {"name": name, "uid": name}} for name in ("default", "shop", "secret")]
            return answer(200, {"metadata": {"resourceVersion": "1"}, "items": items})
        spec = msgspec.json.decode(request.body or b"{}")["spec"]
        self.reviews.append(spec)
        if request.path.endswith("/tokenreviews"):
            is_good = spec["token"] == "good" and self.is_authenticated
            user = {"username": "jane", "groups": ["dev"], "extra": {"scopes": ["x"]}}
            return answer(201, {"status": {"authenticated": is_good, "user": user if is_good else {}}})
        assert (spec["user"], spec["groups"], spec["extra"]) == ("jane", ["dev"], {"scopes": ["x"]})
        asked = spec["resourceAttributes"]
        assert asked["verb"] == "list"
        return answer(201, {"status": {"allowed": self.allows(asked["resource"], asked["namespace"])}})

    async def stream(self, request: Request) -> Any:
        """Nothing is watched."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing to close."""


def access(allows: Allows) -> tuple[ClusterAccess, Reviewer, VirtualClock]:
    """The access of an API server."""
    clock, reviewer = VirtualClock(), Reviewer(allows)
    return ClusterAccess(Client(reviewer, clock=clock)), reviewer, clock


def one_namespace(resource: str, namespace: str) -> bool:
    """A user of the namespace shop, who may list pods and Deployments there, and nodes."""
    return resource == "nodes" or (namespace == "shop" and resource in ("pods", "deployments", "replicasets"))


async def test_a_user_who_may_list_everything_sees_everything() -> None:
    """Asked once for each kind."""
    checked, reviewer, _ = access(lambda *_: True)
    assert await checked.rights("good") == EVERYTHING
    assert len(reviewer.reviews) == 1 + len(KINDS)


async def test_a_user_who_may_list_all_pods_is_not_asked_by_namespace() -> None:
    """What else it may not list is missing everywhere."""
    checked, _, _ = access(lambda resource, _: resource in ("pods", "nodes", "deployments"))
    assert await checked.rights("good") == Rights(cluster=frozenset({"pods", "nodes", "deployments"}))


async def test_a_user_of_one_namespace_sees_that_namespace() -> None:
    """Other kinds are asked for only where pods may be listed."""
    checked, _, _ = access(one_namespace)
    rights = await checked.rights("good")
    assert rights.cluster == {"nodes"}
    assert rights.namespaced == {("pods", "shop"), ("deployments", "shop"), ("replicasets", "shop")}


@pytest.mark.parametrize("token", ["", "bad", "x" * 20_000])
async def test_an_unknown_token_is_refused(token: str) -> None:
    """Without a single question about rights."""
    checked, reviewer, _ = access(lambda *_: True)
    with pytest.raises(UnauthenticatedError):
        await checked.rights(token)
    assert all("token" in review for review in reviewer.reviews)


async def test_answers_count_for_a_while_only() -> None:
    """A token that was revoked is refused soon, and rights that were taken away are gone."""
    checked, reviewer, clock = access(lambda *_: True)
    await checked.rights("good")
    asked = len(reviewer.reviews)
    await checked.rights("good")
    assert len(reviewer.reviews) == asked
    await clock.advance(VALID_SECONDS + 1)
    reviewer.is_authenticated = False
    with pytest.raises(UnauthenticatedError):
        await checked.rights("good")


async def test_made_up_tokens_do_not_displace_those_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are tried."""
    monkeypatch.setattr("trimtab.dashboard.access._REMEMBERED", 3)
    checked, reviewer, _ = access(lambda *_: True)
    await checked.rights("good")
    for number in range(5):
        with pytest.raises(UnauthenticatedError):
            await checked.rights(f"bad-{number}")
    asked = len(reviewer.reviews)
    await checked.rights("good")
    with pytest.raises(UnauthenticatedError):
        await checked.rights("bad-4")
    assert len(reviewer.reviews) == asked


async def test_one_caller_cannot_take_every_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others still connect, and a closed page makes room."""
    monkeypatch.setattr(ClusterAccess, "most_streams", 1)
    checked, _, _ = access(lambda *_: True)
    async with dashboard(three_zones().build(), access=checked) as served:
        async with served.events(Authorization="Bearer good") as events:
            await events.next()
            assert (await served.get("/api/events", Authorization="Bearer good")).status == 503
        while served.server.boards.viewers:
            await asyncio.sleep(0)
        async with served.events(Authorization="Bearer good") as events:
            await events.next()


async def test_a_caller_is_shown_only_what_it_may_list() -> None:
    """In no section is a name of another namespace; what is missing is named."""
    builder = three_zones().namespace("shop").namespace("secret")
    builder.deployment("web", ["a1", "b1", "c1"], namespace="shop").deployment(
        "vault", ["a1", "b1"], namespace="secret"
    )
    checked, _, _ = access(one_namespace)
    headers = {"Authorization": "Bearer good"}
    async with dashboard(builder.build(), access=checked) as served:
        answered = await served.get("/api/state", **headers)
        assert "vault" not in await answered.text()
        state = await answered.json()
        assert set(rows(state, "workloads")) == {"shop/Deployment/web"}
        assert len(rows(state, "pods")) == 3
        assert rows(state, "nodes")["a1"]["pods"] == 1
        gaps = rows(state, "status")["cluster"]["gaps"]
        assert any(gap.startswith("pods (other namespaces): you may not list them") for gap in gaps)
        assert any(gap.startswith("services (cluster): you may not list them") for gap in gaps)
        for path in ("plan?replicas=1&workload=secret/Deployment/vault", "rank?workload=secret/Deployment/vault"):
            assert (await served.get(f"/api/{path}", **headers)).status == 404
        assert (await served.get("/api/explain?pod=secret/vault-1-00", **headers)).status == 404
        assert (await served.get("/api/state")).status == 401


async def test_a_caller_without_rights_sees_an_empty_cluster() -> None:
    """And every gap."""
    checked, _, _ = access(lambda *_: False)
    cluster = three_zones().deployment("web", ["a1"]).build()
    async with dashboard(cluster, access=checked) as served:
        state = await served.json("/api/state", Authorization="Bearer good")
        sections = ("nodes", "pods", "workloads", "decisions", "topologies")
        assert [len(state[name]) for name in sections] == [0] * len(sections)
        assert len(rows(state, "status")["cluster"]["gaps"]) == len(KINDS)
        assert WEB not in str(state)


def test_everything_is_the_cluster_itself() -> None:
    """Callers who may see everything share one view."""
    cluster = three_zones().build()
    assert visible(cluster, EVERYTHING) is cluster
