"""Resource quantities (`250m`, `1.5Gi`, `2e3`): exact numbers that keep their notation.

This module follows the arithmetic of the API server and kube-scheduler to the last bit, also where it is surprising.
They store a number in one of two ways, which differ:

- **narrow**: an int64 and a power of ten, for up to 18 digits. `value()` rounds away from zero. A result beyond int64
  is 0, or wraps around where one multiplication by 10, 10**2, 10**3, 10**6 or 10**9 is enough. Text that already looks
  canonical is kept as it was written: the canonical form of `5.` is `5.`.
- **wide**: an integer of any size, counting 10**-9; what is smaller is rounded up to it. `value()` truncates and adds
  one, which suits a positive fraction only: the value of `-0.1Gi`, -107374182.4, is -107374181. A result beyond int64
  wraps around. In the binary notation the number is capped at 2**63 - 1.

Other surprises of theirs: a missing number is zero (`m`, `Gi`, `.`), except where the wide form would hold it
(`Pi`, `Ei`); an exponent is taken modulo 2**32; and decimal notation has no suffix above `E`, so that the canonical
form of `1000E` is `1`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache, total_ordering
from typing import Literal, NamedTuple

from trimtab.api.errors import InvalidError

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

_INT64_MAX = 2**63 - 1
_NANO = -9
# No resource needs more digits; without a limit, one line of YAML could exhaust the memory.
_MAX_DIGITS = 2000


class _Unit(NamedTuple):
    """The factor of a suffix, `multiplier * 10**exponent`, and the maximum of digits of a narrow number with it."""

    format: Format
    exponent: int
    multiplier: int = 1
    narrow_digits: int = 18


_DECIMAL_SUFFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY_SUFFIXES = {10: "Ki", 20: "Mi", 30: "Gi", 40: "Ti", 50: "Pi", 60: "Ei"}
_UNITS = {suffix: _Unit("DecimalSI", exponent) for exponent, suffix in _DECIMAL_SUFFIXES.items()} | {
    suffix: _Unit("BinarySI", 0, 2**bits, narrow_digits=14 - bits * 3 // 10)
    for bits, suffix in _BINARY_SUFFIXES.items()
}

# Possessive quantifiers: a long run of digits takes one pass, without backtracking.
_SHAPE = re.compile(r"([+-]?)(0*+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[+-]?+[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """The number `unscaled * 10**exponent`; quantities are equal if their numbers are, whatever their notation."""

    unscaled: int
    exponent: int
    format: Format
    wide: bool = False
    written: str = ""
    """The original text, if it is kept as the canonical form."""

    def value(self) -> int:
        """The quantity rounded up to an integer, as an int64."""
        return self._counted_in(0)

    def milli_value(self) -> int:
        """The quantity in thousandths, rounded up, as an int64."""
        return self._counted_in(-3)

    @property
    def sign(self) -> int:
        return (self.unscaled > 0) - (self.unscaled < 0)

    @property
    def canonical(self) -> str:
        """The text that the API server writes: no fraction, the largest exact suffix."""
        if self.written or not self.unscaled:
            return self.written or "0"
        if self.format != "BinarySI":
            return _decimal_text(self.unscaled, self.exponent, self.format)
        number, rest = divmod(self.unscaled, _ten_to(-self.exponent))  # a binary quantity's exponent is never positive
        if rest or abs(number) < 1024:
            return _decimal_text(self.unscaled, self.exponent, "DecimalSI")
        return _binary_text(number)

    def __str__(self) -> str:
        return self.canonical

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        if self.exponent == other.exponent:
            return self.unscaled == other.unscaled
        return self._decimal() == other._decimal()

    def __lt__(self, other: Quantity) -> bool:
        if self.exponent == other.exponent:
            return self.unscaled < other.unscaled
        return self._decimal() < other._decimal()

    def __hash__(self) -> int:
        return hash(self._decimal())

    def __neg__(self) -> Quantity:
        return replace(self, unscaled=-self.unscaled, written="")

    def __add__(self, other: Quantity) -> Quantity:
        """The exact sum, in this quantity's notation; if this is zero, in the other's."""
        if not self.unscaled or not other.unscaled:
            return replace(self if self.unscaled else other, written="")
        exponent, total = self.exponent, self.unscaled + other.unscaled
        if exponent == other.exponent and not (self.wide or other.wide) and -_INT64_MAX <= total <= _INT64_MAX:
            return Quantity(total, exponent, self.format)
        exponent = min(self.exponent, other.exponent)
        if max(self.exponent, other.exponent) - exponent > _MAX_DIGITS:
            raise InvalidError("", f"{self} and {other} are too far apart to be added exactly")
        left = self.unscaled * _ten_to(self.exponent - exponent)
        right = other.unscaled * _ten_to(other.exponent - exponent)
        overflows = max(abs(left), abs(right), abs(left + right)) > _INT64_MAX
        return Quantity(left + right, exponent, self.format, wide=self.wide or other.wide or overflows)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other

    def _decimal(self) -> Decimal:
        """For comparing and hashing: decimals do both without expanding `1e1000000000`."""
        return Decimal(f"{self.unscaled}E{self.exponent}")

    def _counted_in(self, exponent: int) -> int:
        if not self.unscaled:
            return 0
        count = _wide_count if self.wide else _narrow_count
        return count(self.unscaled, self.exponent - exponent)


@lru_cache(maxsize=8192, typed=True)
def parse(text: str | int | float) -> Quantity:
    """Parse a quantity, or a plain number (`cpu: 0.5` in YAML).

    It is cached: a cluster repeats a few dozen quantities many thousand times.
    """
    written = _text_of(text)
    match = _SHAPE.fullmatch(written)
    if match is None or not written:
        raise InvalidError("", f'"{written}" is not a quantity; write a number and a unit, such as 250m, 2 or 1.5Gi')
    sign, zeros, integer, fraction, suffix = match.groups(default="")
    unit = _unit(suffix, written)
    digits = (integer or "0") + fraction
    exponent = unit.exponent - len(fraction)
    if _is_narrow(unit, digits, exponent):
        kept = written if _looks_canonical(unit, digits, exponent) else ""
        quantity = Quantity(int(digits) * unit.multiplier, exponent, unit.format, written=kept)
    elif zeros or integer or fraction:
        quantity = _wide(int(digits) * unit.multiplier, exponent, unit.format)
    else:
        raise InvalidError("", f'"{written}" has no digits; write a number before the unit, such as 1{suffix}')
    return replace(quantity, unscaled=-quantity.unscaled) if sign == "-" else quantity


@lru_cache(maxsize=8192, typed=True)
def whole(text: str | int | float) -> int:
    """`parse(text).value()`, cached."""
    return parse(text).value()


@lru_cache(maxsize=8192, typed=True)
def millis(text: str | int | float) -> int:
    """`parse(text).milli_value()`, cached."""
    return parse(text).milli_value()


def _text_of(raw: object) -> str:
    if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
        raise InvalidError("", f"{raw!r} is not a quantity; write a number or text such as 250m")
    size = raw.bit_length() // 3 if isinstance(raw, int) else len(str(raw))
    if size > _MAX_DIGITS:
        raise InvalidError("", f"a quantity has at most {_MAX_DIGITS} digits")
    return str(raw)


def _unit(suffix: str, written: str) -> _Unit:
    unit = _UNITS.get(suffix)
    if unit is not None:
        return unit
    match = _EXPONENT.fullmatch(suffix)
    exponent = int(match[1]) if match else _INT64_MAX + 1
    if exponent != _wrap(exponent, 64):
        known = " ".join(filter(None, _UNITS))
        raise InvalidError(
            "", f'"{written}" has the unknown unit "{suffix}"; write one of {known}, or an exponent (e3)'
        )
    return _Unit("DecimalExponent", _wrap(exponent, 32))


def _is_narrow(unit: _Unit, digits: str, exponent: int) -> bool:
    lowest = 0 if unit.format == "BinarySI" else _NANO
    return len(digits) <= unit.narrow_digits and exponent >= lowest


def _looks_canonical(unit: _Unit, digits: str, exponent: int) -> bool:
    """Kubernetes' own heuristic: it takes `5.` and `1234.567` for canonical, but not `1000Ki`."""
    if unit.format == "BinarySI":
        return int(digits) % 8 != 0
    return exponent % 3 == 0 and digits[0] != "0" and not digits.endswith("000")


