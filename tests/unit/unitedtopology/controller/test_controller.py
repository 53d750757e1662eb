"""The UnitedTopology controller, over the wire: what it counts, writes to pods, and takes back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.lab.workloads.objects import deployment_tree, template
from tests.unit.unitedtopology.worlds import TopologyWorld, subset, topology_tree, zone
from trimtab.api import annotations as keys
from trimtab.api import times
from trimtab.api.annotations import (
    AIMED_SIZE,
    DELETION_COST,
    NAMESPACE_LABEL,
    SCALE_PLAN,
    SUBSET_COST,
    SubsetAnnotations,
)
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.core import Event, Namespace
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.clocks import SECOND
from trimtab.kube.resources import object_key
from trimtab.kube.transport import Request
from trimtab.unitedtopology.controller.controller import SETTINGS

JSON = dict[str, Any]

THIRDS = (subset("a", "z1", "34%"), subset("b", "z2", "33%"), subset("c", "z3", "33%"))


def spread_template() -> JSON:
    """A template whose pods may run anywhere."""
    return template(app="web")


async def deploy_everywhere(world: TopologyWorld, each: int) -> None:
    """A Deployment with so many pods in each of three zones, as a scheduler would spread them."""
    world.room = each
    await world.deploy(3 * each)
    world.room = 100


async def cost_of(world: TopologyWorld, pod: Pod) -> str | None:
    """The deletion cost of a pod as it is."""
    return (await world.get(Pod, pod.metadata.name)).metadata.annotations.get(DELETION_COST)


async def test_pods_from_before_are_matched_to_the_subset_they_are_in(world: TopologyWorld) -> None:
    """Nobody has to restart anything: pods are counted and marked where they run."""
    await deploy_everywhere(world, 2)
    await world.divide(subset("a", "z1", 3), subset("b", "z2", 1), subset("c", "z3"))
    assert await world.marked() == {"a": 2, "b": 2, "c": 2}
    assert await world.missing() == {"a": 1, "b": 0, "c": -1}
    assert await world.condition() == ("True", "Counted", "the pods of Deployment web are divided")


async def test_a_pod_in_no_subset_is_left_alone(world: TopologyWorld) -> None:
    """It is neither marked nor counted, and has no cost."""
    await deploy_everywhere(world, 2)
    await world.divide(subset("a", "z1", 3))
    assert await world.marked() == {"a": 2, "": 4}
    assert {pod.spec.node_name[:2] for pod in await world.pods() if DELETION_COST in pod.metadata.annotations} == {"z1"}


async def test_levels_are_written_as_costs(world: TopologyWorld) -> None:
    """Guaranteed above zero, BestEffort none, Redundant below zero."""
    await deploy_everywhere(world, 2)
    await world.divide(subset("a", "z1", 3), subset("b", "z2", 1), subset("c", "z3"))
    assert await world.levels() == {
        ("z1", "Guaranteed"): 2,
        ("z2", "Guaranteed"): 1,
        ("z2", "Redundant"): 1,
        ("z3", "BestEffort"): 2,
    }
    kept = [pod for pod in await world.pods() if pod.spec.node_name.startswith("z3")]
    assert all(DELETION_COST not in pod.metadata.annotations for pod in kept)


async def test_later_subsets_go_before_earlier_ones(world: TopologyWorld) -> None:
    """A scale-down takes the redundant first, then those without a limit, then the last of the guaranteed."""
    await deploy_everywhere(world, 2)
    await world.divide(subset("a", "z1", 3), subset("b", "z2", 1), subset("c", "z3"))
    seen = []
    for size in (5, 4, 3, 2, 1):
        await world.scale(size)
        seen.append(dict(sorted((await world.zones()).items())))
    assert seen == [
        {"z1": 2, "z2": 1, "z3": 2},
        {"z1": 2, "z2": 1, "z3": 1},
        {"z1": 2, "z2": 1},
        {"z1": 2},
        {"z1": 1},
    ]


async def test_percentages_follow_the_size_of_the_workload(world: TopologyWorld) -> None:
    """Each third is as large as the workload makes it."""
    await deploy_everywhere(world, 1)
    await world.divide(*THIRDS)
    assert await world.missing() == {"a": 0, "b": 0, "c": 0}
    await world.patch(Deployment, "web", {"spec": {"replicas": 9}})
    assert (await world.topology()).status.replicas == 9
    assert await world.missing() == {"a": 2, "b": 2, "c": 2}


async def test_one_step_down_keeps_the_shares(world: TopologyWorld) -> None:
    """From 9 to 3 at once: whoever holds the request has the costs written for 3 first."""
    await deploy_everywhere(world, 3)
    await world.divide(*THIRDS)
    assert await world.zones() == {"z1": 3, "z2": 3, "z3": 3}
    await prepare(world, 3)
    await world.scale(3)
    assert await world.zones() == {"z1": 1, "z2": 1, "z3": 1}
    assert await world.levels() == {("z1", "Guaranteed"): 1, ("z2", "Guaranteed"): 1, ("z3", "Guaranteed"): 1}


async def test_one_step_down_without_foresight_does_not(world: TopologyWorld) -> None:
    """What the step before is for: with costs for 9, the first subset alone would stay."""
    await deploy_everywhere(world, 3)
    await world.divide(*THIRDS)
    await world.scale(3)
    assert await world.zones() == {"z1": 3}


async def prepare(world: TopologyWorld, size: int) -> None:
    """Have the costs written for a size that is aimed at, as whoever holds a scale request does."""
    preparing = asyncio.create_task(world.foresight.prepare("Deployment", "default", "web", size))
    while not preparing.done():
        await world.clock.advance(0.1)
    assert preparing.result() == 6


async def test_costs_of_a_request_that_came_to_nothing_are_put_right(world: TopologyWorld) -> None:
    """Nobody shrank the workload after all: after a while the costs are those of its size again."""
    await deploy_everywhere(world, 3)
    await world.divide(*THIRDS)
    await prepare(world, 3)
    assert (await world.levels())["z1", "Redundant"] == 2
    await world.advance(20)
    assert await world.levels() == {("z1", "Guaranteed"): 3, ("z2", "Guaranteed"): 3, ("z3", "Guaranteed"): 3}
    assert all(AIMED_SIZE not in pod.metadata.annotations for pod in await world.pods())


async def test_a_cost_that_somebody_set_stays(world: TopologyWorld) -> None:
    """It counts as theirs, before and after the UnitedTopology came and went."""
    await deploy_everywhere(world, 1)
    pod = (await world.pods())[0]
    await world.patch(Pod, pod.metadata.name, {"metadata": {"annotations": {DELETION_COST: "7"}}})
    await world.divide(subset("a", "z1", 3), subset("b", "z2", 3), subset("c", "z3", 3))
    assert await cost_of(world, pod) == "7"
    await world.user.delete(UnitedTopology, "web", namespace="default")
    await world.settle()
    assert await cost_of(world, pod) == "7"


async def test_a_cost_that_somebody_changes_becomes_theirs(world: TopologyWorld) -> None:
    """Whoever writes over ours has the last word."""
    await deploy_everywhere(world, 1)
    await world.divide(subset("a", "z1", 3))
    (pod,) = (pod for pod in await world.pods() if pod.spec.node_name.startswith("z1"))
    await world.patch(Pod, pod.metadata.name, {"metadata": {"annotations": {DELETION_COST: "-5"}}})
    found = await world.get(Pod, pod.metadata.name)
    assert found.metadata.annotations[DELETION_COST] == "-5"
    assert SUBSET_COST not in found.metadata.annotations


async def test_a_cost_of_a_scale_down_under_way_is_left_alone(world: TopologyWorld) -> None:
    """It is taken back by whoever wrote it, and follows the level again then."""
    await deploy_everywhere(world, 1)
    await world.divide(subset("a", "z1", 3))
    (pod,) = (pod for pod in await world.pods() if pod.spec.node_name.startswith("z1"))
    ours = await cost_of(world, pod)
    planned = {DELETION_COST: "1999999", SCALE_PLAN: "{}"}
    await world.patch(Pod, pod.metadata.name, {"metadata": {"annotations": planned}})
    assert await cost_of(world, pod) == "1999999"
    back = {DELETION_COST: ours, SCALE_PLAN: None}
    await world.patch(Pod, pod.metadata.name, {"metadata": {"annotations": back}})
    assert await cost_of(world, pod) == ours


async def test_deletion_leaves_pods_and_removes_what_was_written(world: TopologyWorld) -> None:
    """No mark, no cost, no label of the namespace is left; every pod is, and nothing waits for a finalizer."""
    await deploy_everywhere(world, 2)
    before = {pod.metadata.uid for pod in await world.pods()}
    await world.divide(subset("a", "z1", 1), subset("b", "z2", 3), subset("c", "z3"))
    assert (await world.user.get(Namespace, "default")).metadata.labels[NAMESPACE_LABEL] == "enabled"
    assert not (await world.topology()).metadata.finalizers
    await world.user.delete(UnitedTopology, "web", namespace="default")
    await world.settle()
    pods = await world.pods()
    assert {pod.metadata.uid for pod in pods} == before
    assert all(
        not pod.metadata.annotations.keys() & {*dict.fromkeys(keys.SUBSET_KEYS), DELETION_COST, SUBSET_COST}
        for pod in pods
    )
    assert NAMESPACE_LABEL not in (await world.user.get(Namespace, "default")).metadata.labels


async def test_one_that_others_hold_takes_back_what_it_wrote_at_once(world: TopologyWorld) -> None:
    """A finalizer of somebody else keeps it for a while; it divides nothing any more."""
    await world.deploy(2)
    await world.divide(subset("a", "z1", 5))
    held = {"metadata": {"finalizers": ["example.com/archive"]}}
    await world.patch(UnitedTopology, "web", held)
    await world.user.delete(UnitedTopology, "web", namespace="default")
    await world.settle()
    assert await world.marked() == {"": 2}


async def test_what_was_deleted_while_the_controller_was_away_is_taken_back(world: TopologyWorld) -> None:
    """The marks themselves say whose they were."""
    await deploy_everywhere(world, 1)
    await world.divide(subset("a", "z1", 1))
    await world.kill_controller()
    await world.user.delete(UnitedTopology, "web", namespace="default")
    await world.start_controller()
    await world.settle()
    assert await world.marked() == {"": 3}
    assert await world.levels() == {("z1", "BestEffort"): 1, ("z2", "BestEffort"): 1, ("z3", "BestEffort"): 1}


async def test_marks_of_one_that_has_not_been_seen_yet_are_left_alone(world: TopologyWorld) -> None:
    """Watches of two kinds need not agree: pods of a UnitedTopology may be seen before it is."""
    await world.deploy(2)
    world.controller_wire.hold("unitedtopologies")
    await world.divide(subset("a", "z1", 5))
    pod = (await world.pods())[0]
    mark = SubsetAnnotations("web", "a", "given-by-a-webhook").written()
    await world.patch(Pod, pod.metadata.name, {"metadata": {"annotations": mark}})
    await world.advance(5)
    assert await world.marked() == {"a": 1, "": 1}
    world.controller_wire.resume()
    await world.settle()
    assert await world.marked() == {"a": 2}
    found = keys.subset_annotations((await world.get(Pod, pod.metadata.name)).metadata.annotations)
    assert found == SubsetAnnotations("web", "a", "given-by-a-webhook")


async def test_the_namespace_keeps_its_label_while_one_is_left(world: TopologyWorld) -> None:
    """Two UnitedTopologies need it as much as one."""
    await world.divide(subset("a"))
    await world.divide(subset("a"), name="api", target="api")
    await world.user.delete(UnitedTopology, "web", namespace="default")
    await world.settle()
    assert NAMESPACE_LABEL in (await world.user.get(Namespace, "default")).metadata.labels


async def test_a_missing_target_is_told_and_waited_for(world: TopologyWorld) -> None:
    """The order in which the two are created does not matter."""
    await world.divide(subset("a", "z1", 2), subset("b", "z2"))
    assert await world.condition() == ("False", "TargetMissing", "there is no Deployment web")
    await world.deploy(2)
    assert (await world.condition())[:2] == ("True", "Counted")
    assert (await world.rows())["a"].replicas == 2


async def test_a_target_that_is_replaced_is_counted_anew(world: TopologyWorld) -> None:
    """A successor of the same name starts from nothing."""
    await world.deploy(3)
    await world.divide(subset("a", "z1", 5))
    assert await world.missing() == {"a": 2}
    await world.user.delete(Deployment, "web", namespace="default", propagation="Background")
    await world.settle()
    await world.run_pods()
    assert (await world.condition())[1] == "TargetMissing"
    await world.deploy(1)
    assert await world.missing() == {"a": 4}


async def test_a_target_that_was_not_seen_yet_has_its_places_all_the_same(world: TopologyWorld) -> None:
    """The watch of Deployments may lag behind that of pods: nothing is given away, nor taken back, nor ranked by it."""
    await world.divide(subset("a", "z1", 5), subset("b", "z2", "50%"))
    world.room = 2
    await world.deploy(4)
    before = await world.levels()
    world.controller.view.deployments.store.remove(object_key("default", "web"))
    await world.controller.reconcile(object_key("default", "web"))
    assert {name: row.replicas for name, row in (await world.rows()).items()} == {"a": 2, "b": 2}
    assert await world.marked() == {"a": 2, "b": 2}
    assert await world.levels() == before


async def test_a_kind_that_cannot_be_read_is_waited_for(world: TopologyWorld) -> None:
    """Nobody says that a CloneSet is missing who was not let see CloneSets."""
    world.controller.view.is_known = lambda kind: kind != "CloneSet"  # type: ignore[method-assign]
    await world.divide(subset("a"), kind="CloneSet")
    assert (await world.topology()).status.conditions == ()


async def test_pods_that_leave_the_target_lose_their_marks(world: TopologyWorld) -> None:
    """A UnitedTopology that turns to another workload takes back what it wrote to the first one's pods."""
    await world.deploy(2)
    await world.divide(subset("a", "z1", 5))
    assert await world.marked() == {"a": 2}
    await world.patch(UnitedTopology, "web", {"spec": {"targetRef": {"name": "other"}}})
    assert await world.marked() == {"": 2}
    assert await world.levels() == {("z1", "BestEffort"): 2}


