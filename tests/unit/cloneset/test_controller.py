"""The CloneSet controller, against the lab's API server in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.cloneset.clusters import CLONESETS, DEFINITIONS, CloneSetCluster, manifest, template
from trimtab.api import crds
from trimtab.api.annotations import MANAGED_BY, RANK
from trimtab.api.apps import ControllerRevision, Scale
from trimtab.api.cloneset import INSTANCE_ID, REVISION_HASH, SPECIFIED_DELETE, CloneSet
from trimtab.api.core import Event
from trimtab.api.meta import Condition
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.pods import Pod, TopologySpreadConstraint
from trimtab.cloneset.kind_owner import KindOwner
from trimtab.cloneset.settings import Settings
from trimtab.kube.errors import Unreachable
from trimtab.kube.resources import Resource
from trimtab.kube.transport import Request, Response
from trimtab.ranking.rankers import RankSettings, constraints_of
from trimtab_lab.apiserver.kinds.errors import StatusError, status_error

PODS = Resource.of(Pod).raw
REVISIONS = Resource.of(ControllerRevision).raw
ZONES = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway")
HOSTS = TopologySpreadConstraint(max_skew=1, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway")


def is_creation(request: Request) -> bool:
    """Whether a request makes a pod."""
    return request.method == "POST" and request.path.endswith("/pods")


def is_deletion(request: Request, name: str = "") -> bool:
    """Whether a request deletes a pod, or the one of that name."""
    return request.method == "DELETE" and "/pods/" in request.path and request.path.endswith(name)


def refusing(when: Callable[[int], bool]) -> Callable[[Request], StatusError | None]:
    """Refuses pods, by the number of the attempt, from 1 on."""
    attempts = 0

    def refuse(request: Request) -> StatusError | None:
        nonlocal attempts
        if not is_creation(request):
            return None
        attempts += 1
        return status_error(403, "no more pods today") if when(attempts) else None

    return refuse


def quota(world: CloneSetCluster, most: int) -> Callable[[Request], StatusError | None]:
    """Lets there be so many pods, those included that are on their way out."""

    def refuse(request: Request) -> StatusError | None:
        full = len(world.cluster.store.collection("/pods").entries) >= most
        return status_error(403, "exceeded quota") if full and is_creation(request) else None

    return refuse


async def condition(world: CloneSetCluster, kind: str, name: str = "web") -> Condition | None:
    """A condition of the CloneSet."""
    status = (await world.cloneset(name)).status
    return next((each for each in status.conditions if each.type == kind), None)


async def revision_of(world: CloneSetCluster, pod: str) -> str:
    """The revision that a pod was made from."""
    return (await world.get(Pod, pod)).metadata.labels[REVISION_HASH]


# Growing.


async def test_pods_are_made_from_the_whole_template(world: CloneSetCluster) -> None:
    """Every field is in the pod, also those that no type here knows; its owner, revision and id are named."""
    whole = template()
    whole["metadata"]["annotations"] = {"team": "a"}
    whole["spec"]["containers"][0]["env"] = [{"name": "COLOUR", "value": "red"}]
    await world.create(CloneSet, manifest(1, template=whole))
    (made,) = await world.pods()
    raw = await world.raw(Pod, made.metadata.name)
    assert raw["metadata"]["annotations"] == {"team": "a"}
    assert raw["spec"]["containers"][0]["env"] == [{"name": "COLOUR", "value": "red"}]
    (owner,) = raw["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CloneSet", "web", True)
    labels = raw["metadata"]["labels"]
    assert labels[REVISION_HASH] == (await world.cloneset()).status.update_revision
    assert made.metadata.name == f"web-{labels[INSTANCE_ID]}"
    assert await world.event_messages("SuccessfulCreate") == [f"Created pod: {made.metadata.name}"]


async def test_the_template_keeps_fields_that_the_server_does_not_know(world: CloneSetCluster) -> None:
    """The definition prunes nothing of it."""
    tree = manifest(0)
    tree["spec"]["template"]["spec"]["brandNewField"] = {"deep": [1]}
    await world.create(CloneSet, tree)
    kept = await world.raw(CloneSet, "web")
    assert kept["spec"]["template"]["spec"]["brandNewField"] == {"deep": [1]}


async def test_the_status_follows_the_pods(world: CloneSetCluster) -> None:
    """From nothing over pending to available; what is going is not counted."""
    await world.create(CloneSet, manifest(2))
    pending = (await world.cloneset()).status
    assert (pending.replicas, pending.updated_replicas, pending.ready_replicas) == (2, 2, 0)
    await world.run_pods()
    ready = (await world.cloneset()).status
    assert (ready.ready_replicas, ready.available_replicas, ready.updated_ready_replicas) == (2, 2, 2)
    assert (ready.observed_generation, ready.label_selector, ready.expected_updated_replicas) == (1, "app=web", 2)
    await world.resize(1)
    shrunk = (await world.cloneset()).status
    assert (shrunk.replicas, shrunk.observed_generation) == (1, 2)


async def test_the_scale_subresource_works(world: CloneSetCluster) -> None:
    """For kubectl and for autoscalers: size, number and selector."""
    await world.create(CloneSet, manifest(2))
    await world.run_pods()
    scale: Scale = await world.user.scale(CloneSet, "web", namespace="default")
    assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (2, 2, "app=web")
    await world.resize(4)
    assert len(await world.pods()) == 4


async def test_a_permanent_failure_is_tried_once_at_a_time(world: CloneSetCluster) -> None:
    """Slow start: of a hundred pods that are refused one is tried, and less and less often; the condition says why."""
    world.wire.refuse = refusing(lambda _: True)
    await world.user.create(CLONESETS, manifest(100), namespace="default")
    await world.clock.advance(30)
    assert sum(map(is_creation, world.wire.requests)) < 20
    failed = await condition(world, "FailedScale")
    assert failed is not None
    assert "no more pods today" in failed.message
    world.wire.refuse = None
    await world.advance(60)
    assert len(await world.pods()) == 100
    assert await condition(world, "FailedScale") is None


@pytest.mark.parametrize(
    ("method", "ending"),
    [
        pytest.param("PATCH", "/pods/foundling", id="a pod that cannot be adopted"),
        pytest.param("POST", "/controllerrevisions", id="a revision that cannot be written"),
        pytest.param("GET", "/clonesets/web", id="a CloneSet that cannot be read"),
    ],
)
async def test_a_request_that_fails_before_pods_are_created_is_reported(
    world: CloneSetCluster, method: str, ending: str
) -> None:
    """In the server's words; when it is allowed, reconciling continues, and the condition goes."""
    await world.place("foundling", "node-0", since="2025-12-31T23:00:00Z")
    world.wire.refuse = lambda request: (
        status_error(403, "you may not") if request.method == method and request.path.endswith(ending) else None
    )
    await world.create(CloneSet, manifest(2))
    failed = await condition(world, "FailedScale")
    assert failed is not None
    assert failed.message == "you may not"
    world.wire.refuse = None
    await world.advance(60)
    assert len(await world.pods()) == 2
    assert await condition(world, "FailedScale") is None


