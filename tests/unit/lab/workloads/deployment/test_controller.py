"""The Deployment controller, over the wire."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.lab.workloads.clusters import World
from tests.unit.lab.workloads.objects import deployment_tree, template
from trimtab.api import codec
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.pods import Pod
from trimtab.kube import conditions
from trimtab.kube.errors import Unreachable
from trimtab.kube.transport import Request
from trimtab_lab.apiserver.storage.store import Event as Change
from trimtab_lab.apiserver.storage.store import Shelf
from trimtab_lab.apiserver.wire.statuses import Refusal, refusal
from trimtab_lab.workloads.deployment import templates
from trimtab_lab.workloads.deployment.revisions import HISTORY, REVISION

JSON = dict[str, Any]


def image(name: str) -> JSON:
    """A patch that asks for another image."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


async def sizes(world: World) -> dict[str, int]:
    """How large each ReplicaSet is to be, by its image; those without pods left out."""
    sets = [each for each in await world.all(ReplicaSet) if each.spec.replicas]
    return {image_of(each): each.spec.replicas or 0 for each in sets}


def image_of(replicaset: ReplicaSet) -> str:
    """The image of its template."""
    assert replicaset.spec.template is not None
    found: str = replicaset.spec.template.tree()["spec"]["containers"][0]["image"]
    return found


async def progressing(world: World) -> tuple[str, str]:
    """Status and reason of the Progressing condition."""
    found = conditions.find((await world.get(Deployment, "web")).status.conditions, "Progressing")
    assert found is not None
    return found.status, found.reason


async def is_rolled_out(world: World) -> bool:
    """What `kubectl rollout status` waits for."""
    found = await world.get(Deployment, "web")
    status, wanted = found.status, found.spec.replicas or 0
    return (
        status.observed_generation >= found.metadata.generation
        and status.updated_replicas >= wanted
        and status.replicas <= status.updated_replicas
        and status.available_replicas >= status.updated_replicas
    )


class RolloutRecorder:
    """Counts the pods of a Deployment after everything that happens."""

    def __init__(self, world: World) -> None:
        self.most = self.fewest = self.mixed = 0
        self._pods: dict[str, Pod] = {}
        world.cluster.store.listen(self._heard)

    def begin(self) -> None:
        """Forget the extremes so far."""
        self.most, self.fewest, self.mixed = 0, len(self._pods), 0
        self._count()

    def _heard(self, shelf: Shelf, change: Change) -> None:
        if shelf.name != "/pods":
            return
        pod = codec.convert(change.entry.tree(), Pod)
        if change.type == "DELETED":
            self._pods.pop(pod.metadata.name, None)
        else:
            self._pods[pod.metadata.name] = pod
        self._count()

    def _count(self) -> None:
        active = [pod for pod in self._pods.values() if pod.active]
        self.most = max(self.most, len(active))
        self.fewest = min(self.fewest, sum(pod.ready for pod in active))
        self.mixed = max(self.mixed, len({pod.spec.containers[0].image for pod in self._pods.values()}))


async def roll(world: World) -> None:
    """Let pods start and end, a few at a time, until the rollout is done."""
    for _ in range(200):
        if await is_rolled_out(world):
            return
        await world.run_pods(world.rng.randint(1, 4))
    raise AssertionError("the rollout does not end")


async def rolled_out(world: World, tree: JSON) -> None:
    """A Deployment whose first rollout is complete."""
    await world.create(Deployment, tree)
    await roll(world)


# Rolling updates.


