"""Parts and boards are built in slices: nothing is lost meanwhile, others are served, and nothing is built twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import Any

import aiohttp
import pytest

from tests.unit.dashboard.serving import SETTINGS, WEB, Dashboard, dashboard, running, web
from tests.unit.dashboard.test_parts import ON, RIGHTS, Followed, moved, seen
from tests.unit.inspection.clusters import SOFT, three_zones
from trimtab.api import codec
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.dashboard import boards, handlers, overview_cache, parts, server
from trimtab.dashboard.access import OpenAccess
from trimtab.dashboard.boards import Board, Boards, View
from trimtab.dashboard.overview_cache import OverviewCache
from trimtab.dashboard.parts import Part
from trimtab.dashboard.rights import EVERYTHING, Rights, visible
from trimtab.dashboard.server import DashboardServer, Listening
from trimtab.dashboard.sources import FileSource
from trimtab.inspection import overviews
from trimtab.snapshot import MIRRORED, Snapshot
from trimtab.subsets import members

SHOP = RIGHTS["a namespace and nodes"]


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """One object a slice."""
    monkeypatch.setattr(parts, "SLICE", 1)


@pytest.fixture
def puts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The objects that are put into snapshots, by name."""
    found: list[str] = []
    put = Snapshot.put

    def counted(self: Snapshot, watched: Any) -> None:
        found.append(watched.metadata.name)
        put(self, watched)

    monkeypatch.setattr(Snapshot, "put", counted)
    return found


