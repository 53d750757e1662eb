"""What happened in a run: faults by kind, checks by invariant, and what was broken."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bench.soak.schedule import Step

_STEPS_SHOWN = 60
"""How many steps before a failure are reported."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step that was carried out, or could not be. `at` is in seconds since the run began."""

    at: float
    step: str
    detail: str
    is_effective: bool


@dataclass(frozen=True, slots=True)
class Breach:
    """An invariant that did not hold, and the steps that came before."""

    at: float
    invariant: str
    detail: str
    steps: tuple[StepResult, ...]


@dataclass
class Ledger:
    """The record of a run."""

    began: float = field(default_factory=time.monotonic)
    faults: Counter[str] = field(default_factory=Counter)
    """Steps that took effect, by kind."""
    without_effect: Counter[str] = field(default_factory=Counter)
    """Steps that could not be carried out, because an earlier fault was in the way."""
    checks: Counter[str] = field(default_factory=Counter)
    breaches: list[Breach] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    """Other things that are counted."""
    steps: list[StepResult] = field(default_factory=list)
    rounds: int = 0
    """Rounds that are over."""

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began

    def record(self, step: Step, detail: str, *, is_effective: bool = True) -> None:
        """Record a step."""
        (self.faults if is_effective else self.without_effect)[step.kind] += 1
        self.steps.append(StepResult(round(self.elapsed, 2), step.name, detail, is_effective))

    def check(self, invariant: str, holds: bool, detail: str = "") -> bool:
        """Record that an invariant was checked, and whether it holds."""
        self.checks[invariant] += 1
        if not holds:
            before = tuple(self.steps[-_STEPS_SHOWN:])
            self.breaches.append(Breach(round(self.elapsed, 2), invariant, detail, before))
            print(f"  ! {self.elapsed:7.1f} s  {invariant}: {detail}", flush=True)
        return holds

    def note(self, text: str, count: int = 1) -> None:
        """Count something."""
        self.notes[text] += count

    def first_failure(self) -> dict[str, Any] | None:
        """The first breach with the steps before it, for the file."""
        if not self.breaches:
            return None
        first = self.breaches[0]
        lines = [f"{each.at:8.2f} s  {each.step}: {each.detail}" for each in first.steps]
        return {"at": first.at, "invariant": first.invariant, "detail": first.detail, "steps": lines}
