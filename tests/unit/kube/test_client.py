"""The client: what it sends, what it makes of the answers, and when it tries again."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer, ScriptedTransport, answer, failure, pod_tree, status
from trimtab.api.apps import Deployment
from trimtab.api.documents import Document
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, PodGroupCostSpec
from trimtab.kube import errors
from trimtab.kube.client import Client, Observation, PatchKind, Settings
from trimtab.kube.clocks import SECOND
from trimtab.kube.limits import TokenBucket
from trimtab.kube.resources import Resource, untyped
from trimtab.kube.retries import NO_RETRIES, Backoff, RetryPolicy
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import START, VirtualClock

POD = {"metadata": {"name": "web", "namespace": "prod", "resourceVersion": "7"}, "spec": {"nodeName": "n1"}}
SCALE = {"metadata": {"name": "web"}, "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}}
CONFIG_MAPS = untyped("v1", "ConfigMap", "configmaps")
BUSY = failure(429, "TooManyRequests", "busy")


def ok(body: Any = POD) -> Response:
    """A success response."""
    return answer(200, body)


def sent(request: Request) -> Any:
    """The body that was sent."""
    return json.loads(request.body or b"null")


class Bench:
    """A client whose transport is scripted; time passes by itself."""

    def __init__(self, *answers: Response | Exception, **settings: Any) -> None:
        self.clock = VirtualClock()
        self.transport = ScriptedTransport(*answers)
        settings.setdefault("retry", RetryPolicy(backoff=Backoff(initial=1, cap=4)))
        self.client = Client(self.transport, settings=Settings(**settings), clock=self.clock, rng=random.Random(1))

    @property
    def requests(self) -> list[Request]:
        """What was sent."""
        return self.transport.requests

    @property
    def passed(self) -> float:
        """Seconds since the beginning."""
        return (self.clock.now() - START) / SECOND

    async def run(self, call: Awaitable[Any]) -> Any:
        """Let time pass until the call is done."""
        task = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        while not task.done():
            await self.clock.advance(1)
        return task.result()


Call = Callable[[Client], Awaitable[Any]]

MANAGER = ("fieldManager", "trimtab")


@pytest.mark.parametrize(
    ("call", "want"),
    [
        pytest.param(
            lambda c: c.get(Pod, "web", namespace="prod"),
            ("GET", "/api/v1/namespaces/prod/pods/web", (), None),
            id="get",
        ),
        pytest.param(
            lambda c: c.get(Node, "n1", subresource="status", resource_version="0"),
            ("GET", "/api/v1/nodes/n1/status", (("resourceVersion", "0"),), None),
            id="get a subresource from the server's cache",
        ),
        pytest.param(
            lambda c: c.create(Pod, {"metadata": {"name": "web"}}, namespace="prod", dry_run=True),
            (
                "POST",
                "/api/v1/namespaces/prod/pods",
                (MANAGER, ("dryRun", "All")),
                {"metadata": {"name": "web"}},
            ),
            id="create as a dry run",
        ),
        pytest.param(
            lambda c: c.create(Pod, Document({"a": 1}), namespace="prod", field_validation="Strict"),
            ("POST", "/api/v1/namespaces/prod/pods", (MANAGER, ("fieldValidation", "Strict")), {"a": 1}),
            id="create from a document, strictly",
        ),
        pytest.param(
            lambda c: c.create(PodGroupCost, PodGroupCost(spec=PodGroupCostSpec(costs={"a": 5})), namespace="prod"),
            (
                "POST",
                "/apis/trimtab.dev/v1alpha1/namespaces/prod/podgroupcosts",
                (MANAGER,),
                {"spec": {"costs": {"a": 5}}},
            ),
            id="create an object that is wholly ours",
        ),
        pytest.param(
            lambda c: c.replace(Resource.of(Pod).raw, POD, subresource="status"),
            ("PUT", "/api/v1/namespaces/prod/pods/web/status", (MANAGER,), POD),
            id="replace",
        ),
        pytest.param(
            lambda c: c.patch(Pod, "web", {"a": None}, namespace="prod"),
            ("PATCH", "/api/v1/namespaces/prod/pods/web", (MANAGER,), {"a": None}),
            id="patch",
        ),
        pytest.param(
            lambda c: c.patch(Pod, "web", b'{"raw":1}', how=PatchKind.APPLY, force=True, namespace="prod"),
            ("PATCH", "/api/v1/namespaces/prod/pods/web", (MANAGER, ("force", "true")), {"raw": 1}),
            id="apply by force",
        ),
        pytest.param(
            lambda c: c.delete(Pod, "web", namespace="prod"),
            ("DELETE", "/api/v1/namespaces/prod/pods/web", (), {"apiVersion": "v1", "kind": "DeleteOptions"}),
            id="delete",
        ),
        pytest.param(
            lambda c: c.delete(
                Pod,
                "web",
                namespace="prod",
                uid="u",
                resource_version="7",
                propagation="Foreground",
                grace_period_seconds=0,
                dry_run=True,
            ),
            (
                "DELETE",
                "/api/v1/namespaces/prod/pods/web",
                (),
                {
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": {"uid": "u", "resourceVersion": "7"},
                    "propagationPolicy": "Foreground",
                    "gracePeriodSeconds": 0,
                    "dryRun": ["All"],
                },
            ),
            id="delete with everything",
        ),
        pytest.param(
            lambda c: c.delete_all(Pod, namespace="prod", label_selector="a=b", field_selector="c=d"),
            (
                "DELETE",
                "/api/v1/namespaces/prod/pods",
                (("labelSelector", "a=b"), ("fieldSelector", "c=d")),
                {"apiVersion": "v1", "kind": "DeleteOptions"},
            ),
            id="delete a collection",
        ),
        pytest.param(
            lambda c: c.bind("web", namespace="prod", node="n1", uid="u"),
            (
                "POST",
                "/api/v1/namespaces/prod/pods/web/binding",
                (MANAGER,),
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": "web", "namespace": "prod", "uid": "u"},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
                },
            ),
            id="bind",
        ),
        pytest.param(
            lambda c: c.evict("web", namespace="prod", grace_period_seconds=5),
            (
                "POST",
                "/api/v1/namespaces/prod/pods/web/eviction",
                (MANAGER,),
                {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": "web", "namespace": "prod"},
                    "deleteOptions": {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 5},
                },
            ),
            id="evict",
        ),
        pytest.param(
            lambda c: c.resize(Deployment, "web", 3, namespace="prod", resource_version="7"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/prod/deployments/web/scale",
                (MANAGER,),
                {"spec": {"replicas": 3}, "metadata": {"resourceVersion": "7"}},
            ),
            id="resize",
        ),
        pytest.param(lambda c: c.call("GET", "/version"), ("GET", "/version", (), None), id="anything"),
    ],
)
async def test_requests_of_each_verb(call: Call, want: tuple[str, str, tuple[tuple[str, str], ...], Any]) -> None:
    """Method, path, parameters and body, as API servers expect them."""
    bench = Bench(ok())
    await call(bench.client)
    request = bench.requests[0]
    assert (request.method, request.path, request.params, json.loads(request.body or b"null")) == want


@pytest.mark.parametrize("how", PatchKind)
async def test_each_kind_of_patch_has_its_content_type(how: PatchKind) -> None:
    """The content type distinguishes them."""
    bench = Bench(ok())
    patch = [{"op": "remove", "path": "/a"}] if how is PatchKind.JSON else {"a": 1}
    await bench.client.patch(Pod, "web", patch, how=how, namespace="prod")
    assert bench.requests[0].content_type == how.value
    assert sent(bench.requests[0]) == patch


async def test_responses_are_typed_or_raw() -> None:
    """The resource decides the type of its objects."""
    bench = Bench(ok(), ok(), ok(SCALE), ok(SCALE))
    assert (await bench.client.get(Pod, "web", namespace="prod")).spec.node_name == "n1"
    assert await bench.client.get(Resource.of(Pod).raw, "web", namespace="prod") == POD
    assert (await bench.client.scale(Deployment, "web", namespace="prod")).status.replicas == 2
    assert (await bench.client.resize(Deployment, "web", 3, namespace="prod")).spec.replicas == 3


async def test_an_unreadable_response_is_malformed() -> None:
    """Not one of the decoder's."""
    bench = Bench(Response(200, {}, b"<html>"))
    with pytest.raises(errors.Malformed, match="cannot be read"):
        await bench.client.get(Pod, "web", namespace="prod")


