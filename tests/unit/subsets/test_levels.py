"""What a pod is to its subset when the workload shrinks."""

from __future__ import annotations

from collections import Counter

from tests.unit.subsets.topologies import at, member, subset
from trimtab.api.unitedtopology import Level
from trimtab.ranking import costs
from trimtab.subsets.levels import PodLevel, pod_levels

SUBSETS = [subset("a", 2), subset("b", "50%"), subset("c")]


def test_levels() -> None:
    """Within the maximum, beyond it, and without one."""
    pods = [member(f"a{n}", "a", created=at(n)) for n in range(3)] + [member("c", "c"), member("x", "")]
    assert pod_levels(SUBSETS, pods, 4) == {
        "a0": PodLevel(Level.GUARANTEED, 0),
        "a1": PodLevel(Level.GUARANTEED, 0),
        "a2": PodLevel(Level.REDUNDANT, 0),
        "c": PodLevel(Level.BEST_EFFORT, 2),
    }


def test_ready_pods_are_kept_before_others_and_then_older_ones() -> None:
    """Pods that are not ready are deleted first."""
    pods = [
        member("new", "a", created=at(9), ready=True),
        member("old", "a", created=at(1), ready=True),
        member("starting", "a", created=at(0)),
    ]
    found = pod_levels(SUBSETS, pods, 4)
    assert [name for name, standing in found.items() if standing.level is Level.REDUNDANT] == ["starting"]


def test_of_pods_that_are_as_ready_the_oldest_are_kept() -> None:
    """Whatever their names; one whose age is not known counts as the youngest."""
    pods = [
        member("a", "a", created=at(9)),
        member("b", "a"),
        member("c", "a", created=at(1)),
        member("d", "a", created=at(2)),
    ]
    found = pod_levels(SUBSETS, pods, 4)
    assert [name for name, standing in found.items() if standing.level is Level.GUARANTEED] == ["c", "d"]
    assert list(found) == ["c", "d", "a", "b"]


def test_pods_that_have_ended_have_no_level() -> None:
    """They take no capacity."""
    assert pod_levels(SUBSETS, [member("p", "a", active=False)], 4) == {}


def test_each_revision_is_evaluated_by_itself() -> None:
    """Both revisions of a rollout may fill the subset."""
    pods = [member(f"{revision}{n}", "a", revision=revision) for revision in ("r0", "r1") for n in range(2)]
    assert {standing.level for standing in pod_levels(SUBSETS, pods, 4).values()} == {Level.GUARANTEED}


def test_levels_of_a_scale_down_use_the_target_size() -> None:
    """9 pods at 34/33/33 %, bound for 3, keep one in each subset."""
    thirds = [subset("a", "34%"), subset("b", "33%"), subset("c", "33%")]
    pods = [member(f"{name}{n}", name, created=at(n)) for name in "abc" for n in range(3)]
    kept = Counter(
        thirds[standing.subset].name
        for standing in pod_levels(thirds, pods, 3).values()
        if standing.level is Level.GUARANTEED
    )
    assert kept == {"a": 1, "b": 1, "c": 1}


def test_levels_are_those_of_costs() -> None:
    """There is one definition."""
    assert {level.value for level in Level} == {level.value for level in costs.Level}


def test_pods_within_the_minimum_are_guaranteed() -> None:
    """Also in a subset without a maximum; the oldest of it."""
    subsets = [subset("a", minReplicas=1), subset("b", 3, minReplicas=2)]
    pods = [member(f"{name}{n}", name, created=at(n)) for name in "ab" for n in range(4)]
    found = pod_levels(subsets, pods, 8)
    assert {name: (each.level, each.in_floor) for name, each in found.items()} == {
        "a0": (Level.GUARANTEED, True),
        "a1": (Level.BEST_EFFORT, False),
        "a2": (Level.BEST_EFFORT, False),
        "a3": (Level.BEST_EFFORT, False),
        "b0": (Level.GUARANTEED, True),
        "b1": (Level.GUARANTEED, True),
        "b2": (Level.GUARANTEED, False),
        "b3": (Level.REDUNDANT, False),
    }
