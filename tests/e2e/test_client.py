"""The client against a control plane, the lab's or the one that KUBECONFIG names: what it relies on and promises.

Every test works in a namespace of its own and needs no nodes and no kubelets: an API server is enough, except where a
test says which controller it waits for, and is skipped where that is known to be absent.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from tests.e2e.absences import DISRUPTION_CONTROLLER, STREAMING_LISTS, skip_without
from trimtab.api.apps import Deployment
from trimtab.api.core import Event, Namespace
from trimtab.api.documents import JSON
from trimtab.api.leases import Lease
from trimtab.api.meta import ObjectReference
from trimtab.api.pods import Pod
from trimtab.api.policy import PodDisruptionBudget
from trimtab.kube import config, errors
from trimtab.kube.client import Client, Observation, PatchKind
from trimtab.kube.clocks import cancel
from trimtab.kube.events import NORMAL, Recorder
from trimtab.kube.informers import Informer
from trimtab.kube.leases import Elector, LeaseTimings
from trimtab.kube.resources import Resource, object_key, untyped
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.sessions import AiohttpStream, Session
from trimtab.kube.transport import Request, Response, Stream
from trimtab.kube.watches import WatchEvent

pytestmark = pytest.mark.e2e

CONFIG_MAPS = untyped("v1", "ConfigMap", "configmaps")
PATIENCE = 30.0


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A namespace that is deleted after the test."""
    name = f"trimtab-e2e-{uuid.uuid4().hex[:10]}"
    await client.create(Namespace, {"metadata": {"name": name}})
    await _service_account(client, name)
    yield name
    await client.delete(Namespace, name)


async def _service_account(client: Client, namespace: str) -> None:
    """Pods are admitted once their namespace has a service account; where no controller makes it, we do."""
    accounts = untyped("v1", "ServiceAccount", "serviceaccounts")
    with suppress(errors.AlreadyExists):
        await client.create(accounts, {"metadata": {"name": "default"}}, namespace=namespace)


def config_map(name: str, **data: str) -> JSON:
    """A config map."""
    return {"metadata": {"name": name}, "data": data}


def pod(name: str, **labels: str) -> JSON:
    """A pod that is not scheduled."""
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedulerName": "nobody",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.com/app:1"}],
        },
    }


def deployment(name: str) -> JSON:
    """A deployment without pods."""
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]},
            },
        },
    }


async def collect(events: AsyncIterator[WatchEvent[Any]], count: int) -> list[tuple[str, str]]:
    """The next changes: their types, and the names of their objects. Bookmarks are passed over."""
    seen: list[tuple[str, str]] = []
    async with asyncio.timeout(PATIENCE):
        while len(seen) < count:
            event = await anext(events)
            if event.object is not None:
                seen.append((event.type, event.object["metadata"]["name"]))
    return seen


async def test_an_object_from_its_creation_to_its_end(client: Client, namespace: str) -> None:
    """Create, read, change, delete; what is not there is NotFound, what is there AlreadyExists."""
    made = await client.create(CONFIG_MAPS, config_map("a", x="1"), namespace=namespace)
    assert (await client.get(CONFIG_MAPS, "a", namespace=namespace))["data"] == {"x": "1"}
    with pytest.raises(errors.AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
    changed = await client.replace(CONFIG_MAPS, {**made, "data": {"x": "2"}})
    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    await client.delete(CONFIG_MAPS, "a", namespace=namespace)
    with pytest.raises(errors.NotFound) as caught:
        await client.get(CONFIG_MAPS, "a", namespace=namespace)
    assert caught.value.details is not None
    assert (caught.value.details.kind, caught.value.details.name) == ("configmaps", "a")


async def test_an_old_version_and_a_wrong_identity_are_conflicts(client: Client, namespace: str) -> None:
    """Nothing is overwritten or deleted that is not what was meant."""
    made = await client.create(CONFIG_MAPS, config_map("a", x="1"), namespace=namespace)
    await client.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, namespace=namespace)
    with pytest.raises(errors.Conflict):
        await client.replace(CONFIG_MAPS, made)
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"x": "3"}}
    with pytest.raises(errors.Conflict):
        await client.patch(CONFIG_MAPS, "a", stale, namespace=namespace)
    with pytest.raises(errors.Conflict):
        await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid="somebody-else")
    version = made["metadata"]["resourceVersion"]
    with pytest.raises(errors.Conflict):
        await client.delete(CONFIG_MAPS, "a", namespace=namespace, resource_version=version)
    await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid=made["metadata"]["uid"])