async def test_a_namespaced_object_cannot_be_created_without_a_namespace() -> None:
    """The server would answer with a riddle."""
    with pytest.raises(ValueError, match="a Pod needs a namespace"):
        await Bench().client.create(Pod, {})


# Lists.


async def test_a_list_is_read_page_by_page_consistently() -> None:
    """Nothing that happens in between is in it."""
    clock = VirtualClock()
    server = FakeServer(clock)
    for n in range(7):
        server.put("/api/v1", "pods", pod_tree(f"p{n}"))
    client, sizes = Client(server, clock=clock), []
    async for part in client.pages(Pod, limit=3):
        sizes.append(len(part.items))
        server.put("/api/v1", "pods", pod_tree(f"later-{len(sizes)}"))
    assert sizes == [3, 3, 1]
    assert len((await client.list(Pod, limit=3)).items) == 10


async def test_an_expired_list_is_restarted() -> None:
    """At last the list is requested without pages, which cannot expire."""
    clock = VirtualClock()
    server = FakeServer(clock)
    for n in range(4):
        server.put("/api/v1", "pods", pod_tree(f"p{n}"))
    server.intercept = lambda r: failure(410, "Expired") if "continue" in dict(r.params) else None
    listed = await Client(server, clock=clock).list(Pod, limit=2)
    assert len(listed.items) == 4
    assert [dict(r.params).get("limit") for r in server.requests] == ["2", "2"] * 3 + [None]


