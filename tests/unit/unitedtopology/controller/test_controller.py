"""The UnitedTopology controller, over the wire: what it counts, writes to pods, and takes back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.lab.workloads.objects import deployment_tree, template
from tests.unit.unitedtopology.clusters import TopologyCluster, subset, topology_tree, zone
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
from trimtab.kube.runners import Result
from trimtab.kube.transport import Request
from trimtab.unitedtopology.controller.controller import SETTINGS
from trimtab.unitedtopology.costs import target_size_text

JSON = dict[str, Any]

THIRDS = (subset("a", "z1", "34%"), subset("b", "z2", "33%"), subset("c", "z3", "33%"))


def spread_template() -> JSON:
    """A template whose pods may run fits_anywhere."""
    return template(app="web")


async def deploy_everywhere(cluster: TopologyCluster, each: int) -> None:
    """A Deployment with so many pods in each of three zones, as a scheduler would spread them."""
    cluster.room = each
    await cluster.deploy(3 * each)
    cluster.room = 100


async def cost_of(cluster: TopologyCluster, pod: Pod) -> str | None:
    """The deletion cost of a pod as it is."""
    return (await cluster.get(Pod, pod.metadata.name)).metadata.annotations.get(DELETION_COST)


async def test_existing_pods_are_matched_to_the_subset_of_their_node(cluster: TopologyCluster) -> None:
    """Nothing is restarted: pods are counted and annotated where they run."""
    await deploy_everywhere(cluster, 2)
    await cluster.create_topology(subset("a", "z1", 3), subset("b", "z2", 1), subset("c", "z3"))
    assert await cluster.pods_by_subset() == {"a": 2, "b": 2, "c": 2}
    assert await cluster.missing() == {"a": 1, "b": 0, "c": -1}
    assert await cluster.condition() == ("True", "Reconciled", "the pods of Deployment web are allocated to subsets")


async def test_a_large_united_topology_is_validated_beside_the_event_loop(
    cluster: TopologyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In which leases are not renewed meanwhile."""
    validated: list[str] = []

    async def at_once(topology: UnitedTopology, **_: Any) -> None:
        validated.append(topology.metadata.name)

    monkeypatch.setattr("trimtab.unitedtopology.controller.controller.validate_large", at_once)
    await deploy_everywhere(cluster, 1)
    await cluster.create_topology(subset("a", "z1", 3))
    assert validated


async def test_a_pod_in_no_subset_is_left_alone(cluster: TopologyCluster) -> None:
    """It is neither annotated nor counted, and has no cost."""
    await deploy_everywhere(cluster, 2)
    await cluster.create_topology(subset("a", "z1", 3))
    assert await cluster.pods_by_subset() == {"a": 2, "": 4}
    assert {pod.spec.node_name[:2] for pod in await cluster.pods() if DELETION_COST in pod.metadata.annotations} == {
        "z1"
    }


async def test_levels_are_written_as_costs(cluster: TopologyCluster) -> None:
    """Guaranteed above zero, BestEffort none, Redundant below zero."""
    await deploy_everywhere(cluster, 2)
    await cluster.create_topology(subset("a", "z1", 3), subset("b", "z2", 1), subset("c", "z3"))
    assert await cluster.levels() == {
        ("z1", "Guaranteed"): 2,
        ("z2", "Guaranteed"): 1,
        ("z2", "Redundant"): 1,
        ("z3", "BestEffort"): 2,
    }
    kept = [pod for pod in await cluster.pods() if pod.spec.node_name.startswith("z3")]
    assert all(DELETION_COST not in pod.metadata.annotations for pod in kept)


async def test_later_subsets_are_emptied_first(cluster: TopologyCluster) -> None:
    """A scale-down takes the redundant first, then those without a limit, then the last of the guaranteed."""
    await deploy_everywhere(cluster, 2)
    await cluster.create_topology(subset("a", "z1", 3), subset("b", "z2", 1), subset("c", "z3"))
    seen = []
    for size in (5, 4, 3, 2, 1):
        await cluster.scale(size)
        seen.append(dict(sorted((await cluster.zones()).items())))
    assert seen == [
        {"z1": 2, "z2": 1, "z3": 2},
        {"z1": 2, "z2": 1, "z3": 1},
        {"z1": 2, "z2": 1},
        {"z1": 2},
        {"z1": 1},
    ]


async def test_percentages_follow_the_size_of_the_workload(cluster: TopologyCluster) -> None:
    """Each third is as large as the workload makes it."""
    await deploy_everywhere(cluster, 1)
    await cluster.create_topology(*THIRDS)
    assert await cluster.missing() == {"a": 0, "b": 0, "c": 0}
    await cluster.patch(Deployment, "web", {"spec": {"replicas": 9}})
    assert (await cluster.topology()).status.replicas == 9
    assert await cluster.missing() == {"a": 2, "b": 2, "c": 2}