async def test_batches_double_until_one_fails(world: CloneSetCluster) -> None:
    """1, 2, 4 succeed, of the next 8 one fails: no more is tried then, and the rest is made up for afterwards."""
    world.wire.refuse = refusing(lambda number: number == 9)
    await world.create(CloneSet, manifest(30))
    assert sum(map(is_creation, world.wire.requests)) == 31
    assert len(await world.pods()) == 30


async def test_growing_is_held_back_by_max_unavailable(world: CloneSetCluster) -> None:
    """scaleStrategy.maxUnavailable: no more pods are on their way than may be unavailable."""
    await world.create(CloneSet, manifest(7, scaleStrategy={"maxUnavailable": 3}))
    assert len(await world.pods()) == 3
    await world.run_pods(limit=2)
    assert len(await world.pods()) == 5
    await world.run_pods()
    assert len(await world.pods()) == 7
    assert any("4 pods wait" in message for message in await world.event_messages("ScaleUpLimited"))


async def test_min_ready_seconds(world: CloneSetCluster) -> None:
    """A pod counts as available when it has been ready for so long, by nothing but time."""
    await world.create(CloneSet, manifest(2, minReadySeconds=30))
    await world.run_pods()
    assert (await world.cloneset()).status.available_replicas == 0
    await world.advance(31)
    assert (await world.cloneset()).status.available_replicas == 2


# Adoption.


async def test_orphans_are_adopted_and_strangers_released(world: CloneSetCluster) -> None:
    """A matching orphan is adopted; a pod that no longer matches is released and replaced."""
    await world.place("orphan", "a", since="2025-12-31T23:00:00Z")
    await world.create(CloneSet, manifest(2, updateStrategy={"paused": True}))
    assert "orphan" in await world.names()
    assert len(await world.pods()) == 2
    owner = (await world.get(Pod, "orphan")).metadata.controller
    assert owner is not None
    assert owner.name == "web"
    await world.patch(Pod, "orphan", {"metadata": {"labels": {"app": "quarantine"}}})
    assert (await world.get(Pod, "orphan")).metadata.controller is None
    assert len(await world.pods()) == 3, "two of the CloneSet, and the one that was let go"
    assert (await world.cloneset()).status.replicas == 2


async def test_a_pod_of_another_controller_is_not_touched(world: CloneSetCluster) -> None:
    """Although it matches."""
    reference = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}
    body = {"metadata": {"name": "theirs", "labels": {"app": "web"}, "ownerReferences": [reference]}}
    await world.user.create(PODS, {**body, "spec": template()["spec"]}, namespace="default")
    await world.create(CloneSet, manifest(1))
    assert (await world.cloneset()).status.replicas == 1
    assert len([pod for pod in await world.pods() if pod.metadata.name != "theirs"]) == 1


async def test_a_cloneset_that_is_being_deleted_creates_no_pods(world: CloneSetCluster) -> None:
    """Its pods go with it, and come not again."""
    await world.create(CloneSet, manifest(3))
    await world.run_pods()
    await world.user.delete(CloneSet, "web", namespace="default", propagation="Foreground")
    await world.settle()
    await world.run_pods()
    assert await world.all(Pod) == []
    assert await world.all(CloneSet) == []
    assert await world.all(ControllerRevision) == []


