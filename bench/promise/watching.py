"""Our own watches of the pods and events of a namespace, apart from Trimtab's."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from bench.promise.comparison import COST, JSON, is_active, is_ready
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError
from trimtab.kube.resources import Resource, untyped

PODS = untyped("v1", "Pod", "pods")
EVENTS = untyped("v1", "Event", "events")
APP = "app"
"""The label that says which workload a pod belongs to."""

_STOCK_REASONS = frozenset({"ScalingReplicaSet", "SuccessfulCreate", "SuccessfulDelete"})
"""Reasons of events by which upstream's controllers report every size change."""


Handle = Callable[[str, JSON], None]
"""Gets the type of each change (`MODIFIED`, `DELETED` and so on) and the object."""


@asynccontextmanager
async def following(client: Client, kind: Resource[JSON], namespace: str, handle: Handle) -> AsyncIterator[None]:
    """Watch a kind for as long as the context lasts; all that is there has been handled when it begins."""
    synced = asyncio.Event()
    task = asyncio.create_task(_follow(client, kind, namespace, handle, synced))
    try:
        await synced.wait()
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _follow(client: Client, kind: Resource[JSON], namespace: str, handle: Handle, synced: asyncio.Event) -> None:
    """List a kind, then watch it until cancelled."""
    known: dict[str, JSON] = {}
    while True:
        try:
            page = await client.list(kind, namespace=namespace)
            _relist(known, page.items, handle)
            synced.set()
            await _watch(client, kind, namespace, page.resource_version, known, handle)
        except ApiError:
            await asyncio.sleep(0.2)


def _relist(known: dict[str, JSON], items: tuple[JSON, ...], handle: Handle) -> None:
    current = {item["metadata"]["uid"]: item for item in items}
    for uid in known.keys() - current.keys():
        handle("DELETED", known.pop(uid))
    for uid, item in current.items():
        if uid not in known or known[uid]["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            known[uid] = item
            handle("MODIFIED", item)


async def _watch(
    client: Client,
    kind: Resource[JSON],
    namespace: str,
    version: str,
    known: dict[str, JSON],
    handle: Handle,
) -> None:
    while True:
        async with client.watch(kind, namespace=namespace, resource_version=version) as changes:
            async for change in changes:
                version = change.resource_version or version
                if change.object is None:
                    continue
                known[change.object["metadata"]["uid"]] = change.object
                if change.type == "DELETED":
                    known.pop(change.object["metadata"]["uid"])
                handle(change.type, change.object)


@dataclass(frozen=True, slots=True)
class CostWrite:
    """A cost that appeared on a pod, or changed. `at` is our monotonic time."""

    at: float
    app: str
    pod: str
    cost: str


@dataclass(frozen=True, slots=True)
class PodUpdate:
    """Any change of a pod, and the top-level fields that changed."""

    at: float
    app: str
    pod: str
    fields: tuple[str, ...]


@dataclass
class PodWatch:
    """The pods of a namespace by workload, and what was written to them."""

    pods: dict[str, dict[str, JSON]] = field(default_factory=lambda: defaultdict(dict))
    """The pods that exist, by workload and name."""
    cost_writes: list[CostWrite] = field(default_factory=list)
    updates: list[PodUpdate] = field(default_factory=list)
    readiness_losses: list[PodUpdate] = field(default_factory=list)
    """Updates by which a pod became unready without being deleted."""

    def handle(self, change: str, pod: JSON) -> None:
        """Take a change in."""
        pod["metadata"].pop("managedFields", None)
        app, name = pod["metadata"].get("labels", {}).get(APP, ""), pod["metadata"]["name"]
        old = self.pods[app].get(name)
        if change == "DELETED":
            self.pods[app].pop(name, None)
            return
        self.pods[app][name] = pod
        if old is not None:
            self._record_update(app, old, pod)

    def active(self, app: str) -> list[JSON]:
        """The pods of a workload that are neither finished nor being deleted."""
        return [pod for pod in self.pods[app].values() if is_active(pod)]

    def _record_update(self, app: str, old: JSON, new: JSON) -> None:
        now, name = time.monotonic(), new["metadata"]["name"]
        self.updates.append(PodUpdate(now, app, name, _changed_fields(old, new)))
        if is_ready(old) and not is_ready(new) and is_active(new):
            self.readiness_losses.append(self.updates[-1])
        before, after = (pod["metadata"].get("annotations", {}).get(COST) for pod in (old, new))
        if after is not None and after != before:
            self.cost_writes.append(CostWrite(now, app, name, after))


@dataclass(frozen=True, slots=True)
class EventSeen:
    """An event on a workload, or one more occurrence of it. `at` is our monotonic time."""

    at: float
    app: str
    reason: str
    message: str
    source: str


@dataclass
class EventWatch:
    """The events on workloads of a namespace, without those by which upstream reports every size change."""

    seen: list[EventSeen] = field(default_factory=list)

    def handle(self, change: str, event: JSON) -> None:
        """Take a change in."""
        about = event.get("involvedObject", {})
        if change == "DELETED" or about.get("kind") == "Pod" or event.get("reason") in _STOCK_REASONS:
            return
        source = event.get("reportingComponent") or event.get("source", {}).get("component", "")
        self.seen.append(
            EventSeen(
                time.monotonic(), about.get("name", ""), event.get("reason", ""), event.get("message", ""), source
            )
        )


def _changed_fields(old: JSON, new: JSON) -> tuple[str, ...]:
    """What changed: `annotations`, `labels`, `status` and so on."""
    parts = [f"metadata.{each}" for each in ("annotations", "labels", "deletionTimestamp", "ownerReferences")]
    changed = [
        part
        for part, name in zip(parts, ("annotations", "labels", "deletionTimestamp", "ownerReferences"), strict=True)
        if old["metadata"].get(name) != new["metadata"].get(name)
    ]
    return (*changed, *(part for part in ("spec", "status") if old.get(part) != new.get(part)))
