"""Scaling in the middle of a rollout."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.unit.lab.workloads.objects import replicaset
from trimtab.api.apps import ReplicaSet
from trimtab_lab.workloads.deployment import proportional
from trimtab_lab.workloads.deployment.replicasets import Limits, OwnedReplicaSets

AGES = {"a": "2026-01-01T00:00:00Z", "b": "2026-01-02T00:00:00Z", "new": "2026-01-03T00:00:00Z"}


def a_set(name: str, size: int, *, most: int | None = 10, desired: int | None = None, available: int = 0) -> ReplicaSet:
    """A ReplicaSet, a day younger than the one before in the alphabet."""
    return replicaset(name, size, most=most, desired=desired, available=available, created=AGES[name])


def sizes(limits: Limits, owned: OwnedReplicaSets, *, rolling: bool = True, reported: int = 0) -> dict[str, int] | None:
    """The sizes after scaling, by name."""
    found = proportional.next_step(limits, owned, rolling=rolling, reported=reported)
    return None if found is None else {each.metadata.name: size for each, size in found.sizes}


@pytest.mark.parametrize(
    ("limits", "owned", "want"),
    [
        pytest.param(Limits(5, 0, 1), OwnedReplicaSets(), {}, id="nothing is there"),
        pytest.param(Limits(5, 0, 1), OwnedReplicaSets(a_set("new", 3)), {"new": 5}, id="only the new one has pods"),
        pytest.param(
            Limits(5, 0, 1), OwnedReplicaSets(a_set("new", 0), (a_set("a", 3),)), {"a": 5}, id="only an old one has"
        ),
        pytest.param(
            Limits(5, 0, 1), OwnedReplicaSets(a_set("new", 0), (a_set("a", 0),)), {"new": 5}, id="none has: the new one"
        ),
        pytest.param(
            Limits(5, 0, 1),
            OwnedReplicaSets(None, (a_set("a", 0), a_set("b", 0))),
            {"b": 5},
            id="none has: the youngest",
        ),
        pytest.param(
            Limits(5, 0, 1),
            OwnedReplicaSets(a_set("new", 5, desired=5, available=5), (a_set("a", 3),)),
            {"a": 0},
            id="saturated",
        ),
        pytest.param(
            Limits(20, 0, 1),
            OwnedReplicaSets(a_set("new", 5), (a_set("a", 5),)),
            {"new": 10, "a": 10},
            id="both grow alike",
        ),
        pytest.param(
            Limits(5, 0, 1),
            OwnedReplicaSets(a_set("new", 8), (a_set("a", 2),)),
            {"new": 4, "a": 1},
            id="both shrink in proportion",
        ),
        pytest.param(
            Limits(11, 0, 1),
            OwnedReplicaSets(a_set("new", 5), (a_set("a", 5),)),
            {"new": 6, "a": 5},
            id="the younger one grows first",
        ),
        pytest.param(
            Limits(9, 0, 1),
            OwnedReplicaSets(a_set("new", 5), (a_set("a", 5),)),
            {"a": 4, "new": 5},
            id="the older one shrinks first",
        ),
        pytest.param(
            Limits(0, 0, 0),
            OwnedReplicaSets(a_set("new", 5), (a_set("a", 5),)),
            {"a": 0, "new": 0},
            id="to nothing, all go",
        ),
        pytest.param(
            Limits(10, 3, 2),
            OwnedReplicaSets(a_set("new", 8), (a_set("a", 5),)),
            {"new": 8, "a": 5},
            id="nothing to add: as they are",
        ),
    ],
)
def test_all_are_scaled_in_proportion(limits: Limits, owned: OwnedReplicaSets, want: dict[str, int]) -> None:
    """Sizes and the order in which they are set."""
    found = sizes(limits, owned)
    assert found == want
    assert list(found or ()) == list(want)


@pytest.mark.parametrize(
    ("reported", "want"),
    [
        pytest.param(10, {"new": 14, "a": 6}, id="the status is the base"),
        pytest.param(0, {"new": 17, "a": 3}, id="there is no base: all goes to the largest"),
    ],
)
def test_the_proportion_needs_a_base(reported: int, want: dict[str, int]) -> None:
    """If the annotation with the previous maximum is missing."""
    owned = OwnedReplicaSets(a_set("new", 7, most=None), (a_set("a", 3, most=None),))
    assert sizes(Limits(20, 0, 1), owned, reported=reported) == want


def test_recreating_leaves_several_to_its_strategy() -> None:
    """Two ReplicaSets with pods are none of scaling's business there."""
    owned = OwnedReplicaSets(a_set("new", 3), (a_set("a", 3),))
    assert sizes(Limits(5, 0, 0), owned, rolling=False) is None
    assert sizes(Limits(5, 0, 0), OwnedReplicaSets(), rolling=False) == {}


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=3),
    st.integers(0, 100),
    st.integers(0, 20),
    st.integers(1, 120),
)
@settings(deadline=None)
def test_the_whole_is_what_was_asked_for(counts: list[int], desired: int, surge: int, before: int) -> None:
    """Together they are as many as there may be, and none is negative.

    One exception is Kubernetes' own: what rounding leaves is taken from the first alone, which may not have enough.
    """
    names = ["a", "b", "new"][-len(counts) :]
    sets = [a_set(name, count, most=before) for name, count in zip(names, counts, strict=True)]
    found = sizes(Limits(desired, surge, 0), OwnedReplicaSets(sets[-1], tuple(sets[:-1])))
    assert found is not None
    wanted = desired + surge if desired else 0
    assert sum(found.values()) == wanted or (sum(found.values()) > wanted and next(iter(found.values())) == 0)
    assert all(size >= 0 for size in found.values())
