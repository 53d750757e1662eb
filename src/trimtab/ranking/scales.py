"""Ages on a logarithmic scale: 40 seconds and 60 are about the same age, 40 seconds and 3 hours are not.

The scale of an age is the logarithm of its nanoseconds, rounded down; an age of nothing, or of a time to come, has the
scale -1. Two pods whose ages have the same scale count as equally old, so that chance and not the last second decides
between them.

To base 2 the scale is bit for bit what Kubernetes computes, in floating point. A little below a large power of two (one
nanosecond below 2**49, which is 6.5 days) the logarithm already rounds up to the next whole number, so a scale may
begin slightly before its power of two. To base e and 10, which Kubernetes does not offer, it is exact.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from typing import Literal

import numpy as np
import numpy.typing as npt

from trimtab.api.logarithms import go_log
from trimtab.snapshot.columns import IntColumn

Base = Literal[2, "e", 10]
"""The bases that the scale-down proposal discusses."""

_LONGEST = 2**63 - 1
_PER_LN2 = 1 / math.log(2)


def scales(times: IntColumn, now: int, base: Base = 2) -> npt.NDArray[np.int8]:
    """The scale of the age that each time has now."""
    found = np.searchsorted(starts(base), now - times, side="right").astype(np.int8)
    found -= 1
    return found


@functools.cache
def starts(base: Base) -> IntColumn:
    """The youngest age of each scale, from scale 0 on, in nanoseconds."""
    return np.array(_STARTS[base](), dtype=np.int64)


def binary_scale(age: int) -> int:
    """What Kubernetes makes of a positive age: the logarithm is that of Go, which takes the exponent off first."""
    fraction, exponent = math.frexp(float(age))
    if fraction == 0.5:
        return exponent - 1
    return int(go_log(fraction) * _PER_LN2 + float(exponent))


def _binary_starts() -> list[int]:
    """Each scale starts at its power of two or just before it."""
    return [1] + [_first_of_scale(power) for power in range(1, 64)]


def _first_of_scale(scale: int) -> int:
    octave = range(2 ** (scale - 1), min(2**scale, _LONGEST) + 1)
    return octave[bisect_left(octave, scale, key=binary_scale)]


def _natural_starts() -> list[int]:
    with localcontext(prec=40):
        return [1] + [int(Decimal(power).exp()) + 1 for power in range(1, 44)]


def _decimal_starts() -> list[int]:
    return [10**power for power in range(19)]


_STARTS: Mapping[Base, Callable[[], list[int]]] = {2: _binary_starts, "e": _natural_starts, 10: _decimal_starts}