@pytest.mark.parametrize(
    ("propagation", "left"),
    [
        pytest.param("Background", 0, id="with its pods"),
        pytest.param("Orphan", 3, id="without its pods"),
    ],
)
async def test_a_deleted_cloneset_whose_deletion_is_not_observed_creates_no_pods(
    world: CloneSetCluster, propagation: str, left: int
) -> None:
    """Its pods are deleted or orphaned before the watch shows it: replacements would be garbage-collected without
    end."""
    await world.create(CloneSet, manifest(3))
    await world.run_pods()
    world.wire.hold("clonesets")
    await world.user.delete(CloneSet, "web", namespace="default", propagation=propagation)
    await world.settle()
    await world.end_pods()
    assert len(await world.pods()) == left
    world.wire.resume()
    await world.advance(60)
    assert len(await world.all(Pod)) == left
    assert sum(map(is_creation, world.wire.requests)) == 3


async def test_overlapping_clonesets_report_it_and_do_not_compete(world: CloneSetCluster) -> None:
    """Both name the other; each keeps its own number; orphans go to the older one. Nothing loops."""
    await world.create(CloneSet, manifest(2))
    await world.clock.advance(5)
    other = manifest(2, "copy", selector={"matchLabels": {"app": "web"}}, template=template(app="web", tier="b"))
    await world.create(CloneSet, {**other, "spec": {**other["spec"], "updateStrategy": {"paused": True}}})
    await world.run_pods()
    for name, neighbour in (("web", "copy"), ("copy", "web")):
        report = await condition(world, "SelectorOverlap", name)
        assert report is not None
        assert neighbour in report.message
        assert (await world.cloneset(name)).status.replicas == 2
    await world.place("orphan", "a", since="2025-12-31T23:00:00Z")
    await world.settle()
    owners = {pod.metadata.controller.name for pod in await world.pods() if pod.metadata.controller}
    assert owners == {"web", "copy"}
    before = len(world.wire.requests)
    await world.advance(600)
    assert [r for r in world.wire.requests[before:] if r.method != "GET"] == [], "nothing more to do"
    await world.resize(1, "copy")
    await world.run_pods()
    assert ((await world.cloneset("web")).status.replicas, (await world.cloneset("copy")).status.replicas) == (2, 1)
    assert len(await world.event_messages("SelectorOverlap")) == 2
    await world.user.delete(CloneSet, "copy", namespace="default")
    await world.settle()
    assert await condition(world, "SelectorOverlap") is None


# Shrinking.


async def test_the_proposals_example_over_the_wire(world: CloneSetCluster) -> None:
    """Scaled down one by one, the pods leave in the two inner orders that the proposal prints; the zones stay level."""
    await world.add_nodes("a", "b", "c", zone="x")
    await world.add_nodes("d", "e", zone="y")
    youngest_first = ["c-2", "d-1", "e-1", "a-1", "c-1", "d-0", "e-0", "a-0", "b-0", "c-0"]
    for age, name in enumerate(youngest_first):
        await world.place(name, name[0], since=f"2025-12-31T23:{30 - age:02d}:00Z")
    await world.create(CloneSet, manifest(10, template=template(spread=ZONE), updateStrategy={"paused": True}))
    gone = []
    for size in range(9, -1, -1):
        before = await world.names()
        await world.resize(size)
        (victim,) = before - await world.names()
        gone.append(victim)
        zones = [sum(name[0] in nodes for name in await world.names()) for nodes in ("abc", "de")]
        assert abs(zones[0] - zones[1]) <= max(zones[0] + zones[1] - 2 * 4, 1), "never less level than before"
    assert [name for name in gone if name[0] in "abc"] == ["c-2", "a-1", "c-1", "a-0", "b-0", "c-0"]
    assert [name for name in gone if name[0] in "de"] == ["d-1", "e-1", "d-0", "e-0"]


@pytest.mark.parametrize("annotated", [pytest.param(True, id="by annotation"), pytest.param(False, id="configured")])
async def test_proportional_ranks_give_the_printed_sequence_over_the_wire(annotated: bool) -> None:
    """One scale-down deletes the pods in the order that the proposal prints, every zone giving the same share."""
    rank = RankSettings(scale="balanced" if annotated else "proportional")
    world = CloneSetCluster(Settings(rank=rank, parallel_deletions=1))
    await world.start()
    await world.add_nodes("a", "b", "c", zone="x")
    await world.add_nodes("d", "e", zone="y")
    youngest_first = ["c-2", "d-1", "e-1", "a-1", "c-1", "d-0", "e-0", "a-0", "b-0", "c-0"]
    for age, name in enumerate(youngest_first):
        await world.place(name, name[0], since=f"2025-12-31T23:{30 - age:02d}:00Z")
    body = manifest(10, template=template(spread=ZONE), updateStrategy={"paused": True})
    body["metadata"]["annotations"] = {RANK: "proportional"} if annotated else {}
    await world.create(CloneSet, body)
    await world.resize(0)
    gone = [request.path.rpartition("/")[2] for request in world.wire.requests if is_deletion(request)]
    assert gone == ["d-1", "c-2", "e-1", "a-1", "c-1", "d-0", "a-0", "b-0", "e-0", "c-0"]
    await world.close()


async def test_a_rank_that_does_not_exist_is_refused(world: CloneSetCluster) -> None:
    """With the annotation, and what to write."""
    body = manifest(2)
    body["metadata"]["annotations"] = {RANK: "linear"}
    await world.create(CloneSet, body)
    (condition,) = (await world.cloneset()).status.conditions
    assert condition.message == (
        'metadata.annotations[trimtab.dev/rank]: "linear" is not a rank; write balanced or proportional'
    )
    assert await world.pods() == []


