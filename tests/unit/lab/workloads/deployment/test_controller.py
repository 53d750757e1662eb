"""The Deployment controller, over the wire."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.lab.workloads.objects import deployment_tree, template
from trimtab.api import codec
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.pods import Pod
from trimtab.kube import conditions
from trimtab.kube.errors import Unreachable
from trimtab.kube.transport import Request
from trimtab_lab.apiserver.kinds.errors import StatusError, status_error
from trimtab_lab.apiserver.storage.store import Collection
from trimtab_lab.apiserver.storage.store import Event as Change
from trimtab_lab.testing import InMemoryLab
from trimtab_lab.workloads.deployment import templates
from trimtab_lab.workloads.deployment.revisions import HISTORY, REVISION

JSON = dict[str, Any]


def image(name: str) -> JSON:
    """A patch that asks for another image."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


async def sizes(lab: InMemoryLab) -> dict[str, int]:
    """How large each ReplicaSet is to be, by its image; those without pods left out."""
    sets = [each for each in await lab.all(ReplicaSet) if each.spec.replicas]
    return {image_of(each): each.spec.replicas or 0 for each in sets}


def image_of(replicaset: ReplicaSet) -> str:
    """The image of its template."""
    assert replicaset.spec.template is not None
    found: str = replicaset.spec.template.tree()["spec"]["containers"][0]["image"]
    return found


async def progressing(lab: InMemoryLab) -> tuple[str, str]:
    """Status and reason of the Progressing condition."""
    found = conditions.find((await lab.get(Deployment, "web")).status.conditions, "Progressing")
    assert found is not None
    return found.status, found.reason


async def is_rolled_out(lab: InMemoryLab) -> bool:
    """What `kubectl rollout status` waits for."""
    found = await lab.get(Deployment, "web")
    status, wanted = found.status, found.spec.replicas or 0
    return (
        status.observed_generation >= found.metadata.generation
        and status.updated_replicas >= wanted
        and status.replicas <= status.updated_replicas
        and status.available_replicas >= status.updated_replicas
    )


class RolloutRecorder:
    """Counts the pods of a Deployment after everything that happens."""

    def __init__(self, lab: InMemoryLab) -> None:
        self.most = self.fewest = self.mixed = 0
        self._pods: dict[str, Pod] = {}
        lab.cluster.store.listen(self._heard)

    def begin(self) -> None:
        """Forget the extremes so far."""
        self.most, self.fewest, self.mixed = 0, len(self._pods), 0
        self._count()

    def _heard(self, collection: Collection, change: Change) -> None:
        if collection.name != "/pods":
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


async def roll(lab: InMemoryLab) -> None:
    """Let pods start and end, a few at a time, until the rollout is done."""
    for _ in range(200):
        if await is_rolled_out(lab):
            return
        await lab.run_pods(lab.rng.randint(1, 4))
    raise AssertionError("the rollout does not end")


async def rolled_out(lab: InMemoryLab, tree: JSON) -> None:
    """A Deployment whose first rollout is complete."""
    await lab.create(Deployment, tree)
    await roll(lab)


# Rolling updates.


async def test_a_deployment_is_rolled_out(lab: InMemoryLab) -> None:
    """A ReplicaSet, its pods, a status that kubectl understands, a revision and an event."""
    await rolled_out(lab, deployment_tree("web", 3))
    (made,) = await lab.all(ReplicaSet)
    found = await lab.get(Deployment, "web")
    assert found.metadata.annotations[REVISION] == made.metadata.annotations[REVISION] == "1"
    assert found.metadata.generation == found.status.observed_generation == 1
    assert await progressing(lab) == ("True", "NewReplicaSetAvailable")
    assert await lab.event_messages("ScalingReplicaSet") == [f"Scaled up replica set {made.metadata.name} from 0 to 3"]
    assert [pod.metadata.labels["pod-template-hash"] for pod in await lab.pods()] == [made.metadata.name[4:]] * 3


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
    lab: InMemoryLab, replicas: int, surge: int | str, unavailable: int | str, most: int, fewest: int
) -> None:
    """Counted after every single event, while pods start in any order; and it completes."""
    recorder = RolloutRecorder(lab)
    await rolled_out(lab, deployment_tree("web", replicas, surge=surge, unavailable=unavailable))
    recorder.begin()
    await lab.patch(Deployment, "web", image("app:2"))
    await roll(lab)
    assert recorder.most == most
    assert recorder.fewest >= fewest
    assert await sizes(lab) == {"app:2": replicas}
    assert await progressing(lab) == ("True", "NewReplicaSetAvailable")


