"""Which faults come in which order: drawn from the seed, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.soak import kinds
from bench.soak.faults import FAULTS
from bench.soak.kinds import FAKETIME, KINDS, LONGEST, REAL
from bench.soak.schedule import moments, steps

README = Path(__file__).parents[4] / "bench" / "soak" / "README.md"


@given(seed=st.integers(), number=st.integers(0, 1000))
def test_a_seed_gives_the_same_steps_again(seed: int, number: int) -> None:
    first, second = steps(seed, number, KINDS), steps(seed, number, KINDS)
    assert first == second
    assert [each.random().random() for each in first] == [each.random().random() for each in second]


def test_rounds_and_seeds_differ() -> None:
    orders = {tuple(each.kind for each in steps(seed, number, KINDS)) for seed in range(5) for number in range(5)}
    assert len(orders) == 25


@given(seed=st.integers(), number=st.integers(0, 1000))
def test_every_round_has_every_kind_as_often_as_the_table_says(seed: int, number: int) -> None:
    drawn = steps(seed, number, KINDS)
    assert Counter(each.kind for each in drawn) == {each.name: each.per_round for each in KINDS}
    assert [each.number for each in drawn] == list(range(len(drawn)))


def test_what_lasts_longest_comes_early() -> None:
    """On average over many rounds, an early kind comes in the first part of a round."""
    early = {each.name for each in KINDS if each.is_early}
    places = [
        each.number / len(drawn)
        for drawn in (steps(0, number, KINDS) for number in range(50))
        for each in drawn
        if each.kind in early
    ]
    assert max(places) <= LONGEST + 0.15


def test_the_random_numbers_of_a_step_do_not_depend_on_the_kinds_around_it() -> None:
    every, fewer = (steps(3, 1, chosen) for chosen in (KINDS, kinds.applicable(frozenset())))
    assert every[5].random().random() == fewer[5].random().random()


def test_moments_are_spread_evenly_over_the_round() -> None:
    assert list(moments(4, 60.0)) == [0.0, 15.0, 30.0, 45.0]


def test_an_hour_reaches_what_is_to_be_shown() -> None:
    """Rounds of 70 seconds with a quiet point of up to 70: 50 of each kind, and 5,000 in all, in an hour."""
    for available in (frozenset({REAL, FAKETIME}), frozenset({FAKETIME})):
        chosen = kinds.applicable(available)
        rounds = 3600 // (70 + 70)
        assert min(each.per_round for each in chosen) * rounds >= 50
        assert sum(each.per_round for each in chosen) * rounds >= 4500


def test_what_is_missing_is_named() -> None:
    embedded = kinds.not_applicable(frozenset({FAKETIME}))
    assert embedded.keys() >= {"restart-api-server", "pause-etcd", "restart-etcd", "etcd-quota", "kill-kube-scheduler"}
    assert "shift-clock" not in embedded
    assert kinds.not_applicable(frozenset({REAL})) == {"shift-clock": FAKETIME}
    assert len(kinds.applicable(frozenset({FAKETIME}))) + len(embedded) == len(KINDS)


@pytest.mark.parametrize("name", [each.name for each in KINDS])
def test_every_kind_is_carried_out_and_documented(name: str) -> None:
    assert name in FAULTS
    assert f"`{name}`" in README.read_text()


def test_nothing_else_is_carried_out() -> None:
    assert FAULTS.keys() == kinds.BY_NAME.keys()