async def test_of_two_for_one_workload_the_older_stands(world: TopologyWorld) -> None:
    """The other says whose the workload is, and takes over when it is free."""
    await world.deploy(2)
    await world.divide(subset("a", "z1", 5))
    await world.advance(2)
    await world.divide(subset("x", "z1", 5), name="another")
    assert await world.condition("another") == ("False", "TargetTaken", "web divides Deployment web already")
    assert (await world.topology("another")).status.subset_statuses == ()
    assert await world.marked() == {"a": 2}
    await world.user.delete(UnitedTopology, "web", namespace="default")
    await world.settle()
    assert (await world.condition("another"))[1] == "Counted"
    assert await world.marked() == {"x": 2}


async def test_an_invalid_one_is_told_and_changes_nothing(world: TopologyWorld) -> None:
    """It came while the webhook was away; its pods keep what they have until it is mended."""
    await world.deploy(2)
    await world.divide(subset("a", "z1", 5))
    wrong = subset("a", "z1", 5, tolerations=[{"key": "rented", "operator": "Has"}])
    await world.patch(UnitedTopology, "web", {"spec": {"subsets": [wrong]}})
    told, reason, message = await world.condition()
    assert (told, reason) == ("False", "Invalid")
    assert message.startswith("spec.subsets[0].tolerations[0].operator")
    assert await world.marked() == {"a": 2}
    left = {
        "name": "a",
        "replicas": 2,
        "missingReplicas": 3,
        "deleting": {"gone": times.format_time(world.clock.now())},
    }
    status = {"status": {"subsetStatuses": [left]}}
    await world.user.patch(UnitedTopology, "web", status, namespace="default", subresource="status")
    await world.settle()
    assert not (await world.topology()).status.subset_statuses[0].deleting, "nobody would ever look for it"
    await world.patch(UnitedTopology, "web", {"spec": {"subsets": [subset("a", "z1", "50%")]}})
    assert (await world.condition())[1] == "Counted"
    assert await world.levels() == {("z1", "Guaranteed"): 1, ("z1", "Redundant"): 1}


