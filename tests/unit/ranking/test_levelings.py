"""What a scale-down leaves: skews, and sentences about them."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.ranking.levelings import Leveling


def made(after: tuple[int, ...] = (3, 2, 2), stock: tuple[int, int] = (1, 3), **fields: Any) -> Leveling:
    """Pods that were 4, 4 and 2 in three zones."""
    names = tuple(f"z{number}" for number in range(len(after)))
    before = (4, 4, 2, *[2] * (len(after) - 3))[: len(after)]
    certain = {"stock_is_certain": False} | fields
    return Leveling("zone", names, before, after, (5, 2, *[2] * (len(after) - 2)), stock, **certain)


@pytest.mark.parametrize(
    ("found", "before", "after"),
    [
        pytest.param(made(), 2, 1, id="the lead of the fullest domain"),
        pytest.param(made(has_too_few_domains=True), 4, 3, id="too few domains: over none"),
        pytest.param(Leveling("zone", (), (), (), (), (0, 0), stock_is_certain=True), 0, 0, id="no domains"),
    ],
)
def test_the_skews(found: Leveling, before: int, after: int) -> None:
    """Before, and after the plan; the largest that stock may leave."""
    assert (found.skew_before, found.skew_after) == (before, after)
    assert made().skew_stock == 3


@pytest.mark.parametrize(("most", "want"), [(1, True), (0, False), (2, True)])
def test_a_constraint_is_satisfied_within_its_max_skew(most: int, want: bool) -> None:
    """A skew of 1."""
    assert made(max_skew=most).is_satisfied is want


@pytest.mark.parametrize(("worst", "want"), [(0, True), (1, True), (2, False)])
def test_stock_is_as_good_if_the_worst_it_may_leave_is_as_level(worst: int, want: bool) -> None:
    """As a skew of 1."""
    assert made(stock=(0, worst)).is_matched_by_stock is want


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(made(), "keeps 3/2/2; stock may leave 5/2/2", id="it may"),
        pytest.param(made(stock_is_certain=True), "keeps 3/2/2; stock would leave 5/2/2", id="it certainly would"),
        pytest.param(
            made((3, 2, 2, 2, 2, 2)), "keeps 3/2/2/2/2/2; stock may leave 5/2/2/2/2/2", id="six domains one by one"
        ),
        pytest.param(
            made((3, 2, 2, 2, 2, 2, 2)),
            "keeps a skew of 1 over 7 domains of zone; stock may leave 3",
            id="seven together",
        ),
    ],
)
def test_a_sentence_about_it(found: Leveling, want: str) -> None:
    """For warnings and events."""
    assert found.sentence("keeps") == want
