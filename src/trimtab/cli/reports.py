"""Reports about scale-downs, as `watch` and `report` show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.cli.output import line, table, title

if TYPE_CHECKING:
    from trimtab.inspection.summaries import InstallationReport, ScaleDownReport

_MOST = 20


def render_summary(report: ScaleDownReport) -> None:
    """Scale-downs, summed up."""
    title(report.sentence())
    left_out = report.total - report.judged
    if left_out:
        others = ", ".join(f"{count} {result}" for result, count in sorted(report.by_result.items()))
        line(f"{left_out} of them could not be judged ({others})")
    worst = [each for each in report.workloads if each.behind][:_MOST]
    if worst:
        rows = [[each.workload, each.total, each.behind, each.would_be_behind] for each in worst]
        table(["workload", "scale-downs", "left a domain behind", "would have"], rows)


def render_installation(report: InstallationReport) -> None:
    """What the policies of an installation have counted."""
    title(report.sentence())
    if report.policies:
        rows = [
            [each.policy, counts.total, counts.level, counts.best, counts.missed, counts.skipped, counts.observed]
            for each in report.policies
            for counts in [each.counts]
        ]
        table(["policy", "total", "level", "best", "missed", "skipped", "observed"], rows)
    if report.recent:
        line()
        behind = f"{report.recent_behind} left a domain two or more behind, {report.recent_would_be_behind} would have"
        line(f"the last {len(report.recent)}: {behind}")
        names = ("time", "namespace", "workload", "from", "to", "outcome", "result", "left", "planned", "stock")
        table(names, [[each.get(name, "") for name in names] for each in report.recent])