async def test_one_that_is_confined_leaves_other_namespaces_alone(world: TopologyWorld) -> None:
    """Their label too: another Trimtab may look after them."""
    await world.stop_controller()
    world.settings = replace(SETTINGS, namespaces=frozenset({"elsewhere"}))
    await world.start_controller()
    await world.divide(subset("a", "z1", 5))
    assert NAMESPACE_LABEL not in (await world.user.get(Namespace, "default")).metadata.labels


async def test_without_the_pod_webhook_it_is_off_and_says_so(world: TopologyWorld) -> None:
    """The feature gate is false: the condition tells, and nothing is written to pods or namespaces."""
    await world.stop_controller()
    await world.deploy(2)
    world.settings = replace(SETTINGS, pod_webhook=False)
    await world.start_controller()
    await world.divide(subset("a", "z1", 5))
    told = "the feature gate PodWebhook is false, and UnitedTopology needs it"
    assert await world.condition() == ("False", "PodWebhookDisabled", told)
    assert await world.marked() == {"": 2}
    assert NAMESPACE_LABEL not in (await world.user.get(Namespace, "default")).metadata.labels


async def test_it_keeps_to_the_namespaces_that_it_is_confined_to(world: TopologyWorld) -> None:
    """Another Trimtab looks after the others."""
    await world.stop_controller()
    await world.deploy(2)
    world.settings = replace(SETTINGS, namespaces=frozenset({"elsewhere"}))
    await world.start_controller()
    await world.divide(subset("a", "z1", 5))
    assert (await world.topology()).status.conditions == ()
    assert await world.marked() == {"": 2}
    assert NAMESPACE_LABEL not in (await world.user.get(Namespace, "default")).metadata.labels