async def test_invalid_fields_are_listed(client: Client, namespace: str) -> None:
    """An Invalid has its causes, and a request that makes no sense is a BadRequest."""
    with pytest.raises(errors.Invalid) as caught:
        await client.create(Pod, {"metadata": {"name": "a"}, "spec": {"containers": []}}, namespace=namespace)
    assert [cause.field for cause in caught.value.causes] == ["spec.containers"]
    with pytest.raises(errors.BadRequest):
        await client.create(CONFIG_MAPS, b"{not json", namespace=namespace)
    with pytest.raises(errors.BadRequest):
        await client.list(CONFIG_MAPS, namespace=namespace, label_selector="a in b")
    with pytest.raises(errors.UnsupportedMediaType):
        await client.call("PATCH", CONFIG_MAPS.object("a", namespace), body=b"{}", content_type="application/nonsense")
    with pytest.raises(errors.MethodNotAllowed):
        await client.call("DELETE", "/api/v1/namespaces", body=b"{}")
    with pytest.raises(errors.NotFound):
        await client.call("GET", "/apis/nobody.example.com/v1/things")


async def test_field_validation_refuses_or_warns(client: Client, namespace: str) -> None:
    """Strict, and the default, which is to warn."""
    heard: list[str] = []
    odd = {**config_map("a"), "colour": "blue"}
    with pytest.raises(errors.BadRequest, match="colour"):
        await client.create(CONFIG_MAPS, odd, namespace=namespace, field_validation="Strict")
    await client.using(on_warning=heard.append).create(CONFIG_MAPS, odd, namespace=namespace, field_validation="Warn")
    assert len(heard) == 1
    assert "colour" in heard[0]


async def test_a_dry_run_changes_nothing(client: Client, namespace: str) -> None:
    """Neither creating, nor patching, nor deleting."""
    await client.create(CONFIG_MAPS, config_map("ghost"), namespace=namespace, dry_run=True)
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, "ghost", namespace=namespace)
    made = await client.create(CONFIG_MAPS, config_map("a", x="1"), namespace=namespace)
    seen = await client.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, namespace=namespace, dry_run=True)
    assert seen["data"] == {"x": "2"}
    await client.delete(CONFIG_MAPS, "a", namespace=namespace, dry_run=True)
    assert await client.get(CONFIG_MAPS, "a", namespace=namespace) == made


async def test_a_paged_list_is_consistent(client: Client, namespace: str) -> None:
    """What comes while it is read is not in it; selectors choose."""
    for n in range(7):
        body = config_map(f"c{n}")
        body["metadata"]["labels"] = {"parity": "odd" if n % 2 else "even"}
        await client.create(CONFIG_MAPS, body, namespace=namespace)
    parts: list[list[str]] = []
    async for part in client.pages(CONFIG_MAPS, namespace=namespace, limit=3, label_selector="parity"):
        parts.append([item["metadata"]["name"] for item in part.items])
        late = config_map(f"late{len(parts)}")
        late["metadata"]["labels"] = {"parity": "late"}
        await client.create(CONFIG_MAPS, late, namespace=namespace)
    assert parts == [["c0", "c1", "c2"], ["c3", "c4", "c5"], ["c6"]]
    odd = await client.list(CONFIG_MAPS, namespace=namespace, limit=2, label_selector="parity=odd")
    assert [item["metadata"]["name"] for item in odd.items] == ["c1", "c3", "c5"]
    one = await client.list(CONFIG_MAPS, namespace=namespace, field_selector="metadata.name=c4")
    assert len(one.items) == 1