async def test_one_step_down_keeps_the_shares(cluster: TopologyCluster) -> None:
    """From 9 to 3 at once: while the request is held, the costs for 3 are written."""
    await deploy_everywhere(cluster, 3)
    await cluster.create_topology(*THIRDS)
    assert await cluster.zones() == {"z1": 3, "z2": 3, "z3": 3}
    await prepare(cluster, 3)
    await cluster.scale(3)
    assert await cluster.zones() == {"z1": 1, "z2": 1, "z3": 1}
    assert await cluster.levels() == {("z1", "Guaranteed"): 1, ("z2", "Guaranteed"): 1, ("z3", "Guaranteed"): 1}


async def test_one_step_down_without_preparation_loses_the_shares(cluster: TopologyCluster) -> None:
    """What the step before is for: with costs for 9, the first subset alone would stay."""
    await deploy_everywhere(cluster, 3)
    await cluster.create_topology(*THIRDS)
    await cluster.scale(3)
    assert await cluster.zones() == {"z1": 3}


async def prepare(cluster: TopologyCluster, size: int) -> None:
    """Write the costs for a target size, as for a held scale request."""
    preparing = asyncio.create_task(cluster.preparation.prepare("Deployment", "default", "web", size))
    while not preparing.done():
        await cluster.clock.advance(0.1)
    assert preparing.result() == 6


async def test_costs_of_a_request_without_effect_are_restored(cluster: TopologyCluster) -> None:
    """The workload was not scaled after all: later the costs are those of its size again."""
    await deploy_everywhere(cluster, 3)
    await cluster.create_topology(*THIRDS)
    await prepare(cluster, 3)
    assert (await cluster.levels())["z1", "Redundant"] == 2
    await cluster.advance(20)
    assert await cluster.levels() == {("z1", "Guaranteed"): 3, ("z2", "Guaranteed"): 3, ("z3", "Guaranteed"): 3}
    assert all(AIMED_SIZE not in pod.metadata.annotations for pod in await cluster.pods())


async def test_costs_written_ahead_are_checked_when_the_first_of_them_expires(
    cluster: TopologyCluster,
) -> None:
    """Those that have expired lose their annotation; nothing else is due."""
    await deploy_everywhere(cluster, 1)
    await cluster.create_topology(*THIRDS)
    key = object_key("default", "web")
    assert (await cluster.controller.reconcile(key)).requeue_after is None
    first, second, third = await cluster.pods()
    now = cluster.clock.now() // SECOND
    for pod, until in ((first, now + 60), (second, now + 40), (third, now + 10)):
        annotations = {AIMED_SIZE: target_size_text(3, until)}
        await cluster.patch(Pod, pod.metadata.name, {"metadata": {"annotations": annotations}})
    await cluster.stop_controller()
    await cluster.clock.advance(now + 10 - cluster.clock.now() / SECOND)
    found = await cluster.controller.reconcile(key)
    assert found.requeue_after == 30
    aimed = {pod.metadata.name for pod in await cluster.pods() if AIMED_SIZE in pod.metadata.annotations}
    assert aimed == {first.metadata.name, second.metadata.name}


async def test_the_controller_reports_its_caches(cluster: TopologyCluster) -> None:
    """For health pages and metrics."""
    assert (cluster.controller.synced, cluster.controller.problems) == (True, [])
    cluster.controller.view.pods.informer.problem = "forbidden"
    assert cluster.controller.problems == ["pods: forbidden"]
    await cluster.create_topology(subset("a"))
    assert cluster.metrics.registry.get_sample_value("trimtab_unitedtopology_topologies") == 1


async def test_a_foreign_cost_stays(cluster: TopologyCluster) -> None:
    """It counts as theirs, before and after the UnitedTopology came and went."""
    await deploy_everywhere(cluster, 1)
    pod = (await cluster.pods())[0]
    await cluster.patch(Pod, pod.metadata.name, {"metadata": {"annotations": {DELETION_COST: "7"}}})
    await cluster.create_topology(subset("a", "z1", 3), subset("b", "z2", 3), subset("c", "z3", 3))
    assert await cost_of(cluster, pod) == "7"
    await cluster.user.delete(UnitedTopology, "web", namespace="default")
    await cluster.settle()
    assert await cost_of(cluster, pod) == "7"