async def test_parameters_of_a_list() -> None:
    """Selectors go along with every part."""
    bench = Bench(ok({"metadata": {"continue": "more"}}), ok({"metadata": {"resourceVersion": "9"}}))
    listed = await bench.client.list(Pod, namespace="prod", label_selector="a in (b,c)", field_selector="x=y", limit=1)
    selectors = {"labelSelector": "a in (b,c)", "fieldSelector": "x=y", "limit": "1"}
    assert [dict(r.params) for r in bench.requests] == [selectors, {**selectors, "continue": "more"}]
    assert listed.resource_version == "9"


# Watches.


async def test_a_watch_asks_for_bookmarks_and_an_end() -> None:
    """And gives what comes."""
    event = json.dumps({"type": "ADDED", "object": POD}).encode() + b"\n"
    bench = Bench(Response(200, {}, event))
    async with bench.client.watch(Pod, resource_version="5", namespace="prod", label_selector="a=b") as events:
        seen = [(event.type, event.resource_version) async for event in events]
    assert seen == [("ADDED", "7")]
    assert dict(bench.requests[0].params) == {
        "watch": "true",
        "resourceVersion": "5",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
        "labelSelector": "a=b",
    }
    assert bench.transport.streams[0].closed


async def test_a_refused_watch_raises_its_error() -> None:
    """The connection is closed, and nothing is retried."""
    bench = Bench(failure(410, "Expired", "too old"))
    with pytest.raises(errors.Gone, match="GET /api/v1/pods: too old"):
        async with bench.client.watch(Pod, resource_version="5"):
            pass
    assert bench.transport.streams[0].closed


async def test_a_watch_that_is_left_early_closes_its_connection() -> None:
    """Also when leaving is an exception."""
    line = json.dumps({"type": "ERROR", "object": status(500, "InternalError")}).encode() + b"\n"
    bench = Bench(Response(200, {}, line))
    with pytest.raises(errors.ServerError):
        async with bench.client.watch(Pod, resource_version="5") as events:
            await anext(events)
    assert bench.transport.streams[0].closed