async def test_a_rollout_over_a_rollout(lab: InMemoryLab) -> None:
    """A third template while the second is on its way: the limits hold, and the last one wins."""
    recorder = RolloutRecorder(lab)
    await rolled_out(lab, deployment_tree("web", 8))
    recorder.begin()
    await lab.patch(Deployment, "web", image("app:2"))
    await lab.run_pods(2)
    await lab.patch(Deployment, "web", image("app:3"))
    await roll(lab)
    assert (recorder.most, await sizes(lab)) == (10, {"app:3": 8})
    assert recorder.fewest >= 6


async def test_pods_that_never_start_do_not_take_the_service_down(lab: InMemoryLab) -> None:
    """The new pods hang: the old ones that must be there stay, however long it takes; an undo brings all back."""
    await rolled_out(lab, deployment_tree("web", 4))
    recorder = RolloutRecorder(lab)
    recorder.begin()
    await lab.patch(Deployment, "web", image("broken"))
    await lab.advance(601)
    assert await sizes(lab) == {"app:1": 3, "broken": 2}
    assert await progressing(lab) == ("False", "ProgressDeadlineExceeded")
    await lab.patch(Deployment, "web", image("app:1"))
    await roll(lab)
    assert await sizes(lab) == {"app:1": 4}
    assert await progressing(lab) == ("True", "NewReplicaSetAvailable")


async def test_going_back_takes_the_old_replicaset(lab: InMemoryLab) -> None:
    """`kubectl rollout undo` patches the template: no new ReplicaSet, a new revision, and the old one as history."""
    await rolled_out(lab, deployment_tree("web", 2))
    (first,) = await lab.all(ReplicaSet)
    await lab.patch(Deployment, "web", image("app:2"))
    await roll(lab)
    await lab.patch(Deployment, "web", image("app:1"))
    await roll(lab)
    again = await lab.get(ReplicaSet, first.metadata.name)
    assert len(await lab.all(ReplicaSet)) == 2
    assert again.metadata.annotations[REVISION] == "3"
    assert again.metadata.annotations[HISTORY] == "1"
    assert (await lab.get(Deployment, "web")).metadata.annotations[REVISION] == "3"


async def test_old_revisions_are_forgotten(lab: InMemoryLab) -> None:
    """Two are kept beside the current one, the last ones."""
    await rolled_out(lab, deployment_tree("web", 1, revisionHistoryLimit=2))
    for number in range(2, 6):
        await lab.patch(Deployment, "web", image(f"app:{number}"))
        await roll(lab)
    assert sorted(map(image_of, await lab.all(ReplicaSet))) == ["app:3", "app:4", "app:5"]


async def test_a_replicaset_in_use_is_not_deleted(lab: InMemoryLab) -> None:
    """An old ReplicaSet was changed, and the controller has not seen it: it is deleted only as it was seen."""
    await rolled_out(lab, deployment_tree("web", 1))
    (first,) = await lab.all(ReplicaSet)
    await lab.patch(Deployment, "web", image("app:2"))
    await roll(lab)
    lab.wire.hold("replicasets")
    await lab.patch(ReplicaSet, first.metadata.name, {"metadata": {"labels": {"keep": "me"}}})
    await lab.patch(Deployment, "web", {"spec": {"revisionHistoryLimit": 0}})
    assert len(await lab.all(ReplicaSet)) == 2
    lab.wire.resume()
    await lab.advance(10)
    assert len(await lab.all(ReplicaSet)) == 1


async def test_patience_is_passed_on(lab: InMemoryLab) -> None:
    """A change of minReadySeconds is no rollout; the ReplicaSet just waits longer from then on."""
    await rolled_out(lab, deployment_tree("web", 2))
    await lab.patch(Deployment, "web", {"spec": {"minReadySeconds": 30}})
    (only,) = await lab.all(ReplicaSet)
    assert only.spec.min_ready_seconds == 30


