"""What pods carry because of their subset, and whose costs are left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api import annotations as keys
from trimtab.api.annotations import (
    AIMED_SIZE,
    DELETION_COST,
    POLICY_COST,
    REPLACEABLE,
    SCALE_PLAN,
    SUBSET_COST,
    CostOwner,
    SubsetAnnotations,
    cost_owner,
)
from trimtab.ranking.costs import Band, Level
from trimtab.testing.builders import pod
from trimtab.unitedtopology import costs
from trimtab.unitedtopology.costs import TargetSize

GUARANTEED = Band(Level.GUARANTEED, 0, 2)
BEST_EFFORT = Band(Level.BEST_EFFORT, 1, 2)
REDUNDANT = Band(Level.REDUNDANT, 1, 2)


def ours(cost: str) -> dict[str, str]:
    """A cost that we wrote."""
    return {DELETION_COST: cost, SUBSET_COST: cost}


@pytest.mark.parametrize(
    ("annotations", "band", "want"),
    [
        pytest.param({}, GUARANTEED, ours("4000000"), id="a cost is added"),
        pytest.param({}, BEST_EFFORT, {}, id="best effort needs none"),
        pytest.param({}, None, {}, id="no subset, no cost"),
        pytest.param(ours("4000000"), GUARANTEED, {}, id="as it should be"),
        pytest.param(ours("4000000"), REDUNDANT, ours("-4000000"), id="a subset's follows the level"),
        pytest.param(
            ours("4000000"), BEST_EFFORT, {DELETION_COST: None, SUBSET_COST: None}, id="a subset's is removed"
        ),
        pytest.param({DELETION_COST: "7"}, GUARANTEED, {}, id="a foreign one stays"),
        pytest.param(
            {DELETION_COST: "7", SUBSET_COST: "4"},
            GUARANTEED,
            {SUBSET_COST: None},
            id="a subset's that was changed becomes foreign",
        ),
        pytest.param({SUBSET_COST: "4"}, GUARANTEED, ours("4000000"), id="a subset's that was removed is added again"),
        pytest.param({**ours("4"), SCALE_PLAN: "{}"}, GUARANTEED, {}, id="a scale-down under way"),
        pytest.param({**ours("4"), POLICY_COST: "{}"}, GUARANTEED, {}, id="a policy that keeps it current"),
    ],
)
def test_the_change_of_a_cost_depends_on_its_owner(
    annotations: dict[str, str], band: Band | None, want: dict[str, str | None]
) -> None:
    """By the table in `trimtab.api.annotations`."""
    assert costs.cost_change(annotations, band) == want


@pytest.mark.parametrize(
    ("annotations", "owner"),
    [
        pytest.param({}, CostOwner.NONE, id="no cost"),
        pytest.param(ours("4"), CostOwner.SUBSET, id="a subset's"),
        pytest.param({DELETION_COST: "7"}, CostOwner.OTHER, id="a foreign one"),
        pytest.param({**ours("4"), SCALE_PLAN: "{}"}, CostOwner.PLAN, id="a plan's"),
    ],
)
def test_the_owner_is_that_of_the_protocol(annotations: dict[str, str], owner: CostOwner) -> None:
    """Only a policy's annotation makes a difference: the cost is the policy's, whatever the annotation names."""
    assert costs.owner_of(annotations) is cost_owner(annotations) is owner
    with_policy = CostOwner.PLAN if owner is CostOwner.PLAN else CostOwner.POLICY
    assert costs.owner_of({**annotations, POLICY_COST: "{}"}) is with_policy


@pytest.mark.parametrize(
    ("annotations", "known", "want"),
    [
        pytest.param({}, SubsetAnnotations("web", "a"), {keys.TOPOLOGY: "web", keys.SUBSET: "a"}, id="new annotations"),
        pytest.param(
            {keys.TOPOLOGY: "web", keys.SUBSET: "a"}, SubsetAnnotations("web", "b"), {keys.SUBSET: "b"}, id="changed"
        ),
        pytest.param({keys.TOPOLOGY: "web", keys.SUBSET: "a"}, SubsetAnnotations("web", "a"), {}, id="as it should be"),
        pytest.param({keys.TOPOLOGY: "web", "own": "x"}, None, {keys.TOPOLOGY: None}, id="taken off"),
        pytest.param({}, None, {}, id="nothing to take off"),
    ],
)
def test_the_change_of_subset_annotations(
    annotations: dict[str, str], known: SubsetAnnotations | None, want: dict[str, str | None]
) -> None:
    """Only what differs is written."""
    assert costs.subset_change(annotations, known) == want


def test_a_patch_is_conditional_on_the_resource_version() -> None:
    """A cost written meanwhile is not overwritten."""
    found = pod("p").build()
    patch = costs.patch(found, {DELETION_COST: "1"})
    assert patch == {"metadata": {"resourceVersion": "", "annotations": {DELETION_COST: "1"}}}
    assert costs.patch(found, {}) is None


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("3@1767225615", TargetSize(3, 1767225615), id="a size and a moment"),
        pytest.param("3", None, id="no moment"),
        pytest.param("3@soon", None, id="not a moment"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_target_size_of_an_annotation(text: str, want: TargetSize | None) -> None:
    """A malformed value is ignored."""
    assert costs.target_size({AIMED_SIZE: text}) == want


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param(ours("4000000"), ours("-4000000"), id="a subset's follows the level of the target size"),
        pytest.param({DELETION_COST: "7"}, {}, id="a foreign one stays"),
        pytest.param(
            {DELETION_COST: "3999995", SUBSET_COST: "4000000", POLICY_COST: "{}"},
            ours("-4000005"),
            id="a policy's keeps its offset in the other band",
        ),
        pytest.param({DELETION_COST: "-4000005", POLICY_COST: "{}"}, {}, id="a policy's that is there already"),
        pytest.param({DELETION_COST: "much", POLICY_COST: "{}"}, ours("-4000000"), id="what cannot be read"),
        pytest.param({**ours("4"), SCALE_PLAN: "{}", POLICY_COST: "{}"}, {}, id="a scale-down under way"),
    ],
)
def test_costs_ahead_of_a_scale_down(annotations: dict[str, str], want: dict[str, str | None]) -> None:
    """Into the band of the target size."""
    assert costs.target_size_change(annotations, REDUNDANT) == want


_ANNOTATIONS = st.dictionaries(
    st.sampled_from([DELETION_COST, SUBSET_COST, SCALE_PLAN, POLICY_COST, AIMED_SIZE, *keys.SUBSET_KEYS]),
    st.sampled_from(["7", "4000000", "-4000000"]),
)
_BANDS = st.sampled_from([None, GUARANTEED, BEST_EFFORT, REDUNDANT])


@given(_ANNOTATIONS, _BANDS)
def test_a_change_is_idempotent(annotations: dict[str, str], band: Band | None) -> None:
    """What was written leaves nothing to write, and a cost of others is never touched."""
    change = costs.cost_change(annotations, band)
    after = {name: value for name, value in (annotations | change).items() if value is not None}
    assert costs.cost_change(after, band) == {}
    if costs.owner_of(annotations) not in REPLACEABLE[CostOwner.SUBSET]:
        assert after.get(DELETION_COST) == annotations.get(DELETION_COST)


@given(_ANNOTATIONS)
def test_a_revert_removes_everything_that_was_written(annotations: dict[str, str]) -> None:
    """No subset annotations, no target size, no cost of the subset; a foreign cost stays."""
    found = pod("p").annotations(annotations).build()
    after = {name: value for name, value in (annotations | costs.revert_change(found)).items() if value is not None}
    assert not after.keys() & {*keys.SUBSET_KEYS, AIMED_SIZE}
    assert costs.owner_of(after) is not CostOwner.SUBSET
    if costs.has_foreign_cost(annotations):
        assert after[DELETION_COST] == annotations[DELETION_COST]