async def test_a_subset_that_is_removed_lets_its_pods_go_to_others(world: TopologyWorld) -> None:
    """They are matched anew, by where they are."""
    await deploy_everywhere(world, 1)
    await world.divide(subset("a", "z1", 5), subset("b", "z2", 5), subset("rest"))
    assert await world.marked() == {"a": 1, "b": 1, "rest": 1}
    await world.patch(UnitedTopology, "web", {"spec": {"subsets": [subset("a", "z1", 5), subset("rest")]}})
    assert await world.marked() == {"a": 1, "rest": 2}
    assert (await world.rows())["rest"].replicas == 2


async def test_a_replicaset_of_its_own_can_be_divided(world: TopologyWorld) -> None:
    """Without a Deployment above it."""
    manifest = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": spread_template()},
    }
    await world.create(ReplicaSet, manifest)
    await world.run_pods()
    await world.divide(subset("a", "z1", "50%"), subset("b", "z2"), kind="ReplicaSet")
    assert await world.levels() == {("z1", "Guaranteed"): 2, ("z1", "Redundant"): 2}
    assert await world.missing() == {"a": 0, "b": -1}


async def test_a_replicaset_of_a_deployment_is_divided_with_it(world: TopologyWorld) -> None:
    """Not by itself: two would write to the same pods without end."""
    await world.deploy(2)
    await world.divide(subset("a", "z1", 5))
    (replicaset,) = await world.all(ReplicaSet)
    name = replicaset.metadata.name
    await world.divide(subset("x", "z1", 5), name="revision", kind="ReplicaSet", target=name)
    told = f"ReplicaSet {name} belongs to Deployment web; make that the target"
    assert await world.condition("revision") == ("False", "TargetTaken", told)
    assert await world.marked() == {"a": 2}


