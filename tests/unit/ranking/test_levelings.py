"""What a scale-down leaves: skews, and sentences about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trimtab.ranking.certainty import DeletionOutcome, PossibleVictims
from trimtab.ranking.levelings import Leveling, leveling
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.spreads import Spread


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


DOMAINS = np.array([0, 0, 0, 1, 1, 2, -1])
"""Six pods, of which three, two and one are in the zones a, b and c, and one that is in none."""


def outcome(*certain: int, chance: tuple[int, ...] = (), take: int = 0) -> DeletionOutcome:
    """These pods go, and some of others."""
    places = np.arange(len(DOMAINS))
    return DeletionOutcome(np.isin(places, certain), np.isin(places, chance), take)


@pytest.mark.parametrize(
    ("outcomes", "stock", "skews", "is_certain"),
    [
        pytest.param([outcome(0, 1)], (1, 2, 1), (1, 1), True, id="one set of pods"),
        pytest.param([outcome(0, 1), outcome(1, 2)], (1, 2, 1), (1, 1), True, id="two sets, of the same zones"),
        pytest.param([outcome(0, 1), outcome(3, 4)], (3, 0, 1), (1, 3), False, id="two sets, of different zones"),
        pytest.param([outcome(3, 4), outcome(0, 1)], (3, 0, 1), (1, 3), False, id="the least level is named"),
        pytest.param([outcome(0, chance=(1, 2), take=1)], (1, 2, 1), (1, 1), True, id="any pod of one zone"),
        pytest.param([outcome(0, chance=(1, 3), take=1)], (2, 1, 1), (1, 1), False, id="a pod of either zone"),
        pytest.param([outcome(3, chance=(0, 4), take=1)], (3, 0, 1), (1, 3), False, id="of which one is worse"),
    ],
)
def test_what_stock_may_leave(
    outcomes: list[DeletionOutcome], stock: tuple[int, ...], skews: tuple[int, int], is_certain: bool
) -> None:
    """One of the least level distributions, and whether it is the only one."""
    spread = Spread(Constraint("zone"), ("a", "b", "c"), DOMAINS, np.zeros(3, dtype=np.int64))
    found = leveling(spread, outcome(0, 6).certain, PossibleVictims(np.arange(7), tuple(outcomes)))
    assert (found.before, found.after, found.outside) == ((3, 2, 1), (2, 2, 1), (1, 0))
    assert sorted(found.stock) == sorted(stock)
    assert (found.stock_skews, found.stock_is_certain) == (skews, is_certain)


def test_with_too_few_domains_stock_is_compared_with_none() -> None:
    """The minimum counts as 0; no further domain is shown."""
    spread = Spread(Constraint("zone", min_domains=4), ("a", "b", "c"), DOMAINS, np.array([0, 0, 5]))
    found = leveling(spread, outcome(0).certain, PossibleVictims(np.arange(7), (outcome(0, 1),)))
    assert (found.stock, found.stock_skews, found.has_too_few_domains) == ((1, 2, 6), (6, 6), True)