async def test_a_rollout_waits_for_availability(lab: InMemoryLab) -> None:
    """With minReadySeconds, ready pods are not relied on at once: time passes between the steps."""
    recorder = RolloutRecorder(lab)
    await lab.create(Deployment, deployment_tree("web", 4, minReadySeconds=10, surge=1, unavailable=0))
    await lab.run_pods()
    await lab.advance(11)
    recorder.begin()
    await lab.patch(Deployment, "web", image("app:2"))
    await lab.run_pods()
    assert (await sizes(lab))["app:2"] == 1
    for _ in range(6):
        await lab.advance(11)
        await lab.run_pods()
    assert await is_rolled_out(lab)
    assert (recorder.most, recorder.fewest) == (5, 4)


# Scaling, pausing, recreating.


async def test_scaling_is_no_rollout(lab: InMemoryLab) -> None:
    """The same ReplicaSet grows and shrinks, and the revision stays."""
    await rolled_out(lab, deployment_tree("web", 2))
    for replicas in (5, 0, 3):
        await lab.patch(Deployment, "web", {"spec": {"replicas": replicas}})
        await roll(lab)
        assert len(await lab.pods()) == replicas
    (only,) = await lab.all(ReplicaSet)
    assert only.metadata.annotations[REVISION] == "1"


async def test_scaling_in_the_middle_is_shared_out(lab: InMemoryLab) -> None:
    """Old and new grow in proportion, so that scaling does not hasten the rollout."""
    await rolled_out(lab, deployment_tree("web", 10, surge=3, unavailable=2))
    await lab.patch(Deployment, "web", image("app:2"))
    assert await sizes(lab) == {"app:1": 8, "app:2": 5}
    await lab.patch(Deployment, "web", {"spec": {"replicas": 30}})
    assert await sizes(lab) == {"app:1": 20, "app:2": 13}
    await roll(lab)
    assert await sizes(lab) == {"app:2": 30}


async def test_a_pause_holds_everything_but_scaling(lab: InMemoryLab) -> None:
    """No ReplicaSet for a template that is set meanwhile; when it ends the rollout begins."""
    await rolled_out(lab, deployment_tree("web", 2))
    await lab.patch(Deployment, "web", {"spec": {"paused": True}})
    assert await progressing(lab) == ("Unknown", "DeploymentPaused")
    await lab.patch(Deployment, "web", image("app:2"))
    await lab.patch(Deployment, "web", {"spec": {"replicas": 4}})
    assert await sizes(lab) == {"app:1": 4}
    await lab.advance(3600)
    assert await progressing(lab) == ("Unknown", "DeploymentPaused")
    await lab.patch(Deployment, "web", {"spec": {"paused": False}})
    await roll(lab)
    assert await sizes(lab) == {"app:2": 4}


async def test_recreated_pods_never_run_beside_the_old_ones(lab: InMemoryLab) -> None:
    """Not even while the old ones are terminating; the deletion of the last one triggers the next step."""
    recorder = RolloutRecorder(lab)
    await rolled_out(lab, deployment_tree("web", 3, strategy="Recreate"))
    recorder.begin()
    await lab.patch(Deployment, "web", image("app:2"))
    assert await sizes(lab) == {}
    going = await lab.all(Pod)
    assert [pod.terminating for pod in going] == [True] * 3
    for pod in going[:2]:
        await lab.end(pod)
        await lab.settle()
        assert await lab.pods() == []
    lab.wire.hold("replicasets")
    await lab.end(going[2])
    await lab.settle()
    assert await sizes(lab) == {"app:2": 3}
    lab.wire.resume()
    await roll(lab)
    assert recorder.mixed == 1


# What else may happen.


