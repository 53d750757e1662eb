"""Writes `docs/reasons.md` from the docstrings below the members of `trimtab.api.annotations.Reason`.

A docstring reads `Where: Meaning. Fix: action.`; the last part is left out where there is nothing to do.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from trimtab.api.annotations import Reason

TARGET = Path(__file__).parents[1] / "docs" / "reasons.md"
HEADING = """# Reasons

Every reason of an event or a condition, and every condition type, that Trimtab writes, in alphabetical order.
`kubectl get events --field-selector reason=…` finds the events of a reason. This page is generated from
`src/trimtab/api/annotations.py` by `make generate`.

| reason | where | what it means | what to do |
|---|---|---|---|
"""

_PARTS = re.compile(r"(?P<where>[^:]+): (?P<meaning>.+?)(?: Fix: (?P<action>.+))?")


@dataclass(frozen=True, slots=True)
class Entry:
    """A reason, and what its docstring says."""

    reason: str
    where: str
    meaning: str
    action: str

    def row(self) -> str:
        """The entry as a line of the table."""
        action = self.action[:1].upper() + self.action[1:] or "Nothing."
        return f"| `{self.reason}` | {self.where} | {self.meaning} | {action} |\n"


def entries() -> Iterator[Entry]:
    """All reasons, in the order of the enumeration. Raises ValueError for a docstring that does not fit."""
    body = ast.parse(inspect.getsource(Reason)).body[0]
    if not isinstance(body, ast.ClassDef):
        raise TypeError("Reason is not a class")
    for member, below in pairwise([*body.body, ast.Pass()]):
        if isinstance(member, ast.Assign) and isinstance(member.value, ast.Constant):
            yield _entry(str(member.value.value), _docstring(below))


def page() -> str:
    """The page."""
    return HEADING + "".join(entry.row() for entry in sorted(entries(), key=lambda entry: entry.reason))


def main() -> None:
    """Write the page."""
    TARGET.write_text(page(), encoding="utf-8")


def _docstring(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return " ".join(str(statement.value.value).split())
    return ""


def _entry(reason: str, docstring: str) -> Entry:
    parts = _PARTS.fullmatch(docstring)
    if parts is None:
        raise ValueError(f"{reason}: write `Where: Meaning. Fix: action.` below it")
    return Entry(reason, parts["where"], parts["meaning"], parts["action"] or "")


if __name__ == "__main__":
    main()