async def test_each_revision_is_counted_by_itself(world: TopologyWorld) -> None:
    """In the middle of a rollout the old pods take no places of the new ones, and give way from the first subset on."""
    await deploy_everywhere(world, 2)
    await world.divide(subset("a", "z1", 2), subset("b", "z2", 2), subset("c", "z3"))
    await world.patch(Deployment, "web", {"spec": {"paused": False, "template": template("app:2", app="web")}})
    topology = await world.topology()
    (old,) = topology.status.other_revisions
    assert topology.status.revision != old.revision
    assert sum(row.replicas for row in old.subset_statuses) == 5
    assert await world.missing() == {"a": 2, "b": 2, "c": -1}
    await world.run_pods()
    assert not (await world.topology()).status.other_revisions


async def test_old_revisions_give_way_from_the_first_subset_on(world: TopologyWorld) -> None:
    """The new revision fills from the first subset; that is where room is needed."""
    await deploy_everywhere(world, 2)
    await world.divide(subset("a", "z1", 2), subset("b", "z2", 2), subset("c", "z3"))
    await world.patch(Deployment, "web", {"spec": {"template": template("app:2", app="web")}})
    ranked = {}
    for pod in await world.pods():
        if pod.spec.node_name:
            ranked[pod.spec.node_name[:2]] = int(pod.metadata.annotations.get(DELETION_COST, "0"))
    assert sorted(ranked, key=lambda name: ranked[name]) == ["z1", "z2", "z3"]