async def test_a_deployment_is_rolled_out(world: World) -> None:
    """A ReplicaSet, its pods, a status that kubectl understands, a revision and an event."""
    await rolled_out(world, deployment_tree("web", 3))
    (made,) = await world.all(ReplicaSet)
    found = await world.get(Deployment, "web")
    assert found.metadata.annotations[REVISION] == made.metadata.annotations[REVISION] == "1"
    assert found.metadata.generation == found.status.observed_generation == 1
    assert await progressing(world) == ("True", "NewReplicaSetAvailable")
    assert await world.told("ScalingReplicaSet") == [f"Scaled up replica set {made.metadata.name} from 0 to 3"]
    assert [pod.metadata.labels["pod-template-hash"] for pod in await world.pods()] == [made.metadata.name[4:]] * 3


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "most", "fewest"),
    [
        pytest.param(10, "25%", "25%", 13, 8, id="a quarter either way"),
        pytest.param(5, 1, 0, 6, 5, id="one more, none less"),
        pytest.param(5, 0, 1, 5, 4, id="none more, one less"),
        pytest.param(1, 0, "1%", 1, 0, id="both come to nothing: one may be missing"),
        pytest.param(6, "100%", 0, 12, 6, id="all at once"),
    ],
)
async def test_a_rolling_update_keeps_its_limits(
    world: World, replicas: int, surge: int | str, unavailable: int | str, most: int, fewest: int
) -> None:
    """Counted after every single event, while pods start in any order; and it completes."""
    recorder = RolloutRecorder(world)
    await rolled_out(world, deployment_tree("web", replicas, surge=surge, unavailable=unavailable))
    recorder.begin()
    await world.patch(Deployment, "web", image("app:2"))
    await roll(world)
    assert recorder.most == most
    assert recorder.fewest >= fewest
    assert await sizes(world) == {"app:2": replicas}
    assert await progressing(world) == ("True", "NewReplicaSetAvailable")


async def test_a_rollout_over_a_rollout(world: World) -> None:
    """A third template while the second is on its way: the limits hold, and the last one wins."""
    recorder = RolloutRecorder(world)
    await rolled_out(world, deployment_tree("web", 8))
    recorder.begin()
    await world.patch(Deployment, "web", image("app:2"))
    await world.run_pods(2)
    await world.patch(Deployment, "web", image("app:3"))
    await roll(world)
    assert (recorder.most, await sizes(world)) == (10, {"app:3": 8})
    assert recorder.fewest >= 6


async def test_pods_that_never_start_do_not_take_the_service_down(world: World) -> None:
    """The new pods hang: the old ones that must be there stay, however long it takes; an undo brings all back."""
    await rolled_out(world, deployment_tree("web", 4))
    recorder = RolloutRecorder(world)
    recorder.begin()
    await world.patch(Deployment, "web", image("broken"))
    await world.advance(601)
    assert await sizes(world) == {"app:1": 3, "broken": 2}
    assert await progressing(world) == ("False", "ProgressDeadlineExceeded")
    await world.patch(Deployment, "web", image("app:1"))
    await roll(world)
    assert await sizes(world) == {"app:1": 4}
    assert await progressing(world) == ("True", "NewReplicaSetAvailable")


async def test_going_back_takes_the_old_replicaset(world: World) -> None:
    """`kubectl rollout undo` patches the template: no new ReplicaSet, a new revision, and the old one as history."""
    await rolled_out(world, deployment_tree("web", 2))
    (first,) = await world.all(ReplicaSet)
    await world.patch(Deployment, "web", image("app:2"))
    await roll(world)
    await world.patch(Deployment, "web", image("app:1"))
    await roll(world)
    again = await world.get(ReplicaSet, first.metadata.name)
    assert len(await world.all(ReplicaSet)) == 2
    assert again.metadata.annotations[REVISION] == "3"
    assert again.metadata.annotations[HISTORY] == "1"
    assert (await world.get(Deployment, "web")).metadata.annotations[REVISION] == "3"


async def test_old_revisions_are_forgotten(world: World) -> None:
    """Two are kept beside the current one, the last ones."""
    await rolled_out(world, deployment_tree("web", 1, revisionHistoryLimit=2))
    for number in range(2, 6):
        await world.patch(Deployment, "web", image(f"app:{number}"))
        await roll(world)
    assert sorted(map(image_of, await world.all(ReplicaSet))) == ["app:3", "app:4", "app:5"]


