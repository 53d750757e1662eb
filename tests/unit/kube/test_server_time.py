"""The API server's clock, estimated from Date headers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.times import to_ns
from trimtab.kube.clocks import SECOND
from trimtab.kube.server_time import CorrectedClock, ServerTime
from trimtab.testing.clocks import VirtualClock

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def header(moment: datetime) -> str:
    """A Date header, which has no fractions of a second."""
    return format_datetime(moment.replace(microsecond=0), usegmt=True)


class HandClock(VirtualClock):
    """Our own clock, moved by hand."""

    def move(self, seconds: float) -> None:
        """Let time pass; nothing waits for it here."""
        self._now += round(seconds * SECOND)


def clock() -> HandClock:
    """Our own clock."""
    return HandClock(now=to_ns(START))


def answered(estimate: ServerTime, ours: HandClock, ahead: timedelta, took: float = 0.0) -> None:
    """An answer of a server whose clock is ahead, written when it arrived there."""
    sent = ours.monotonic()
    moment = START + timedelta(seconds=(ours.now() - to_ns(START)) / SECOND) + ahead
    estimate.observe(header(moment), sent=sent, received=sent + round(took * SECOND))


def test_before_any_answer_our_own_clock_counts() -> None:
    """There is nothing better."""
    ours = clock()
    estimate = ServerTime(ours)
    assert (estimate.now(), estimate.error, estimate.offset) == (ours.now(), 0.0, 0.0)


@pytest.mark.parametrize("ahead", [0, 2, -2, 30, -3600, 3600])
def test_an_answer_bounds_the_offset_to_a_second(ahead: int) -> None:
    """Whether our clock is behind or ahead."""
    ours = clock()
    estimate = ServerTime(ours)
    answered(estimate, ours, timedelta(seconds=ahead))
    assert abs(estimate.offset - ahead) <= estimate.error == 0.5


@given(
    st.floats(-5000, 5000),
    st.lists(st.tuples(st.floats(0.01, 3), st.floats(0, 0.5)), min_size=1, max_size=30),
)
def test_the_truth_is_always_within_the_error(ahead: float, answers: list[tuple[float, float]]) -> None:
    """And more answers never make the estimate worse than drift does."""
    ours = clock()
    estimate = ServerTime(ours)
    for wait, took in answers:
        ours.move(wait)
        answered(estimate, ours, timedelta(seconds=ahead), took)
        assert abs(estimate.offset - ahead) <= estimate.error + 1e-5
    assert estimate.error <= 1.0


def test_many_answers_narrow_the_estimate() -> None:
    """Answers around the turn of a second say when it turned."""
    ours = clock()
    estimate = ServerTime(ours)
    for _ in range(60):
        ours.move(0.37)
        answered(estimate, ours, timedelta(seconds=12.34))
    assert estimate.error < 0.05
    assert estimate.offset == pytest.approx(12.34, abs=0.05)


def test_a_clock_that_was_set_is_followed() -> None:
    """Contradicting bounds: the newest count."""
    ours = clock()
    estimate = ServerTime(ours)
    answered(estimate, ours, timedelta(0))
    ours.move(1.0)
    answered(estimate, ours, timedelta(hours=1))
    assert abs(estimate.offset - 3600) <= estimate.error


@pytest.mark.parametrize("date", [None, "", "yesterday", "Mon, 99 Foo 2026"])
def test_a_header_that_cannot_be_read_is_ignored(date: str | None) -> None:
    """A proxy may leave it out or write anything."""
    ours = clock()
    estimate = ServerTime(ours)
    estimate.observe(date, sent=0, received=0)
    assert estimate.error == 0.0


@pytest.mark.parametrize("ahead", [-3600.0, -90.0, -1.5, 1.5, 90.0, 3600.0])
async def test_a_clock_that_is_wrong_is_corrected(ahead: float) -> None:
    """To within the second of a Date header."""
    ours, server = clock(), timedelta(seconds=ahead)
    estimate = ServerTime(ours)
    corrected = CorrectedClock(ours, estimate)
    assert corrected.now() == ours.now(), "nothing is known yet"
    answered(estimate, ours, server)
    assert abs(corrected.now() - ours.now() - ahead * SECOND) <= SECOND
    ours.move(10)
    assert abs(corrected.now() - ours.now() - ahead * SECOND) <= 1.01 * SECOND
    assert corrected.monotonic() == ours.monotonic()


@given(ahead=st.floats(-0.2, 0.2), moments=st.lists(st.floats(0.0, 2.0), max_size=20))
def test_a_clock_that_is_right_is_left_alone(ahead: float, moments: list[float]) -> None:
    """Its time does not jump from answer to answer, as the estimate does."""
    ours = clock()
    estimate = ServerTime(ours)
    corrected = CorrectedClock(ours, estimate)
    for each in moments:
        ours.move(each)
        answered(estimate, ours, timedelta(seconds=ahead))
        assert abs(corrected.now() - ours.now()) <= abs(ahead) * SECOND + 1
    if ahead == 0:
        assert corrected.now() == ours.now()
