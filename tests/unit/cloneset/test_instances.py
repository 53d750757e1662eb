"""The names of new pods: the same in every process."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from trimtab.api.meta import ObjectMeta
from trimtab.cloneset import instances

WEB = ObjectMeta(name="web", namespace="default", uid="8a5b2c3d")


def names(used_up: int, there: set[str], count: int) -> list[str]:
    """New names, in a namespace that has these pods."""
    return [each.name for each in instances.free(WEB, used_up, there.__contains__, count)]


FIRST = names(0, set(), 8)


def test_names_follow_from_the_cloneset_and_a_number() -> None:
    """Computed twice they are the same; those of another CloneSet differ."""
    assert names(0, set(), 8) == FIRST
    assert len(set(FIRST)) == 8
    assert all(name.startswith("web-") and len(name) == 9 for name in FIRST)
    other = instances.instance(ObjectMeta(name="web", uid="another"), 0)
    assert other.name not in FIRST


def test_a_name_that_is_taken_is_skipped() -> None:
    """Whatever pod has it."""
    assert names(0, {FIRST[0], FIRST[2]}, 2) == [FIRST[1], FIRST[3]]


def test_names_are_not_used_again() -> None:
    """Once they have been seen, their numbers are used up, and the names of deleted pods are not used again."""
    used_up = instances.settled(WEB, 0, set(FIRST[:3]).__contains__)
    assert used_up == 3
    assert names(used_up, set(), 1) == [FIRST[3]]


def test_a_long_name_is_cut() -> None:
    """A pod's name has 253 characters at most."""
    assert len(instances.instance(ObjectMeta(name="x" * 253, uid="u"), 0).name) == 253


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 12), st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)))
def test_a_new_process_creates_the_pods_that_were_being_created(
    replicas: int, arrived: set[int], late: set[int]
) -> None:
    """Of the pods that a killed process was making, some have arrived and some arrive late: never more than wanted."""
    wanted = names(0, set(), replicas)
    there = {name for number, name in enumerate(wanted) if number in arrived}
    made = set(names(0, there, replicas - len(there)))
    still_coming = {name for number, name in enumerate(wanted) if number in late}
    assert len(there | made | still_coming) == replicas
