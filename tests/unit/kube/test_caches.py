"""Caches of a process: one watch for each kind, and nothing left behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.kube.chaos import PODS
from tests.unit.kube.fakes import FakeServer, failure, pod_tree
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.kube.caches import Cache, Caches
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.resources import Key
from trimtab.kube.stores import by_namespace
from trimtab.snapshot import Snapshot
from trimtab.testing.clocks import VirtualClock


class Stage:
    """A server, and the caches of a process."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock, random.Random(1))
        client = Client(self.server, clock=self.clock, rng=random.Random(1))
        self.caches: Caches[Snapshot] = Caches(client, Snapshot(), (Pod,), rng=random.Random(1))

    def put(self, name: str, node: str = "") -> None:
        """A pod appears or changes."""
        self.server.put(*PODS, pod_tree(name, node=node))

    def put_many(self, count: int) -> None:
        """So many pods appear: p000, p001, …"""
        for number in range(count):
            self.put(f"p{number:03}")

    def lists(self, plural: str = "pods") -> int:
        """How often a kind was listed."""
        requests = [each for each in self.server.requests if each.path.endswith(f"/{plural}")]
        return sum("watch" not in dict(each.params) for each in requests)

    @asynccontextmanager
    async def running(self, *caches: Cache[Any]) -> AsyncIterator[None]:
        """While these caches run."""
        tasks = [asyncio.ensure_future(each.run()) for each in caches]
        try:
            await self.clock.advance(0)
            yield
            assert not any(task.done() for task in tasks)
        finally:
            await cancel(*tasks)