async def test_a_status_is_not_written_when_nothing_changes(world: TopologyWorld) -> None:
    """Pods change all the time without anything that is counted changing."""
    await world.deploy(3)
    await world.divide(subset("a", "z1", 5))
    before = (await world.topology()).metadata.resource_version
    for pod in await world.pods():
        await world.patch(Pod, pod.metadata.name, {"metadata": {"labels": {"seen": "yes"}}})
    assert (await world.topology()).metadata.resource_version == before


async def test_a_status_that_was_written_meanwhile_is_read_anew(world: TopologyWorld) -> None:
    """A webhook reserves a place between our reading and our writing: both stand in the end."""
    await world.deploy(2)
    await world.divide(subset("a", "z1", 5))
    reserved = {"status": {"subsetStatuses": [{"name": "a", "creating": {"x": times.format_time(world.clock.now())}}]}}
    meddled: list[Request] = []

    def meddle(request: Request) -> None:
        if request.method == "PATCH" and request.path.endswith("/status") and not meddled:
            meddled.append(request)

    world.controller_wire.after = meddle
    await world.user.patch(UnitedTopology, "web", reserved, namespace="default", subresource="status")
    await world.scale(3)
    row = (await world.rows())["a"]
    assert (row.replicas, row.missing_replicas, list(row.creating)) == (3, 2, ["x"])


async def test_a_reservation_that_nobody_comes_for_ends_with_an_event(world: TopologyWorld) -> None:
    """The place is free again after the time in which any creation ends."""
    await world.deploy(2)
    await world.divide(subset("a", "z1", 5))
    now = times.format_time(world.clock.now())
    reserved = {"status": {"subsetStatuses": [{"name": "a", "missingReplicas": 3, "creating": {"x": now}}]}}
    await world.user.patch(UnitedTopology, "web", reserved, namespace="default", subresource="status")
    await world.advance(70)
    assert list((await world.rows())["a"].creating) == ["x"]
    await world.advance(10)
    assert not (await world.rows())["a"].creating
    (message,) = await world.event_messages("ReservationExpired")
    assert "in a " in message