async def test_a_changed_cost_becomes_foreign(cluster: TopologyCluster) -> None:
    """The other author owns it from then on."""
    await deploy_everywhere(cluster, 1)
    await cluster.create_topology(subset("a", "z1", 3))
    (pod,) = (pod for pod in await cluster.pods() if pod.spec.node_name.startswith("z1"))
    await cluster.patch(Pod, pod.metadata.name, {"metadata": {"annotations": {DELETION_COST: "-5"}}})
    found = await cluster.get(Pod, pod.metadata.name)
    assert found.metadata.annotations[DELETION_COST] == "-5"
    assert SUBSET_COST not in found.metadata.annotations


async def test_a_cost_of_a_scale_down_under_way_is_left_alone(cluster: TopologyCluster) -> None:
    """The scale-down reverts it, and then it follows the level again."""
    await deploy_everywhere(cluster, 1)
    await cluster.create_topology(subset("a", "z1", 3))
    (pod,) = (pod for pod in await cluster.pods() if pod.spec.node_name.startswith("z1"))
    ours = await cost_of(cluster, pod)
    planned = {DELETION_COST: "1999999", SCALE_PLAN: "{}"}
    await cluster.patch(Pod, pod.metadata.name, {"metadata": {"annotations": planned}})
    assert await cost_of(cluster, pod) == "1999999"
    back = {DELETION_COST: ours, SCALE_PLAN: None}
    await cluster.patch(Pod, pod.metadata.name, {"metadata": {"annotations": back}})
    assert await cost_of(cluster, pod) == ours


async def test_deletion_leaves_pods_and_removes_what_was_written(cluster: TopologyCluster) -> None:
    """No annotation, cost or namespace label is left; every pod is, without a finalizer to wait for."""
    await deploy_everywhere(cluster, 2)
    before = {pod.metadata.uid for pod in await cluster.pods()}
    await cluster.create_topology(subset("a", "z1", 1), subset("b", "z2", 3), subset("c", "z3"))
    assert (await cluster.user.get(Namespace, "default")).metadata.labels[NAMESPACE_LABEL] == "enabled"
    assert not (await cluster.topology()).metadata.finalizers
    await cluster.user.delete(UnitedTopology, "web", namespace="default")
    await cluster.settle()
    pods = await cluster.pods()
    assert {pod.metadata.uid for pod in pods} == before
    assert all(
        not pod.metadata.annotations.keys() & {*dict.fromkeys(keys.SUBSET_KEYS), DELETION_COST, SUBSET_COST}
        for pod in pods
    )
    assert NAMESPACE_LABEL not in (await cluster.user.get(Namespace, "default")).metadata.labels


async def test_a_deleted_one_with_a_foreign_finalizer_reverts_at_once(cluster: TopologyCluster) -> None:
    """A finalizer of another component keeps it for a while; it is not in effect any more."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    held = {"metadata": {"finalizers": ["example.com/archive"]}}
    await cluster.patch(UnitedTopology, "web", held)
    await cluster.user.delete(UnitedTopology, "web", namespace="default")
    await cluster.settle()
    assert await cluster.pods_by_subset() == {"": 2}


async def test_terminating_pods_are_not_reverted(cluster: TopologyCluster) -> None:
    """They take their annotations along; a write would only compete with the kubelet's."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    leaving = (await cluster.pods())[0].metadata.name
    await cluster.patch(Pod, leaving, {"metadata": {"finalizers": ["example.com/slow"]}})
    await cluster.user.delete(Pod, leaving, namespace="default")
    await cluster.settle()
    await cluster.user.delete(UnitedTopology, "web", namespace="default")
    await cluster.settle()
    everyone = (await cluster.user.list(Pod, namespace="default")).items
    annotated = {pod.metadata.name for pod in everyone if SUBSET_COST in pod.metadata.annotations}
    assert annotated == {leaving}


async def test_a_deletion_while_the_controller_was_stopped_is_reverted_later(cluster: TopologyCluster) -> None:
    """The annotations name their UnitedTopology."""
    await deploy_everywhere(cluster, 1)
    await cluster.create_topology(subset("a", "z1", 1))
    await cluster.kill_controller()
    await cluster.user.delete(UnitedTopology, "web", namespace="default")
    await cluster.start_controller()
    await cluster.settle()
    assert await cluster.pods_by_subset() == {"": 3}
    assert await cluster.levels() == {("z1", "BestEffort"): 1, ("z2", "BestEffort"): 1, ("z3", "BestEffort"): 1}


