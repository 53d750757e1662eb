"""What a check found about an object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.api.errors import InvalidError


@dataclass(frozen=True, slots=True)
class Findings:
    """Problems, for which the object is refused; without any it is admitted, with the warnings."""

    problems: Sequence[InvalidError] = ()
    warnings: tuple[str, ...] = ()
