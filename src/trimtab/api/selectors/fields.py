"""Field selectors: `spec.nodeName=n1,status.phase!=Failed`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trimtab.api.errors import InvalidError

_FIELD_TERM = re.compile(r"(?:\\.|[^,])+", re.DOTALL)
_FIELD_OPERATOR = re.compile(r"!=|==|=")
_FIELD_VALUE = re.compile(r"(?:[^\\,=]|\\[\\,=])*")


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """The value that one field must have, or (`negated`) must not have. An absent field counts as empty."""

    field: str
    value: str
    negated: bool = False

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these fields satisfies the term."""
        return (fields.get(self.field, "") == self.value) is not self.negated

    def __str__(self) -> str:
        escaped = re.sub(r"[\\,=]", r"\\\g<0>", self.value)
        return f"{self.field}{'!=' if self.negated else '='}{escaped}"


def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    r"""Parse a field selector; in values, `\`, `,` and `=` are escaped by a `\`."""
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