async def test_annotations_of_an_uncached_united_topology_stay(cluster: TopologyCluster) -> None:
    """Watches of two kinds need not agree: pods of a UnitedTopology may be seen before it is."""
    await cluster.deploy(2)
    cluster.controller_wire.hold("unitedtopologies")
    await cluster.create_topology(subset("a", "z1", 5))
    pod = (await cluster.pods())[0]
    known = SubsetAnnotations("web", "a", "given-by-a-webhook").written()
    await cluster.patch(Pod, pod.metadata.name, {"metadata": {"annotations": known}})
    await cluster.advance(5)
    assert await cluster.pods_by_subset() == {"a": 1, "": 1}
    cluster.controller_wire.resume()
    await cluster.settle()
    assert await cluster.pods_by_subset() == {"a": 2}
    found = keys.subset_annotations((await cluster.get(Pod, pod.metadata.name)).metadata.annotations)
    assert found == SubsetAnnotations("web", "a", "given-by-a-webhook")


async def test_the_namespace_keeps_its_label_while_one_is_left(cluster: TopologyCluster) -> None:
    """Two UnitedTopologies need it as much as one."""
    await cluster.create_topology(subset("a"))
    await cluster.create_topology(subset("a"), name="api", target="api")
    await cluster.user.delete(UnitedTopology, "web", namespace="default")
    await cluster.settle()
    assert NAMESPACE_LABEL in (await cluster.user.get(Namespace, "default")).metadata.labels


async def test_a_missing_target_is_reported_until_it_exists(cluster: TopologyCluster) -> None:
    """The order in which the two are created does not matter."""
    await cluster.create_topology(subset("a", "z1", 2), subset("b", "z2"))
    assert await cluster.condition() == ("False", "TargetNotFound", "Deployment web does not exist")
    await cluster.deploy(2)
    assert (await cluster.condition())[:2] == ("True", "Reconciled")
    assert (await cluster.rows())["a"].replicas == 2


async def test_a_target_that_is_replaced_is_counted_anew(cluster: TopologyCluster) -> None:
    """A successor of the same name starts from nothing."""
    await cluster.deploy(3)
    await cluster.create_topology(subset("a", "z1", 5))
    assert await cluster.missing() == {"a": 2}
    await cluster.user.delete(Deployment, "web", namespace="default", propagation="Background")
    await cluster.settle()
    await cluster.run_pods()
    assert (await cluster.condition())[1] == "TargetNotFound"
    await cluster.deploy(1)
    assert await cluster.missing() == {"a": 4}


async def test_reservations_count_before_the_target_is_cached(cluster: TopologyCluster) -> None:
    """The watch of Deployments may lag behind that of pods: nothing is freed, reverted or ranked because of it."""
    await cluster.create_topology(subset("a", "z1", 5), subset("b", "z2", "50%"))
    cluster.room = 2
    await cluster.deploy(4)
    before = await cluster.levels()
    cluster.controller.view.deployments.store.remove(object_key("default", "web"))
    await cluster.controller.reconcile(object_key("default", "web"))
    assert {name: row.replicas for name, row in (await cluster.rows()).items()} == {"a": 2, "b": 2}
    assert await cluster.pods_by_subset() == {"a": 2, "b": 2}
    assert await cluster.levels() == before


async def test_a_kind_that_cannot_be_read_is_requeued(cluster: TopologyCluster) -> None:
    """Without permission to list CloneSets, none is reported as missing."""
    cluster.controller.view.is_known = lambda kind: kind != "CloneSet"  # type: ignore[method-assign]
    await cluster.create_topology(subset("a"), kind="CloneSet")
    assert (await cluster.topology()).status.conditions == ()
    assert (await cluster.controller.reconcile(object_key("default", "web"))).requeue_after


async def test_pods_that_are_cached_later_than_they_were_counted_are_counted_soon(cluster: TopologyCluster) -> None:
    """A webhook has counted them from an uncached list: the cache has to catch up first."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    ahead = {"status": {"countedVersion": "999999"}}
    await cluster.user.patch(UnitedTopology, "web", ahead, namespace="default", subresource="status")
    await cluster.settle()
    found = await cluster.controller.reconcile(object_key("default", "web"))
    assert found.requeue_after is not None
    assert 0 < found.requeue_after < 5


async def test_pods_that_leave_the_target_lose_their_annotations(cluster: TopologyCluster) -> None:
    """A UnitedTopology that turns to another workload takes back what it wrote to the first one's pods."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    assert await cluster.pods_by_subset() == {"a": 2}
    await cluster.patch(UnitedTopology, "web", {"spec": {"targetRef": {"name": "other"}}})
    assert await cluster.pods_by_subset() == {"": 2}
    assert await cluster.levels() == {("z1", "BestEffort"): 2}


