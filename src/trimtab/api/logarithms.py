"""The natural logarithm as Go computes it, to the last bit.

Kubernetes weighs topologies by `ln(size + 2)`. Go does not call the C library for that: it evaluates a polynomial whose
result is now and then (3 is the first such number) one unit in the last place away from the true, rounded value that
Python gives. Ranks are compared for equality as floats, and scores are rounded where a last bit can tip them, so the
same bits are needed to come to the same decisions.

The method is the classic one of the FreeBSD mathematical library:

1. x = f1 * 2**k with f1 between sqrt(1/2) and sqrt(2), so ln(x) = k*ln(2) + ln(f1).
2. With f = f1 - 1 and s = f / (2 + f): ln(1 + f) = 2s + 2s**3/3 + 2s**5/5 + ... = 2s + s*R. A polynomial in s**2
   approximates R; its odd and even terms are summed apart.
3. ln(2) is kept in two parts, of which k times the first is exact.

Each operation rounds once, as it does in Go on amd64: nothing here may be rearranged, or fused.
"""

from __future__ import annotations

import math

_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_ODD = tuple(map(float.fromhex, ("0x1.5555555555593p-1", "0x1.2492494229359p-2", "0x1.7466496cb03dep-3")))
_LAST = float.fromhex("0x1.2f112df3e5244p-3")
_EVEN = tuple(map(float.fromhex, ("0x1.999999997fa04p-2", "0x1.c71c51d8e78afp-3", "0x1.39a09d078c69fp-3")))


def go_log(x: float) -> float:
    """ln(x) for a positive, finite x: the bits that Go's math.Log gives on amd64."""
    fraction, exponent = math.frexp(x)
    if fraction < math.sqrt(2) / 2:
        fraction *= 2
        exponent -= 1
    f, k = fraction - 1, float(exponent)
    s = f / (2 + f)
    s2 = s * s
    s4 = s2 * s2
    odd = s2 * (_ODD[0] + s4 * (_ODD[1] + s4 * (_ODD[2] + s4 * _LAST)))
    even = s4 * (_EVEN[0] + s4 * (_EVEN[1] + s4 * _EVEN[2]))
    half_square = 0.5 * f * f
    return k * _LN2_HIGH - ((half_square - (s * (half_square + (odd + even)) + k * _LN2_LOW)) - f)