async def test_what_somebody_needs_is_not_forgotten(world: World) -> None:
    """An old ReplicaSet was changed, and the controller has not seen it: it is deleted only as it was seen."""
    await rolled_out(world, deployment_tree("web", 1))
    (first,) = await world.all(ReplicaSet)
    await world.patch(Deployment, "web", image("app:2"))
    await roll(world)
    world.wire.hold("replicasets")
    await world.patch(ReplicaSet, first.metadata.name, {"metadata": {"labels": {"keep": "me"}}})
    await world.patch(Deployment, "web", {"spec": {"revisionHistoryLimit": 0}})
    assert len(await world.all(ReplicaSet)) == 2
    world.wire.go_on()
    await world.advance(10)
    assert len(await world.all(ReplicaSet)) == 1


async def test_patience_is_passed_on(world: World) -> None:
    """A change of minReadySeconds is no rollout; the ReplicaSet just waits longer from then on."""
    await rolled_out(world, deployment_tree("web", 2))
    await world.patch(Deployment, "web", {"spec": {"minReadySeconds": 30}})
    (only,) = await world.all(ReplicaSet)
    assert only.spec.min_ready_seconds == 30


async def test_a_rollout_waits_for_availability(world: World) -> None:
    """With minReadySeconds, ready pods are not relied on at once: time passes between the steps."""
    recorder = RolloutRecorder(world)
    await world.create(Deployment, deployment_tree("web", 4, minReadySeconds=10, surge=1, unavailable=0))
    await world.run_pods()
    await world.advance(11)
    recorder.begin()
    await world.patch(Deployment, "web", image("app:2"))
    await world.run_pods()
    assert (await sizes(world))["app:2"] == 1
    for _ in range(6):
        await world.advance(11)
        await world.run_pods()
    assert await is_rolled_out(world)
    assert (recorder.most, recorder.fewest) == (5, 4)


# Scaling, pausing, recreating.


async def test_scaling_is_no_rollout(world: World) -> None:
    """The same ReplicaSet grows and shrinks, and the revision stays."""
    await rolled_out(world, deployment_tree("web", 2))
    for replicas in (5, 0, 3):
        await world.patch(Deployment, "web", {"spec": {"replicas": replicas}})
        await roll(world)
        assert len(await world.pods()) == replicas
    (only,) = await world.all(ReplicaSet)
    assert only.metadata.annotations[REVISION] == "1"


async def test_scaling_in_the_middle_is_shared_out(world: World) -> None:
    """Old and new grow in proportion, so that scaling does not hasten the rollout."""
    await rolled_out(world, deployment_tree("web", 10, surge=3, unavailable=2))
    await world.patch(Deployment, "web", image("app:2"))
    assert await sizes(world) == {"app:1": 8, "app:2": 5}
    await world.patch(Deployment, "web", {"spec": {"replicas": 30}})
    assert await sizes(world) == {"app:1": 20, "app:2": 13}
    await roll(world)
    assert await sizes(world) == {"app:2": 30}


async def test_a_pause_holds_everything_but_scaling(world: World) -> None:
    """No ReplicaSet for a template that is set meanwhile; when it ends the rollout begins."""
    await rolled_out(world, deployment_tree("web", 2))
    await world.patch(Deployment, "web", {"spec": {"paused": True}})
    assert await progressing(world) == ("Unknown", "DeploymentPaused")
    await world.patch(Deployment, "web", image("app:2"))
    await world.patch(Deployment, "web", {"spec": {"replicas": 4}})
    assert await sizes(world) == {"app:1": 4}
    await world.advance(3600)
    assert await progressing(world) == ("Unknown", "DeploymentPaused")
    await world.patch(Deployment, "web", {"spec": {"paused": False}})
    await roll(world)
    assert await sizes(world) == {"app:2": 4}


async def test_recreated_pods_never_run_beside_the_old_ones(world: World) -> None:
    """Not even while the old ones are still on their way out; when the last one is gone nobody waits for a report."""
    recorder = RolloutRecorder(world)
    await rolled_out(world, deployment_tree("web", 3, strategy="Recreate"))
    recorder.begin()
    await world.patch(Deployment, "web", image("app:2"))
    assert await sizes(world) == {}
    going = await world.all(Pod)
    assert [pod.terminating for pod in going] == [True] * 3
    for pod in going[:2]:
        await world.end(pod)
        await world.settle()
        assert await world.pods() == []
    world.wire.hold("replicasets")
    await world.end(going[2])
    await world.settle()
    assert await sizes(world) == {"app:2": 3}
    world.wire.go_on()
    await roll(world)
    assert recorder.mixed == 1


