"""Who led when, from the logs of the processes: no two leaders at the same time.

A process says in its log when it acquires a lease and when it has lost it. A killed process leads no longer than it
lives. Its times of day are corrected by the shift of its clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

_ACQUIRED = re.compile(r"^\S+ acquired the lease \S*/(\S+)$")
_ENDED = re.compile(r"^\S+ (?:lost|released) the lease \S*/(\S+?),? ")
_TOLERANCE = 0.25
"""Seconds by which the times of two processes on one machine may seem to differ: a line is written after the fact."""


@dataclass(frozen=True, slots=True)
class Term:
    """A time for which a process led, in seconds since 1970."""

    lease: str
    process: str
    began: float
    ended: float


def terms(process: str, lines: Iterable[dict[str, Any]], shift: float, died: float) -> list[Term]:
    """The terms of a process that was started with a shifted clock, from the lines of its log."""
    began: dict[str, float] = {}
    found: list[Term] = []
    for line in lines:
        moment = datetime.fromisoformat(line["time"]).timestamp() - shift
        if match := _ACQUIRED.match(line["message"]):
            began[match[1]] = moment
        elif (match := _ENDED.match(line["message"])) and match[1] in began:
            found.append(Term(match[1], process, began.pop(match[1]), moment))
    return found + [Term(lease, process, at, died) for lease, at in began.items()]


def overlaps(found: Sequence[Term]) -> list[tuple[Term, Term]]:
    """Pairs of terms of the same lease at the same time."""
    ordered = sorted(found, key=lambda each: each.began)
    return [
        (one, other)
        for index, one in enumerate(ordered)
        for other in ordered[index + 1 :]
        if one.lease == other.lease and one.process != other.process and other.began < one.ended - _TOLERANCE
    ]
