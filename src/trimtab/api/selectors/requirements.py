"""One requirement of a label selector: checked, matched, and printed as Kubernetes prints it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trimtab.api.errors import InvalidError

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_LONGEST_NAME = 63
_LONGEST_SUBDOMAIN = 253

_WHOLE = re.compile(r"([+-]?)0*([0-9]{1,19})")
_INT64 = range(-(2**63), 2**63)


class Operator(StrEnum):
    """The relation between a label and the values of a requirement, named as in Kubernetes' own code."""

    EQUALS = "="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


Test = Callable[[str | None, Any], bool]
"""Whether a label's value (None if the label is absent) satisfies the requirement's values (see `tested`)."""

TESTS: Mapping[Operator, Test] = {
    Operator.EQUALS: lambda value, values: value in values,
    Operator.NOT_EQUALS: lambda value, values: value not in values,
    Operator.IN: lambda value, values: value in values,
    Operator.NOT_IN: lambda value, values: value not in values,
    Operator.EXISTS: lambda value, _: value is not None,
    Operator.DOES_NOT_EXIST: lambda value, _: value is None,
    Operator.GREATER_THAN: lambda value, values: _exceeds(value, values[0]),
    Operator.LESS_THAN: lambda value, values: _exceeds(values[0], value),
}

_TEXTS: Mapping[Operator, str] = {
    Operator.EQUALS: "{0}={1}",
    Operator.NOT_EQUALS: "{0}!={1}",
    Operator.IN: "{0} in ({1})",
    Operator.NOT_IN: "{0} notin ({1})",
    Operator.EXISTS: "{0}",
    Operator.DOES_NOT_EXIST: "!{0}",
    Operator.GREATER_THAN: "{0}>{1}",
    Operator.LESS_THAN: "{0}<{1}",
}

_LISTED = frozenset({Operator.IN, Operator.NOT_IN})

LABEL_OPERATORS: Mapping[str, Operator] = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
"""The operators of a label selector, as they are written there; a node selector has two more."""


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """A condition on one label. `requirement` returns a validated one."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(sorted(set(self.values))))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels satisfy the requirement."""
        return TESTS[self.operator](labels.get(self.key), self.values)

    @property
    def tested(self) -> Set[str] | Sequence[str]:
        """The values in the form in which they are tested for each pod: a set, where there may be many."""
        return frozenset(self.values) if self.operator in _LISTED else self.values

    def __str__(self) -> str:
        return _TEXTS[self.operator].format(self.key, ",".join(self.values))


def read(
    key: str, operator: str, values: tuple[str, ...], operators: Mapping[str, Operator] = LABEL_OPERATORS
) -> Requirement:
    """The requirement that an expression of an object (`matchExpressions`) stands for."""
    known = operators.get(operator)
    if known is None:
        raise InvalidError("operator", f'"{operator}" is not an operator; write one of {", ".join(operators)}')
    return requirement(key, known, values)


def requirement(key: str, operator: Operator, values: tuple[str, ...] = ()) -> Requirement:
    """A requirement that Kubernetes would accept; raises InvalidError for `key`, `values` or `values[i]`."""
    if not is_key(key):
        raise InvalidError("key", f'"{key}" is not a label key; write a name such as app or example.com/app')
    _check_values(operator, values)
    for index, value in enumerate(values):
        if not is_value(value):
            raise InvalidError(f"values[{index}]", _not_a_value(value))
    return Requirement(key, operator, values)


def is_key(text: str) -> bool:
    """Whether the text is a valid label key: a name, optionally with a DNS prefix and a slash."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > _LONGEST_SUBDOMAIN or _SUBDOMAIN.fullmatch(prefix) is None):
        return False
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def is_value(text: str) -> bool:
    """Whether the text is a valid label value; it may be empty."""
    return not text or (len(text) <= _LONGEST_NAME and _NAME.fullmatch(text) is not None)


def int64(text: str) -> int | None:
    """The text as a 64-bit integer, which is what Gt and Lt compare; None if it is not one."""
    match = _WHOLE.fullmatch(text)
    number = int(match[1] + match[2]) if match else _INT64.stop
    return number if number in _INT64 else None


def _exceeds(larger: str | None, smaller: str | None) -> bool:
    """Compare as numbers; False if either is absent or not a number."""
    if larger is None or smaller is None:
        return False
    left, right = int64(larger), int64(smaller)
    return left is not None and right is not None and left > right


def _check_values(operator: Operator, values: tuple[str, ...]) -> None:
    match operator:
        case Operator.IN | Operator.NOT_IN if not values:
            raise InvalidError("values", "is empty; write at least one value to compare with")
        case Operator.EXISTS | Operator.DOES_NOT_EXIST if values:
            raise InvalidError("values", "must be left out: Exists and DoesNotExist look at the key only")
        case Operator.EQUALS | Operator.NOT_EQUALS if len(values) != 1:
            raise InvalidError("values", "must be one value")
        case Operator.GREATER_THAN | Operator.LESS_THAN if len(values) != 1 or int64(values[0]) is None:
            raise InvalidError("values", "must be one whole number, written as text, for Gt and Lt")


def _not_a_value(value: str) -> str:
    return (
        f'"{value}" is not a label value; write at most {_LONGEST_NAME} letters, digits, "-", "_" and ".", '
        "with a letter or digit at both ends"
    )