async def test_of_two_with_the_same_target_the_older_applies(cluster: TopologyCluster) -> None:
    """The other one names it in its condition, and takes effect when it is deleted."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    await cluster.advance(2)
    await cluster.create_topology(subset("x", "z1", 5), name="another")
    assert await cluster.condition("another") == (
        "False",
        "TargetConflict",
        "web, which is older, has the same target Deployment web",
    )
    assert (await cluster.topology("another")).status.subset_statuses == ()
    assert await cluster.pods_by_subset() == {"a": 2}
    await cluster.user.delete(UnitedTopology, "web", namespace="default")
    await cluster.settle()
    assert (await cluster.condition("another"))[1] == "Reconciled"
    assert await cluster.pods_by_subset() == {"x": 2}


async def test_an_invalid_one_is_reported_and_changes_no_pod(cluster: TopologyCluster) -> None:
    """It came while the webhook was away; its pods keep what they have until it is mended."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    wrong = subset("a", "z1", 5, tolerations=[{"key": "rented", "operator": "Has"}])
    await cluster.patch(UnitedTopology, "web", {"spec": {"subsets": [wrong]}})
    told, reason, message = await cluster.condition()
    assert (told, reason) == ("False", "Invalid")
    assert message.startswith("spec.subsets[0].tolerations[0].operator")
    assert await cluster.pods_by_subset() == {"a": 2}
    left = {
        "name": "a",
        "replicas": 2,
        "missingReplicas": 3,
        "deleting": {"gone": times.format_time(cluster.clock.now())},
    }
    status = {"status": {"subsetStatuses": [left]}}
    await cluster.user.patch(UnitedTopology, "web", status, namespace="default", subresource="status")
    await cluster.settle()
    assert not (await cluster.topology()).status.subset_statuses[0].deleting, "nobody would ever look for it"
    await cluster.patch(UnitedTopology, "web", {"spec": {"subsets": [subset("a", "z1", "50%")]}})
    assert (await cluster.condition())[1] == "Reconciled"
    assert await cluster.levels() == {("z1", "Guaranteed"): 1, ("z1", "Redundant"): 1}


async def test_a_confined_controller_leaves_other_namespaces_alone(cluster: TopologyCluster) -> None:
    """Their label too: another Trimtab may manage them."""
    await cluster.stop_controller()
    cluster.settings = replace(SETTINGS, namespaces=frozenset({"elsewhere"}))
    await cluster.start_controller()
    await cluster.create_topology(subset("a", "z1", 5))
    assert NAMESPACE_LABEL not in (await cluster.user.get(Namespace, "default")).metadata.labels
    assert await cluster.controller.reconcile(object_key("default", "web")) == Result()


async def test_a_confined_controller_manages_its_own_namespaces(cluster: TopologyCluster) -> None:
    """Whatever else it leaves alone."""
    await cluster.stop_controller()
    cluster.settings = replace(SETTINGS, namespaces=frozenset({"default"}))
    await cluster.start_controller()
    await cluster.create_topology(subset("a", "z1", 5))
    assert (await cluster.condition())[1] == "TargetNotFound"


async def test_without_the_pod_webhook_it_is_disabled_and_reports_it(cluster: TopologyCluster) -> None:
    """The feature gate is false: the condition reports it, and nothing is written to pods or namespaces."""
    await cluster.stop_controller()
    await cluster.deploy(2)
    cluster.settings = replace(SETTINGS, pod_webhook=False)
    await cluster.start_controller()
    await cluster.create_topology(subset("a", "z1", 5))
    told = "the feature gate PodWebhook is false, and UnitedTopology needs it"
    assert await cluster.condition() == ("False", "PodWebhookDisabled", told)
    assert await cluster.pods_by_subset() == {"": 2}
    assert NAMESPACE_LABEL not in (await cluster.user.get(Namespace, "default")).metadata.labels


async def test_only_managed_namespaces_are_labelled(cluster: TopologyCluster) -> None:
    """Another Trimtab manages the others."""
    await cluster.stop_controller()
    await cluster.deploy(2)
    cluster.settings = replace(SETTINGS, namespaces=frozenset({"elsewhere"}))
    await cluster.start_controller()
    await cluster.create_topology(subset("a", "z1", 5))
    assert (await cluster.topology()).status.conditions == ()
    assert await cluster.pods_by_subset() == {"": 2}
    assert NAMESPACE_LABEL not in (await cluster.user.get(Namespace, "default")).metadata.labels


