"""The base of every typed object: what they have in common, stated once."""

from __future__ import annotations

from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """A frozen, partial view of a JSON object.

    Fields that are not declared are skipped when decoding: a view is for deciding, never for writing (see
    `documents`). `rename="camel"` knows nothing of acronyms, so `podIP` and its like are named explicitly.

    The cyclic garbage collector need not look at these objects (`gc=False`): they are made of strings, numbers, tuples
    and one another, and frozen, so they cannot form a cycle. With 150,000 pods in memory that is the difference
    between a collection of seconds and none.
    """