async def test_age_ratios_are_observed_for_pods_that_go_by_age(world: CloneSetCluster) -> None:
    """Pods that go because they share a node, or because of their cost, are not."""

    def value(suffix: str) -> float | None:
        return world.registry.get_sample_value(f"trimtab_cloneset_sorting_deletion_age_ratio_{suffix}")

    await world.add_nodes("a", "b", "c", zone="x")
    for name, since in (("a-0", "01"), ("a-1", "02"), ("b-0", "08"), ("c-0", "09")):
        await world.place(name, name[0], since=f"2025-12-31T23:{since}:00Z")
        await world.clock.advance(100)
    await world.create(CloneSet, manifest(4, updateStrategy={"paused": True}))
    await world.resize(3)
    assert value("count") == 0, "a-1 shared its node"
    await world.resize(2)
    assert value("count") == 1
    assert value("sum") == 1.0, "c-0 was the youngest itself"


async def test_only_pods_that_were_deleted_count(world: CloneSetCluster) -> None:
    """A refused deletion is retried: each attempt would look like a runaway scale-down."""

    def value(name: str, **labels: str) -> float | None:
        return world.registry.get_sample_value(f"trimtab_cloneset_{name}", labels)

    await world.add_nodes("a", "b", "c", zone="x")
    for name, since in (("a-0", "01"), ("b-0", "08"), ("c-0", "09")):
        await world.place(name, name[0], since=f"2025-12-31T23:{since}:00Z")
    await world.clock.advance(100)
    await world.create(CloneSet, manifest(3, updateStrategy={"paused": True}))
    world.wire.refuse = lambda request: status_error(403, "protected") if is_deletion(request) else None
    await world.resize(1)
    await world.advance(30)
    assert len([request for request in world.wire.requests if is_deletion(request)]) > 2
    assert not value("pods_deleted_total", step="scale-down")
    assert value("sorting_deletion_age_ratio_count") == 0
    world.wire.refuse = None
    await world.advance(60)
    assert value("pods_deleted_total", step="scale-down") == 2
    assert value("sorting_deletion_age_ratio_count") == 2


async def test_pods_that_share_a_node_go_first(world: CloneSetCluster) -> None:
    """Story 1."""
    await world.add_nodes("a", "b", "c", zone="x")
    for name, since in (("a-0", "01"), ("a-1", "02"), ("b-0", "09"), ("c-0", "09")):
        await world.place(name, name[0], since=f"2025-12-31T23:{since}:00Z")
    await world.create(CloneSet, manifest(4, updateStrategy={"paused": True}))
    await world.resize(3)
    assert await world.names() == {"a-0", "b-0", "c-0"}


@pytest.mark.parametrize(
    ("defaults", "gone"),
    [
        pytest.param([], "d-1", id="by its nodes"),
        pytest.param([ZONES, HOSTS], "f-0", id="by default constraints, where they are configured"),
    ],
)
async def test_a_template_without_constraints(defaults: list[TopologySpreadConstraint], gone: str) -> None:
    """A pod that shares its node goes before one of a fuller zone that is alone on its own."""
    world = CloneSetCluster(Settings(rank=RankSettings(defaults=lambda _: constraints_of(defaults))))
    await world.start()
    await world.add_nodes("a", "b", "c", "e", "f", zone="x")
    await world.add_nodes("d", zone="y")
    for age, name in enumerate(("a-0", "b-0", "c-0", "e-0", "f-0", "d-0", "d-1")):
        await world.place(name, name[0], since=f"2025-12-31T23:{age:02d}:00Z")
    await world.create(CloneSet, manifest(7, updateStrategy={"paused": True}))
    await world.resize(6)
    assert gone not in await world.names()
    await world.close()


@pytest.mark.parametrize("stated", [pytest.param(ZONE, id="the template's"), pytest.param("", id="the cluster's")])
async def test_pods_go_by_topology(stated: str) -> None:
    """Story 2: the constraints are the template's, or else the cluster's default constraints."""
    world = CloneSetCluster(Settings(rank=RankSettings(defaults=lambda _: constraints_of([ZONES]))))
    await world.start()
    await world.add_nodes("a", "b", "c", zone="x")
    await world.add_nodes("d", "e", zone="y")
    for name, since in (("a", "01"), ("b", "02"), ("c", "03"), ("d", "30"), ("e", "31")):
        await world.place(f"{name}-0", name, since=f"2025-12-31T23:{since}:00Z")
    await world.create(CloneSet, manifest(5, template=template(spread=stated), updateStrategy={"paused": True}))
    await world.resize(2)
    left = sorted(await world.names())
    assert [name[0] in "abc" for name in left] == [True, False], "one of each zone"
    await world.close()


async def test_old_revisions_go_first(world: CloneSetCluster) -> None:
    """In the midst of an update, a scale-down takes what would have been replaced."""
    await world.create(CloneSet, manifest(4, updateStrategy={"maxUnavailable": 2}))
    await world.run_pods()
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:2")}})
    old = (await world.cloneset()).status.current_revision
    olds = {name for name in await world.names() if await revision_of(world, name) == old}
    assert len(olds) == 2
    await world.patch(CloneSet, "web", {"spec": {"replicas": 2, "updateStrategy": {"paused": True}}})
    assert not olds & await world.names()