async def test_a_taken_name_is_a_collision(lab: InMemoryLab) -> None:
    """Another owner's ReplicaSet has the name: it is not touched, and another hash is used."""
    made = await lab.create(Deployment, deployment_tree("web", 1, paused=True))
    name = templates.name_of("web", templates.hash_for(made))
    plain = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template("other", app="x")}
    await lab.create(ReplicaSet, {"metadata": {"name": name}, "spec": plain})
    await lab.patch(Deployment, "web", {"spec": {"paused": False}})
    await roll(lab)
    found = await lab.get(Deployment, "web")
    assert found.status.collision_count == 1
    assert await sizes(lab) == {"app:1": 1}
    assert (await lab.get(ReplicaSet, name)).metadata.owner_references == ()


def is_set_creation(request: Request) -> bool:
    """Whether a request creates a ReplicaSet."""
    return request.method == "POST" and request.path.endswith("/replicasets")


async def test_a_replicaset_that_cannot_be_created_is_reported(lab: InMemoryLab) -> None:
    """In a condition and an event, until it can be made."""
    lab.wire.refuse = lambda r: status_error(403, "no quota") if is_set_creation(r) else None
    await lab.create(Deployment, deployment_tree("web", 2))
    assert await progressing(lab) == ("False", "ReplicaSetCreateError")
    (message,) = set(await lab.event_messages("ReplicaSetCreateError"))
    assert message.startswith('Failed to create new replica set "web-')
    assert message.endswith('": no quota')
    lab.wire.refuse = None
    await lab.advance(10)
    await roll(lab)
    assert await progressing(lab) == ("True", "NewReplicaSetAvailable")


async def test_pods_that_cannot_be_made_are_the_deployment_s_failure(lab: InMemoryLab) -> None:
    """The ReplicaSet's condition is passed on, and taken back."""
    lab.wire.refuse = lambda r: (
        status_error(403, "no quota") if r.method == "POST" and r.path.endswith("/pods") else None
    )
    await lab.create(Deployment, deployment_tree("web", 2))
    found = conditions.find((await lab.get(Deployment, "web")).status.conditions, "ReplicaFailure")
    assert found is not None
    assert (found.reason, found.message) == ("FailedCreate", "no quota")
    lab.wire.refuse = None
    await lab.advance(10)
    await roll(lab)
    kinds = {each.type for each in (await lab.get(Deployment, "web")).status.conditions}
    assert kinds == {"Available", "Progressing"}


async def test_a_replicaset_changes_hands(lab: InMemoryLab) -> None:
    """An orphan with the template becomes the new one; one whose labels are changed is released."""
    await rolled_out(lab, deployment_tree("web", 2))
    await lab.user.delete(Deployment, "web", namespace="default", propagation="Orphan")
    await lab.settle()
    (left,) = await lab.all(ReplicaSet)
    assert left.metadata.owner_references == ()
    await rolled_out(lab, deployment_tree("web", 2))
    (kept,) = await lab.all(ReplicaSet)
    assert kept.metadata.uid == left.metadata.uid
    assert kept.metadata.controller is not None
    await lab.patch(ReplicaSet, kept.metadata.name, {"metadata": {"labels": {"app": "other"}}})
    assert (await lab.get(ReplicaSet, kept.metadata.name)).metadata.owner_references == ()


async def test_the_end_of_a_deployment_is_the_end_of_its_pods(lab: InMemoryLab) -> None:
    """Nothing is created again while the garbage collector works."""
    await rolled_out(lab, deployment_tree("web", 3))
    await lab.user.delete(Deployment, "web", namespace="default")
    await lab.settle()
    await lab.run_pods()
    assert await lab.all(ReplicaSet) == []
    assert await lab.all(Pod) == []


async def test_nothing_is_written_when_nothing_happens(lab: InMemoryLab) -> None:
    """A settled Deployment is reconciled again, and left as it is."""
    await rolled_out(lab, deployment_tree("web", 3))
    before = lab.cluster.store.version
    await lab.stop()
    await lab.start()
    await lab.advance(3600)
    assert lab.cluster.store.version == before