async def test_pods_of_a_removed_subset_are_matched_to_others(cluster: TopologyCluster) -> None:
    """They are matched anew, by where they are."""
    await deploy_everywhere(cluster, 1)
    await cluster.create_topology(subset("a", "z1", 5), subset("b", "z2", 5), subset("rest"))
    assert await cluster.pods_by_subset() == {"a": 1, "b": 1, "rest": 1}
    await cluster.patch(UnitedTopology, "web", {"spec": {"subsets": [subset("a", "z1", 5), subset("rest")]}})
    assert await cluster.pods_by_subset() == {"a": 1, "rest": 2}
    assert (await cluster.rows())["rest"].replicas == 2


async def test_a_replicaset_without_owner_can_be_the_target(cluster: TopologyCluster) -> None:
    """Without a Deployment above it."""
    manifest = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": spread_template()},
    }
    await cluster.create(ReplicaSet, manifest)
    await cluster.run_pods()
    await cluster.create_topology(subset("a", "z1", "50%"), subset("b", "z2"), kind="ReplicaSet")
    assert await cluster.levels() == {("z1", "Guaranteed"): 2, ("z1", "Redundant"): 2}
    assert await cluster.missing() == {"a": 0, "b": -1}


async def test_pods_of_a_scheduling_group_get_no_subset_and_no_cost(cluster: TopologyCluster) -> None:
    """They are disrupted as their PodGroup says; a template that gets a group later reverts what was written."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    assert await cluster.pods_by_subset() == {"a": 2}
    group = {"spec": {"template": {"spec": {"schedulingGroup": {"podGroupName": "gang"}}}}}
    await cluster.patch(Deployment, "web", group)
    status, reason, message = await cluster.condition("web")
    assert (status, reason) == ("False", "TargetInSchedulingGroup")
    assert "the pods of Deployment web belong to a scheduling group" in message
    assert set(await cluster.pods_by_subset()) == {""}


async def test_a_replicaset_of_a_deployment_cannot_be_the_target(cluster: TopologyCluster) -> None:
    """Two would overwrite the same pods for ever."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    (replicaset,) = await cluster.all(ReplicaSet)
    name = replicaset.metadata.name
    await cluster.create_topology(subset("x", "z1", 5), name="revision", kind="ReplicaSet", target=name)
    told = f"ReplicaSet {name} belongs to Deployment web; make that the target"
    assert await cluster.condition("revision") == ("False", "TargetConflict", told)
    assert await cluster.pods_by_subset() == {"a": 2}


async def test_each_revision_is_counted_by_itself(cluster: TopologyCluster) -> None:
    """During a rollout the old pods take no capacity of the new ones, and are deleted from the first subset on."""
    await deploy_everywhere(cluster, 2)
    await cluster.create_topology(subset("a", "z1", 2), subset("b", "z2", 2), subset("c", "z3"))
    await cluster.patch(Deployment, "web", {"spec": {"paused": False, "template": template("app:2", app="web")}})
    topology = await cluster.topology()
    (old,) = topology.status.other_revisions
    assert topology.status.revision != old.revision
    assert sum(row.replicas for row in old.subset_statuses) == 5
    assert await cluster.missing() == {"a": 2, "b": 2, "c": -1}
    await cluster.run_pods()
    assert not (await cluster.topology()).status.other_revisions


async def test_old_revisions_are_scaled_down_from_the_first_subset_on(cluster: TopologyCluster) -> None:
    """The new revision fills from the first subset; that is where capacity is needed."""
    await deploy_everywhere(cluster, 2)
    await cluster.create_topology(subset("a", "z1", 2), subset("b", "z2", 2), subset("c", "z3"))
    await cluster.patch(Deployment, "web", {"spec": {"template": template("app:2", app="web")}})
    ranked = {}
    for pod in await cluster.pods():
        if pod.spec.node_name:
            ranked[pod.spec.node_name[:2]] = int(pod.metadata.annotations.get(DELETION_COST, "0"))
    assert sorted(ranked, key=lambda name: ranked[name]) == ["z1", "z2", "z3"]


async def test_a_status_is_not_written_when_nothing_changes(cluster: TopologyCluster) -> None:
    """Pods change all the time without anything that is counted changing."""
    await cluster.deploy(3)
    await cluster.create_topology(subset("a", "z1", 5))
    before = (await cluster.topology()).metadata.resource_version
    for pod in await cluster.pods():
        await cluster.patch(Pod, pod.metadata.name, {"metadata": {"labels": {"seen": "yes"}}})
    assert (await cluster.topology()).metadata.resource_version == before


