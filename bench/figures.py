"""The result of a benchmark, and how it is measured."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_TURNS = 7


@dataclass(frozen=True, slots=True)
class Limit:
    """What a figure must stay within: its ratio, or its value where that is what was promised."""

    number: float
    note: str = ""
    is_minimum: bool = False
    is_of_value: bool = False

    def __str__(self) -> str:
        sign = "≥" if self.is_minimum else "≤"
        return f"{'value ' * self.is_of_value}{sign} {self.number:.4g}" + (f" ({self.note})" if self.note else "")

    def holds(self, figure: Figure) -> bool:
        """Whether a figure is within the limit."""
        measured = figure.value if self.is_of_value else figure.ratio
        return measured >= self.number if self.is_minimum else measured <= self.number


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value beside the calibration of the same run."""

    value: float
    unit: str
    calibration: float
    limit: Limit | None = None

    @property
    def ratio(self) -> float:
        """The value in units of the calibration."""
        return self.value / self.calibration

    @property
    def is_within_limit(self) -> bool:
        """Whether the limit holds, if there is one."""
        return self.limit is None or self.limit.holds(self)


def best(work: Callable[[], object], *, turns: int = _TURNS, repeat: int = 1) -> float:
    """Seconds for one piece of work: the fastest of several runs, with garbage collection as in production."""
    fastest = float("inf")
    for _ in range(turns):
        start = time.perf_counter()
        for _ in range(repeat):
            work()
        fastest = min(fastest, (time.perf_counter() - start) / repeat)
    return fastest


def calibration() -> float:
    """Seconds to sort 10,000 9-tuples: the common yardstick.

    The first eight integers are random in 0–3 and the last is distinct, so that comparisons go deep; shuffled.
    """
    rng = random.Random(0)
    rows = [(*(rng.randrange(4) for _ in range(8)), i) for i in range(10_000)]
    rng.shuffle(rows)
    return best(lambda: sorted(rows))


def against_calibration(work: Callable[[], object], *, limit: Limit, repeat: int = 1, turns: int = _TURNS) -> Figure:
    """Time a piece of work between two calibrations, of which the faster counts: it is the one that other load on the
    machine disturbed less, and so the stricter yardstick."""
    before = calibration()
    value = best(work, turns=turns, repeat=repeat)
    after = calibration()
    return Figure(value * 1e3, "ms", min(before, after) * 1e3, limit)


def cpu_seconds(pid: int) -> float:
    """Seconds of processor time that a process has used, on Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int | str = "self") -> float:
    """The resident memory of a process in MiB, on Linux; of this one by default."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
