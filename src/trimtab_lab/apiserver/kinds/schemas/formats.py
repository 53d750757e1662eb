"""The string formats of schemas.

Formats that Kubernetes does not know are not checked. Dashes in a name are ignored: `date-time` is `datetime`.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from urllib.parse import urlsplit

from trimtab.api import times
from trimtab.api.errors import InvalidError
from trimtab_lab.apiserver.kinds.validation import names

Check = Callable[[str], bool]


def checker(format_: str, type_: str) -> Check | None:
    """The function that checks a format in a field of this type; None if it is not checked."""
    if type_ not in ("", "string"):
        return None
    return _CHECKS.get(format_.replace("-", ""))


def supported(format_: str, type_: str) -> str:
    """The format, if it is supported for the type; else the empty string."""
    match type_:
        case "" | "string":
            return format_ if format_.replace("-", "") in _CHECKS else ""
        case "integer":
            return format_ if format_ in ("int32", "int64") else ""
        case "number":
            return format_ if format_ in ("float", "double") else ""
        case _:
            return ""


def _matches(pattern: str, flags: int = 0) -> Check:
    compiled = re.compile(pattern, flags | re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _address(version: int) -> Check:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version and "%" not in text
        except ValueError:
            return False

    return check


def _network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text and text.rpartition("/")[2].isdigit()


def _date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


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


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"
_HEX, _VARIANT = "[0-9a-f]", "[89ab]"
_GO_DURATION = r"[-+]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)"
_WORD_DURATION = (
    r"[0-9]+\s*(?:ns|nanos?|nanoseconds?|us|µs|micros?|microseconds?|ms|millis?|milliseconds?|"
    r"s|secs?|seconds?|m|mins?|minutes?|h|hr|hours?|d|days?|w|wks?|weeks?)"
)

_CHECKS: Mapping[str, Check] = {
    "byte": _base64,
    "cidr": _network,
    "date": _date,
    "datetime": _moment,
    "duration": _matches(f"{_GO_DURATION}|{_WORD_DURATION}"),
    "email": _matches(r"[^@\s]+@[^@\s]+"),
    "hexcolor": _matches(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _matches(r"(?=.{1,255}$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9-]{1,63})*\.?"),
    "ipv4": _address(4),
    "ipv6": _address(6),
    "k8slongname": lambda text: not names.subdomain(text),
    "k8sshortname": lambda text: not names.label(text),
    "mac": _matches(r"(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}"),
    "password": lambda _: True,
    "rgbcolor": _matches(r"rgb\((?:[0-9]{1,3},){2}[0-9]{1,3}\)"),
    "uri": _uri,
    "uuid": _matches(_UUID % (_HEX, _HEX), re.IGNORECASE),
    "uuid3": _matches(_UUID % ("3", _HEX), re.IGNORECASE),
    "uuid4": _matches(_UUID % ("4", _VARIANT), re.IGNORECASE),
    "uuid5": _matches(_UUID % ("5", _VARIANT), re.IGNORECASE),
}
