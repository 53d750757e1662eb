"""What a scenario found: a table for people, and the details of every round as JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.promise.comparison import JSON
from bench.promise.measuring import Round


@dataclass
class Report:
    """The rows of a table, the rounds, and whether the promise held."""

    title: str
    rows: list[tuple[str, object]] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """What broke the promise, a line each; nothing where it held."""
    more: dict[str, Any] = field(default_factory=dict)
    """Further details for the file."""

    def add(self, label: str, value: object) -> None:
        """Add a row."""
        self.rows.append((label, value))

    def show(self) -> None:
        """Print it."""
        width = max((len(label) for label, _ in self.rows), default=0)
        print(f"\n{self.title}")
        for label, value in self.rows:
            print(f"  {label:{width}}  {value}")
        for failure in self.failures:
            print(f"  ! {failure}")

    def write(self, path: Path, metrics: Mapping[str, float]) -> None:
        """Write everything to a file."""
        rows = {label: value if isinstance(value, (int, float)) else str(value) for label, value in self.rows}
        tree: JSON = {"title": self.title, "figures": rows, "failures": self.failures, "metrics": metrics, **self.more}
        tree["rounds"] = [each.tree() for each in self.rounds]
        path.write_text(json.dumps(tree, indent=1))


def summarize(report: Report, rounds: Sequence[Round], *, may_report: bool = False, is_strict: bool = False) -> None:
    """Add the rows that all scenarios share.

    With `may_report` an event on the workload, or a warning (events are paced), excuses an unlevel result; with
    `is_strict` every result fails that is less level than possible.
    """
    report.rounds += rounds
    complete = [each for each in rounds if not each.error]
    report.add("scale-downs", len(rounds))
    unlevel = [each for each in complete if each.is_unlevel]
    report.add("unlevel (skew > 1 where 1 was possible)", _of(len(unlevel), complete))
    report.add("  of these with nothing written", sum(not each.pods_with_cost for each in unlevel))
    report.add(
        "  of these without a warning or an event", sum(not each.warnings and not each.events for each in unlevel)
    )
    report.add("less level than possible", _of(sum(each.is_worse_than_possible for each in complete), complete))
    report.add("nothing written", _of(sum(not each.pods_with_cost for each in complete), complete))
    report.add("pods with a cost, of those deleted", _cost_share(complete))
    report.add("with a warning", _of(sum(bool(each.warnings) for each in complete), complete))
    report.add("with an event on the workload", _of(sum(bool(each.events) for each in complete), complete))
    report.add("costs left over from before", sum(each.costs_before for each in complete))
    report.add("pods that became unready meanwhile", sum(each.became_unready for each in complete))
    report.add("scale request, seconds", _spread([each.request_seconds for each in complete]))
    if len(complete) < len(rounds):
        report.add("not completed", len(rounds) - len(complete))
    missed = [each for each in rounds if (each.is_worse_than_possible if is_strict else each.is_unlevel)]
    report.failures += [each.line() for each in rounds if each.error]
    report.failures += [each.line() for each in missed if not (may_report and (each.events or each.warnings))]


def add_certainty(report: Report, rounds: Sequence[Round]) -> None:
    """Add how often writing nothing was right, for the layouts that the brute force can evaluate."""
    small = [each for each in rounds if each.is_certain is not None]
    certain = [each for each in small if each.is_certain]
    uncertain = [each for each in small if not each.is_certain]
    compared = [each for each in rounds if each.is_foreseen is not None]
    named = [each for each in compared if each.is_named is not None]
    report.add("deleted set called possible by the plan", _of(sum(bool(e.is_foreseen) for e in compared), compared))
    report.add("  the plan names one set", _of(len(named), compared))
    report.add("  of these the deleted set", _of(sum(bool(e.is_named) for e in named), named))
    report.add("small layouts (brute force)", len(small))
    report.add("  certain without costs", _of(len(certain), small))
    report.add("  certain, and written to (needless)", _of(sum(bool(e.pods_with_cost) for e in certain), certain))
    report.add("  not certain, and not written to", _of(sum(not e.pods_with_cost for e in uncertain), uncertain))
    report.add("  deleted set possible by upstream's order", _of(sum(bool(e.was_possible) for e in small), small))


def add_metrics(report: Report, metrics: Mapping[str, float]) -> None:
    """Add what Trimtab counted."""
    for name, value in sorted(metrics.items()):
        if name.startswith(("trimtab_scaledown_", "trimtab_webhook_reviews")):
            report.add(name, f"{value:g}")


def tally(texts: Iterable[str]) -> list[tuple[str, int]]:
    """Texts by how often they come, with their numbers left out so that like ones are counted together."""
    return Counter(re.sub(r"\d+", "#", text) for text in texts).most_common()


def _of(count: int, among: Sequence[object]) -> str:
    return f"{count} of {len(among)}" + (f" ({count / len(among):.1%})" if among else "")


def _cost_share(rounds: Sequence[Round]) -> str:
    return f"{sum(each.pods_with_cost for each in rounds)} of {sum(len(each.deleted) for each in rounds)}"


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    if not ordered:
        return "none"
    return f"median {ordered[len(ordered) // 2]:.2f}, longest {ordered[-1]:.2f}"