def _wide(number: int, exponent: int, format_: Format) -> Quantity:
    """A non-negative number at nano scale, rounded up, so that no request becomes 0."""
    if not number:
        return Quantity(0, 0, format_, wide=True)
    shift = exponent - _NANO
    if shift > _MAX_DIGITS:
        raise InvalidError("", f"a quantity has at most {_MAX_DIGITS} digits")
    if shift >= 0:
        number *= _ten_to(shift)
    else:
        number = -(-number // _ten_to(min(-shift, number.bit_length())))  # 10**bit_length already exceeds the number
    if format_ == "BinarySI" and number > _INT64_MAX * 10**9:
        return Quantity(_INT64_MAX, 0, format_, wide=True)
    if format_ == "BinarySI" and number < 10**9:
        format_ = "DecimalSI"
    return Quantity(number, _NANO, format_, wide=True)


def _narrow_count(unscaled: int, shift: int) -> int:
    """`unscaled * 10**shift`, rounded away from zero."""
    if shift < 0:
        count = -(-abs(unscaled) // _ten_to(min(-shift, 64)))
        return count if unscaled > 0 else -count
    if shift > 18:
        return 0
    count = unscaled * _ten_to(shift)
    if shift in (0, 1, 2, 3, 6, 9):
        return _wrap(count, 64)
    return count if abs(count) <= _INT64_MAX else 0


def _wide_count(unscaled: int, shift: int) -> int:
    """`unscaled * 10**shift`, truncated, and one more if that was not exact."""
    if shift >= 0:
        return _wrap(unscaled * _ten_to(min(shift, 64)), 64)  # 2**64 divides 10**64: the rest of the power adds nothing
    number = unscaled if unscaled > 0 else _wrap(unscaled, 64)
    count, rest = divmod(abs(number), _ten_to(-shift))
    return _wrap((count if number > 0 else -count) + (rest != 0), 64)


def _decimal_text(number: int, exponent: int, format_: Format) -> str:
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    number, exponent = number * _ten_to(exponent % 3), exponent - exponent % 3
    if format_ == "DecimalExponent":
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIXES.get(exponent, '')}"


def _binary_text(number: int) -> str:
    bits = 0
    while number % 1024 == 0:
        number, bits = number // 1024, bits + 10
    return f"{number}{_BINARY_SUFFIXES.get(bits, '')}"


def _ten_to(power: int) -> int:
    return int(10**power)


def _wrap(number: int, bits: int) -> int:
    """The number wrapped around to a signed integer of so many bits."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half