async def test_it_shrinks_in_the_middle_of_a_rollout_that_does_not_come_up(world: CloneSetCluster) -> None:
    """Old pods come first in the order, but are all that is available; the broken ones behind them go instead."""
    await world.create(CloneSet, manifest(10, updateStrategy={"maxUnavailable": 6}))
    await world.run_pods()
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:broken")}})
    await world.end_pods()
    await world.patch(CloneSet, "web", {"spec": {"updateStrategy": {"maxUnavailable": 1}, "replicas": 5}})
    await world.end_pods()
    status = (await world.cloneset()).status
    assert (status.replicas, status.available_replicas) == (5, 4)


async def test_named_pods_go_and_are_replaced(world: CloneSetCluster) -> None:
    """podsToDelete without a smaller number: they are replaced, no more at once than may be unavailable."""
    await world.create(CloneSet, manifest(5, updateStrategy={"maxUnavailable": 1}))
    await world.run_pods()
    named = sorted(await world.names())[:2]
    await world.patch(CloneSet, "web", {"spec": {"scaleStrategy": {"podsToDelete": named}}})
    assert len(await world.names() & set(named)) == 1, "one at a time: the floor holds"
    assert len(await world.pods()) == 5
    await world.run_pods()
    assert not await world.names() & set(named)
    assert (await world.cloneset()).status.available_replicas == 5


async def test_named_pods_are_those_that_go_when_it_shrinks(world: CloneSetCluster) -> None:
    """A smaller number together with as many names: exactly those go."""
    await world.create(CloneSet, manifest(5))
    await world.run_pods()
    before = await world.names()
    named = set(sorted(before)[1:3])
    await world.patch(CloneSet, "web", {"spec": {"replicas": 3, "scaleStrategy": {"podsToDelete": sorted(named)}}})
    assert await world.names() == before - named


async def test_a_labelled_pod_goes(world: CloneSetCluster) -> None:
    """The label that marks a pod for deletion, whatever its value."""
    await world.create(CloneSet, manifest(3))
    await world.run_pods()
    specified = min(await world.names())
    await world.patch(Pod, specified, {"metadata": {"labels": {SPECIFIED_DELETE: "true"}}})
    await world.run_pods()
    assert specified not in await world.names()
    assert (await world.cloneset()).status.available_replicas == 3


async def test_a_pod_is_deleted_by_its_uid(world: CloneSetCluster) -> None:
    """A successor of the same name is not met."""
    await world.create(CloneSet, manifest(3))
    await world.run_pods()
    await world.resize(0)
    deletions = [request for request in world.wire.requests if is_deletion(request)]
    assert len(deletions) == 3
    assert all(b'"preconditions":{"uid":' in (request.body or b"") for request in deletions)


async def test_a_deletion_that_lost_a_race_is_tried_again(world: CloneSetCluster) -> None:
    """A conflict does not mean that the pod is gone, and nothing else would remind anybody of it."""
    await world.create(CloneSet, manifest(3))
    await world.run_pods()
    lost: list[Request] = []

    def some(request: Request) -> StatusError | None:
        if not is_deletion(request) or len(lost) == 3:
            return None
        lost.append(request)
        return status_error(409, "the object has been modified")

    world.wire.refuse = some
    await world.resize(2)
    assert len(await world.pods()) == 2
    assert await world.event_messages("FailedDelete") == []
    assert (await world.cloneset()).status.conditions == ()


# Updating.


async def test_an_update_replaces_pods_within_max_unavailable(world: CloneSetCluster) -> None:
    """Never fewer than the floor are available, and never more than wanted are there."""
    lows: list[int] = []

    async def look() -> None:
        pods = await world.pods()
        lows.append(sum(pod.ready for pod in pods))
        assert len(pods) <= 5

    await world.create(CloneSet, manifest(5, updateStrategy={"maxUnavailable": 2}))
    await world.run_pods()
    world.on_settled = look
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:2")}})
    while (await world.cloneset()).status.updated_available_replicas < 5:
        await world.run_pods(limit=1)
    assert min(lows) == 3
    status = (await world.cloneset()).status
    assert status.current_revision == status.update_revision


async def test_a_surge_makes_new_pods_first(world: CloneSetCluster) -> None:
    """With maxSurge 2 and maxUnavailable 0 all five always serve, and never more than seven are there."""
    most = 0

    async def look() -> None:
        nonlocal most
        pods = await world.pods()
        most = max(most, len(pods))
        assert sum(pod.ready for pod in pods) >= 5

    await world.create(CloneSet, manifest(5, updateStrategy={"maxUnavailable": 0, "maxSurge": 2}))
    await world.run_pods()
    world.on_settled = look
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:2")}})
    while (await world.cloneset()).status.updated_available_replicas < 5 or len(await world.pods()) > 5:
        await world.run_pods(limit=1)
    assert most == 7


async def test_an_update_goes_on_where_a_quota_leaves_no_room_for_its_surge(world: CloneSetCluster) -> None:
    """What may be unavailable makes room."""
    world.wire.refuse = quota(world, 3)
    await world.create(CloneSet, manifest(3, updateStrategy={"maxUnavailable": 1, "maxSurge": 1}))
    await world.run_pods()
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:2")}})
    failed = await condition(world, "FailedScale")
    assert failed is not None
    assert "exceeded quota" in failed.message
    await world.run_pods()
    status = (await world.cloneset()).status
    assert (status.replicas, status.updated_available_replicas, status.conditions) == (3, 3, ())