async def test_a_watch_resumes_where_it_was(client: Client, namespace: str) -> None:
    """Nothing twice, nothing lost, and what happened in between comes first."""
    listed = await client.list(CONFIG_MAPS, namespace=namespace, label_selector="watched")

    async def make(name: str) -> None:
        body = config_map(name)
        body["metadata"]["labels"] = {"watched": "yes"}
        await client.create(CONFIG_MAPS, body, namespace=namespace)

    scope: dict[str, Any] = {"namespace": namespace, "label_selector": "watched"}
    async with client.watch(CONFIG_MAPS, resource_version=listed.resource_version, **scope) as events:
        await make("a")
        await make("b")
        assert await collect(events, 2) == [("ADDED", "a"), ("ADDED", "b")]
    last = (await client.get(CONFIG_MAPS, "b", namespace=namespace))["metadata"]["resourceVersion"]
    await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace=namespace)
    await client.delete(CONFIG_MAPS, "b", namespace=namespace)
    async with client.watch(CONFIG_MAPS, resource_version=last, **scope) as events:
        assert await collect(events, 2) == [("MODIFIED", "a"), ("DELETED", "b")]
        unlabelled = {"metadata": {"labels": {"watched": None}}}
        await client.patch(CONFIG_MAPS, "a", unlabelled, namespace=namespace)
        assert await collect(events, 1) == [("DELETED", "a")]


async def test_a_watch_ends_after_its_timeout(client: Client, namespace: str) -> None:
    """The end is clean, and no error."""
    listed = await client.list(CONFIG_MAPS, namespace=namespace)
    version = listed.resource_version
    async with client.watch(CONFIG_MAPS, resource_version=version, namespace=namespace, timeout_seconds=1) as events:
        async with asyncio.timeout(PATIENCE):
            assert [event.type async for event in events if event.object is not None] == []


async def test_each_kind_of_patch(client: Client, namespace: str) -> None:
    """JSON, merge and strategic change what they say; strategic knows list elements by their keys."""
    await client.create(Deployment, deployment("d"), namespace=namespace)
    raw = Resource.of(Deployment).raw
    steps = [{"op": "test", "path": "/spec/replicas", "value": 0}, {"op": "add", "path": "/spec/paused", "value": True}]
    patched = await client.patch(raw, "d", steps, how=PatchKind.JSON, namespace=namespace)
    assert patched["spec"]["paused"] is True
    steps = [{"op": "test", "path": "/spec/replicas", "value": 5}]
    with pytest.raises(errors.Invalid):
        await client.patch(raw, "d", steps, how=PatchKind.JSON, namespace=namespace)
    patched = await client.patch(raw, "d", {"spec": {"paused": None}}, how=PatchKind.MERGE, namespace=namespace)
    assert "paused" not in patched["spec"]
    sidecar = {"name": "side", "image": "example.com/side:1"}
    patch = {"spec": {"template": {"spec": {"containers": [sidecar]}}}}
    patched = await client.patch(raw, "d", patch, how=PatchKind.STRATEGIC, namespace=namespace)
    assert sorted(c["name"] for c in patched["spec"]["template"]["spec"]["containers"]) == ["main", "side"]


