"""How pods stand, as bands of deletion costs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.unitedtopology.clusters import TopologyCluster, subset, topology_tree
from trimtab.api import codec
from trimtab.api.annotations import AIMED_SIZE, DELETION_COST
from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.ranking.costs import SPACING, Band, Level
from trimtab.subsets import members as members_of_subsets
from trimtab.subsets.members import Member
from trimtab.unitedtopology import costs, view
from trimtab.unitedtopology.levels import Levels, bands
from trimtab.unitedtopology.readiness import Cluster, Readiness, evaluator
from trimtab.unitedtopology.validation import BackgroundValidation


def topology(*most: int | str | None) -> UnitedTopology:
    """A UnitedTopology with subsets of these sizes, called 0, 1, …"""
    return codec.convert(topology_tree(*(subset(str(at), "", each) for at, each in enumerate(most))), UnitedTopology)


def members(counts: dict[str, int], revision: str = "new") -> list[Member]:
    """So many pods in each subset."""
    return [
        Member(f"{revision}-{name}-{number}", revision=revision, subset=name)
        for name, count in counts.items()
        for number in range(count)
    ]


def stand(found: dict[str, Band]) -> Counter[tuple[str, int]]:
    """How many pods have each level and subset."""
    return Counter((band.level.value, band.subset) for band in found.values())


def test_levels_of_one_revision() -> None:
    """Within the maximum, without one, beyond it."""
    found = bands(topology(2, None), members({"0": 3, "1": 2}), replicas=5, revision="new")
    assert stand(found) == {("Guaranteed", 0): 2, ("Redundant", 0): 1, ("BestEffort", 1): 2}


def test_levels_use_the_target_size() -> None:
    """Nine pods in thirds, bound for three: one of each third stays."""
    thirds = topology("34%", "33%", "33%")
    found = bands(thirds, members({"0": 3, "1": 3, "2": 3}), replicas=3, revision="new")
    assert stand(found) == {
        (level, at): count for at in range(3) for level, count in (("Guaranteed", 1), ("Redundant", 2))
    }


def test_older_revisions_are_emptied_from_the_first_subset_on() -> None:
    """Those in subsets with a maximum before those without, and the earlier subsets before the later ones."""
    wanted = topology(3, 3, None)
    found = bands(wanted, members({"0": 1, "1": 1, "2": 1}, "old"), replicas=9, revision="new")
    assert sorted(found, key=lambda name: found[name].centre) == ["old-0-0", "old-1-0", "old-2-0"]
    assert found["old-2-0"].level is Level.BEST_EFFORT


def test_the_only_revision_is_the_newest() -> None:
    """Without a known revision none is old."""
    found = bands(topology(3), members({"0": 1}, "any"), replicas=1, revision="")
    assert stand(found) == {("Guaranteed", 0): 1}


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(0, 4), st.sampled_from(["10%", "50%"])), min_size=1, max_size=4),
    st.lists(st.integers(0, 5), min_size=4, max_size=4),
    st.integers(0, 12),
)
def test_costs_follow_levels(most: list[int | str | None], counts: list[int], replicas: int) -> None:
    """Guaranteed above zero, BestEffort none, Redundant below; inside a level, later subsets first."""
    wanted = topology(*most)
    population = members({str(at): counts[at] for at in range(len(most))})
    found = bands(wanted, population, replicas=replicas, revision="new")
    for band in found.values():
        sign = {Level.GUARANTEED: 1, Level.BEST_EFFORT: 0, Level.REDUNDANT: -1}[band.level]
        assert (band.centre > 0) - (band.centre < 0) == sign
    by_level: dict[Level, dict[int, int]] = {}
    for band in found.values():
        by_level.setdefault(band.level, {})[band.subset] = band.centre
    for level, centres in by_level.items():
        ordered = [centres[at] for at in sorted(centres)]
        assert level is Level.BEST_EFFORT or ordered == sorted(ordered, reverse=True)


async def test_levels_of_a_workload_in_a_cluster(cluster: TopologyCluster) -> None:
    """By workload or by ReplicaSet; pods with a foreign cost are left out."""
    await cluster.deploy(4)
    await cluster.create_topology(subset("a", "z1", "50%"), subset("b", "z2"))
    foreign = (await cluster.pods())[0]
    await cluster.patch(Pod, foreign.metadata.name, {"metadata": {"annotations": {DELETION_COST: "9"}}})
    (replicaset,) = await cluster.all(ReplicaSet)
    levels = cluster.controller.levels
    by_deployment = levels("Deployment", "default", "web")
    by_set = levels("ReplicaSet", "default", replicaset.metadata.name)
    assert by_deployment is not None
    assert by_deployment == by_set
    assert foreign.key not in by_deployment
    assert len(by_deployment) == 3
    aimed = levels("ReplicaSet", "default", replicaset.metadata.name, replicas=2)
    assert stand(dict(aimed or {}))["Redundant", 0] > stand(dict(by_deployment))["Redundant", 0]


async def test_an_unexpired_target_size_is_used(cluster: TopologyCluster) -> None:
    """A policy that keeps costs current does not undo costs that were written ahead of a scale-down."""
    await cluster.deploy(4)
    await cluster.create_topology(subset("a", "z1", "50%"), subset("b", "z2"))
    pod = (await cluster.pods())[0]
    until = cluster.clock.now() // 1_000_000_000 + 15
    note = {"metadata": {"annotations": {AIMED_SIZE: costs.target_size_text(2, until)}}}
    await cluster.patch(Pod, pod.metadata.name, note)
    assert stand(dict(cluster.controller.levels("Deployment", "default", "web") or {}))["Guaranteed", 0] == 1
    await cluster.advance(16)
    assert stand(dict(cluster.controller.levels("Deployment", "default", "web") or {}))["Guaranteed", 0] == 2


async def test_tiers_are_empty_while_a_united_topology_is_validated(cluster: TopologyCluster) -> None:
    """To ask whether a large one is valid would keep the event loop busy. Its pods have subsets all the same, so that
    a policy that only observes does not apply to them."""
    await cluster.deploy(4)
    await cluster.create_topology(subset("a", "z1", "50%"), subset("b", "z2"))
    (replicaset,) = await cluster.all(ReplicaSet)
    running, evaluated = True, list[str]()

    class Validation:
        def is_running(self, _: UnitedTopology) -> bool:
            return running

        async def wait(self, _: UnitedTopology) -> None:
            nonlocal running
            await cluster.clock.sleep(1)
            running = False

    def evaluate(topology: UnitedTopology, among: Cluster) -> Readiness:
        evaluated.append(topology.metadata.name)
        return evaluator(pod_webhook=True)(topology, among)

    levels = Levels(cluster.controller.view, evaluate=evaluate, validation=cast("BackgroundValidation", Validation()))
    names = {"Deployment": "web", "ReplicaSet": replicaset.metadata.name}
    assert [levels.tiers(kind, "default", name, 2) for kind, name in names.items()] == [{}, {}]
    assert levels("Deployment", "default", "web") is None
    assert levels.tiers("Deployment", "default", "another", 2) is None
    assert evaluated == []
    waiting = asyncio.ensure_future(levels.wait_validated("ReplicaSet", "default", names["ReplicaSet"]))
    await cluster.clock.advance(0.9)
    assert not waiting.done()
    await cluster.clock.advance(0.2)
    assert waiting.done()
    for kind, name in names.items():
        assert len(levels.tiers(kind, "default", name, 2) or {}) == 4


async def test_without_a_united_topology_there_are_no_bands(cluster: TopologyCluster) -> None:
    """No UnitedTopology, an unknown workload, an unknown kind."""
    await cluster.deploy(1)
    levels = cluster.controller.levels
    assert levels("Deployment", "default", "web") is None
    assert levels("ReplicaSet", "default", "gone") is None
    assert levels("ReplicationController", "default", "web") is None


def test_floors_are_given_up_last() -> None:
    """Of all subsets, the first one's last of all."""
    tree = topology_tree(subset("0", minReplicas=1), subset("1", "", 9), subset("2", "", 9, minReplicas=1))
    wanted = codec.convert(tree, UnitedTopology)
    found = bands(wanted, members({"0": 2, "1": 1, "2": 2}), replicas=5, revision="new")
    order = sorted(found, key=lambda name: found[name].tier)
    assert order == ["new-0-1", "new-2-1", "new-1-0", "new-2-0", "new-0-0"]
    assert [found[name].centre // SPACING for name in order] == [0, 1, 2, 4, 5]


async def test_tiers_of_a_workload(cluster: TopologyCluster) -> None:
    """Later BestEffort subsets first, pods in no subset with the last one, and foreign costs in their subset."""
    cluster.room = 1
    await cluster.deploy(3)
    first = next(pod for pod in await cluster.pods() if pod.spec.node_name.startswith("z1"))
    await cluster.create_topology(subset("a", "z1"), subset("b", "z2"))
    await cluster.patch(Pod, first.metadata.name, {"metadata": {"annotations": {DELETION_COST: "7"}}})
    found = cluster.controller.levels.tiers("Deployment", "default", "web", 2)
    assert found is not None
    by_zone = {pod.spec.node_name[:2]: found[pod.key] for pod in await cluster.pods()}
    assert by_zone == {"z1": 1, "z2": 0, "z3": 0}
    assert cluster.controller.levels.tiers("Deployment", "default", "other", 2) is None


async def test_other_tasks_run_while_pods_are_matched(
    cluster: TopologyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiers are empty until then, if there are many pods in no subset; then they are as if computed at once."""
    cluster.room = 4
    await cluster.deploy(12)
    await cluster.create_topology(subset("a", "z1"), subset("b", "z2"))
    levels, web = cluster.controller.levels, ("Deployment", "default", "web")
    tiers, found = levels.tiers(*web, 2), levels(*web)
    assert len(tiers or ()) == len(found or ()) == 12
    turns, matched, member_of = 0, list[int](), members_of_subsets.member_of

    def noted(*given: Any) -> Member:
        matched.append(turns)
        return member_of(*given)

    monkeypatch.setattr(members_of_subsets, "_COMPARISONS", 2)
    monkeypatch.setattr(members_of_subsets, "_QUICK", 3)
    monkeypatch.setattr(view, "member_of", noted)
    cluster.controller.view._members.clear()  # noqa: SLF001 - as in a process that has just been started
    assert levels.tiers(*web, 2) == {}
    assert levels.tiers("Deployment", "default", "another", 2) is None
    assert matched == []
    matching = asyncio.ensure_future(levels.match_pods(*web))
    while not matching.done():
        await asyncio.sleep(0)
        turns += 1
    assert [matched.count(turn) for turn in sorted(set(matched))] == [1, 1, 1, 1]
    assert levels.tiers(*web, 2) == tiers
    assert len(matched) == 12, "the annotated pods, of which the subsets are known, take no time"
    assert await levels.matched_bands(*web) == levels(*web) == found
    assert len(matched) == 12


async def test_pods_that_change_while_others_are_matched_are_matched_too(
    cluster: TopologyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as all of them, for a spec that has changed; but not for ever."""
    cluster.room = 4
    await cluster.deploy(12)
    await cluster.create_topology(subset("a", "z1"), subset("b", "z2"))
    levels, web = cluster.controller.levels, ("Deployment", "default", "web")
    matched, member_of, changes = list[str](), members_of_subsets.member_of, 1
    known = cluster.controller.view._members  # noqa: SLF001 - as if each of these pods had changed

    def noted(pod: Pod, *given: Any) -> Member:
        nonlocal changes
        if len(matched) % 4 == 3 and changes:
            changes -= 1
            known.clear()
        matched.append(pod.metadata.name)
        return member_of(pod, *given)

    monkeypatch.setattr(view, "member_of", noted)
    known.clear()
    await levels.match_pods(*web)
    assert Counter(Counter(matched).values()) == {1: 1, 2: 3}, "the last one was matched after the change"
    changes = 1000
    known.clear()
    await levels.match_pods(*web)


async def test_few_pods_are_matched_at_once(cluster: TopologyCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as those that have changed since; without a UnitedTopology there is nothing to match."""
    cluster.room = 1
    await cluster.deploy(3)
    levels, web = cluster.controller.levels, ("Deployment", "default", "web")
    await levels.match_pods(*web)
    await cluster.create_topology(subset("a", "z1"), subset("b", "z2"))
    monkeypatch.setattr(members_of_subsets, "_COMPARISONS", 2)
    cluster.controller.view._members.clear()  # noqa: SLF001 - as in a process that has just been started
    assert len(levels.tiers(*web, 2) or ()) == 3