async def test_a_reservation_by_a_clock_that_is_behind_is_not_let_go_at_once(world: TopologyWorld) -> None:
    """Its pod may be on its way still: it must have been seen for as long as any request takes, by our own clock."""
    await world.deploy(2)
    await world.divide(subset("a", "z1", 5))
    behind = times.format_time(world.clock.now() - 200 * SECOND)
    reserved = {"status": {"subsetStatuses": [{"name": "a", "missingReplicas": 3, "creating": {"x": behind}}]}}
    await world.user.patch(UnitedTopology, "web", reserved, namespace="default", subresource="status")
    await world.advance(55)
    assert list((await world.rows())["a"].creating) == ["x"]
    await world.advance(10)
    assert not (await world.rows())["a"].creating


async def test_a_deletion_that_did_not_happen_leaves_no_trace_after_two_seconds(world: TopologyWorld) -> None:
    """An eviction that a disruption budget refused."""
    await world.deploy(2)
    await world.divide(subset("a", "z1", 5))
    name = (await world.pods())[0].metadata.name
    now = times.format_micro(world.clock.now())
    announced = {
        "status": {"subsetStatuses": [{"name": "a", "missingReplicas": 3, "replicas": 2, "deleting": {name: now}}]}
    }
    await world.user.patch(UnitedTopology, "web", announced, namespace="default", subresource="status")
    await world.clock.advance(1.9)
    row = (await world.rows())["a"]
    assert (row.deleting, row.missing_replicas) == ({}, 3)


async def test_the_controller_survives_being_killed(world: TopologyWorld) -> None:
    """Whatever it was about to write is done by the next one."""
    await world.deploy(4)
    await world.divide(subset("a", "z1", 2), subset("b", "z2"))
    await world.kill_controller()
    await world.patch(Deployment, "web", {"spec": {"replicas": 6}})
    await world.run_pods()
    await world.start_controller()
    await world.settle()
    assert (await world.rows())["a"].replicas == 6
    assert await world.levels() == {("z1", "Guaranteed"): 2, ("z1", "Redundant"): 4}


async def test_pods_are_marked_only_after_they_are_counted(world: TopologyWorld) -> None:
    """A mark says that a pod is counted, so the status comes first."""
    await world.deploy(2)
    world.controller_wire.requests.clear()
    await world.divide(subset("a", "z1", 5))
    writes = [
        "status" if request.path.endswith("/status") else "pod"
        for request in world.controller_wire.requests
        if request.method == "PATCH" and ("/pods/" in request.path or "/unitedtopologies/" in request.path)
    ]
    assert writes == ["status", "pod", "pod"]


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param((), {"z1": 4}, id="one size"),
        pytest.param(("z2",), {"z1": 2, "z2": 2}, id="a second zone to run in"),
    ],
)
def test_terms_select_zones(given: tuple[str, ...], want: JSON) -> None:
    """The terms that these tests are written with say what they mean."""
    assert zone("z1", *given)["matchExpressions"][0]["values"] == list(want)


async def test_waiting_pods_are_moved_to_the_next_subset(world: TopologyWorld) -> None:
    """Adaptive: a pod without a node for thirty seconds is deleted, and its successor is expected elsewhere."""
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    await world.divide(subset("a", "z1"), subset("b", "z2"), scheduleStrategy=strategy)
    world.room = 2
    await world.create(Deployment, pinned(3, "z1"))
    await world.run_pods()
    (stuck,) = (pod for pod in await world.pods() if not pod.spec.node_name)
    await world.advance(25)
    assert stuck.metadata.uid in {pod.metadata.uid for pod in await world.pods()}
    await world.advance(6)
    assert stuck.metadata.uid not in {pod.metadata.uid for pod in await world.pods()}
    status = (await world.topology()).status
    (shortage,) = status.shortages
    assert shortage.name == "a"
    (message,) = await world.event_messages("Rescheduled")
    assert "no node of a" in message


