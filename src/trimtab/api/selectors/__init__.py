"""Label and field selectors, compiled: values that match, print as Kubernetes prints them, and can be dictionary keys.

| module | holds |
|---|---|
| `requirements` | one requirement: operators, validation, matching |
| `labels` | `Selector`, compiled from a `LabelSelector` (`compile`) or from a plain map (`from_labels`) |
| `text` | `parse`: the text that `kubectl -l` takes |
| `fields` | `parse_fields`: field selectors, a smaller language |

A selector is a set of requirements that must all hold. It is kept in a canonical order, with each requirement once and
its values sorted. Equivalent selectors are therefore equal and have the same hash, and a snapshot counts the pods of a
selector once for all its users.

Two selectors are easily confused: `EVERYTHING` has no requirement and matches all labels; `NOTHING` stands for an
absent `LabelSelector` and matches none, whatever is added to it.
"""

from __future__ import annotations

from trimtab.api.selectors.fields import FieldTerm, parse_fields
from trimtab.api.selectors.labels import (
    EVERYTHING,
    MAX_ENTRIES,
    NOTHING,
    Selector,
    compile,  # noqa: A004 - see there
    entries,
    from_labels,
    needed_labels,
)
from trimtab.api.selectors.requirements import (
    LABEL_OPERATORS,
    Operator,
    Requirement,
    int64,
    is_key,
    is_value,
    read,
    requirement,
)
from trimtab.api.selectors.text import parse

__all__ = [
    "EVERYTHING",
    "LABEL_OPERATORS",
    "MAX_ENTRIES",
    "NOTHING",
    "FieldTerm",
    "Operator",
    "Requirement",
    "Selector",
    "compile",
    "entries",
    "from_labels",
    "int64",
    "is_key",
    "is_value",
    "needed_labels",
    "parse",
    "parse_fields",
    "read",
    "requirement",
]