def by_node(pod: Pod) -> Iterable[str]:
    """An index of pods by node."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


async def test_components_share_one_watch_and_one_store() -> None:
    """Each with its own handlers and indexes."""
    stage = Stage()
    stage.put("a", node="n1")
    first, second = stage.caches.open(Pod, {"node": by_node}), stage.caches.open(Pod, {"namespace": by_namespace})
    added: list[str] = []
    async with stage.running(first, second):
        second.subscribe(added=lambda pod: added.append(pod.metadata.name))
        stage.put("b")
        await stage.clock.advance(0)
        assert (stage.lists(), stage.server.watchers) == (1, 1)
        assert first.store is second.store
        assert [pod.metadata.name for pod in first.store.by("node", "n1")] == ["a"]
        assert len(second.store.by("namespace", "default")) == 2
    assert added == ["a", "b"]


async def test_another_scope_is_another_watch() -> None:
    """A cache of one namespace, or of some pods, never has the objects of another scope."""
    stage = Stage()
    stage.put("a")
    every, some = stage.caches.open(Pod), stage.caches.open(Pod, namespace="elsewhere")
    async with stage.running(every, some):
        assert stage.server.watchers == 2
        assert (len(every.store), len(some.store)) == (1, 0)
    assert stage.caches.snapshot.pod("default/a") is not None


async def test_a_watch_runs_while_any_of_its_caches_does() -> None:
    """Whichever ends first."""
    stage = Stage()
    first, second = stage.caches.open(Pod), stage.caches.open(Pod)
    async with stage.running(second):
        async with stage.running(first):
            pass
        stage.put("a")
        await stage.clock.advance(0)
        assert second.get(Key("default/a")) is not None
    stage.put("b")
    await stage.clock.advance(0)
    assert second.get(Key("default/b")) is None


def test_the_name_of_an_index_stands_for_one_function() -> None:
    """Otherwise one component would read what another computes."""
    stage = Stage()
    stage.caches.open(Pod, {"node": by_node})
    with pytest.raises(ValueError, match="another index 'node' of Pod"):
        stage.caches.open(Pod, {"namespace": by_namespace, "node": by_namespace})
    stage.caches.open(Pod, {"namespace": by_namespace})


async def test_an_index_is_added_to_a_filled_store_and_removed_with_its_last_user() -> None:
    """A component that is created later finds what was listed before."""
    stage = Stage()
    stage.put("a", node="n1")
    kept = stage.caches.open(Pod)
    async with stage.running(kept):
        one, other = stage.caches.scope(), stage.caches.scope()
        late = one.open(Pod, {"node": by_node})
        other.open(Pod, {"node": by_node})
        assert [pod.metadata.name for pod in late.store.by("node", "n1")] == ["a"]
        one.close()
        assert len(kept.store.by("node", "n1")) == 1
        other.close()
        with pytest.raises(KeyError):
            kept.store.by("node", "n1")


async def test_an_object_that_an_added_index_cannot_read_is_reported_and_stays() -> None:
    """The others are indexed, and its next version too."""
    stage = Stage()
    stage.put("a", node="bad")
    stage.put("b", node="n1")
    kept = stage.caches.open(Pod)

    def picky(pod: Pod) -> Iterable[str]:
        if pod.spec.node_name == "bad":
            raise ValueError("this node")
        return by_node(pod)

    async with stage.running(kept):
        late = stage.caches.open(Pod, {"node": picky})
        assert [str(each.about.name) for each in stage.caches.client.unreadable.current] == ["a"]
        assert kept.get(Key("default/a")) is not None
        stage.put("a", node="n1")
        await stage.clock.advance(0)
        assert len(late.store.by("node", "n1")) == 2
        assert not stage.caches.client.unreadable.current


async def test_a_closed_scope_leaves_no_handler_behind() -> None:
    """A leader-elected component is created anew in each term; the watch of the process goes on."""
    stage = Stage()
    kept = stage.caches.open(Pod)
    calls: list[str] = []
    async with stage.running(kept):
        scope = stage.caches.scope()
        scope.open(Pod).subscribe(added=lambda pod: calls.append(pod.metadata.name))
        stage.put("a")
        await stage.clock.advance(0)
        scope.close()
        scope.close()
        stage.put("b")
        await stage.clock.advance(0)
        assert stage.server.watchers == 1
    assert calls == ["a"]


async def test_the_snapshot_is_current_when_handlers_are_called() -> None:
    """Whatever order components subscribe in: no handler sees a store that is newer than the snapshot."""
    stage = Stage()
    seen: list[tuple[str, bool]] = []
    snapshot = stage.caches.snapshot

    def is_there(pod: Pod) -> bool:
        known = snapshot.pod(pod.key)
        return known is not None and known.spec.node_name == pod.spec.node_name

    cache = stage.caches.open(Pod)
    cache.subscribe(
        added=lambda pod: seen.append(("added", is_there(pod))),
        updated=lambda _, new: seen.append(("updated", is_there(new))),
        deleted=lambda old: seen.append(("deleted", snapshot.pod(old.key) is None)),
    )
    async with stage.running(cache):
        stage.put("a")
        stage.put("a", node="n1")
        stage.server.drop(*PODS, "default/a")
        await stage.clock.advance(0)
    assert seen == [("added", True), ("updated", True), ("deleted", True)]


async def test_what_no_cache_uses_leaves_the_snapshot() -> None:
    """Its changes are not watched any longer."""
    stage = Stage()
    stage.put("a")
    scope = stage.caches.scope()
    async with stage.running(scope.open(Pod)):
        assert stage.caches.snapshot.pod("default/a") is not None
    scope.close()
    assert stage.caches.snapshot.pod("default/a") is None
    stage.server.drop(*PODS, "default/a")
    async with stage.running(stage.caches.open(Pod)):
        assert stage.caches.snapshot.pod("default/a") is None


async def test_a_term_waits_for_a_list_that_began_in_it() -> None:
    """Another process may have written what the watch of this one does not show yet."""
    stage = Stage()
    kept = stage.caches.open(Pod)
    async with stage.running(kept):
        stage.server._watchers.clear()  # noqa: SLF001 - the watch shows nothing any more
        stage.put("written-by-the-former-leader")
        await stage.clock.advance(0)
        assert len(kept.store) == 0
        term = stage.caches.term()
        first, second = term.open(Pod), term.open(Pod)
        assert (kept.synced, first.synced, second.synced) == (True, False, False)
        async with stage.running(first, second):
            await first.wait_synced()
            await second.wait_synced()
            assert len(first.store) == 1
            assert term.open(Pod).synced
            assert stage.lists() == 2
        term.close()
    assert stage.caches.open(Pod).synced


async def test_a_kind_that_was_not_installed_is_asked_for_again_when_a_cache_is_opened() -> None:
    """Its informer may wait for half a minute until it asks by itself."""
    stage = Stage()
    stage.server.intercept = lambda request: failure(404, "NotFound") if "clonesets" in request.path else None
    first = stage.caches.open(CloneSet)
    async with stage.running(first):
        await stage.clock.advance(60)
        assert (first.is_known, first.synced) == (True, False)
        asked = stage.lists("clonesets")
        stage.server.intercept = None
        second = stage.caches.open(CloneSet)
        assert not second.is_known
        await stage.clock.advance(0)
        assert (first.synced, second.synced, stage.lists("clonesets")) == (True, True, asked + 1)


async def test_an_informer_that_fails_ends_everything_that_runs_it() -> None:
    """It never should; a component that does not notice would decide on a cache that stands still."""
    stage = Stage()
    first, second = stage.caches.open(Pod), stage.caches.open(Pod)

    async def broken() -> None:
        raise KeyError("zone")

    first.informer.run = broken  # type: ignore[method-assign]  # nothing that a server sends ends it
    results = await asyncio.gather(first.run(), second.run(), return_exceptions=True)
    assert [str(each) for each in results] == ["'zone'", "'zone'"]


async def test_a_process_has_one_pool_of_the_parts_of_pods() -> None:
    """The caches of all its parts share it with the snapshot."""
    stage = Stage()
    assert stage.caches.pool is stage.caches.snapshot.pool is stage.caches.term().pool
    apart = Caches(stage.caches.client, None)
    assert apart.pool is apart.scope().pool
    stage.put("a")
    stage.put("b")
    cache = stage.caches.open(Pod)
    async with stage.running(cache):
        assert len(stage.caches.pool) == 1


@pytest.mark.parametrize("change", ["nothing", "update", "delete", "replace"])
async def test_a_late_handler_is_told_of_many_objects_in_parts(change: str) -> None:
    """Other tasks run in between; what happens to an object meanwhile is reported once, as the handler must see it."""
    stage, seen = Stage(), list[tuple[str, str]]()
    stage.put_many(250)
    first = stage.caches.open(Pod)
    async with stage.running(first):
        late = stage.caches.open(Pod)
        late.subscribe(
            added=lambda pod: seen.append(("added", pod.metadata.name)),
            updated=lambda _, pod: seen.append(("updated", pod.metadata.name)),
            deleted=lambda pod: seen.append(("deleted", pod.metadata.name)),
        )
        assert seen == []
        for name in ("p000", "p249"):
            if change in ("delete", "replace"):
                stage.server.drop(*PODS, f"default/{name}")
            if change in ("update", "replace"):
                stage.put(name, node="n1")
        await asyncio.sleep(0)
        assert 0 < len(seen) < 250, "other tasks run in between"
        await late.wait_reported()
        await stage.clock.advance(0)
    told = {f"p{number:03}": [kind for kind, name in seen if name == f"p{number:03}"] for number in range(250)}
    assert all(kinds == ["added"] for name, kinds in told.items() if name not in ("p000", "p249"))
    possible = {
        "nothing": [["added"]],
        "update": [["added"], ["added", "updated"]],
        "delete": [[], ["added", "deleted"]],
        "replace": [["added"], ["added", "deleted", "added"]],
    }
    assert told["p000"] in possible[change]
    assert told["p249"] in possible[change]


async def test_a_cache_stays_synced_while_a_late_handler_is_told() -> None:
    """Its store is complete: requests that need only that are decided."""
    stage = Stage()
    stage.put_many(250)
    cache = stage.caches.open(Pod)
    async with stage.running(cache):
        cache.subscribe(added=lambda _: None)
        assert cache.synced
        await cache.wait_reported()


async def test_a_handler_that_leaves_is_told_nothing_more() -> None:
    """A component may end while it is told of what there is."""
    stage, seen = Stage(), list[str]()
    stage.put_many(250)
    first = stage.caches.open(Pod)
    async with stage.running(first):
        late = stage.caches.scope()
        late.open(Pod).subscribe(added=lambda pod: seen.append(pod.metadata.name))
        await asyncio.sleep(0)
        late.close()
        told = len(seen)
        await stage.clock.advance(0)
    assert 0 < told == len(seen) < 250


async def test_a_late_handler_may_take_objects_together() -> None:
    """As those that are listed together."""
    stage, seen = Stage(), list[int]()
    stage.put_many(250)
    first = stage.caches.open(Pod)
    async with stage.running(first):
        late = stage.caches.open(Pod)
        late.subscribe(added=lambda _: seen.append(1), added_all=lambda pods: seen.append(len(pods)))
        await late.wait_reported()
    assert seen == [100, 100, 50]


async def test_late_handlers_are_told_one_part_at_a_time() -> None:
    """However many there are: a component has several, and subscribes them all at once."""
    stage, told, most = Stage(), 0, 0

    def tell(_: Pod) -> None:
        nonlocal told
        told += 1

    stage.put_many(250)
    first = stage.caches.open(Pod)
    async with stage.running(first):
        late = stage.caches.open(Pod)
        for _ in range(5):
            late.subscribe(added=tell)
        while told < 5 * 250:
            before = told
            await asyncio.sleep(0)
            most = max(most, told - before)
    assert most == 100