async def test_a_lagging_watch_does_no_harm(lab: InMemoryLab) -> None:
    """What was written and not seen is not written twice: every write holds for one version only."""
    recorder = RolloutRecorder(lab)
    await rolled_out(lab, deployment_tree("web", 6))
    recorder.begin()
    lab.wire.hold("replicasets")
    await lab.user.patch(Deployment, "web", image("app:2"), namespace="default")
    for step in range(3):
        await lab.patch(Deployment, "web", {"metadata": {"labels": {"step": str(step)}}})
    assert len(await lab.all(ReplicaSet)) == 2
    lab.wire.resume()
    await roll(lab)
    assert recorder.most <= 8
    assert recorder.fewest >= 5
    assert await sizes(lab) == {"app:2": 6}


# Trouble.


@pytest.mark.parametrize("seed", range(3))
async def test_trouble_on_the_wire_changes_nothing_in_the_end(lab: InMemoryLab, seed: int) -> None:
    """One call in five is refused, fails, or is done without an answer: what is there at last is what was asked for."""
    rng = random.Random(seed)

    def refuse(_: Request) -> StatusError | None:
        return rng.choice(TROUBLES) if rng.random() < 0.15 else None

    def lose(request: Request) -> None:
        if rng.random() < 0.05:
            raise Unreachable("the answer was lost", call=request.call)

    lab.wire.refuse, lab.wire.after = refuse, lose
    await lab.create(Deployment, deployment_tree("web", 4))
    for number in (2, 3):
        await lab.run_pods(3)
        await lab.patch(Deployment, "web", image(f"app:{number}"))
        await lab.patch(Deployment, "web", {"spec": {"replicas": 4 + number}})
    lab.wire.refuse = lab.wire.after = None
    for _ in range(20):
        await lab.run_pods()
        await lab.advance(60)
    assert await is_rolled_out(lab)
    assert await sizes(lab) == {"app:3": 7}
    assert len(await lab.pods()) == 7


TROUBLES = (
    status_error(409, "somebody was faster"),
    status_error(429, "too many requests", details={"retryAfterSeconds": 1}),
    status_error(500, "broken"),
    status_error(503, "away"),
)


# Killed at any line.


async def walk(lab: InMemoryLab) -> None:
    """A rollout, another one, and scaling in its middle."""
    await lab.create(Deployment, deployment_tree("web", 4))
    await lab.run_pods()
    await lab.patch(Deployment, "web", image("app:2"))
    await lab.run_pods(2)
    await lab.patch(Deployment, "web", {"spec": {"replicas": 6}})
    await roll(lab)


async def writes_of_a_walk() -> int:
    """How many writes the controllers make in the scenario if they are not killed."""
    lab = InMemoryLab()
    await lab.start()
    await walk(lab)
    await lab.close()
    return sum(request.method != "GET" for request in lab.wire.requests)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arrives", [pytest.param(True, id="after the write"), pytest.param(False, id="before the write")]
)
async def test_killed_at_any_write_it_goes_on(arrives: bool) -> None:
    """The controllers are killed at one write, another process takes over, and the walk ends as it would have."""
    total = await writes_of_a_walk()
    assert total > 50
    for victim in random.Random(7).sample(range(1, total), 4):
        lab = InMemoryLab()
        await lab.start()
        await interrupted(lab, victim, arrives=arrives)
        assert await sizes(lab) == {"app:2": 6}
        assert len(await lab.pods()) == 6
        assert await progressing(lab) == ("True", "NewReplicaSetAvailable")
        assert (await lab.get(Deployment, "web")).metadata.annotations[REVISION] == "2"
        await lab.close()


async def interrupted(lab: InMemoryLab, victim: int, *, arrives: bool) -> None:
    """The walk, with the controllers killed at that write, and started again when the user has waited for a while."""
    recorder = RolloutRecorder(lab)
    count = 0

    def strike(request: Request) -> None:
        nonlocal count
        count += request.method != "GET"
        if count == victim:
            lab.wire.dead = True

    def before(request: Request) -> None:
        strike(request)
        if lab.wire.dead:
            raise ConnectionError("killed")

    if arrives:
        lab.wire.after = strike
    else:
        lab.wire.refuse = before
    lab.on_settled = lambda: revive(lab)
    await walk(lab)
    assert recorder.most <= 8


async def revive(lab: InMemoryLab) -> None:
    """Start the controllers again if they were killed."""
    if lab.wire.dead:
        await lab.kill()
        await lab.start()
