"""Expectations: what a controller has done and not seen yet."""

from __future__ import annotations

from trimtab.kube.expectations import Expectations
from trimtab.testing.clocks import VirtualClock


def test_an_owner_without_expectations_is_satisfied() -> None:
    """A controller that has written nothing waits for nothing."""
    assert Expectations[str](VirtualClock()).satisfied("a")


def test_creations_are_counted_down() -> None:
    """All of them must be seen."""
    expected = Expectations[str](VirtualClock())
    expected.expect("a", creations=2)
    expected.created("a")
    assert not expected.satisfied("a")
    expected.created("a")
    assert expected.satisfied("a")


def test_more_creations_than_expected_do_no_harm() -> None:
    """Others may create matching pods too."""
    expected = Expectations[str](VirtualClock())
    expected.expect("a", creations=1)
    expected.created("a", 5)
    assert expected.satisfied("a")
    expected.expect("a", creations=1)
    assert not expected.satisfied("a")


def test_a_deletion_observed_twice_counts_once() -> None:
    """A pod is first seen terminating, then gone: that is one deletion, and not two."""
    expected = Expectations[str](VirtualClock())
    expected.expect("a", deletions=["u1", "u2"])
    expected.deleted("a", "u1")
    expected.deleted("a", "u1")
    assert not expected.satisfied("a")
    assert expected.expecting_deletion("a") == {"u2"}
    expected.deleted("a", "u2")
    assert expected.satisfied("a")


def test_an_unexpected_deletion_is_ignored() -> None:
    """Only the very pods that were deleted count."""
    expected = Expectations[str](VirtualClock())
    expected.expect("a", deletions=["u1"])
    expected.deleted("a", "other")
    assert not expected.satisfied("a")


def test_owners_do_not_share_expectations() -> None:
    """What one waits for does not hold up another."""
    expected = Expectations[str](VirtualClock())
    expected.expect("a", creations=1)
    expected.created("b")
    assert expected.satisfied("b")
    assert not expected.satisfied("a")


async def test_expectations_expire_after_five_minutes() -> None:
    """A lost event must not stop a controller for ever."""
    clock = VirtualClock()
    expected = Expectations[str](clock)
    expected.expect("a", creations=1)
    await clock.advance(300)
    assert not expected.satisfied("a")
    await clock.advance(0.001)
    assert expected.satisfied("a")


def test_a_forgotten_owner_is_satisfied() -> None:
    """Expectations of a deleted owner are dropped."""
    expected = Expectations[str](VirtualClock())
    expected.expect("a", creations=1, deletions=["u"])
    expected.forget("a")
    assert expected.satisfied("a")
    assert expected.expecting_deletion("a") == frozenset()
    expected.created("a")
    expected.deleted("a", "u")
    assert expected.satisfied("a")