# What else may happen.


async def test_a_taken_name_is_a_collision(world: World) -> None:
    """Somebody else's ReplicaSet has the name: it is left alone, and another hash is found."""
    made = await world.create(Deployment, deployment_tree("web", 1, paused=True))
    name = templates.name_of("web", templates.hash_for(made))
    plain = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template("other", app="x")}
    await world.create(ReplicaSet, {"metadata": {"name": name}, "spec": plain})
    await world.patch(Deployment, "web", {"spec": {"paused": False}})
    await roll(world)
    found = await world.get(Deployment, "web")
    assert found.status.collision_count == 1
    assert await sizes(world) == {"app:1": 1}
    assert (await world.get(ReplicaSet, name)).metadata.owner_references == ()


def is_set_creation(request: Request) -> bool:
    """Whether a request creates a ReplicaSet."""
    return request.method == "POST" and request.path.endswith("/replicasets")


async def test_a_replicaset_that_cannot_be_made_is_told(world: World) -> None:
    """In a condition and an event, until it can be made."""
    world.wire.refuse = lambda r: refusal(403, "no quota") if is_set_creation(r) else None
    await world.create(Deployment, deployment_tree("web", 2))
    assert await progressing(world) == ("False", "ReplicaSetCreateError")
    (message,) = set(await world.told("ReplicaSetCreateError"))
    assert message.startswith('Failed to create new replica set "web-')
    assert message.endswith('": no quota')
    world.wire.refuse = None
    await world.advance(10)
    await roll(world)
    assert await progressing(world) == ("True", "NewReplicaSetAvailable")


async def test_pods_that_cannot_be_made_are_the_deployment_s_failure(world: World) -> None:
    """The ReplicaSet's condition is passed on, and taken back."""
    world.wire.refuse = lambda r: refusal(403, "no quota") if r.method == "POST" and r.path.endswith("/pods") else None
    await world.create(Deployment, deployment_tree("web", 2))
    found = conditions.find((await world.get(Deployment, "web")).status.conditions, "ReplicaFailure")
    assert found is not None
    assert (found.reason, found.message) == ("FailedCreate", "no quota")
    world.wire.refuse = None
    await world.advance(10)
    await roll(world)
    kinds = {each.type for each in (await world.get(Deployment, "web")).status.conditions}
    assert kinds == {"Available", "Progressing"}


async def test_a_replicaset_changes_hands(world: World) -> None:
    """An orphan with the template becomes the new one; one whose labels are changed is let go."""
    await rolled_out(world, deployment_tree("web", 2))
    await world.user.delete(Deployment, "web", namespace="default", propagation="Orphan")
    await world.settle()
    (left,) = await world.all(ReplicaSet)
    assert left.metadata.owner_references == ()
    await rolled_out(world, deployment_tree("web", 2))
    (kept,) = await world.all(ReplicaSet)
    assert kept.metadata.uid == left.metadata.uid
    assert kept.metadata.controller is not None
    await world.patch(ReplicaSet, kept.metadata.name, {"metadata": {"labels": {"app": "other"}}})
    assert (await world.get(ReplicaSet, kept.metadata.name)).metadata.owner_references == ()


async def test_the_end_of_a_deployment_is_the_end_of_its_pods(world: World) -> None:
    """Nobody makes anything anew while the collector does its work."""
    await rolled_out(world, deployment_tree("web", 3))
    await world.user.delete(Deployment, "web", namespace="default")
    await world.settle()
    await world.run_pods()
    assert await world.all(ReplicaSet) == []
    assert await world.all(Pod) == []


async def test_nothing_is_written_when_nothing_happens(world: World) -> None:
    """A settled Deployment is looked at again, and left as it is."""
    await rolled_out(world, deployment_tree("web", 3))
    before = world.cluster.store.version
    await world.stop()
    await world.start()
    await world.advance(3600)
    assert world.cluster.store.version == before


