"""The forms of names, labels, ports and paths, each as a function from a text to its errors.

An empty result means that the text is valid. The messages are Kubernetes', with the regular expression in them. Label
keys and values repeat from pod to pod, so their results are cached.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

Faults = tuple[str, ...]
OutputFormat = Callable[[str], Faults]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = f"{_LABEL}(\\.{_LABEL})*"
_SEGMENT_WITH_UNDERSCORE = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_WITH_UNDERSCORE = f"{_SEGMENT_WITH_UNDERSCORE}(\\.{_SEGMENT_WITH_UNDERSCORE})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"

_is_label = re.compile(_LABEL).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_subdomain_with_underscore = re.compile(_SUBDOMAIN_WITH_UNDERSCORE).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch


def too_long(longest: int) -> str:
    return f"must be no more than {longest} characters"


def between(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def mismatch(rule: str, form: str, *examples: str) -> str:
    """The message for a text that does not match a regular expression."""
    if not examples:
        return f"{rule} (regex used for validation is '{form}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{form}')"


_ENDS = "and must start and end with an alphanumeric character"
_LABEL_FAULT = mismatch(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}",
    _LABEL,
    "my-name",
    "123-abc",
)
_LABEL_1035_FAULT = mismatch(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_SUBDOMAIN_RULE = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"
_SUBDOMAIN_FAULT = mismatch(f"{_SUBDOMAIN_RULE}, '-' or '.', {_ENDS}", _SUBDOMAIN, "example.com")
_SUBDOMAIN_WITH_UNDERSCORE_FAULT = mismatch(
    f"{_SUBDOMAIN_RULE}, '_', '-' or '.', {_ENDS}", _SUBDOMAIN_WITH_UNDERSCORE, "example.com"
)
_KEY_FAULT = mismatch(
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}", _KEY, "MyName", "my.name", "123-abc"
)
_VALUE_FAULT = mismatch(
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)


def label(text: str) -> Faults:
    """A DNS label: the form of most names of parts, and of namespaces."""
    if len(text) <= 63 and _is_label(text):
        return ()
    faults = [too_long(63)] if len(text) > 63 else []
    if not _is_label(text):
        faults.append("must not contain dots" if _is_subdomain(text) else _LABEL_FAULT)
    return tuple(faults)


def label_1035(text: str) -> Faults:
    """A DNS label that starts with a letter."""
    faults = [too_long(63)] if len(text) > 63 else []
    if not _is_label_1035(text):
        faults.append(_LABEL_1035_FAULT)
    return tuple(faults)


def subdomain(text: str) -> Faults:
    """A DNS subdomain: the form of most names of objects."""
    if len(text) <= 253 and _is_subdomain(text):
        return ()
    faults = [too_long(253)] if len(text) > 253 else []
    if not _is_subdomain(text):
        faults.append(_SUBDOMAIN_FAULT)
    return tuple(faults)


def subdomain_with_underscore(text: str) -> Faults:
    faults = [too_long(253)] if len(text) > 253 else []
    if not _is_subdomain_with_underscore(text):
        faults.append(_SUBDOMAIN_WITH_UNDERSCORE_FAULT)
    return tuple(faults)


def path_segment(text: str) -> Faults:
    """A segment of a URL path: the form of the names of roles."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{illegal}'" for illegal in "/%" if illegal in text)


def prefix(form: OutputFormat, text: str) -> Faults:
    """A `generateName`, given the form of the name: it may end in a dash."""
    masked = f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text
    return form(masked)


@lru_cache(maxsize=8192)
def qualified(text: str) -> Faults:
    """A qualified name: the key of a label or an annotation (`example.com/MyName`)."""
    parts = text.split("/")
    if len(parts) > 2:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_KEY_FAULT}{suffix}",)
    faults: list[str] = []
    if len(parts) == 2:
        faults += [f"prefix part {fault}" for fault in (subdomain(parts[0]) if parts[0] else ("must be non-empty",))]
    name = parts[-1]
    if not name:
        faults.append("name part must be non-empty")
    elif len(name) > 63:
        faults.append(f"name part {too_long(63)}")
    if not _is_key(name):
        faults.append(f"name part {_KEY_FAULT}")
    return tuple(faults)


@lru_cache(maxsize=8192)
def label_value(text: str) -> Faults:
    if len(text) <= 63 and _is_value(text):
        return ()
    faults = [too_long(63)] if len(text) > 63 else []
    if not _is_value(text):
        faults.append(_VALUE_FAULT)
    return tuple(faults)


_is_port_text = re.compile(r"[-a-z0-9]+").fullmatch
_has_letter = re.compile(r"[a-z]").search


def port_name(text: str) -> Faults:
    faults = [too_long(15)] if len(text) > 15 else []
    if not _is_port_text(text):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _has_letter(text):
        faults.append("must contain at least one letter (a-z)")
    if "--" in text:
        faults.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return tuple(faults)


def port_number(number: int) -> Faults:
    return () if 1 <= number <= 65535 else (between(1, 65535),)


_PERCENT = "[0-9]+%"
_PERCENT_FAULT = mismatch(
    "a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%"
)
_is_percent = re.compile(_PERCENT).fullmatch


def percent(text: str) -> Faults:
    return () if _is_percent(text) else (_PERCENT_FAULT,)


_HEADER = "[-A-Za-z0-9]+"
_is_header = re.compile(_HEADER).fullmatch
_HEADER_FAULT = mismatch("a valid HTTP header must consist of alphanumeric characters or '-'", _HEADER, "X-Header-Name")


def header(text: str) -> Faults:
    return () if _is_header(text) else (_HEADER_FAULT,)


_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_CONFIG_KEY_FAULT = mismatch(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY,
    "key.name",
    "KEY_NAME",
    "key-name",
)


def config_key(text: str) -> Faults:
    """A key of a ConfigMap or a Secret, which becomes a file name."""
    faults = [too_long(253)] if len(text) > 253 else []
    if not _is_config_key(text):
        faults.append(_CONFIG_KEY_FAULT)
    return (*faults, *_dots(text))


def _dots(text: str) -> Faults:
    if text in (".", ".."):
        return (f"must not be '{text}'",)
    return ("must not start with '..'",) if text.startswith("..") else ()


_VARIABLE_FAULT = "a valid environment variable name must consist only of printable ASCII characters other than '='"


@lru_cache(maxsize=4096)
def variable(text: str) -> Faults:
    """The name of an environment variable, as accepted since 1.30."""
    if not text:
        return ("environment variable name must be non-empty",)
    good = text.isascii() and text.isprintable() and "=" not in text
    return () if good else (_VARIABLE_FAULT,)


_CONDITION_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_condition_reason = re.compile(_CONDITION_REASON).fullmatch
_CONDITION_REASON_FAULT = mismatch(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'",
    _CONDITION_REASON,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)


def condition_reason(text: str) -> Faults:
    return () if _is_condition_reason(text) else (_CONDITION_REASON_FAULT,)