async def test_pods_become_available_in_time_while_others_are_refused(world: CloneSetCluster) -> None:
    """What fails is tried less and less often; what time brings about does not wait for that."""
    world.wire.refuse = quota(world, 2)
    await world.create(CloneSet, manifest(3, minReadySeconds=30))
    await world.advance(3600)
    await world.run_pods()
    assert (await world.cloneset()).status.available_replicas == 0
    await world.advance(31)
    assert (await world.cloneset()).status.available_replicas == 2


async def test_a_specified_pod_is_deleted_while_new_pods_are_refused(world: CloneSetCluster) -> None:
    """An unavailable one: when it is gone, its replacement fits."""
    world.wire.refuse = quota(world, 2)
    await world.create(CloneSet, manifest(3))
    await world.run_pods()
    broken, _ = sorted(await world.names())
    await world.run_pod(await world.get(Pod, broken), ready=False)
    await world.patch(Pod, broken, {"metadata": {"labels": {SPECIFIED_DELETE: "true"}}})
    await world.run_pods()
    assert broken not in await world.names()
    assert len(await world.pods()) == 2


async def test_a_pod_that_cannot_be_deleted_holds_up_nothing_else(world: CloneSetCluster) -> None:
    """The deletion of a specified pod is refused: that is reported, and the update continues."""
    await world.create(CloneSet, manifest(3))
    await world.run_pods()
    kept, *others = sorted(await world.names())
    world.wire.refuse = lambda request: status_error(403, "protected") if is_deletion(request, kept) else None
    await world.patch(Pod, kept, {"metadata": {"labels": {SPECIFIED_DELETE: "true"}}})
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:2")}})
    await world.run_pods()
    assert await world.names() & {kept, *others} == {kept}
    failed = await condition(world, "FailedScale")
    assert failed is not None
    assert failed.message == "protected"
    world.wire.refuse = None
    await world.advance(1000)
    await world.run_pods()
    assert kept not in await world.names()
    assert (await world.cloneset()).status.conditions == ()


async def test_a_server_that_is_busy_is_asked_no_more(world: CloneSetCluster) -> None:
    """What else there would be to do is not tried either."""
    await world.create(CloneSet, manifest(3, updateStrategy={"maxUnavailable": 1, "maxSurge": 1}))
    await world.run_pods()
    world.wire.refuse = lambda request: status_error(503, "later") if is_creation(request) else None
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:2")}})
    assert not any(map(is_deletion, world.wire.requests))


async def test_a_revision_that_does_not_become_available_stops_and_can_be_rolled_back(world: CloneSetCluster) -> None:
    """One broken pod, and the rest is left alone; the old template brings its old revision back, renumbered."""
    await world.create(CloneSet, manifest(4, updateStrategy={"maxUnavailable": 1}))
    await world.run_pods()
    good = (await world.cloneset()).status.update_revision
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:broken")}})
    await world.end_pods()
    await world.advance(3600)
    status = (await world.cloneset()).status
    assert (status.updated_replicas, status.available_replicas) == (1, 3)
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:1")}})
    await world.run_pods()
    status = (await world.cloneset()).status
    assert (status.update_revision, status.current_revision, status.available_replicas) == (good, good, 4)
    numbers = {each.metadata.name: each.revision for each in await world.all(ControllerRevision)}
    assert numbers[good] == 3


async def test_a_paused_update_replaces_nothing(world: CloneSetCluster) -> None:
    """Until it goes on; new pods are of the newest revision all the same."""
    await world.create(CloneSet, manifest(2, updateStrategy={"paused": True}))
    await world.run_pods()
    before = await world.names()
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:2"), "replicas": 3}})
    await world.run_pods()
    (new,) = await world.names() - before
    assert await revision_of(world, new) == (await world.cloneset()).status.update_revision
    await world.patch(CloneSet, "web", {"spec": {"updateStrategy": {"paused": False}}})
    await world.run_pods()
    assert not before & await world.names()


async def test_old_revisions_are_forgotten(world: CloneSetCluster) -> None:
    """As many as the limit says are kept, besides the one in use."""
    await world.create(CloneSet, manifest(1, revisionHistoryLimit=2))
    for number in range(2, 7):
        await world.patch(CloneSet, "web", {"spec": {"template": template(f"app:{number}")}})
        await world.run_pods()
    kept = sorted(each.revision for each in await world.all(ControllerRevision))
    assert kept == [4, 5, 6]


async def test_a_taken_revision_name_is_avoided(world: CloneSetCluster) -> None:
    """Another object has that name: the collision is counted, and the next hash is another."""
    await world.create(CloneSet, manifest(0))
    (mine,) = await world.all(ControllerRevision)
    name = mine.metadata.name
    await world.user.delete(CloneSet, "web", namespace="default")
    await world.settle()
    stranger = {"metadata": {"name": name}, "data": {"spec": {}}, "revision": 1}
    await world.user.create(REVISIONS, stranger, namespace="default")
    await world.create(CloneSet, manifest(1))
    status = (await world.cloneset()).status
    assert status.collision_count == 1
    assert status.update_revision != name
    assert len(await world.pods()) == 1