# Trying again.

ONCE: Call = lambda c: c.create(Pod, {}, namespace="prod")  # noqa: E731 - reads better in the tables below
READ: Call = lambda c: c.get(Pod, "web", namespace="prod")  # noqa: E731
LOST = errors.Unreachable("connection lost")
REFUSED = errors.Unreachable("connection refused", sent=False)


@pytest.mark.parametrize(
    ("call", "first", "again"),
    [
        pytest.param(READ, LOST, True, id="reading, when the answer is lost"),
        pytest.param(READ, failure(500, "InternalError"), True, id="reading, when the server fails"),
        pytest.param(READ, failure(404, "NotFound"), False, id="reading, when there is nothing"),
        pytest.param(ONCE, LOST, False, id="creating, when the answer is lost: it may be there"),
        pytest.param(ONCE, failure(500, "InternalError"), False, id="creating, when the server fails: it may be there"),
        pytest.param(ONCE, BUSY, True, id="creating, when the server is busy: it is not there"),
        pytest.param(ONCE, REFUSED, True, id="creating, when nothing was sent"),
        pytest.param(
            ONCE, answer(503, status(503), {"Retry-After": "1"}), True, id="creating, when the server says come back"
        ),
        pytest.param(lambda c: c.replace(CONFIG_MAPS, POD), LOST, True, id="replacing"),
        pytest.param(lambda c: c.patch(Pod, "web", {}, namespace="prod"), LOST, True, id="a merge patch"),
        pytest.param(
            lambda c: c.patch(Pod, "web", {}, namespace="prod", how=PatchKind.APPLY), LOST, True, id="an apply patch"
        ),
        pytest.param(
            lambda c: c.patch(Pod, "web", {}, namespace="prod", how=PatchKind.STRATEGIC), LOST, True, id="strategic"
        ),
        pytest.param(
            lambda c: c.patch(Pod, "web", [], namespace="prod", how=PatchKind.JSON), LOST, False, id="a JSON patch"
        ),
        pytest.param(
            lambda c: c.delete(Pod, "web", namespace="prod"),
            LOST,
            False,
            id="deleting by name: it may have a successor",
        ),
        pytest.param(lambda c: c.delete(Pod, "web", namespace="prod", uid="u"), LOST, True, id="deleting by UID"),
        pytest.param(lambda c: c.delete_all(Pod, namespace="prod"), LOST, False, id="deleting many"),
        pytest.param(lambda c: c.bind("web", namespace="prod", node="n"), LOST, False, id="binding"),
        pytest.param(lambda c: c.evict("web", namespace="prod"), LOST, False, id="evicting"),
        pytest.param(
            lambda c: c.evict("web", namespace="prod"),
            failure(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget"}], retryAfterSeconds=10),
            False,
            id="evicting, when a budget holds",
        ),
        pytest.param(lambda c: c.resize(Deployment, "web", 3, namespace="prod"), LOST, True, id="resizing"),
    ],
)
async def test_which_calls_are_retried(call: Call, first: Response | Exception, again: bool) -> None:
    """Only what was certainly not done, or may be done twice."""
    bench = Bench(first, ok())
    if again:
        await bench.run(call(bench.client))
    else:
        with pytest.raises(errors.ApiError):
            await bench.run(call(bench.client))
    assert len(bench.requests) == (2 if again else 1)


async def test_backoff_grows_and_retry_after_extends_it() -> None:
    """Back-off of 1, 2 and 4 s, and 9 s because of Retry-After."""
    bench = Bench(BUSY, BUSY, answer(429, status(429), {"Retry-After": "9"}), BUSY, ok())
    await bench.run(READ(bench.client))
    assert bench.passed == 1 + 2 + 9 + 4


async def test_after_the_last_attempt_the_error_is_raised() -> None:
    """After the allowed attempts, and immediately if none are allowed."""
    bench = Bench(BUSY, BUSY, BUSY, retry=RetryPolicy(attempts=3))
    with pytest.raises(errors.TooManyRequests):
        await bench.run(READ(bench.client))
    assert len(bench.requests) == 3
    bench = Bench(BUSY, ok())
    with pytest.raises(errors.TooManyRequests):
        await READ(bench.client.using(retry=NO_RETRIES))


# Around the calls.


async def test_warnings_are_passed_to_the_callback() -> None:
    """Whatever the server wants people to know."""
    heard: list[str] = []
    body = json.dumps(POD).encode()
    bench = Bench(Response(200, {}, body, ("old API", "odd field")), on_warning=heard.append)
    await READ(bench.client)
    assert heard == ["old API", "odd field"]


async def test_every_attempt_is_counted() -> None:
    """With what came of it, on the client's clock; 0 stands for no answer."""
    seen: list[Observation] = []
    bench = Bench(LOST, failure(500, "InternalError"), ok(), Response(200, {}, b""), on_attempt=seen.append)
    await bench.run(READ(bench.client))
    async with bench.client.watch(Pod, resource_version="1"):
        pass
    path = "/api/v1/namespaces/prod/pods/web"
    assert [(o.method, o.path, o.status) for o in seen] == [
        ("GET", path, 0),
        ("GET", path, 500),
        ("GET", path, 200),
        ("GET", "/api/v1/pods", 200),
    ]


async def test_before_write_is_called_before_writes_only() -> None:
    """Also before a second attempt: much may have happened in between."""
    allowed = iter([True, False])

    def guard() -> None:
        if not next(allowed):
            raise errors.LeadershipLost("not any more")

    bench = Bench(BUSY, ok(), before_write=guard)
    with pytest.raises(errors.LeadershipLost):
        await bench.run(ONCE(bench.client))
    assert len(bench.requests) == 1
    await READ(bench.client)


async def test_the_rate_limit_is_shared_by_all_calls() -> None:
    """Two a second, also for a client that behaves otherwise but shares the connections."""
    clock = VirtualClock()
    transport = ScriptedTransport(*[ok()] * 6)
    client = Client(transport, clock=clock, limiter=TokenBucket(2, 2, clock))
    calls = [READ(client if n % 2 else client.using(timeout=1.0)) for n in range(6)]
    task = asyncio.gather(*calls)
    await clock.advance(0.4)
    assert len(transport.requests) == 2
    await clock.advance(1.6)
    await task
    assert [r.timeout for r in transport.requests[:2]] == [1.0, 30.0]


async def test_urgent_calls_skip_the_rate_limit() -> None:
    """The renewal of a lease must not stand in line behind a thousand patches."""
    clock = VirtualClock()
    transport = ScriptedTransport(ok(), ok())
    client = Client(transport, clock=clock, limiter=TokenBucket(0.001, 1, clock))
    await READ(client)
    await READ(client.using(urgent=True))
    assert [request.urgent for request in transport.requests] == [False, True]


async def test_closing_closes_the_connections() -> None:
    """`async with` does it."""
    bench = Bench()
    async with bench.client:
        assert not bench.transport.closed
    assert bench.transport.closed


def dated(code: int, date: str) -> Response:
    """An answer with a Date header."""
    return answer(code, POD, {"Date": date})


async def test_every_answer_updates_the_server_time_of_all_derived_clients() -> None:
    """Answers of all statuses, and the opening of a watch; the clocks here start at midnight."""
    at = "Thu, 01 Jan 2026 0{}:00:00 GMT"
    bench = Bench(dated(200, at.format(1)), dated(404, at.format(2)), dated(200, at.format(3)), retry=NO_RETRIES)
    derived = bench.client.using(urgent=True)
    offsets = []
    await derived.get(Pod, "web", namespace="prod")
    offsets.append(bench.client.server_time.offset)
    with pytest.raises(errors.NotFound):
        await bench.client.get(Pod, "web", namespace="prod")
    offsets.append(derived.server_time.offset)
    async with derived.watch(Pod, resource_version="1"):
        offsets.append(bench.client.server_time.offset)
    assert offsets == [pytest.approx(hours * 3600, abs=1) for hours in (1, 2, 3)]