async def test_a_lagging_watch_does_no_harm(world: World) -> None:
    """What was written and not seen is not written twice: every write holds for one version only."""
    recorder = RolloutRecorder(world)
    await rolled_out(world, deployment_tree("web", 6))
    recorder.begin()
    world.wire.hold("replicasets")
    await world.user.patch(Deployment, "web", image("app:2"), namespace="default")
    for step in range(3):
        await world.patch(Deployment, "web", {"metadata": {"labels": {"step": str(step)}}})
    assert len(await world.all(ReplicaSet)) == 2
    world.wire.go_on()
    await roll(world)
    assert recorder.most <= 8
    assert recorder.fewest >= 5
    assert await sizes(world) == {"app:2": 6}


# Trouble.


@pytest.mark.parametrize("seed", range(3))
async def test_trouble_on_the_wire_changes_nothing_in_the_end(world: World, seed: int) -> None:
    """One call in five is refused, fails, or is done without an answer: what is there at last is what was asked for."""
    rng = random.Random(seed)

    def refuse(_: Request) -> Refusal | None:
        return rng.choice(TROUBLES) if rng.random() < 0.15 else None

    def lose(request: Request) -> None:
        if rng.random() < 0.05:
            raise Unreachable("the answer was lost", call=request.call)

    world.wire.refuse, world.wire.after = refuse, lose
    await world.create(Deployment, deployment_tree("web", 4))
    for number in (2, 3):
        await world.run_pods(3)
        await world.patch(Deployment, "web", image(f"app:{number}"))
        await world.patch(Deployment, "web", {"spec": {"replicas": 4 + number}})
    world.wire.refuse = world.wire.after = None
    for _ in range(20):
        await world.run_pods()
        await world.advance(60)
    assert await is_rolled_out(world)
    assert await sizes(world) == {"app:3": 7}
    assert len(await world.pods()) == 7


TROUBLES = (
    refusal(409, "somebody was faster"),
    refusal(429, "too many requests", details={"retryAfterSeconds": 1}),
    refusal(500, "broken"),
    refusal(503, "away"),
)


# Killed at any line.


async def walk(world: World) -> None:
    """A rollout, another one, and scaling in its middle."""
    await world.create(Deployment, deployment_tree("web", 4))
    await world.run_pods()
    await world.patch(Deployment, "web", image("app:2"))
    await world.run_pods(2)
    await world.patch(Deployment, "web", {"spec": {"replicas": 6}})
    await roll(world)


async def writes_of_a_walk() -> int:
    """How many writes the controllers make on the walk, if nobody kills them."""
    world = World()
    await world.start()
    await walk(world)
    await world.close()
    return sum(request.method != "GET" for request in world.wire.requests)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arrives", [pytest.param(True, id="after the write"), pytest.param(False, id="before the write")]
)
async def test_killed_at_any_write_it_goes_on(arrives: bool) -> None:
    """The controllers are killed at one write, another process takes over, and the walk ends as it would have."""
    total = await writes_of_a_walk()
    assert total > 50
    for victim in random.Random(7).sample(range(1, total), 4):
        world = World()
        await world.start()
        await interrupted(world, victim, arrives=arrives)
        assert await sizes(world) == {"app:2": 6}
        assert len(await world.pods()) == 6
        assert await progressing(world) == ("True", "NewReplicaSetAvailable")
        assert (await world.get(Deployment, "web")).metadata.annotations[REVISION] == "2"
        await world.close()


async def interrupted(world: World, victim: int, *, arrives: bool) -> None:
    """The walk, with the controllers killed at that write, and started again when the user has waited for a while."""
    recorder = RolloutRecorder(world)
    count = 0

    def strike(request: Request) -> None:
        nonlocal count
        count += request.method != "GET"
        if count == victim:
            world.wire.dead = True

    def before(request: Request) -> None:
        strike(request)
        if world.wire.dead:
            raise ConnectionError("killed")

    if arrives:
        world.wire.after = strike
    else:
        world.wire.refuse = before
    world.on_settled = lambda: revive(world)
    await walk(world)
    assert recorder.most <= 8


async def revive(world: World) -> None:
    """Start the controllers again if they were killed."""
    if world.wire.dead:
        await world.kill()
        await world.start()