async def test_apply(client: Client, namespace: str) -> None:
    """Server-side apply creates, and another manager's field is a conflict unless it is taken by force."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    apply: dict[str, Any] = {"how": PatchKind.APPLY, "namespace": namespace}
    try:
        await client.patch(CONFIG_MAPS, "a", body, **apply)
    except errors.UnsupportedMediaType as error:
        pytest.skip(f"this control plane has no server-side apply: {error.message}")
    other = client.using(field_manager="other")
    with pytest.raises(errors.Conflict):
        await other.patch(CONFIG_MAPS, "a", {**body, "data": {"x": "2"}}, **apply)
    taken = await other.patch(CONFIG_MAPS, "a", {**body, "data": {"x": "2"}}, force=True, **apply)
    assert taken["data"] == {"x": "2"}


async def test_scale(client: Client, namespace: str) -> None:
    """The scale subresource is read and set, and a stale resourceVersion is a conflict."""
    await client.create(Deployment, deployment("d"), namespace=namespace)
    scale = await client.scale(Deployment, "d", namespace=namespace)
    assert (scale.spec.replicas, scale.status.selector) == (0, "app=d")
    version = scale.metadata.resource_version
    resized = await client.resize(Deployment, "d", 2, namespace=namespace, dry_run=True)
    assert resized.spec.replicas == 2
    assert (await client.scale(Deployment, "d", namespace=namespace)).spec.replicas == 0
    await client.patch(Deployment, "d", {"metadata": {"labels": {"x": "y"}}}, namespace=namespace)
    with pytest.raises(errors.Conflict):
        await client.resize(Deployment, "d", 2, namespace=namespace, resource_version=version)
    assert (await client.resize(Deployment, "d", 0, namespace=namespace)).spec.replicas == 0


async def test_binding(client: Client, namespace: str) -> None:
    """A pod is put on a node once; the second time is a conflict, and so is another pod of that name."""
    made = await client.create(Pod, pod("a"), namespace=namespace)
    with pytest.raises(errors.Conflict):
        await client.bind("a", namespace=namespace, node="n1", uid="somebody-else")
    await client.bind("a", namespace=namespace, node="n1", uid=made.metadata.uid)
    bound = await client.get(Pod, "a", namespace=namespace)
    assert bound.spec.node_name == "n1"
    condition = bound.status.condition("PodScheduled")
    assert condition is not None
    assert condition.status == "True"
    with pytest.raises(errors.Conflict):
        await client.bind("a", namespace=namespace, node="n2")


async def test_eviction(client: Client, namespace: str) -> None:
    """Without a budget a pod is evicted; a dry run keeps it."""
    await client.create(Pod, pod("a"), namespace=namespace)
    await client.evict("a", namespace=namespace, dry_run=True)
    await client.get(Pod, "a", namespace=namespace)
    await client.evict("a", namespace=namespace)
    with pytest.raises(errors.NotFound):
        await client.get(Pod, "a", namespace=namespace)


async def test_eviction_that_a_budget_refuses(client: Client, namespace: str) -> None:
    """It raises TooManyRequests with by_budget, and is not retried. Needs the disruption controller."""
    skip_without(DISRUPTION_CONTROLLER)
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }
    await client.create(PodDisruptionBudget, budget, namespace=namespace)
    await client.create(Pod, pod("a", app="a"), namespace=namespace)
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(Pod, "a", ready, namespace=namespace, subresource="status")
    budgets = Informer(client, PodDisruptionBudget, namespace=namespace)
    task = asyncio.create_task(budgets.run())
    try:
        async with asyncio.timeout(60):
            await budgets.wait_for(lambda store: any(b.status.current_healthy == 1 for b in store))
    finally:
        await cancel(task)
    attempts: list[Observation] = []
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.using(on_attempt=attempts.append).evict("a", namespace=namespace)
    assert caught.value.by_budget
    assert len(attempts) == 1
    assert (await client.get(Pod, "a", namespace=namespace)).active


async def test_deleting_many(client: Client, namespace: str) -> None:
    """Those that match, and no others."""
    for n in range(4):
        body = config_map(f"c{n}")
        body["metadata"]["labels"] = {"group": "a" if n < 3 else "b"}
        await client.create(CONFIG_MAPS, body, namespace=namespace)
    await client.delete_all(CONFIG_MAPS, namespace=namespace, label_selector="group=a", dry_run=True)
    await client.delete_all(CONFIG_MAPS, namespace=namespace, label_selector="group=a")
    left = await client.list(CONFIG_MAPS, namespace=namespace, label_selector="group")
    assert [item["metadata"]["name"] for item in left.items] == ["c3"]


class Fragile(Session):
    """A session whose streams can be cut."""

    opened: list[Stream]

    async def stream(self, request: Request) -> AiohttpStream:
        """Open a stream, and remember it."""
        stream = await super().stream(request)
        self.opened = [*getattr(self, "opened", []), stream]
        return stream

    async def cut(self) -> None:
        """Cut all streams."""
        for stream in self.opened:
            await stream.close()


async def test_an_informer_follows_changes(client: Client, namespace: str) -> None:
    """It shows one's own writes, resumes when its connection is cut, and ends where the server is."""
    fragile = Fragile(config.discover())
    async with Client(fragile) as own:
        pods = Informer(own, Pod, namespace=namespace, page=2)
        told: list[str] = []
        pods.subscribe(
            added=lambda a_pod: told.append(f"+{a_pod.metadata.name}"),
            deleted=lambda a_pod: told.append(f"-{a_pod.metadata.name}"),
        )
        for name in "abc":
            await client.create(Pod, pod(name), namespace=namespace)
        task = asyncio.create_task(pods.run())
        async with asyncio.timeout(PATIENCE):
            await pods.wait_synced()
            written = await client.patch(Pod, "a", {"metadata": {"labels": {"x": "y"}}}, namespace=namespace)
            await pods.wait_seen(object_key(namespace, "a"), written.metadata.resource_version)
            held = pods.get(object_key(namespace, "a"))
            assert held is not None
            assert held.metadata.labels["x"] == "y"
            await fragile.cut()
            await client.delete(Pod, "b", namespace=namespace, grace_period_seconds=0)
            await client.create(Pod, pod("d"), namespace=namespace)
            await pods.wait_for(lambda store: {p.metadata.name for p in store} == {"a", "c", "d"})
        await cancel(task)
    assert told == ["+a", "+b", "+c", "-b", "+d"]
    assert len(fragile.opened) > 1