def pinned(replicas: int, in_zone: str) -> JSON:
    """A Deployment whose pods must run in a zone."""
    terms = {"nodeSelectorTerms": [zone(in_zone)]}
    tree = deployment_tree("web", replicas)
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    tree["spec"]["template"]["spec"]["affinity"] = affinity
    return tree


async def test_an_autoscaler_is_given_its_time(world: TopologyWorld) -> None:
    """It said that it brings a node for the pod: the pod is not moved before that would have come."""
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    await world.divide(subset("a", "z9"), subset("b", "z2"), scheduleStrategy=strategy)
    await world.create(Deployment, pinned(1, "z9"))
    await world.run_pods()
    (stuck,) = await world.pods()
    about = {"kind": "Pod", "namespace": "default", "name": stuck.metadata.name, "uid": stuck.metadata.uid}
    now = times.format_time(world.clock.now())
    event = {"metadata": {"name": "up"}, "involvedObject": about, "reason": "TriggeredScaleUp", "type": "Normal"}
    await world.user.create(Event, event | {"lastTimestamp": now, "firstTimestamp": now}, namespace="default")
    await world.advance(60)
    assert [pod.metadata.uid for pod in await world.pods()] == [stuck.metadata.uid]
    await world.advance(245)
    assert stuck.metadata.uid not in {pod.metadata.uid for pod in await world.pods()}


async def test_nothing_is_moved_where_there_is_nowhere_else(world: TopologyWorld) -> None:
    """A pod that waits in the only subset goes on waiting."""
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    await world.divide(subset("a", "z9"), subset("b", "z2", 0), scheduleStrategy=strategy)
    await world.create(Deployment, pinned(1, "z9"))
    await world.run_pods()
    (stuck,) = await world.pods()
    await world.advance(120)
    assert [pod.metadata.uid for pod in await world.pods()] == [stuck.metadata.uid]


async def test_who_has_nowhere_to_go_is_moved_once_there_is_room(world: TopologyWorld) -> None:
    """The other subset was found full, and is tried again when that is over."""
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    await world.divide(subset("a", "z9"), subset("b", "z2"), scheduleStrategy=strategy)
    await world.create(Deployment, pinned(1, "z9"))
    until = times.format_time(world.clock.now() + 120_000_000_000)
    full = {"status": {"shortages": [{"name": "b", "until": until, "times": 1}]}}
    await world.user.patch(UnitedTopology, "web", full, namespace="default", subresource="status")
    await world.run_pods()
    (stuck,) = await world.pods()
    await world.advance(100)
    assert [pod.metadata.uid for pod in await world.pods()] == [stuck.metadata.uid]
    await world.advance(60)
    assert stuck.metadata.uid not in {pod.metadata.uid for pod in await world.pods()}


async def test_a_pod_on_a_node_that_is_not_known_yet_is_matched_when_it_is(world: TopologyWorld) -> None:
    """Two informers need not agree on when something happened."""
    await world.deploy(1)
    world.controller_wire.hold("nodes")
    await world.add_node("z1-9", "z1")
    world.room = 0
    await world.patch(Deployment, "web", {"spec": {"replicas": 2}})
    (waiting,) = (pod for pod in await world.pods() if not pod.spec.node_name)
    await world.user.bind(waiting.metadata.name, namespace="default", node="z1-9")
    await world.divide(subset("a", "z1", 5))
    assert await world.marked() == {"a": 1, "": 1}
    world.controller_wire.resume()
    await world.settle()
    assert await world.marked() == {"a": 2}


def test_manifests_say_what_tests_mean() -> None:
    """A CloneSet is of another group than a Deployment."""
    spec = topology_tree(subset("a"), kind="CloneSet")["spec"]
    assert spec["targetRef"]["apiVersion"] == "apps.kruise.io/v1alpha1"
