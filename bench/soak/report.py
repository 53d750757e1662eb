"""What a run found: a table for people, and a file with everything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.soak.judging import INVARIANTS
from bench.soak.kinds import KINDS
from bench.soak.ledger import Ledger

_FAILURES_SHOWN = 20
_STEPS_SHOWN = 15


@dataclass
class Report:
    """The result of a run."""

    seed: int
    control_plane: str
    command: str
    """What repeats the run."""
    ledger: Ledger
    memory: Mapping[str, Mapping[str, float]]
    not_applicable: Mapping[str, str]
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The memory of each process, minute by minute."""
    figures: dict[str, Any] = field(default_factory=dict)
    """Further figures."""

    def tree(self) -> dict[str, Any]:
        """Everything, for the file."""
        ledger = self.ledger
        return {
            "seed": self.seed,
            "controlPlane": self.control_plane,
            "minutes": round(ledger.elapsed / 60, 1),
            "rounds": ledger.rounds,
            "faults": {each.name: ledger.faults[each.name] for each in KINDS if each.name not in self.not_applicable},
            "faultsInAll": ledger.faults.total(),
            "withoutEffect": dict(ledger.without_effect),
            "notApplicable": dict(self.not_applicable),
            "checks": {each: ledger.checks[each] for each in INVARIANTS},
            "breaches": [
                {"at": each.at, "invariant": each.invariant, "detail": each.detail} for each in ledger.breaches
            ],
            "firstFailure": ledger.first_failure(),
            "memoryMiB": {name: dict(sizes) for name, sizes in self.memory.items()},
            "memoryByMinute": {name: list(sizes) for name, sizes in self.series.items()},
            "notes": dict(ledger.notes),
            "figures": self.figures,
            "repeat": self.command,
            "steps": [asdict(each) for each in ledger.steps],
        }

    def write(self, path: Path) -> None:
        """Write everything to a file."""
        path.write_text(json.dumps(self.tree(), indent=1))

    def lines(self) -> list[str]:
        """The table."""
        ledger = self.ledger
        title = f"{ledger.faults.total()} faults in {ledger.elapsed / 60:.1f} minutes, {ledger.rounds} rounds"
        lines = [f"{title}, on {self.control_plane}", "", "faults by kind (and steps without effect)"]
        lines += [_fault_line(each.name, ledger, self.not_applicable) for each in KINDS]
        broken = {each: sum(found.invariant == each for found in ledger.breaches) for each in INVARIANTS}
        lines += ["", "invariants"]
        lines += [f"  {each:32} {ledger.checks[each]:7} checked, {broken[each]} broken" for each in INVARIANTS]
        lines += ["", "memory in MiB"]
        lines += _memory_lines(self.memory)
        lines += ["", "also"]
        lines += [f"  {name:52} {value}" for name, value in (*sorted(ledger.notes.items()), *self.figures.items())]
        return [*lines, *_failure_lines(ledger), "", f"seed {self.seed}; repeat it with: {self.command}"]

    def show(self) -> None:
        """Print the table."""
        print("\n" + "\n".join(self.lines()), flush=True)


def _fault_line(name: str, ledger: Ledger, missing: Mapping[str, str]) -> str:
    if name in missing:
        return f"  {name:32} not applicable: there is no {missing[name]}"
    return f"  {name:32} {ledger.faults[name]:7} ({ledger.without_effect[name]})"


def _memory_lines(memory: Mapping[str, Mapping[str, float]]) -> Sequence[str]:
    marks = ("1 min", "10 min", "60 min", "end")
    head = f"  {'':32}" + "".join(f"{mark:>9}" for mark in marks)
    rows = [f"  {name:32}" + "".join(f"{_size(sizes, mark):>9}" for mark in marks) for name, sizes in memory.items()]
    return [head, *rows]


def _size(sizes: Mapping[str, float], mark: str) -> str:
    return f"{sizes[mark]:.0f}" if mark in sizes else "-"


def _failure_lines(ledger: Ledger) -> list[str]:
    if not ledger.breaches:
        return ["", "no invariant was broken"]
    lines = ["", f"{len(ledger.breaches)} breaches"]
    lines += [f"  ! {each.at:8.2f} s  {each.invariant}: {each.detail}" for each in ledger.breaches[:_FAILURES_SHOWN]]
    first = ledger.breaches[0]
    lines += ["", f"the last steps before the first breach, of {len(first.steps)} in the file"]
    return lines + [f"  {each.at:8.2f} s  {each.step}: {each.detail}" for each in first.steps[-_STEPS_SHOWN:]]