async def test_an_orphaned_revision_of_the_same_template_is_taken_over(world: CloneSetCluster) -> None:
    """What a CloneSet that was deleted without its pods left behind serves its successor."""
    await world.create(CloneSet, manifest(2))
    await world.run_pods()
    before = await world.names()
    await world.user.delete(CloneSet, "web", namespace="default", propagation="Orphan")
    await world.settle()
    await world.create(CloneSet, manifest(2))
    await world.run_pods()
    assert await world.names() == before, "the pods are of that revision, and stay"
    (revision,) = await world.all(ControllerRevision)
    assert revision.metadata.controller is not None
    assert (await world.cloneset()).status.collision_count is None


# Crashes, and what was not seen yet.


async def test_a_change_during_a_write_is_not_lost(world: CloneSetCluster) -> None:
    """The size is lowered while the first revision is on its way, for a second: no more are made than wanted."""
    answer = world.wire.send

    async def slowly(request: Request) -> Response:
        if request.method == "POST" and request.path.endswith("/controllerrevisions"):
            await world.clock.sleep(1)
        return await answer(request)

    world.wire.send = slowly  # type: ignore[method-assign]  # one that takes its time
    await world.create(CloneSet, manifest(5))
    await world.resize(2)
    await world.advance(2)
    assert sum(map(is_creation, world.wire.requests)) == 2


async def test_nothing_is_made_twice_while_the_watch_is_behind(world: CloneSetCluster) -> None:
    """What was made and has not been seen is expected."""
    world.wire.hold("pods")
    await world.create(CloneSet, manifest(5))
    await world.patch(CloneSet, "web", {"spec": {"minReadySeconds": 1}})
    assert sum(map(is_creation, world.wire.requests)) == 5
    world.wire.resume()
    await world.settle()
    assert len(await world.pods()) == 5


async def test_a_pod_that_is_named_as_soon_as_it_is_made_goes_once(world: CloneSetCluster) -> None:
    """Its name is used up before it goes: a successor of that name would be named as well, and so on without end."""
    world.wire.hold("pods")
    await world.create(CloneSet, manifest(1))
    await world.settle()
    (early,) = await world.names()
    await world.patch(CloneSet, "web", {"spec": {"scaleStrategy": {"podsToDelete": [early]}}})
    world.wire.resume()
    await world.settle()
    assert len(await world.names() - {early}) == 1
    assert len([request for request in world.wire.requests if is_deletion(request)]) == 1


async def test_a_status_of_a_cloneset_that_was_not_found_is_written_later(world: CloneSetCluster) -> None:
    """An API server whose definitions are being put in place says so of objects that are there."""
    report: list[Request] = []

    def deny(request: Request) -> StatusError | None:
        if request.method != "PATCH" or not request.path.endswith("/status") or report:
            return None
        report.append(request)
        return status_error(404, "there is none")

    world.wire.refuse = deny
    await world.create(CloneSet, manifest(0))
    await world.settle()
    assert report
    await world.advance(31)
    cloneset = await world.cloneset()
    assert cloneset.status.observed_generation == cloneset.metadata.generation


async def test_a_lost_answer_makes_no_second_pod(world: CloneSetCluster) -> None:
    """The server made the pod, the answer was lost: the next attempt finds it by its name."""
    lost = 0

    def lose(request: Request) -> None:
        nonlocal lost
        if is_creation(request) and lost < 3:
            lost += 1
            raise Unreachable("connection lost")

    world.wire.hold("pods")
    world.wire.after = lose
    await world.create(CloneSet, manifest(6))
    assert len(await world.all(Pod)) == 6, "although no pod has been seen yet"
    world.wire.resume()
    await world.settle()
    assert len(await world.all(Pod)) == 6
    assert (await world.cloneset()).status.replicas == 6


async def test_requests_of_a_killed_process_that_arrive_late_make_no_surplus() -> None:
    """Whoever takes over makes the very pods that were being made."""
    world = CloneSetCluster()
    await world.start()
    late: list[Request] = []

    def delay(request: Request) -> Exception | None:
        if is_creation(request) and sum(map(is_creation, world.wire.requests)) > 2:
            late.append(request)
            return Unreachable("on its way")
        return None

    world.wire.refuse = delay
    await world.create(CloneSet, manifest(7))
    first = world.wire
    await world.kill()
    assert late
    await world.start()
    await world.settle()
    assert len(await world.all(Pod)) == 7
    first.dead, first.refuse = False, None
    for request in late:
        response = await first.send(request)
        assert response.status == 409, "there is one of that name already"
    await world.settle()
    assert len(await world.all(Pod)) == 7
    await world.close()


@pytest.mark.parametrize("dies_at", range(1, 26))
async def test_killed_at_any_request_it_goes_on(dies_at: int) -> None:
    """A rollout with a scale-down in it, killed before any of its writes: the end is the same."""
    world = CloneSetCluster()
    await world.start()
    await world.create(CloneSet, manifest(4, updateStrategy={"maxUnavailable": 2}))
    await world.run_pods()
    writes = 0

    def die(request: Request) -> Exception | None:
        nonlocal writes
        writes += request.method != "GET" and "/events" not in request.path
        if writes == dies_at:
            world.wire.dead = True
            return Unreachable("connection lost")
        return None

    world.wire.refuse = die
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:2"), "replicas": 3}})
    await world.run_pods()
    if world.wire.dead:
        await world.kill()
        await world.start()
    await world.run_pods()
    status = (await world.cloneset()).status
    assert (status.replicas, status.updated_available_replicas, status.observed_generation) == (3, 3, 2)
    assert status.current_revision == status.update_revision
    assert len(await world.all(Pod)) == 3
    await world.close()