async def test_a_conflicting_status_is_read_again(cluster: TopologyCluster) -> None:
    """A webhook makes a reservation between our read and our write: both changes are kept."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    reserved = {
        "status": {"subsetStatuses": [{"name": "a", "creating": {"x": times.format_time(cluster.clock.now())}}]}
    }
    meddled: list[Request] = []

    def meddle(request: Request) -> None:
        if request.method == "PATCH" and request.path.endswith("/status") and not meddled:
            meddled.append(request)

    cluster.controller_wire.after = meddle
    await cluster.user.patch(UnitedTopology, "web", reserved, namespace="default", subresource="status")
    await cluster.scale(3)
    row = (await cluster.rows())["a"]
    assert (row.replicas, row.missing_replicas, list(row.creating)) == (3, 2, ["x"])


async def test_a_reservation_without_a_pod_expires_with_an_event(cluster: TopologyCluster) -> None:
    """The capacity is free again after the time in which any creation ends."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    now = times.format_time(cluster.clock.now())
    reserved = {"status": {"subsetStatuses": [{"name": "a", "missingReplicas": 3, "creating": {"x": now}}]}}
    await cluster.user.patch(UnitedTopology, "web", reserved, namespace="default", subresource="status")
    await cluster.advance(70)
    assert list((await cluster.rows())["a"].creating) == ["x"]
    await cluster.advance(10)
    assert not (await cluster.rows())["a"].creating
    (message,) = await cluster.event_messages("ReservationExpired")
    assert "in a " in message
    assert counter(cluster, "reservations_expired") == 1


async def test_a_reservation_by_a_slow_clock_does_not_expire_at_once(cluster: TopologyCluster) -> None:
    """Its pod may still be created: it must have been seen for as long as any request takes, by our own clock."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    behind = times.format_time(cluster.clock.now() - 200 * SECOND)
    reserved = {"status": {"subsetStatuses": [{"name": "a", "missingReplicas": 3, "creating": {"x": behind}}]}}
    await cluster.user.patch(UnitedTopology, "web", reserved, namespace="default", subresource="status")
    await cluster.advance(55)
    assert list((await cluster.rows())["a"].creating) == ["x"]
    await cluster.advance(10)
    assert not (await cluster.rows())["a"].creating


async def test_a_deletion_that_did_not_happen_is_reverted_within_two_seconds(cluster: TopologyCluster) -> None:
    """An eviction that a disruption budget refused."""
    await cluster.deploy(2)
    await cluster.create_topology(subset("a", "z1", 5))
    name = (await cluster.pods())[0].metadata.name
    now = times.format_micro(cluster.clock.now())
    announced = {
        "status": {"subsetStatuses": [{"name": "a", "missingReplicas": 3, "replicas": 2, "deleting": {name: now}}]}
    }
    await cluster.user.patch(UnitedTopology, "web", announced, namespace="default", subresource="status")
    await cluster.clock.advance(1.9)
    row = (await cluster.rows())["a"]
    assert (row.deleting, row.missing_replicas) == ({}, 3)
    assert counter(cluster, "deletions_reverted") == 1


def counter(cluster: TopologyCluster, name: str) -> float | None:
    """One of the controller's counters."""
    return cluster.metrics.registry.get_sample_value(f"trimtab_unitedtopology_{name}_total")


async def test_the_controller_survives_being_killed(cluster: TopologyCluster) -> None:
    """Whatever it was about to write is done by the next one."""
    await cluster.deploy(4)
    await cluster.create_topology(subset("a", "z1", 2), subset("b", "z2"))
    await cluster.kill_controller()
    await cluster.patch(Deployment, "web", {"spec": {"replicas": 6}})
    await cluster.run_pods()
    await cluster.start_controller()
    await cluster.settle()
    assert (await cluster.rows())["a"].replicas == 6
    assert await cluster.levels() == {("z1", "Guaranteed"): 2, ("z1", "Redundant"): 4}


