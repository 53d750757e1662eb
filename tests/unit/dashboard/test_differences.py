"""Differences of states: applied one after the other, they lead to the last state, and carry no more than changed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trimtab.dashboard.differences import State, applied, difference, settled

ROWS = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 3)))
STATES = st.lists(st.fixed_dictionaries({"nodes": ROWS, "pods": ROWS}), min_size=1, max_size=6)


@given(STATES)
def test_differences_lead_to_the_last_state(states: list[dict[str, Any]]) -> None:
    """A page that starts with the first state and applies every difference has the last one."""
    current: State = states[0]
    shown: State = states[0]
    for each in states[1:]:
        after = settled(current, each)
        shown = applied(shown, difference(current, after))
        current = after
        assert shown == each == after


@given(STATES)
def test_a_difference_has_only_what_changed(states: list[dict[str, Any]]) -> None:
    """Equal rows are never sent again, and a row that is set differs from the one before."""
    before: State = states[0]
    for each in states[1:]:
        after = settled(before, each)
        for section, change in difference(before, after).items():
            assert change["set"] or change["gone"]
            assert all(before[section].get(key) != row for key, row in change["set"].items())
            assert all(key in before[section] and key not in each[section] for key in change["gone"])
        before = after


def test_the_same_state_has_no_difference() -> None:
    """Equal rows that were computed anew are the rows of before."""
    before = {"nodes": {"a": (1,)}}
    after = settled(before, {"nodes": {"a": (1,)}})
    assert after["nodes"] is before["nodes"]
    assert difference(before, after) == {}
