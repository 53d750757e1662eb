"""How many pods are created, deleted and replaced."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.unit.cloneset.clusters import manifest
from trimtab.api import codec
from trimtab.api.cloneset import CloneSet
from trimtab.cloneset import sizes
from trimtab.cloneset.sizes import Bounds, Counts


def bounds(replicas: int, update: dict[str, Any] | None = None, scaling: int | str | None = None) -> Bounds:
    """What a spec comes to."""
    scale = {} if scaling is None else {"maxUnavailable": scaling}
    tree = manifest(replicas, updateStrategy=update or {}, scaleStrategy=scale)
    return sizes.bounds(codec.convert(tree, CloneSet).spec)


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(bounds(10), Bounds(10, 0, 2), id="a fifth may be unavailable"),
        pytest.param(bounds(3), Bounds(3, 0, 1), id="a fifth of three is one: it is rounded up"),
        pytest.param(bounds(10, {"maxSurge": "25%"}), Bounds(10, 3, 2), id="a surge is rounded up"),
        pytest.param(
            bounds(3, {"maxSurge": 1, "maxUnavailable": "50%"}), Bounds(3, 1, 1), id="with a surge, rounded down"
        ),
        pytest.param(
            bounds(3, {"maxSurge": 1, "paused": True}), Bounds(3, 0, 1, paused=True), id="a pause uses no surge"
        ),
        pytest.param(bounds(10, scaling="15%"), Bounds(10, 0, 2, 2), id="and while it grows"),
        pytest.param(bounds(0), Bounds(0, 0, 0), id="of nothing, nothing"),
    ],
)
def test_bounds(found: Bounds, want: Bounds) -> None:
    """Percentages become numbers."""
    assert found == want


TEN = Bounds(10, 0, 2)
SURGE = Bounds(10, 3, 0)


@pytest.mark.parametrize(
    ("limits", "counts", "want"),
    [
        pytest.param(TEN, Counts(), {"create": 10}, id="no pods: all are created"),
        pytest.param(TEN, Counts(10, new=10), {"spare": 2}, id="as wanted: nothing to do"),
        pytest.param(
            TEN,
            Counts(13, new=13),
            {"shrink": 3, "shrink_new": 3, "spare": 5},
            id="three too many go, five could be spared",
        ),
        pytest.param(
            TEN,
            Counts(13, new=13, unavailable=6, new_unavailable=6),
            {"shrink": 3, "shrink_new": 3},
            id="none of those that serve",
        ),
        pytest.param(
            Bounds(10, 0, 2, scale_unavailable=4),
            Counts(3, new=3, unavailable=1, new_unavailable=1),
            {"create": 3, "delayed": 4},
            id="growing is held back by what is not available yet",
        ),
        pytest.param(
            Bounds(10, 0, 2, scale_unavailable=4),
            Counts(8, old=8, unavailable=8),
            {"create": 2},
            id="but not by broken pods of an older revision",
        ),
        pytest.param(
            TEN,
            Counts(10, new=8, specified=2),
            {"specified": 2, "spare": 2},
            id="specified pods go as far as can be spared",
        ),
        pytest.param(
            TEN,
            Counts(12, new=10, specified=2),
            {"specified": 2, "spare": 4},
            id="specified pods are those that are too many",
        ),
        pytest.param(
            TEN,
            Counts(13, new=11, specified=2),
            {"specified": 2, "shrink": 1, "shrink_new": 1, "spare": 5},
            id="and one more than those",
        ),
        pytest.param(TEN, Counts(10, old=10), {"replace": 2, "spare": 2}, id="an update takes two at a time"),
        pytest.param(
            TEN,
            Counts(10, old=8, new=2, unavailable=2, new_unavailable=2),
            {},
            id="and waits for new ones to be available",
        ),
        pytest.param(
            TEN,
            Counts(10, old=10, unavailable=10),
            {"replace": 2},
            id="broken old pods go too, two at a time",
        ),
        pytest.param(
            Bounds(10, 0, 2, paused=True), Counts(10, old=10), {"spare": 2}, id="a paused update replaces nothing"
        ),
        pytest.param(SURGE, Counts(10, old=10), {"create": 3, "replace": 0}, id="a surge makes new ones first"),
        pytest.param(
            SURGE,
            Counts(13, old=10, new=3, unavailable=3, new_unavailable=3),
            {},
            id="and waits for them",
        ),
        pytest.param(SURGE, Counts(13, old=10, new=3), {"replace": 3, "spare": 3}, id="old ones give way to as many"),
        pytest.param(
            SURGE, Counts(12, old=2, new=10), {"shrink": 2, "spare": 2}, id="at the end old ones are too many"
        ),
        pytest.param(
            TEN,
            Counts(14, old=9, new=5, unavailable=5, new_unavailable=5),
            {"shrink": 4, "shrink_new": 4, "replace": 1, "spare": 1},
            id="too many in the middle of an update: new ones may be among those that go",
        ),
        pytest.param(
            SURGE,
            Counts(14, old=4, new=10, unavailable=2, new_unavailable=2),
            {"shrink": 4, "shrink_new": 1, "spare": 2},
            id="of a surge only what is above the ceiling",
        ),
        pytest.param(
            SURGE, Counts(10, new=8, specified=2), {"create": 2, "specified": 2}, id="a specified pod is replaced first"
        ),
    ],
)
def test_what_there_is_to_do(limits: Bounds, counts: Counts, want: dict[str, int]) -> None:
    """By the table at the head of the module."""
    assert sizes.sizes(limits, counts) == sizes.Sizes(**want)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Bounds, Counts]:
    """Any bounds, and any pods."""
    number = st.integers(0, 12)
    limits = Bounds(draw(number), draw(st.integers(0, 4)), draw(st.integers(0, 4)))
    old, new, specified = draw(number), draw(number), draw(st.integers(0, 4))
    total = old + new + specified
    new_unavailable = draw(st.integers(0, new))
    unavailable = draw(st.integers(new_unavailable, total - new + new_unavailable))
    return limits, Counts(total, old, new, specified, unavailable, new_unavailable)


@settings(deadline=None, max_examples=300)
@given(situations())
def test_ceiling_and_floor(situation: tuple[Bounds, Counts]) -> None:
    """No pod is created beyond the surge, and deletions keep the floor."""
    limits, counts = situation
    found = sizes.sizes(limits, counts)
    assert found.create == 0 or counts.total + found.create <= limits.replicas + limits.surge
    available = counts.total - counts.unavailable
    floor = limits.replicas - limits.unavailable
    assert found.spare == 0 or available - found.spare >= floor
    assert found.shrink <= max(counts.total - limits.replicas, 0)
    assert min(found.create, found.shrink) == 0
    assert found.replace <= counts.old


@settings(deadline=None, max_examples=300)
@given(situations())
def test_something_can_always_be_done_where_all_are_available(situation: tuple[Bounds, Counts]) -> None:
    """Unless everything is as wanted: there is no state in which a healthy CloneSet stands still."""
    limits, counts = situation
    if limits.surge + limits.unavailable == 0 and limits.replicas:
        return  # which is invalid
    counts = Counts(counts.total, counts.old, counts.new, counts.specified)
    found = sizes.sizes(limits, counts)
    done = counts.total == counts.new == limits.replicas
    deletes = min(found.specified + found.shrink + found.replace, found.spare)
    assert done == (found.create == 0 and deletes == 0)
