"""Taints and tolerations. The rules, which tests cite:

1. A toleration with an effect applies to taints of that effect only; without one, to all.
2. A toleration with a key applies to taints of that key only; without one, to all: even with `Equal`, which then
   compares only the values.
3. `Equal`, the default, requires the same value; `Exists` accepts any.
4. `Lt` and `Gt` compare integers, if that feature is enabled and both values are canonical (`7`, `-7`; not `+7`, `07`
   or `-0`). The taint's value is on the left: `Lt 5` tolerates a taint of 4.
5. Any other operator tolerates nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from trimtab.api.nodes import Taint
from trimtab.api.pods import Toleration
from trimtab.api.selectors import int64

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

REPELLING = frozenset([NO_SCHEDULE, NO_EXECUTE])
"""The effects that keep a pod off a node; PreferNoSchedule only lowers the node's score."""

_CANONICAL = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Whether this toleration covers this taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt":
            return comparison_operators and _less(taint.value, toleration.value)
        case "Gt":
            return comparison_operators and _less(toleration.value, taint.value)
    return False


def tolerated(tolerations: Iterable[Toleration], taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Whether one of these tolerations covers this taint."""
    return any(tolerates(t, taint, comparison_operators=comparison_operators) for t in tolerations)


def untolerated(
    tolerations: Collection[Toleration],
    taints: Iterable[Taint],
    effects: Collection[str] = REPELLING,
    *,
    comparison_operators: bool = False,
) -> Taint | None:
    """The first taint of these effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not tolerated(tolerations, taint, comparison_operators=comparison_operators):
            return taint
    return None


def count_prefer_no_schedule(
    tolerations: Collection[Toleration], taints: Iterable[Taint], *, comparison_operators: bool = False
) -> int:
    """The number of `PreferNoSchedule` taints that no toleration covers."""
    return sum(
        taint.effect == PREFER_NO_SCHEDULE
        and not tolerated(tolerations, taint, comparison_operators=comparison_operators)
        for taint in taints
    )


def _less(smaller: str, larger: str) -> bool:
    left, right = _canonical(smaller), _canonical(larger)
    return left is not None and right is not None and left < right


def _canonical(text: str) -> int | None:
    return int64(text) if _CANONICAL.fullmatch(text) else None
