"""Informers: the server's state, exactly, whatever happens on the way."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tests.unit.kube.chaos import PODS, TROUBLE, churn
from tests.unit.kube.fakes import FakeServer, Misbehaviour, failure, pod_tree
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel, within
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Key
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.stores import Store
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import VirtualClock

CLONES = ("/apis/apps.kruise.io/v1alpha1", "clonesets")


@dataclass
class Diary:
    """The calls of a handler, and the state that follows from them.

    An informer logs what a handler raises and goes on; so what is wrong is noted, and read at the end.
    """

    believes_backups: bool = False
    told: list[str] = field(default_factory=list)
    world: dict[str, Pod] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def added(self, pod: Pod) -> None:
        """A pod that was not there before."""
        self._expect(pod.key not in self.world, f"{pod.key} was added twice")
        self.world[pod.key] = pod
        self.told.append(f"+{pod.metadata.name}")

    def updated(self, old: Pod, new: Pod) -> None:
        """A pod that was there, exactly so, and is now newer."""
        self._expect(self.world.get(old.key) is old, f"{old.key}: told of a change of something else than was there")
        is_newer = int(new.metadata.resource_version) > int(old.metadata.resource_version)
        self._expect(self.believes_backups or is_newer, f"{new.key} became older")
        self._expect(new.metadata.uid == old.metadata.uid, f"{new.key} became another object")
        self.world[new.key] = new
        self.told.append(f"~{new.metadata.name}")

    def deleted(self, pod: Pod) -> None:
        """A pod that was there and is not any more."""
        known = self.world.pop(pod.key, None)
        self._expect(known is not None and known.metadata.uid == pod.metadata.uid, f"{pod.key} was not there")
        self.told.append(f"-{pod.metadata.name}")

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)


class Stage:
    """A server, an informer, and a diary."""

    def __init__(self, *, seed: int = 1, page: int = 500, indexed: bool = False) -> None:
        self.clock = VirtualClock()
        self.rng = random.Random(seed)
        self.server = FakeServer(self.clock, self.rng)
        self.client = Client(self.server, clock=self.clock, rng=self.rng)
        indexes = {"node": by_node} if indexed else None
        self.informer = Informer(self.client, Pod, rng=self.rng, page=page, indexes=indexes)
        self.diary = Diary()
        self.informer.subscribe(added=self.diary.added, updated=self.diary.updated, deleted=self.diary.deleted)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the informer runs; it must not have ended by itself."""
        task = asyncio.create_task(self.informer.run())
        try:
            await self.clock.advance(0)
            yield
            assert not task.done()
            assert self.diary.wrong == []
        finally:
            await cancel(task)

    def put(self, name: str, node: str = "") -> None:
        """A pod appears or changes."""
        self.server.put(*PODS, pod_tree(name, node=node))

    def drop(self, name: str) -> None:
        """A pod is deleted."""
        self.server.drop(*PODS, f"default/{name}")

    def lists(self) -> int:
        """How often all pods were read, counting each list once."""
        return sum("watch" not in dict(r.params) and "continue" not in dict(r.params) for r in self.server.requests)