async def test_pods_are_annotated_only_after_they_are_counted(cluster: TopologyCluster) -> None:
    """An annotation says that a pod is counted, so the status is written first."""
    await cluster.deploy(2)
    cluster.controller_wire.requests.clear()
    await cluster.create_topology(subset("a", "z1", 5))
    writes = [
        "status" if request.path.endswith("/status") else "pod"
        for request in cluster.controller_wire.requests
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
    """The terms of these tests select the zones that they name."""
    assert zone("z1", *given)["matchExpressions"][0]["values"] == list(want)


async def test_unschedulable_pods_are_rescheduled_to_the_next_subset(cluster: TopologyCluster) -> None:
    """Adaptive: a pod without a node for thirty seconds is deleted, and its successor is expected elsewhere."""
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    await cluster.create_topology(subset("a", "z1"), subset("b", "z2"), scheduleStrategy=strategy)
    cluster.room = 2
    await cluster.create(Deployment, pinned(3, "z1"))
    await cluster.run_pods()
    (stuck,) = (pod for pod in await cluster.pods() if not pod.spec.node_name)
    await cluster.advance(25)
    assert stuck.metadata.uid in {pod.metadata.uid for pod in await cluster.pods()}
    await cluster.advance(6)
    assert stuck.metadata.uid not in {pod.metadata.uid for pod in await cluster.pods()}
    status = (await cluster.topology()).status
    (shortage,) = status.shortages
    assert shortage.name == "a"
    (message,) = await cluster.event_messages("Rescheduled")
    assert "no node of a" in message


def pinned(replicas: int, in_zone: str) -> JSON:
    """A Deployment whose pods must run in a zone."""
    terms = {"nodeSelectorTerms": [zone(in_zone)]}
    tree = deployment_tree("web", replicas)
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    tree["spec"]["template"]["spec"]["affinity"] = affinity
    return tree


async def test_an_announced_node_delays_rescheduling(cluster: TopologyCluster) -> None:
    """The pod is not rescheduled before the node that was announced for it could exist."""
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    await cluster.create_topology(subset("a", "z9"), subset("b", "z2"), scheduleStrategy=strategy)
    await cluster.create(Deployment, pinned(1, "z9"))
    await cluster.run_pods()
    (stuck,) = await cluster.pods()
    about = {"kind": "Pod", "namespace": "default", "name": stuck.metadata.name, "uid": stuck.metadata.uid}
    now = times.format_time(cluster.clock.now())
    event = {"metadata": {"name": "up"}, "involvedObject": about, "reason": "TriggeredScaleUp", "type": "Normal"}
    await cluster.user.create(Event, event | {"lastTimestamp": now, "firstTimestamp": now}, namespace="default")
    await cluster.advance(60)
    assert [pod.metadata.uid for pod in await cluster.pods()] == [stuck.metadata.uid]
    await cluster.advance(245)
    assert stuck.metadata.uid not in {pod.metadata.uid for pod in await cluster.pods()}


async def test_without_another_subset_nothing_is_rescheduled(cluster: TopologyCluster) -> None:
    """A pod in the only subset stays pending."""
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    await cluster.create_topology(subset("a", "z9"), subset("b", "z2", 0), scheduleStrategy=strategy)
    await cluster.create(Deployment, pinned(1, "z9"))
    await cluster.run_pods()
    (stuck,) = await cluster.pods()
    await cluster.advance(120)
    assert [pod.metadata.uid for pod in await cluster.pods()] == [stuck.metadata.uid]


async def test_a_pod_is_rescheduled_once_another_subset_has_capacity(cluster: TopologyCluster) -> None:
    """The other subset was found full, and is tried again when that is over."""
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    await cluster.create_topology(subset("a", "z9"), subset("b", "z2"), scheduleStrategy=strategy)
    await cluster.create(Deployment, pinned(1, "z9"))
    until = times.format_time(cluster.clock.now() + 120_000_000_000)
    full = {"status": {"shortages": [{"name": "b", "until": until, "times": 1}]}}
    await cluster.user.patch(UnitedTopology, "web", full, namespace="default", subresource="status")
    await cluster.run_pods()
    (stuck,) = await cluster.pods()
    await cluster.advance(100)
    assert [pod.metadata.uid for pod in await cluster.pods()] == [stuck.metadata.uid]
    await cluster.advance(60)
    assert stuck.metadata.uid not in {pod.metadata.uid for pod in await cluster.pods()}


async def test_a_pod_is_matched_when_its_node_is_cached(cluster: TopologyCluster) -> None:
    """Two informers need not agree on when something happened."""
    await cluster.deploy(1)
    cluster.controller_wire.hold("nodes")
    await cluster.add_node("z1-9", "z1")
    cluster.room = 0
    await cluster.patch(Deployment, "web", {"spec": {"replicas": 2}})
    (waiting,) = (pod for pod in await cluster.pods() if not pod.spec.node_name)
    await cluster.user.bind(waiting.metadata.name, namespace="default", node="z1-9")
    await cluster.create_topology(subset("a", "z1", 5))
    await cluster.advance(5)  # until nothing else is enqueued
    assert await cluster.pods_by_subset() == {"a": 1, "": 1}
    cluster.controller_wire.resume()
    await cluster.settle()
    assert await cluster.pods_by_subset() == {"a": 2}


def test_manifests_of_tests_are_valid() -> None:
    """A CloneSet is of another group than a Deployment."""
    spec = topology_tree(subset("a"), kind="CloneSet")["spec"]
    assert spec["targetRef"]["apiVersion"] == "apps.kruise.io/v1alpha1"
