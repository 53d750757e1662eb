"""Times are read as the API server reads them, and no digit is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api import times
from trimtab.api.errors import InvalidError

_SECOND = 10**9
_NEW_YEAR = 1735689600 * _SECOND  # 2025-01-01T00:00:00Z
_YEARS_1_TO_9999 = st.integers(times.ZERO_NS, 253402300800 * _SECOND - 1)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        pytest.param("1970-01-01T00:00:00Z", 0, id="the epoch is zero"),
        pytest.param("2025-01-01T00:00:00Z", _NEW_YEAR, id="a plain second"),
        pytest.param("1969-12-31T23:59:59.5Z", -_SECOND // 2, id="before the epoch a fraction still counts forward"),
        pytest.param("2025-01-01T00:00:00.1Z", _NEW_YEAR + 100_000_000, id="one digit is tenths"),
        pytest.param("2025-01-01T00:00:00.000001Z", _NEW_YEAR + 1000, id="six digits are microseconds"),
        pytest.param("2025-01-01T00:00:00.123456789Z", _NEW_YEAR + 123456789, id="nine digits are nanoseconds"),
        pytest.param("2025-01-01T00:00:00.1234567899Z", _NEW_YEAR + 123456789, id="the tenth digit is dropped"),
        pytest.param("2025-01-01T02:00:00+02:00", _NEW_YEAR, id="east of Greenwich is earlier"),
        pytest.param("2024-12-31T18:30:00-05:30", _NEW_YEAR, id="west of Greenwich is later"),
        pytest.param("2025-01-01T00:00:00-00:00", _NEW_YEAR, id="minus zero is zero"),
        pytest.param("2025-01-02T01:00:00+24:60", _NEW_YEAR, id="an offset may be a whole day and an hour"),
        pytest.param("2025-01-01T0:00:00Z", _NEW_YEAR, id="an hour may have one digit"),
        pytest.param("2025-01-01T00:00:00,5Z", _NEW_YEAR + _SECOND // 2, id="a comma may stand for the point"),
        pytest.param("2024-02-29T00:00:00Z", 1709164800 * _SECOND, id="a leap day"),
        pytest.param("0001-01-01T00:00:00Z", times.ZERO_NS, id="the zero time of Go"),
        pytest.param("0000-12-31T00:00:00Z", times.ZERO_NS - 86400 * _SECOND, id="the year zero"),
    ],
)
def test_parse(text: str, ns: int) -> None:
    """A time is this many nanoseconds after the epoch."""
    assert times.parse_ns(text) == ns


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "is not a time", id="nothing"),
        pytest.param("2025-01-01", "is not a time", id="a date only"),
        pytest.param("2025-01-01T00:00:00", "is not a time", id="no offset"),
        pytest.param("2025-01-01t00:00:00Z", "is not a time", id="a small t"),
        pytest.param("2025-01-01T00:00:00z", "is not a time", id="a small z"),
        pytest.param("2025-01-01 00:00:00Z", "is not a time", id="a space for the T"),
        pytest.param("2025-1-01T00:00:00Z", "is not a time", id="a month of one digit"),
        pytest.param("2025-01-01T00:00:00.Z", "is not a time", id="a point without digits"),
        pytest.param("2025-01-01T00:00:00+0100", "is not a time", id="an offset without its colon"),
        pytest.param("2025-01-01T00:00:00Z ", "is not a time", id="a space after"),
        pytest.param("2025-01-01T00:00:00Z\n", "is not a time", id="a line break after"),
        pytest.param("2025-02-29T00:00:00Z", "an invalid date", id="a leap day in a common year"),
        pytest.param("1900-02-29T00:00:00Z", "an invalid date", id="a leap day in a common century"),
        pytest.param("2025-13-01T00:00:00Z", "an invalid date", id="a thirteenth month"),
        pytest.param("2025-04-31T00:00:00Z", "an invalid date", id="a day too many"),
        pytest.param("2025-01-00T00:00:00Z", "an invalid date", id="a day zero"),
        pytest.param("2025-01-01T24:00:00Z", "an invalid time of day", id="the hour 24"),
        pytest.param("2025-01-01T00:60:00Z", "an invalid time of day", id="the minute 60"),
        pytest.param("2016-12-31T23:59:60Z", "an invalid time of day", id="a leap second"),
        pytest.param("2025-01-01T00:00:00+25:00", "an invalid offset", id="an offset of more than a day"),
        pytest.param("2025-01-01T00:00:00+00:61", "an invalid offset", id="an offset of too many minutes"),
    ],
)
def test_refuses(text: str, reason: str) -> None:
    """What is not a time is refused with a reason."""
    with pytest.raises(InvalidError, match=reason):
        times.parse_ns(text)


@pytest.mark.parametrize(
    ("ns", "second", "micro", "nano"),
    [
        pytest.param(
            _NEW_YEAR,
            "2025-01-01T00:00:00Z",
            "2025-01-01T00:00:00.000000Z",
            "2025-01-01T00:00:00Z",
            id="a whole second has no fraction but in microseconds",
        ),
        pytest.param(
            _NEW_YEAR + 123456789,
            "2025-01-01T00:00:00Z",
            "2025-01-01T00:00:00.123456Z",
            "2025-01-01T00:00:00.123456789Z",
            id="a fraction is cut, not rounded",
        ),
        pytest.param(
            _NEW_YEAR + 120_000_000,
            "2025-01-01T00:00:00Z",
            "2025-01-01T00:00:00.120000Z",
            "2025-01-01T00:00:00.12Z",
            id="zeros at the end are left out of nanoseconds",
        ),
        pytest.param(
            -1,
            "1969-12-31T23:59:59Z",
            "1969-12-31T23:59:59.999999Z",
            "1969-12-31T23:59:59.999999999Z",
            id="before the epoch the second before is meant",
        ),
        pytest.param(
            times.ZERO_NS - 1000,
            "0000-12-31T23:59:59Z",
            "0000-12-31T23:59:59.999999Z",
            "0000-12-31T23:59:59.999999Z",
            id="the year zero",
        ),
    ],
)
def test_format(ns: int, second: str, micro: str, nano: str) -> None:
    """One moment is written in three precisions."""
    assert (times.format_time(ns), times.format_micro(ns), times.format_nano(ns)) == (second, micro, nano)


def test_a_datetime_in_another_zone_is_the_same_moment() -> None:
    """The zone of a datetime does not change the moment."""
    there = datetime(2025, 1, 1, 5, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert times.to_ns(there) == _NEW_YEAR
    assert times.from_ns(_NEW_YEAR + 1999) == datetime(2025, 1, 1, microsecond=1, tzinfo=UTC)


def test_a_datetime_without_a_zone_is_refused() -> None:
    """A naive datetime names no moment."""
    with pytest.raises(InvalidError, match="no time zone"):
        times.to_ns(datetime(2025, 1, 1))  # noqa: DTZ001 - the refusal is the point


@pytest.mark.parametrize("ns", [times.ZERO_NS - 1, 253402300800 * _SECOND, 10**40])
def test_a_moment_that_datetime_does_not_know_is_refused(ns: int) -> None:
    """Moments outside the years 1 to 9999 stay nanoseconds."""
    with pytest.raises(InvalidError, match="outside the years"):
        times.from_ns(ns)


@given(_YEARS_1_TO_9999)
def test_written_times_read_back(ns: int) -> None:
    """Each precision reads back as the moment, cut down to that precision."""
    assert times.parse_ns(times.format_nano(ns)) == ns
    assert times.parse_ns(times.format_micro(ns)) == ns // 1000 * 1000
    assert times.parse_ns(times.format_time(ns)) == ns // _SECOND * _SECOND


@given(_YEARS_1_TO_9999)
def test_moments_agree_with_datetime(ns: int) -> None:
    """A moment goes through datetime without loss down to the microsecond, and reads as datetime reads it."""
    moment = times.from_ns(ns)
    assert times.to_ns(moment) == ns // 1000 * 1000
    assert datetime.fromisoformat(times.format_micro(ns)) == moment


@given(_YEARS_1_TO_9999, st.integers(-23 * 60, 23 * 60))
def test_an_offset_does_not_change_the_moment(ns: int, minutes: int) -> None:
    """The same moment, written in another zone, reads as the same nanoseconds."""
    shifted = ns // _SECOND * _SECOND + minutes * 60 * _SECOND
    hours, rest = divmod(abs(minutes), 60)
    local = times.format_time(shifted).removesuffix("Z")
    if len(local) == len("2006-01-02T15:04:05"):  # neither shifted below the year 0 nor beyond 9999
        text = f"{local}{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"
        assert times.parse_ns(text) == ns // _SECOND * _SECOND
