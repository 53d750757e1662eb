"""`trimtab place`: where a pod would go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.output import emit, line, output_option, table, title
from trimtab.cli.placements import render_groups, render_scores
from trimtab.cli.source import Source, source_options

if TYPE_CHECKING:
    from trimtab.inspection.placements import PlacementReport


@click.command(
    epilog="""
\b
Examples:
  trimtab place -f pod.yaml
  trimtab place -f deployment.yaml --count 20           twenty pods of its template, one after the other
  kubectl get deploy/web -o yaml | trimtab place -f - --count 3
  trimtab place -f pod.yaml --snapshot cluster.json.zst -o json
"""
)
@click.option(
    "-f",
    "--filename",
    "files",
    type=click.Path(path_type=Path, allow_dash=True),
    required=True,
    multiple=True,
    help="A manifest of a Pod, or of a workload whose template is used; - for standard input.",
)
@click.option("--count", type=click.IntRange(min=1, max=10_000), default=1, show_default=True, help="How many pods.")
@click.option("--seed", type=int, default=0, show_default=True, help="Breaks ties between nodes with equal scores.")
@output_option("json", "yaml", "wide")
@source_options
def place(
    files: tuple[Path, ...],
    count: int,
    seed: int,
    output: str | None,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    snapshot: Path | None,
    config: Path | None,
) -> None:
    """Show which node a pod would get, and why not the others.

    Decides as Trimtab's scheduler does, which decides as kube-scheduler does with the same configuration. Nothing is
    created. With --count, each pod is placed with the earlier ones in place.
    """
    from trimtab.api.errors import InvalidError
    from trimtab.inspection import manifests
    from trimtab.inspection.placements import place_manifest

    found = [each for each in manifests.read(files) if each.kind == "Pod" or each.kind in manifests.TEMPLATES]
    if not found:
        names = ", ".join(map(str, files))
        raise InvalidError(names, "has no Pod, and no workload that creates pods")
    source = Source(kubeconfig, context, namespace, snapshot, config)
    settings = source.settings()
    cluster = source.read()
    where = source.chosen_namespace(cluster)
    reports = [place_manifest(cluster, each, settings, count=count, namespace=where, seed=seed) for each in found]
    emit(reports if len(reports) > 1 else reports[0], output, lambda: _render_all(reports, is_wide=output == "wide"))
    if any(report.placed < report.count for report in reports):
        click.get_current_context().exit(1)


def _render_all(reports: list[PlacementReport], *, is_wide: bool) -> None:
    for number, report in enumerate(reports):
        if number:
            line()
        _render(report, is_wide=is_wide)


def _render(report: PlacementReport, *, is_wide: bool) -> None:
    title(f"{report.pod}: {report.placed} of {report.count} placed (profile {report.profile})")
    for note in report.notes:
        line(f"note: {note}")
    if report.count > 1:
        rows: list[list[object]] = [
            [each.number, each.node or "-", "-" if each.total is None else each.total, each.ties, each.message]
            for each in report.pods
        ]
        table(["#", "node", "score", "ties", "result"], rows if is_wide else _shortened(rows))
        line()
    last = next((each for each in report.pods if not each.node), report.pods[-1])
    ties = f", one of {last.ties} nodes with this score" if last.ties > 1 and last.node else ""
    score = "" if last.total is None else f" (score {last.total}{ties})"
    line(f"pod {last.number}: {last.message}{score}")
    render_scores(last.scores)
    render_groups(last.others)
    if report.count > 1 and report.by_node:
        line()
        table(["node", "pods"], sorted(report.by_node.items()))


def _shortened(rows: list[list[object]], most: int = 25) -> list[list[object]]:
    """The first rows; `-o wide` shows all."""
    left_out = len(rows) - most
    return rows if left_out <= 0 else [*rows[:most], ["…", f"{left_out} more", "", "", "-o wide shows them"]]
