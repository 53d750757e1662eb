"""Times as Kubernetes writes them (RFC 3339), as integers: nanoseconds since 1970 in UTC.

Integers compare exactly and keep every digit that an object can have; `datetime` has microseconds only.

`parse_ns` accepts what the API server accepts, which is slightly more than the standard: an hour of one digit, a comma
before the fraction, an offset of up to 24:60. It is also stricter: `T` and `Z` are capitals, and there is no second 60.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from trimtab.api.errors import InvalidError

_SECOND = 10**9
_SHAPE = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
# The calendar repeats every 400 years: years outside the range of `date` are computed in another cycle.
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097

ZERO_NS = (1 - _EPOCH_DAY) * 86_400 * _SECOND
"""0001-01-01T00:00:00Z: Go's zero time, which Kubernetes writes as null."""


def parse_ns(text: str) -> int:
    """Parse a time into nanoseconds since the epoch; digits after the ninth are dropped."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise InvalidError("", f'"{text}" is not a time; write it as 2006-01-02T15:04:05Z')
    year, month, day, hour, minute, second = (int(part) for part in match.group(1, 2, 3, 4, 5, 6))
    fraction, sign, offset_hours, offset_minutes = match.group(7, 8, 9, 10)
    if hour > 23 or minute > 59 or second > 59:
        raise InvalidError("", f'"{text}" has an invalid time of day')
    seconds = (_days(year, month, day, text) * 24 + hour) * 3600 + minute * 60 + second
    if sign:
        seconds -= _offset(sign, int(offset_hours), int(offset_minutes), text)
    nanoseconds = int(fraction[:9].ljust(9, "0")) if fraction else 0
    return seconds * _SECOND + nanoseconds


def format_time(ns: int) -> str:
    """Format to the second, as `metadata.creationTimestamp` and most times."""
    return f"{_to_second(ns)}Z"


def format_micro(ns: int) -> str:
    """Format to the microsecond, always six digits, as `renewTime` of a Lease and `eventTime` of an Event."""
    return f"{_to_second(ns)}.{ns % _SECOND // 1000:06d}Z"


def format_nano(ns: int) -> str:
    """Format exactly, with as many digits as necessary."""
    fraction = f".{ns % _SECOND:09d}".rstrip("0").rstrip(".")
    return f"{_to_second(ns)}{fraction}Z"


def to_ns(moment: datetime) -> int:
    """Convert exactly; a datetime without an offset raises InvalidError, because it depends on the machine."""
    try:
        since = moment - _EPOCH
    except TypeError:
        raise InvalidError("", f"{moment.isoformat()} has no time zone") from None
    return (since.days * 86_400 + since.seconds) * _SECOND + since.microseconds * 1000


def from_ns(ns: int) -> datetime:
    """Convert to a UTC datetime, truncated to microseconds; years 1 to 9999 only."""
    try:
        return _EPOCH + timedelta(microseconds=ns // 1000)
    except OverflowError as error:
        raise InvalidError("", f"{ns} ns since 1970 is outside the years 1 to 9999") from error


def _days(year: int, month: int, day: int, text: str) -> int:
    """Days since the epoch; the year 0 counts as 400, a cycle later."""
    try:
        days = date(year or _CYCLE_YEARS, month, day).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise InvalidError("", f'"{text}" has an invalid date') from error
    return days if year else days - _CYCLE_DAYS


def _offset(sign: str, hours: int, minutes: int, text: str) -> int:
    if hours > 24 or minutes > 60:
        raise InvalidError("", f'"{text}" has an invalid offset from UTC')
    seconds = (hours * 60 + minutes) * 60
    return seconds if sign == "+" else -seconds


def _to_second(ns: int) -> str:
    days, seconds = divmod(ns // _SECOND, 86_400)
    cycle, day_of_cycle = divmod(days + _EPOCH_DAY - 1, _CYCLE_DAYS)
    day = date.fromordinal(day_of_cycle + 1)
    year = day.year + cycle * _CYCLE_YEARS
    minutes, second = divmod(seconds, 60)
    return f"{year:04d}-{day.month:02d}-{day.day:02d}T{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