# What is refused, and whose kind it is.


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"updateStrategy": {"type": "InPlaceOnly"}}, "spec.updateStrategy.type", id="in place"),
        pytest.param({"updateStrategy": {"partition": 1}}, "spec.updateStrategy.partition", id="partition"),
        pytest.param({"volumeClaimTemplates": [{}]}, "spec.volumeClaimTemplates", id="volume claims"),
        pytest.param({"lifecycle": {"preDelete": {}}}, "spec.lifecycle", id="lifecycle"),
        pytest.param(
            {"updateStrategy": {"scatterStrategy": [{"key": "app", "value": "web"}]}},
            "spec.updateStrategy.scatterStrategy",
            id="scattered updates",
        ),
    ],
)
async def test_what_is_not_supported_is_refused(world: CloneSetCluster, spec: dict[str, Any], field: str) -> None:
    """No pod is created; a condition and an event name the field. When it is fixed, reconciling continues."""
    await world.create(CloneSet, manifest(2, **spec))
    assert await world.pods() == []
    refused = await condition(world, "InvalidSpec")
    assert refused is not None
    assert field in refused.message
    assert (await world.cloneset()).status.observed_generation == 1
    assert len(await world.event_messages("InvalidSpec")) == 1
    await world.patch(CloneSet, "web", {"spec": dict.fromkeys(spec)})
    assert len(await world.pods()) == 2
    assert await condition(world, "InvalidSpec") is None


async def test_clonesets_are_not_managed_where_openkruise_serves_the_kind() -> None:
    """Nothing is changed, and an event says so; when the kind becomes ours, CloneSets are managed."""
    world = CloneSetCluster()
    ours = next(each for each in world.definitions if each["spec"]["names"]["kind"] == "CloneSet")
    ours["metadata"] |= {"labels": {}, "annotations": {"controller-gen.kubebuilder.io/version": "v0.16.5"}}
    await world.start()
    await world.create(CloneSet, manifest(2))
    assert await world.pods() == []
    assert world.controller.owner is KindOwner.OTHER
    assert world.controller.synced
    assert world.controller.problems == []
    (report,) = [event for event in await world.all(Event) if event.reason == "NotManaged"]
    assert "OpenKruise" in report.message
    patch = {
        "metadata": {"labels": crds.MANAGED_BY_LABELS, "annotations": {"controller-gen.kubebuilder.io/version": None}}
    }
    await world.user.patch(DEFINITIONS, "clonesets.apps.kruise.io", patch)
    await world.settle()
    assert len(await world.pods()) == 2
    patch = {"metadata": {"annotations": {"controller-gen.kubebuilder.io/version": "v0.16.5"}}}
    await world.user.patch(DEFINITIONS, "clonesets.apps.kruise.io", patch)
    await world.settle()
    await world.resize(5)
    assert len(await world.pods()) == 2
    await world.close()


async def test_it_waits_for_the_kind_to_be_served() -> None:
    """Before its definition is there it is ready, and does nothing."""
    world = CloneSetCluster()
    definitions, world.definitions = world.definitions, []
    await world.start()
    assert world.controller.synced
    assert world.controller.owner is KindOwner.NONE
    for definition in definitions:
        await world.user.create(DEFINITIONS, definition)
    await world.settle()
    await world.create(CloneSet, manifest(2))
    assert len(await world.pods()) == 2
    await world.close()


async def test_it_can_be_confined_to_namespaces() -> None:
    """CloneSets of other namespaces are not managed."""
    world = CloneSetCluster(Settings(namespaces=frozenset({"shop"})))
    await world.start()
    await world.create(CloneSet, manifest(2))
    assert await world.pods() == []
    await world.close()


async def test_a_cloneset_can_be_left_to_another_controller(world: CloneSetCluster) -> None:
    """Where several run, an annotation says whose it is; without the annotation it is everybody's."""
    theirs = manifest(2)
    theirs["metadata"]["annotations"] = {MANAGED_BY: "canary"}
    await world.create(CloneSet, theirs)
    assert await world.pods() == []
    await world.patch(CloneSet, "web", {"metadata": {"annotations": {MANAGED_BY: "trimtab"}}})
    assert len(await world.pods()) == 2


async def test_what_is_done_is_counted(world: CloneSetCluster) -> None:
    """Pods created, pods deleted by step, failures, and whether CloneSets are managed."""

    def value(name: str, **labels: str) -> float | None:
        return world.registry.get_sample_value(f"trimtab_cloneset_{name}", labels)

    await world.create(CloneSet, manifest(3))
    await world.run_pods()
    await world.resize(1)
    world.wire.refuse = refusing(lambda number: number == 1)
    await world.resize(2)
    assert value("pods_created_total") == 4
    assert value("pods_deleted_total", step="scale-down") == 2
    assert value("failures_total") == 1
    assert value("active") == 1
