"""The string formats of schemas that are checked; others are accepted, as formats unknown to Kubernetes are.

Dashes in a name are ignored: `date-time` is `datetime`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping

from trimtab.api import times
from trimtab.api.errors import InvalidError

Check = Callable[[str], bool]


def checked(format_: str, type_: str) -> str:
    """The name by which the validator checks a format in a field of this type; empty if it does not."""
    name = format_.replace("-", "")
    return name if type_ in ("", "string") and (name in CHECKS or name in _BUILT_IN) else ""


def _moment(text: str) -> bool:
    try:
        times.parse_ns(text.upper())
    except InvalidError:
        return False
    return True


def _base64(text: str) -> bool:
    try:
        return bool(text) and base64.b64decode(text, validate=True) is not None
    except (binascii.Error, ValueError):
        return False


_GO_DURATION = r"[-+]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)"
_WORD_DURATION = (
    r"[0-9]+\s*(?:ns|nanos?|nanoseconds?|us|µs|micros?|microseconds?|ms|millis?|milliseconds?|"
    r"s|secs?|seconds?|m|mins?|minutes?|h|hr|hours?|d|days?|w|wks?|weeks?)"
)
_DURATION = re.compile(f"{_GO_DURATION}|{_WORD_DURATION}", re.ASCII)

CHECKS: Mapping[str, Check] = {
    "byte": _base64,
    "datetime": _moment,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
}
"""Formats that Kubernetes reads in its own way."""
_BUILT_IN = frozenset({"date", "ipv4", "ipv6"})
"""Formats that the validator reads as Kubernetes does."""