class Counting(Session):
    """A session that counts what is not a stream."""

    sent = 0

    async def send(self, request: Request) -> Response:
        """Send a request, and count it."""
        self.sent += 1
        return await super().send(request)


async def test_an_informer_lists_as_initial_events(client: Client, namespace: str) -> None:
    """The list has all objects without any page, and the watch continues it."""
    skip_without(STREAMING_LISTS)
    names = {f"p{n}" for n in range(60)}
    for name in sorted(names):
        await client.create(Pod, pod(name), namespace=namespace)
    session = Counting(config.discover())
    async with Client(session) as own:
        pods = Informer(own, Pod, namespace=namespace)
        task = asyncio.create_task(pods.run())
        async with asyncio.timeout(PATIENCE):
            await pods.wait_synced()
            assert {each.metadata.name for each in pods.store} == names
            await client.delete(Pod, "p0", namespace=namespace, grace_period_seconds=0)
            await pods.wait_for(lambda store: object_key(namespace, "p0") not in store)
        await cancel(task)
    assert session.sent == 0


async def test_leader_election(client: Client, namespace: str) -> None:
    """The second leads only after the first has released the lease."""
    timings = LeaseTimings(lease_duration=3, renew_deadline=2, retry_period=0.2)
    order: list[str] = []
    stopped = {name: asyncio.Event() for name in "ab"}

    async def lead(name: str) -> None:
        elector = Elector(client, name="lock", namespace=namespace, identity=name, timings=timings)

        async def work() -> None:
            elector.check()
            order.append(f"{name} leads")
            await stopped[name].wait()
            order.append(f"{name} stops")

        await elector.run(work)

    leases = Informer(client, Lease, namespace=namespace)
    watching = asyncio.create_task(leases.run())
    first = asyncio.create_task(lead("a"))
    async with asyncio.timeout(PATIENCE):
        await leases.wait_for(lambda store: any(lease.spec.holder_identity == "a" for lease in store))
        second = asyncio.create_task(lead("b"))
        renewed = [lease.spec.renew_time for lease in leases.store]
        await leases.wait_for(lambda store: [lease.spec.renew_time for lease in store] != renewed)
        stopped["a"].set()
        await leases.wait_for(lambda store: any(lease.spec.holder_identity == "b" for lease in store))
        stopped["b"].set()
        await asyncio.gather(first, second)
    await cancel(watching)
    assert order == ["a leads", "a stops", "b leads", "b stops"]
    lease = await client.get(Lease, "lock", namespace=namespace)
    assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("", 1)


async def test_events_are_written_and_counted(client: Client, namespace: str) -> None:
    """As kubectl describes them."""
    made = await client.create(Pod, pod("a"), namespace=namespace)
    recorder = Recorder(client, component="trimtab-e2e", instance="here")
    task = asyncio.create_task(recorder.run())
    about = ObjectReference(api_version="v1", kind="Pod", namespace=namespace, name="a", uid=made.metadata.uid)
    for _ in range(3):
        recorder.record(made, NORMAL, "Kept", "kept 7/7/6", action="ScaleDown")
    recorder.record(about, NORMAL, "Other", "something else")
    async with asyncio.timeout(PATIENCE):
        await recorder.flush()
    await cancel(task)
    listed = await client.list(Event, namespace=namespace, field_selector="involvedObject.name=a,source=trimtab-e2e")
    assert {(event.reason, event.message, event.count) for event in listed.items} == {
        ("Kept", "kept 7/7/6", 3),
        ("Other", "something else", 1),
    }


async def test_failing_calls_are_not_retried_forever(client: Client) -> None:
    """An unknown path is requested once."""
    attempts: list[Observation] = []
    with pytest.raises(errors.NotFound):
        await client.using(on_attempt=attempts.append).call("GET", "/nowhere")
    with pytest.raises(errors.NotFound):
        await client.using(on_attempt=attempts.append, retry=NO_RETRIES).call("GET", "/nowhere")
    assert [attempt.status for attempt in attempts] == [404, 404]
