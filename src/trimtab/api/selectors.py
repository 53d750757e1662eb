"""Label selectors, compiled: values that match labels, print as Kubernetes prints them, and can key a table.

A selector is a set of requirements that must all hold. It is kept in one canonical order, with each requirement once
and each requirement's values sorted, so that selectors which say the same are equal and hash equal, whatever order
they were written in: a snapshot counts the pods of a selector once for all who ask with it.

Two selectors are easily confused. `EVERYTHING` has no requirement and matches all labels; `NOTHING` is what an absent
`LabelSelector` means, and matches none, whatever is added to it.

Three ways lead here: `compile` (a `LabelSelector`), `from_labels` (the plain map of a Service), and `parse` (what one
writes after `kubectl -l`). Field selectors have a smaller language of their own: `parse_fields`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_LONGEST_NAME = 63
_LONGEST_SUBDOMAIN = 253

_WHOLE = re.compile(r"([+-]?)0*([0-9]{1,19})")
_INT64 = range(-(2**63), 2**63)


class Operator(StrEnum):
    """How a requirement relates its key to its values, named as Kubernetes names it inside."""

    EQUALS = "="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


Test = Callable[[str | None, tuple[str, ...]], bool]
"""Whether a label's value (None: there is no such label) passes, given the requirement's values."""

_TESTS: Mapping[Operator, Test] = {
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

LABEL_OPERATORS: Mapping[str, Operator] = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
"""The operators of a label selector, as they are written there; a node selector has two more."""


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """What one label must be like. `requirement` makes a checked one."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(sorted(set(self.values))))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet it."""
        return _TESTS[self.operator](labels.get(self.key), self.values)

    def __str__(self) -> str:
        return _TEXTS[self.operator].format(self.key, ",".join(self.values))


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all hold, in canonical order; or, if `nothing`, one that never matches."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    # What `matches` and `__hash__` would otherwise work out again for each pod of a cluster.
    _pairs: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)
    _tests: tuple[tuple[str, Test, tuple[str, ...]], ...] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ordered = () if self.nothing else tuple(sorted(set(self.requirements)))
        pairs = tuple((r.key, r.values[0]) for r in ordered if r.operator is Operator.EQUALS)
        tests = tuple((r.key, _TESTS[r.operator], r.values) for r in ordered if r.operator is not Operator.EQUALS)
        object.__setattr__(self, "requirements", ordered)
        object.__setattr__(self, "_pairs", pairs)
        object.__setattr__(self, "_tests", tests)
        object.__setattr__(self, "_hash", hash((ordered, self.nothing)))

    @property
    def empty(self) -> bool:
        """Whether it restricts nothing. A selector that matches nothing is not empty."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet every requirement."""
        get = labels.get
        for key, wanted in self._pairs:
            if get(key) != wanted:
                return False
        for key, test, values in self._tests:
            if not test(get(key), values):
                return False
        return not self.nothing

    def with_requirements(self, *requirements: Requirement) -> Selector:
        """This selector, narrowed. Nothing stays nothing."""
        return Selector((*self.requirements, *requirements), self.nothing)

    def and_(self, *others: Selector) -> Selector:
        """What matches where this and all the others do."""
        everyone = (self, *others)
        return Selector(tuple(r for s in everyone for r in s.requirements), any(s.nothing for s in everyone))

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied into another process it must hash anew: Python salts the hashes of text in each."""
        return Selector, (self.requirements, self.nothing)


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def compile(selector: LabelSelector | None) -> Selector:  # noqa: A001 – read as `selectors.compile`, as `re.compile` is
    """The selector that is meant by what is written in an object; absent means `NOTHING`.

    Raises InvalidError with a path such as `matchExpressions[1].operator`.
    """
    if selector is None:
        return NOTHING
    requirements = [_pair(key, value) for key, value in selector.match_labels.items()]
    for index, expression in enumerate(selector.match_expressions):
        try:
            requirements.append(read(expression.key, expression.operator, expression.values))
        except InvalidError as error:
            raise error.under(f"matchExpressions[{index}]") from None
    return Selector(tuple(requirements))


def from_labels(labels: Mapping[str, str]) -> Selector:
    """The selector of a map, as Services and ReplicationControllers have one: all these labels, unchecked.

    No labels select everything here; that a Service without a selector selects nothing is for its reader to know.
    """
    return Selector(tuple(Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items()))


def read(
    key: str, operator: str, values: tuple[str, ...], operators: Mapping[str, Operator] = LABEL_OPERATORS
) -> Requirement:
    """The requirement that is meant by an expression as it is written in an object."""
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
    """Whether a label can have this key: a name, perhaps after a DNS name and a slash."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > _LONGEST_SUBDOMAIN or _SUBDOMAIN.fullmatch(prefix) is None):
        return False
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def is_value(text: str) -> bool:
    """Whether a label can have this value; it may be empty."""
    return not text or (len(text) <= _LONGEST_NAME and _NAME.fullmatch(text) is not None)


def int64(text: str) -> int | None:
    """The whole number that is written here, if it is one and fits 64 bits: what Gt and Lt compare."""
    match = _WHOLE.fullmatch(text)
    number = int(match[1] + match[2]) if match else _INT64.stop
    return number if number in _INT64 else None


