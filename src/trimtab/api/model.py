"""The base class of every typed object."""

from __future__ import annotations

from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """A frozen, partial view of a JSON object.

    Fields that are not declared are skipped when decoding: a view is for deciding, never for writing (see
    `documents`). `rename="camel"` does not handle acronyms, so `podIP` and the like are named explicitly.

    The objects are invisible to the cyclic garbage collector (`gc=False`): they are frozen and consist of strings,
    numbers, tuples and one another, so they cannot form a cycle. With 150,000 pods in memory this saves collections of
    several seconds.
    """


class Present(Model):
    """An object of which only its existence is used."""
