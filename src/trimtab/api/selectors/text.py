"""Label selectors as text, as `kubectl -l` takes them."""

from __future__ import annotations

import re

from trimtab.api.errors import InvalidError
from trimtab.api.selectors.labels import EVERYTHING, Selector
from trimtab.api.selectors.requirements import Operator, Requirement, requirement

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
    """Parse a selector such as `app=web,tier in (front,back),!canary`.

    Empty text selects everything.
    """
    parser = _Parser(text)
    if not parser.peek():
        return EVERYTHING
    requirements = [parser.requirement()]
    while parser.peek():
        parser.expect(",")
        requirements.append(parser.requirement())
    return Selector(tuple(requirements))


class _Parser:
    """A recursive-descent parser over the tokens of a selector; "" is the end.

    `in` and `notin` are operators only in the place of an operator: `in in (in)` is valid.
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
        """Values in parentheses; a value may be empty."""
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