def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let parts never be complete."""

    def fill(_: Part) -> Iterator[None]:
        while True:
            yield

    monkeypatch.setattr(Part, "_fill", fill)


def recreated(pod: Pod) -> Pod:
    """Another pod of the same name, which has no node yet."""
    tree = codec.to_tree(pod)
    return codec.convert({**tree, "metadata": {**tree["metadata"], "uid": "new"}, "spec": {}}, Pod)


def change_something(followed: Followed, rng: random.Random, gone: list[Pod]) -> None:
    """Move, delete or create a pod, the name of one that was deleted included."""
    pods = followed.cluster.all(Pod)
    match rng.choice(["move", "delete", "create"]):
        case "move" if pods:
            pod = rng.choice(pods)
            followed.change(pod, moved(pod, rng.choice(ON)))
        case "delete" if pods:
            gone.append(rng.choice(pods))
            followed.change(gone[-1], None)
        case "create" if gone:
            followed.add(recreated(gone.pop()))


@pytest.mark.parametrize("name", ["a namespace and nodes", "everything but nodes"])
@pytest.mark.parametrize("seed", range(8))
def test_no_change_is_lost_while_a_part_is_filled(name: str, seed: int) -> None:
    """Whatever changes between two slices: before, at and after the place that the listing has reached."""
    followed, rng = Followed(), random.Random(seed)
    part = followed.parts.begin(RIGHTS[name])
    gone: list[Pod] = []
    for _ in part.slices:
        assert not part.is_complete
        for _ in range(rng.randrange(3)):
            change_something(followed, rng, gone)
    assert part.is_complete
    expected = visible(followed.cluster, RIGHTS[name])
    assert seen(part.now()) == seen(expected)
    kept = part.now().snapshot
    assert set(kept.pods.rows.index) == set(expected.snapshot.pods.rows.index)
    assert all(kept.pod(pod.key) is pod for pod in expected.all(Pod))


async def test_other_work_goes_on_between_slices() -> None:
    """As often as there are slices; a caller who sees everything does not wait at all."""
    followed = Followed()
    waiting = asyncio.ensure_future(followed.parts.of(SHOP))
    passes = 0
    while not waiting.done():
        await asyncio.sleep(0)
        passes += 1
        await followed.parts.of(EVERYTHING)
        assert passes > 1 or not waiting.done()
    slices = sum(ceil(len(followed.cluster.all(kind)) / parts.SLICE) for kind in MIRRORED)
    assert passes >= slices > 10


async def test_callers_with_the_same_rights_share_one_part(puts: list[str]) -> None:
    """Each object is put into it once, whoever waits."""
    followed = Followed()
    found = await asyncio.gather(*(followed.parts.of(SHOP) for _ in range(5)))
    assert len(set(map(id, found))) == 1
    assert len(puts) == len(set(puts))


async def test_one_part_is_filled_at_a_time(puts: list[str]) -> None:
    """However many rights there are: between two turns of other work there is one slice."""
    followed = Followed()
    waiting = [asyncio.ensure_future(followed.parts.of(rights)) for rights in RIGHTS.values()]
    before = 0
    while not all(task.done() for task in waiting):
        await asyncio.sleep(0)
        assert len(puts) <= before + 1
        before = len(puts)
    assert [task.result().is_complete for task in waiting] == [True] * len(RIGHTS)


async def test_another_caller_goes_on_where_one_left(puts: list[str]) -> None:
    """A page that is closed during the build costs nothing."""
    followed = Followed()
    first, second = (asyncio.ensure_future(followed.parts.of(SHOP)) for _ in range(2))
    while len(puts) < 3:
        await asyncio.sleep(0)
    first.cancel()
    part = await second
    assert first.cancelled()
    assert len(puts) == len(set(puts)), "no object twice"
    assert seen(part.now()) == seen(visible(followed.cluster, SHOP))


async def test_a_failed_build_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete part is never shown."""
    followed, put = Followed(), Snapshot.put
    monkeypatch.setattr(Snapshot, "put", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await followed.parts.of(SHOP)
    assert len(followed.parts) == 0
    monkeypatch.setattr(Snapshot, "put", put)
    assert seen((await followed.parts.of(SHOP)).now()) == seen(visible(followed.cluster, SHOP))


async def test_an_object_that_no_snapshot_takes_is_left_out() -> None:
    """The others are shown, whether it was there before or comes later."""
    followed = Followed()
    pod = next(each for each in followed.cluster.all(Pod) if each.metadata.namespace == "shop")
    tree = codec.to_tree(pod)
    requests = {"resources": {"requests": {"cpu": "much"}}}
    broken = {**tree, "spec": {**tree["spec"], "containers": [{"name": "main", **requests}]}}
    followed.change(pod, codec.convert(broken, Pod))
    part = await followed.parts.of(SHOP)
    assert part.now().snapshot.pod(pod.key) is None
    assert len(part.now().snapshot.pods.rows.index) == len(ON) - 1
    assert followed.change(followed.cluster.all(Pod)[0], codec.convert(broken, Pod)) is True


class ChangingAccess(OpenAccess):
    """A caller whose rights are others from the second question on."""

    def __init__(self, *rights: Rights) -> None:
        self._rights = list(rights)

    async def rights(self, token: str) -> Rights:  # noqa: ARG002 - the interface
        """The next rights; the last ones stay."""
        return self._rights.pop(0) if len(self._rights) > 1 else self._rights[0]


@pytest.mark.parametrize(
    ("path", "status"),
    [("state", 200), (f"plan?workload={WEB}&replicas=1", 404), ("explain?pod=default/web-1-00", 404)],
)
async def test_rights_that_change_during_a_build_count(path: str, status: int) -> None:
    """Nothing is answered by rights that the caller had when it asked."""
    before = Rights(cluster=frozenset({"nodes", "pods", "deployments", "replicasets"}))
    async with dashboard(web(), access=ChangingAccess(before, Rights())) as served:
        answer = await served.get(f"/api/{path}")
        assert answer.status == status
        assert "web-1" not in await answer.text()


async def test_a_stream_of_rights_that_changed_during_the_build_sends_nothing() -> None:
    """The page connects again, with the new ones."""
    before = Rights(cluster=frozenset({"nodes", "pods", "deployments", "replicasets"}))
    async with dashboard(web(), access=ChangingAccess(before, Rights())) as served:
        answer = await served.get("/api/events")
        assert await answer.read() == b""


async def test_the_server_stops_during_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a part is cancelled, and nothing is left running."""
    endless(monkeypatch)
    monkeypatch.setattr(server, "_STOP", 0.01)
    before = asyncio.all_tasks()
    access = ChangingAccess(SHOP)
    made = DashboardServer(FileSource(web(), SETTINGS), SETTINGS, Listening(port=0), access)
    async with aiohttp.ClientSession() as session:
        async with running(made) as url:
            asked = [asyncio.ensure_future(session.get(f"{url}api/{path}")) for path in ("events", "state", "plan")]
            while not made.boards.viewers:
                await asyncio.sleep(0)
        assert made.boards.viewers == 0
        done = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, aiohttp.ClientError) for each in done)
    await asyncio.sleep(0)
    assert {task for task in asyncio.all_tasks() - before if not task.done()} == set()


async def wait_viewers(served: Dashboard, count: int) -> None:
    """Wait until there are so many viewers."""
    while served.server.boards.viewers != count:
        await asyncio.sleep(0)


async def test_viewers_who_wait_for_a_build_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits hold for them; meanwhile everyone else is served."""
    endless(monkeypatch)
    monkeypatch.setattr(handlers, "MOST_VIEWERS", 1)
    async with dashboard(web(), access=ChangingAccess(SHOP)) as served:
        waiting = asyncio.ensure_future(served.get("/api/events"))
        await wait_viewers(served, 1)
        assert (await served.get("/api/events")).status == 503
        assert (await served.get("/assets/style.css")).status == 200
        waiting.cancel()


async def test_viewers_of_one_view_share_its_first_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is built once, and none of them is sent an empty one."""
    built: list[View] = []
    build = Boards._build  # noqa: SLF001 - it is called

    async def counted(self: Boards, board: Board, *, limited: bool = True) -> bool:
        built.append(board.view)
        await asyncio.sleep(0)
        return await build(self, board, limited=limited)

    monkeypatch.setattr(Boards, "_build", counted)
    monkeypatch.setattr(boards, "TICK", 60.0)
    made = Boards(FileSource(web(), SETTINGS))

    async def look() -> int:
        async with made.joined(View(workload=WEB)) as board:
            return len(board.state["pods"])

    assert list(await asyncio.gather(look(), look(), look())) == [8, 8, 8]
    assert built == [View(workload=WEB)]
    assert made.viewers == 0


async def test_a_change_during_the_first_build_is_shown_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """All other boards were built for it; the new one is built again."""
    source = FileSource(web(), SETTINGS)
    made = Boards(source)
    begun, go_on = asyncio.Event(), asyncio.Event()
    build = Boards._build  # noqa: SLF001 - it is called

    async def slow(self: Boards, board: Board, *, limited: bool = True) -> bool:
        begun.set()
        await go_on.wait()
        return await build(self, board, limited=limited)

    monkeypatch.setattr(Boards, "_build", slow)

    async def look() -> None:
        async with made.joined(View()):
            await asyncio.Event().wait()

    looking = asyncio.ensure_future(look())
    await begun.wait()
    source.changed.set()
    running = asyncio.ensure_future(made.run())
    while source.changed.is_set():
        await asyncio.sleep(0)
    go_on.set()
    async with asyncio.timeout(30):
        await source.changed.wait()
    for task in (looking, running):
        task.cancel()


def test_overviews_are_computed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a pause after each, and one at the end."""
    monkeypatch.setattr(overview_cache, "STEP", 2)
    builder = three_zones()
    for number in range(5):
        builder.deployment(f"w{number}", ["a1", "b1"])
    cluster, cache = builder.build(), OverviewCache(SETTINGS)
    assert sum(1 for _ in cache.update(lambda: cluster, True, [])) == 3
    keys = [f"default/Deployment/w{number}" for number in range(5)]
    assert sum(1 for _ in cache.rank(lambda: cluster, keys[0], keys)) == 5


def test_a_step_after_a_pause_computes_what_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another board has computed the same rows in the pause: the older step does not bring old ones back."""
    monkeypatch.setattr(overview_cache, "STEP", 1)
    current = three_zones().deployment("a", ["a1"]).deployment("b", ["a1"]).deployment("c", ["a1"]).build()
    cache = OverviewCache(SETTINGS)
    first = cache.update(lambda: current, True, [])
    next(first)
    current = three_zones().deployment("a", ["a1"]).deployment("b", ["a1", "b1", "c1"], constraints=[SOFT]).build()
    for _ in cache.update(lambda: current, False, ["default/Deployment/b"]):
        pass
    for _ in first:
        pass
    assert set(cache.overviews) == {"default/Deployment/a", "default/Deployment/b"}
    assert cache.overviews["default/Deployment/b"].replicas == 3
    assert not cache.is_behind


async def test_other_work_goes_on_while_pods_are_matched_to_subsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two parts of the pods of one UnitedTopology."""
    monkeypatch.setattr(members, "_COMPARISONS", 4)
    turns, matched, member_of = 0, list[int](), members.member_of

    def noted(*given: Any) -> members.Member:
        matched.append(turns)
        return member_of(*given)

    monkeypatch.setattr(overviews, "member_of", noted)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"targetRef": target, "subsets": [{"name": "own"}, {"name": "spot"}]}
    tree = {"metadata": {"name": "pools", "namespace": "default"}, "spec": spec}
    cluster = web()
    cluster = replace(cluster, objects={**cluster.objects, UnitedTopology: [codec.convert(tree, UnitedTopology)]})
    building = asyncio.ensure_future(Boards(FileSource(cluster, SETTINGS)).state(View()))
    while not building.done():
        await asyncio.sleep(0)
        turns += 1
    assert [matched.count(turn) for turn in sorted(set(matched))] == [2, 2, 2, 2]
    assert building.result()["topologies"]["default/pools"].subsets[0].pods == 8
