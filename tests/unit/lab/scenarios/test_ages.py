"""When ages distinguish pods: checked against the victim order itself."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.kube.clocks import SECOND
from trimtab.testing.builders import pod
from trimtab_lab.scenarios import ages

NOW = 1_800_000_000 * SECOND


def scale_of(age: int) -> int:
    """The scale of an age, as Kubernetes has it."""
    return math.floor(math.log2(age))


@settings(deadline=None)
@given(ready=st.lists(st.integers(0, 3600), min_size=1, max_size=6), created=st.lists(st.integers(0, 3600), max_size=6))
def test_ages_are_of_one_scale_when_they_should_be(ready: list[int], created: list[int]) -> None:
    """From the returned moment until the margin has passed, nothing distinguishes the ages of a group."""
    groups = [[NOW - seconds * SECOND for seconds in group] for group in (ready, created) if group]
    moment = ages.next_common_scale(groups, NOW)
    assert moment >= NOW
    for at in (moment, moment + ages.MARGIN - 1):
        assert all(len({scale_of(at - since) for since in group}) == 1 for group in groups)


def test_the_first_such_moment_is_taken() -> None:
    """Pods of 6 and 2 s: in 6.6 s they are 12.6 and 8.6 s old, both more than 2³³ ns, and less than 2³⁴."""
    moment = ages.next_common_scale([[NOW - 6 * SECOND, NOW - 2 * SECOND]], NOW)
    assert moment == NOW - 2 * SECOND + 2**33


def test_ages_of_one_scale_need_no_waiting() -> None:
    """Now is as good as later, if enough of the scale is left."""
    assert ages.next_common_scale([[NOW - 10 * SECOND, NOW - 12 * SECOND]], NOW) == NOW
    assert ages.next_common_scale([], NOW) == NOW


def test_everything_is_as_old_as_it_should_be() -> None:
    """The youngest decides."""
    groups = [[NOW - 9 * SECOND, NOW - 3 * SECOND], [NOW - 20 * SECOND]]
    assert ages.old_enough(groups, 10) == NOW + 7 * SECOND


def test_the_times_that_count_are_readiness_and_creation() -> None:
    """Each is compared with its like; a pod that is not ready has the second alone."""
    first = pod("a").created("2026-01-01T00:00:00Z").ready(since="2026-01-01T00:00:05Z").build()
    second = pod("b").created("2026-01-01T00:00:01Z").build()
    ready, created = ages.comparable_times([first, second])
    assert [created[0] + 5 * SECOND] == ready
    assert created[1] - created[0] == SECOND