def by_node(pod: Pod) -> Iterable[str]:
    """An index of pods by node."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


async def test_objects_are_listed_and_then_watched() -> None:
    """Every change is reported once, in order, after the store has it."""
    stage = Stage(page=2, indexed=True)
    for name in "abcde":
        stage.put(name, "n1")
    async with stage.running():
        assert stage.informer.synced
        stage.put("a", "n2")
        stage.drop("b")
        stage.put("f")
        await stage.clock.advance(0)
    assert stage.diary.told == ["+a", "+b", "+c", "+d", "+e", "~a", "-b", "+f"]
    assert [pod.metadata.name for pod in stage.informer.store.by("node", "n1")] == ["c", "d", "e"]
    assert [dict(r.params).get("limit") for r in stage.server.requests[:3]] == ["2", "2", "2"]


async def test_other_tasks_run_while_many_events_are_handled() -> None:
    """They have arrived together, after a pause of the server: a request does not wait until all are handled."""
    stage = Stage()
    handled: list[int] = []
    async with stage.running():
        for number in range(200):
            stage.put(f"p{number}")
        while len(stage.diary.told) < 200:
            handled.append(len(stage.diary.told))
            await asyncio.sleep(0)
    assert 0 < max(after - before for before, after in pairwise([*handled, 200])) <= 32


async def test_other_tasks_run_between_large_objects() -> None:
    """Which have arrived together: each takes milliseconds."""
    stage = Stage()
    handled: list[int] = []
    async with stage.running():
        for number in range(10):
            tree = pod_tree(f"p{number}")
            tree["metadata"]["annotations"] = {"example.com/large": "x" * (1 << 18)}
            stage.server.put(*PODS, tree)
        while len(stage.diary.told) < 10:
            handled.append(len(stage.diary.told))
            await asyncio.sleep(0)
    assert max(after - before for before, after in pairwise([*handled, 10])) == 1


async def test_the_store_is_updated_before_handlers_are_called() -> None:
    """A handler sees the reported change in the store."""
    stage = Stage()
    seen: list[bool] = []
    stage.informer.subscribe(
        added=lambda pod: seen.append(stage.informer.get(Key(pod.key)) is pod),
        deleted=lambda pod: seen.append(stage.informer.get(Key(pod.key)) is None),
    )
    stage.put("a")
    async with stage.running():
        stage.drop("a")
        await stage.clock.advance(0)
    assert seen == [True, True]


async def test_a_late_handler_first_gets_the_existing_objects() -> None:
    """As added, before anything else."""
    stage, late = Stage(), Diary()
    stage.put("a")
    async with stage.running():
        stage.informer.subscribe(added=late.added, updated=late.updated, deleted=late.deleted)
        stage.put("b")
        await stage.clock.advance(0)
    assert late.told == ["+a", "+b"]
    assert late.wrong == []


async def test_a_handler_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """Its failure is logged with its key."""
    stage = Stage()

    def broken(pod: Pod) -> None:
        raise ValueError(f"cannot handle {pod.metadata.name}")

    after: list[str] = []
    stage.informer.subscribe(added=broken)
    stage.informer.subscribe(added=lambda pod: after.append(pod.metadata.name))
    stage.put("a")
    async with stage.running():
        assert after == ["a"]
    assert "a handler failed for Pod default/a" in caplog.text


async def test_new_objects_of_a_list_are_reported_together(caplog: pytest.LogCaptureFixture) -> None:
    """After all of them are stored; a handler that fails for several is called for each."""
    stage = Stage(page=2)
    for name in "abc":
        stage.put(name)
    told: list[list[str]] = []

    def together(pods: Sequence[Pod]) -> None:
        told.append([pod.metadata.name for pod in pods])
        assert all(pod.key in stage.informer.store for pod in pods)
        if len(pods) > 1:
            raise ValueError("one at a time")

    def alone(pod: Pod) -> None:
        told.append([pod.metadata.name])
        if pod.metadata.name == "b":
            raise ValueError("not this one")

    stage.informer.subscribe(added=alone, added_all=together)
    async with stage.running():
        stage.put("d")
        await stage.clock.advance(0)
    assert told == [["a", "b"], ["a"], ["b"], ["c"], ["d"]]
    assert "a handler failed for Pod default/b" in caplog.text


@pytest.mark.parametrize("cleanly", [True, False], ids=["ended", "broken"])
async def test_a_watch_that_ends_resumes_at_the_last_version(cleanly: bool) -> None:
    """Nothing is listed again, lost, or reported twice."""
    stage = Stage()
    stage.put("a")
    async with stage.running():
        await stage.clock.advance(60)
        stage.put("b")
        await stage.clock.advance(0)
        stage.server.cut_watches(cleanly=cleanly)
        stage.put("c")
        stage.drop("a")
        await stage.clock.advance(5)
    assert stage.diary.told == ["+a", "+b", "+c", "-a"]
    assert stage.lists() == 1


async def test_a_bookmark_advances_the_version_to_resume_from() -> None:
    """A quiet kind must not be listed again because others were busy."""
    stage = Stage()
    async with stage.running():
        for n in range(5):
            stage.server.put("/api/v1", "services", {"metadata": {"name": f"s{n}", "namespace": "default"}})
        stage.server.bookmark()
        await stage.clock.advance(0)
        stage.server.forget()
        stage.server.cut_watches()
        await stage.clock.advance(5)
        stage.put("a")
        await stage.clock.advance(0)
    assert stage.diary.told == ["+a"]
    assert stage.lists() == 1


@pytest.mark.parametrize("how", ["in the stream", "when resuming"])
async def test_an_expired_version_causes_a_new_list(how: str) -> None:
    """Changes are reported, unchanged objects are not, deletions are reported with the last state."""
    stage = Stage()
    for name in "abc":
        stage.put(name, "n1")
    async with stage.running():
        stage.put("a", "n2")
        await stage.clock.advance(10)
        watchers = stage.server.watchers
        if how == "in the stream":
            stage.server.expire_watches()
        else:
            stage.server.cut_watches()
        assert watchers == 1
        stage.put("b", "n3")
        stage.drop("c")
        stage.put("d")
        stage.server.forget()
        await stage.clock.advance(10)
    assert stage.diary.told == ["+a", "+b", "+c", "~a", "~b", "+d", "-c"]
    assert stage.lists() == 2


async def test_after_an_outage_an_expired_version_is_listed_at_once() -> None:
    """Attempts before the server answered again do not count: the cache would be behind for half a minute."""
    stage = Stage()
    stage.put("a")
    async with stage.running():
        stage.server.bad = Misbehaviour(fail=1.0)
        stage.server.cut_watches()
        stage.put("b")
        stage.server.forget()
        await stage.clock.advance(120)
        stage.server.bad = Misbehaviour()
        before = len(stage.server.requests)
        while len(stage.server.requests) == before:
            await stage.clock.advance(0.1)
        await stage.clock.advance(1)
        assert stage.diary.told == ["+a", "+b"]


async def test_versions_that_expire_again_and_again_are_listed_ever_more_rarely() -> None:
    """A server that ends each watch at once is not asked for everything several times a second."""
    stage = Stage()
    stage.put("a")
    async with stage.running():
        for _ in range(600):
            stage.server.expire_watches()
            await stage.clock.advance(0.1)
    assert 4 <= stage.lists() <= 12


async def test_another_object_of_the_same_name_is_another_object() -> None:
    """A missed deletion is reported before the new object."""
    stage = Stage()
    stage.put("a")
    async with stage.running():
        await stage.clock.advance(10)
        stage.server.expire_watches()
        stage.drop("a")
        stage.put("a", "n2")
        stage.server.forget()
        await stage.clock.advance(10)
    assert stage.diary.told == ["+a", "-a", "+a"]


async def test_a_restored_backup_replaces_newer_versions() -> None:
    """Its versions are older than what is known, and still it is the truth."""
    stage = Stage()
    stage.diary.believes_backups = True
    stage.put("a", "n1")
    async with stage.running():
        backup, version = stage.server.objects("pods")[0], stage.server.version
        stage.put("a", "n2")
        await stage.clock.advance(10)
        stage.server.version = version - 1
        stage.server.put(*PODS, backup)
        assert stage.server.version == version
        stage.server.forget()
        stage.server.expire_watches()
        await stage.clock.advance(10)
        held = stage.informer.get(Key("default/a"))
        assert held is not None
        assert held.spec.node_name == "n1"
        assert held.metadata.resource_version == str(version)


async def test_a_malformed_response_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    """A proxy may answer 200 with a page of its own: it is reported as a problem and retried."""
    stage = Stage()
    stage.put("a")
    stage.server.intercept = lambda _: Response(200, {}, b"<html>log in first</html>")
    async with stage.running():
        await stage.clock.advance(10)
        assert "not what Kubernetes sends" in stage.informer.problem
        stage.server.intercept = None
        await stage.clock.advance(60)
        assert stage.diary.told == ["+a"]
    assert caplog.text.count("not what Kubernetes sends") == 1


async def test_an_expired_list_is_restarted() -> None:
    """410 in the middle of the pages."""
    stage = Stage(page=1)
    for name in "abc":
        stage.put(name)
    answered = iter([None, failure(410, "Expired")])
    stage.server.intercept = lambda _: next(answered, None)
    async with stage.running():
        await stage.clock.advance(10)
    assert stage.diary.told == ["+a", "+b", "+c"]
    assert stage.lists() == 2


async def test_an_unavailable_server_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    """With back-off up to a minute; the problem is logged once and reported."""
    stage = Stage()
    stage.put("a")
    stage.informer = Informer(stage.client.using(retry=NO_RETRIES), Pod, rng=stage.rng)
    attempts: list[int] = []

    def away(_: Request) -> Response:
        attempts.append(stage.clock.now())
        return failure(503, "ServiceUnavailable", "away")

    stage.server.intercept = away
    async with stage.running():
        with caplog.at_level(logging.WARNING):
            await stage.clock.advance(600)
        assert not stage.informer.synced
        assert "away" in stage.informer.problem
        gaps = [(later - earlier) / SECOND for earlier, later in pairwise(attempts)]
        assert 0.25 <= gaps[0] <= 0.5
        assert all(30 <= gap <= 60 for gap in gaps[8:])
        assert caplog.text.count("away") == 1
        stage.server.intercept = None
        await stage.clock.advance(60)
        assert len(stage.informer.store) == 1
        assert stage.informer.problem == ""


async def test_watches_that_end_immediately_are_retried_with_backoff() -> None:
    """Each time it is waited a little longer."""
    stage = Stage()
    async with stage.running():
        for _ in range(600):
            stage.server.cut_watches(cleanly=True)
            await stage.clock.advance(0.1)
        assert 5 < len(stage.server.requests) < 20
        assert stage.informer.problem == "the server ends the watch without any event"


async def test_a_watch_that_shows_a_change_before_it_ends_is_resumed_soon() -> None:
    """However often that happens: it works, and the wait does not grow."""
    stage = Stage()
    async with stage.running():
        for number in range(40):
            stage.put(f"p{number}")
            await stage.clock.advance(0)
            stage.server.cut_watches(cleanly=True)
            await stage.clock.advance(1)
        assert sum("watch" in dict(request.params) for request in stage.server.requests) == 41
        assert stage.informer.problem == ""


async def test_versions_that_expire_immediately_are_retried_with_backoff() -> None:
    """Lists are dear: one that cannot be watched from is not repeated without end."""
    stage = Stage()
    stage.server.bad = Misbehaviour(gone=1.0)
    async with stage.running():
        await stage.clock.advance(120)
        assert 5 < stage.lists() < 20


async def test_an_object_that_cannot_be_read_keeps_its_last_good_state(caplog: pytest.LogCaptureFixture) -> None:
    """It must not be treated as deleted. Its real deletion is reported."""
    clock = VirtualClock()
    server = FakeServer(clock)
    informer = Informer(Client(server, clock=clock), CloneSet)
    deleted: list[str] = []
    informer.subscribe(deleted=lambda clone_set: deleted.append(clone_set.metadata.name))
    good = {"selector": {}, "template": {}, "replicas": 3}
    for name in "ab":
        server.put(*CLONES, {"metadata": {"name": name, "namespace": "n"}, "spec": good})
    task = asyncio.create_task(informer.run())
    await clock.advance(10)
    server.put(*CLONES, {"metadata": {"name": "a", "namespace": "n"}, "spec": {**good, "replicas": "many"}})
    server.put(*CLONES, {"metadata": {"name": "b", "namespace": "n"}, "spec": {**good, "replicas": 4}})
    await clock.advance(0)
    server.expire_watches()
    server.forget()
    await clock.advance(10)
    kept = {c.metadata.name: c.spec.replicas for c in informer.store}
    assert kept == {"a": 3, "b": 4}
    assert 'CloneSet n/a cannot be read: spec.replicas: "many": expected `int`, got `str`' in caplog.text
    server.drop(*CLONES, "n/a")
    await clock.advance(0)
    assert deleted == ["a"]
    await cancel(task)


async def test_a_change_that_an_index_cannot_take_is_not_reported() -> None:
    """The store keeps the version before it; the next change is reported as one of that."""
    stage = Stage()

    def by_number(pod: Pod) -> Iterable[str]:
        return (str(int(pod.spec.node_name)),)

    stage.informer.add_index("number", by_number)
    stage.put("a", "1")
    async with stage.running():
        stage.put("a", "none")
        await stage.clock.advance(0)
        assert (stage.diary.told, stage.informer.store.values("number")) == (["+a"], ["1"])
        stage.put("a", "2")
        await stage.clock.advance(0)
    assert (stage.diary.told, stage.informer.store.values("number")) == (["+a", "~a"], ["2"])


async def test_a_watch_that_ends_without_any_event_is_a_problem_until_the_next_one() -> None:
    """A server, or a proxy before it, that does so each time must be noticed."""
    stage = Stage()
    async with stage.running():
        stage.server.cut_watches(cleanly=True)
        await stage.clock.advance(0)
        assert stage.informer.problem == "the server ends the watch without any event"
        await stage.clock.advance(1)
        assert stage.informer.problem == ""


@pytest.mark.parametrize(("seconds", "is_problem"), [(4.999, True), (5.0, False)], ids=["too soon", "long enough"])
async def test_a_quiet_watch_that_ends_is_a_problem_if_it_was_short(seconds: float, is_problem: bool) -> None:
    """A server ends each watch sooner or later, whether or not there were events."""
    stage = Stage()
    async with stage.running():
        await stage.clock.advance(seconds)
        stage.server.cut_watches(cleanly=True)
        await stage.clock.advance(0)
        assert bool(stage.informer.problem) is is_problem


async def test_an_event_that_is_repeated_is_handled_once() -> None:
    """A server may send one again, for example after a watch was resumed."""
    stage = Stage()
    stage.server.bad = Misbehaviour(repeat=1.0)
    async with stage.running():
        stage.put("a")
        stage.put("a", "n1")
        stage.drop("a")
        await stage.clock.advance(0)
    assert stage.diary.told == ["+a", "~a", "-a"]


@pytest.mark.parametrize("is_served", [True, False], ids=["a list is complete", "the server does not know the kind"])
async def test_waiting_until_it_is_known_whether_there_are_objects(is_served: bool) -> None:
    """An optional kind may not be installed."""
    stage = Stage()
    stage.server.intercept = lambda _: None if is_served else failure(404, "NotFound")
    waiting = asyncio.create_task(stage.informer.wait_known())
    await stage.clock.advance(0)
    assert (waiting.done(), stage.informer.version) == (False, "")
    async with stage.running():
        await waiting
        assert (stage.informer.synced, stage.informer.is_known) == (is_served, True)


async def test_a_kind_that_is_installed_later_is_listed() -> None:
    """Until then it counts as known: there are no such objects."""
    stage = Stage()
    stage.put("a")
    stage.server.intercept = lambda _: failure(404, "NotFound")
    async with stage.running():
        assert (stage.informer.absent, stage.informer.is_known, stage.informer.lists) == (True, True, 0)
        answers = stage.informer.answers
        stage.server.intercept = None
        await stage.clock.advance(60)
        assert (stage.informer.absent, stage.informer.synced, stage.informer.lists) == (False, True, 1)
        assert stage.informer.answers > answers > 0
    assert stage.diary.told == ["+a"]


async def test_a_problem_that_comes_back_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    """Once each time: the watch has worked in between."""
    stage = Stage()
    stage.informer = Informer(stage.client.using(retry=NO_RETRIES), Pod, rng=stage.rng)
    away = failure(503, "ServiceUnavailable", "away")
    async with stage.running():
        for _ in range(2):
            stage.server.intercept = lambda _: away
            stage.server.forget()
            stage.server.expire_watches()
            await stage.clock.advance(5)
            stage.server.intercept = None
            await stage.clock.advance(120)
            stage.put("a")
            await stage.clock.advance(0)
    assert caplog.text.count("away") == 2


async def test_waiting_for_a_state() -> None:
    """A waiter is woken when the condition holds, immediately if it already does."""
    stage = Stage()
    async with stage.running():
        waiting = asyncio.create_task(stage.informer.wait_for(lambda store: len(store) == 2))
        for name in "ab":
            assert not waiting.done()
            stage.put(name)
            await stage.clock.advance(0)
        await waiting
        await stage.informer.wait_for(lambda store: len(store) == 2)
        await stage.informer.wait_synced()


async def test_waiting_for_our_own_write() -> None:
    """A write is recognized by its version, also if a later one replaced or reverted it."""
    stage = Stage()
    stage.put("a")
    async with stage.running():
        stage.server.bad = Misbehaviour()
        written = await stage.client.patch(Pod, "a", {"metadata": {"labels": {"x": "y"}}}, namespace="default")
        await within(stage.clock, 1, stage.informer.wait_seen(Key("default/a"), written.metadata.resource_version))
        held = stage.informer.get(Key("default/a"))
        assert held is not None
        assert held.metadata.labels == {"x": "y"}
        waiting = asyncio.create_task(stage.informer.wait_seen(Key("default/a"), str(stage.server.version + 1)))
        await stage.clock.advance(1)
        assert not waiting.done()
        stage.drop("a")
        await stage.clock.advance(0)
        await waiting


async def test_an_error_in_a_condition_is_raised_to_the_waiter() -> None:
    """The informer continues."""
    stage = Stage()
    async with stage.running():

        def broken(store: Store[Pod]) -> bool:
            if len(store) == 0:
                return False
            raise LookupError("broken")

        waiting = asyncio.create_task(stage.informer.wait_for(broken))
        await stage.clock.advance(0)
        stage.put("a")
        await stage.clock.advance(0)
        with pytest.raises(LookupError, match="broken"):
            await waiting
        stage.put("b")
        await stage.clock.advance(0)
        assert len(stage.informer.store) == 2


async def test_a_cancelled_waiter_is_removed() -> None:
    """A wait that is given up is forgotten."""
    stage = Stage()
    async with stage.running():
        for _ in range(3):
            waiting = asyncio.create_task(within(stage.clock, 1, stage.informer.wait_for(lambda store: len(store) > 9)))
            await stage.clock.advance(1)
            with pytest.raises(TimeoutError):
                await waiting
        stage.put("a")
        await stage.clock.advance(0)
        assert stage.diary.told == ["+a"]


async def test_pods_of_a_template_share_equal_parts() -> None:
    """So that many pods cost little memory, also those that come by the watch."""
    stage = Stage()
    stage.put("a")
    async with stage.running():
        stage.put("b")
        await stage.clock.advance(0)
    first, second = list(stage.informer.store)
    assert first.spec.containers is second.spec.containers


async def test_an_informer_of_one_namespace_sees_only_that() -> None:
    """If only one is requested."""
    clock = VirtualClock()
    server = FakeServer(clock)
    informer = Informer(Client(server, clock=clock), Pod, namespace="mine", label_selector="app=web")
    task = asyncio.create_task(informer.run())
    await clock.advance(1)
    server.put(*PODS, pod_tree("a", namespace="mine"))
    server.put(*PODS, pod_tree("b", namespace="other"))
    await clock.advance(1)
    await cancel(task)
    assert [pod.metadata.name for pod in informer.store] == ["a"]
    assert {r.path for r in server.requests} == {"/api/v1/namespaces/mine/pods"}
    assert all(dict(r.params)["labelSelector"] == "app=web" for r in server.requests)


@pytest.mark.parametrize("initial_events", [False, True], ids=["in pages", "as initial events"])
@pytest.mark.parametrize("seed", range(25))
async def test_chaos_ends_in_the_exact_state_of_the_server(seed: int, initial_events: bool) -> None:
    """Cut, refused, lost, repeated, split and expired at random: what was told always adds up, and in the end is true.

    The diary checks each step: nothing is added twice, no change is told of something else than was there, versions
    only grow, and a deletion is of the very object that was there.
    """
    stage = Stage(seed=seed, page=4)
    stage.server.serves_initial_events = initial_events
    stage.server.bad = TROUBLE
    async with stage.running():
        for step in range(200):
            churn(stage.server, stage.rng, step)
            await stage.clock.advance(stage.rng.random() * 0.5)
            assert stage.diary.world == {pod.key: pod for pod in stage.informer.store}
        stage.server.bad = Misbehaviour()
        await stage.clock.advance(120)
        there = {t["metadata"]["name"]: t["metadata"]["resourceVersion"] for t in stage.server.objects("pods")}
        assert {p.metadata.name: p.metadata.resource_version for p in stage.informer.store} == there
        assert stage.informer.problem == ""