def _exceeds(larger: str | None, smaller: str | None) -> bool:
    """Compares as numbers; what is absent or no number is neither more nor less than anything."""
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


def _pair(key: str, value: str) -> Requirement:
    try:
        return requirement(key, Operator.EQUALS, (value,))
    except InvalidError as error:
        raise InvalidError(f"matchLabels[{key}]", error.reason) from None


# --- text, as after `kubectl -l` -------------------------------------------------------------------------------------

_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_SYMBOLS = frozenset(["", "==", "!=", *"=!(),<>"])
_TEXT_OPERATORS = {
    "=": Operator.EQUALS,
    "==": Operator.EQUALS,
    "!=": Operator.NOT_EQUALS,
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}


def parse(text: str) -> Selector:
    """Read a selector as one writes it for `kubectl -l`: `app=web,tier in (front,back),!canary`.

    Empty text selects everything.
    """
    reader = _Reader(text)
    if not reader.peek():
        return EVERYTHING
    requirements = [reader.requirement()]
    while reader.peek():
        reader.expect(",")
        requirements.append(reader.requirement())
    return Selector(tuple(requirements))


class _Reader:
    """The tokens of a selector's text, taken one by one; "" stands for the end.

    `in` and `notin` are operators only where an operator is due: `in in (in)` is a good selector.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = [*_TOKEN.findall(text), ""]
        self._at = 0

    def peek(self) -> str:
        return self._tokens[self._at]

    def accept(self, token: str) -> bool:
        found = self.peek() == token
        self._at += found
        return found

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self._unexpected(f'"{token}"')

    def requirement(self) -> Requirement:
        absent = self.accept("!")
        key = self._word("a label key")
        if absent:
            return self._checked(key, Operator.DOES_NOT_EXIST, ())
        if self.peek() in ("", ","):
            return self._checked(key, Operator.EXISTS, ())
        operator = self._operator()
        values = self._list() if operator in (Operator.IN, Operator.NOT_IN) else self._single()
        return self._checked(key, operator, values)

    def _operator(self) -> Operator:
        operator = _TEXT_OPERATORS.get(self.peek())
        if operator is None:
            raise self._unexpected(f"an operator ({', '.join(_TEXT_OPERATORS)})")
        self._at += 1
        return operator

    def _list(self) -> tuple[str, ...]:
        """Values in parentheses; what stands between two commas may be empty."""
        self.expect("(")
        values = [self._value()]
        while self.accept(","):
            values.append(self._value())
        self.expect(")")
        return tuple(values)

    def _single(self) -> tuple[str]:
        return ("" if self.peek() in ("", ",") else self._word("a value"),)

    def _value(self) -> str:
        return "" if self.peek() in (",", ")") else self._word('a value, "," or ")"')

    def _word(self, wanted: str) -> str:
        word = self.peek()
        if word in _SYMBOLS:
            raise self._unexpected(wanted)
        self._at += 1
        return word

    def _checked(self, key: str, operator: Operator, values: tuple[str, ...]) -> Requirement:
        try:
            return requirement(key, operator, values)
        except InvalidError as error:
            raise InvalidError("", f'"{self._text}" is not a selector: {error}') from None

    def _unexpected(self, wanted: str) -> InvalidError:
        found = f'"{self.peek()}"' if self.peek() else "the end"
        return InvalidError("", f'"{self._text}" is not a selector: found {found}, expected {wanted}')


# --- field selectors -------------------------------------------------------------------------------------------------

_FIELD_TERM = re.compile(r"(?:\\.|[^,])+", re.DOTALL)
_FIELD_OPERATOR = re.compile(r"!=|==|=")
_FIELD_VALUE = re.compile(r"(?:[^\\,=]|\\[\\,=])*")


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """What one field must be, or (`negated`) must not be. A field that an object does not have is the empty text."""

    field: str
    value: str
    negated: bool = False

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these fields meets it."""
        return (fields.get(self.field, "") == self.value) is not self.negated

    def __str__(self) -> str:
        escaped = re.sub(r"[\\,=]", r"\\\g<0>", self.value)
        return f"{self.field}{'!=' if self.negated else '='}{escaped}"


def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    r"""Read a field selector, `spec.nodeName=n1,status.phase!=Failed`; in values, `\`, `,` and `=` follow a `\`."""
    return tuple(_field_terms(sorted(_FIELD_TERM.findall(text)), text))


def _field_terms(parts: Iterable[str], text: str) -> Iterable[FieldTerm]:
    for part in parts:
        operator = _FIELD_OPERATOR.search(part)
        if operator is None:
            raise InvalidError("", f'"{text}" is not a field selector: "{part}" has no =, == or !=')
        name, value = part[: operator.start()], part[operator.end() :]
        if _FIELD_VALUE.fullmatch(value) is None:
            raise InvalidError("", rf'"{text}" is not a field selector: write \\, \, and \= for \ , and = in "{value}"')
        if name or value:
            yield FieldTerm(name, re.sub(r"\\(.)", r"\1", value), negated=operator[0] == "!=")
