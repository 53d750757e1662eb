"""`trimtab rank`: the pods of a workload in deletion order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.completion import complete_workload
from trimtab.cli.output import duration, emit, line, output_option, table, title
from trimtab.cli.source import Source, source_options

if TYPE_CHECKING:
    from trimtab.inspection.ranks import ControllerRanks, RankedPod, WorkloadRanks


@click.command(
    epilog="""
\b
Examples:
  trimtab rank deploy/web
  trimtab rank deploy/web -o wide                       with what decided for each pod
  trimtab rank cloneset/web --snapshot cluster.json.zst
  trimtab rank rc/web -o json | jq -r '.controllers[].pods[0].pod'
"""
)
@click.argument("workload", shell_complete=complete_workload)
@output_option("json", "yaml", "wide")
@source_options
def rank(
    workload: str,
    output: str | None,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    snapshot: Path | None,
    config: Path | None,
) -> None:
    """Show the pods of a workload in the order in which they are deleted.

    The first column is the order of Trimtab's plans, the second that of the controller alone. Every criterion of the
    controller is a column, and of every strategy the raw, the capped and the weighted value.
    """
    from trimtab.inspection.ranks import rank_workload
    from trimtab.inspection.targets import find_workload

    source = Source(kubeconfig, context, namespace, snapshot, config)
    settings = source.settings()
    cluster = source.read()
    found = find_workload(cluster, workload, source.chosen_namespace(cluster))
    ranks = rank_workload(cluster, found, settings)
    emit(ranks, output, lambda: _render(ranks, is_wide=output == "wide"))


def _render(ranks: WorkloadRanks, *, is_wide: bool) -> None:
    title(f"{ranks.kind} {ranks.namespace}/{ranks.name}")
    line(f"policy: {ranks.policy.sentence()}")
    for controller in ranks.controllers:
        line()
        if len(ranks.controllers) > 1 or controller.name != ranks.name:
            title(controller.name)
        _render_controller(controller, is_wide=is_wide)
        for note in controller.notes:
            line(f"  - {note}")


def _render_controller(controller: ControllerRanks, *, is_wide: bool) -> None:
    keys = controller.topology_keys
    is_cloneset = controller.pods[0].criteria.rank is not None
    crowding = "rank" if is_cloneset else "same node"
    short = [key.rpartition("/")[2] for key in keys]
    headers = ["#", "stock", "pod", *short, "node", "phase", "ready", "cost", crowding, "ready for", "restarts", "age"]
    strategies = [each.strategy for each in controller.pods[0].strategies]
    headers += [f"{name} ({part})" for name in strategies for part in ("raw", "capped", "weighted")]
    headers += ["total"] if strategies else []
    headers += ["because", "stock because"] if is_wide else []
    table(headers, [_row(pod, keys, is_wide=is_wide) for pod in controller.pods])


def _row(pod: RankedPod, keys: tuple[str, ...], *, is_wide: bool) -> list[object]:
    found = pod.criteria
    cost = f"{found.cost} ({found.cost_owner})" if found.cost_owner != "none" else str(found.cost)
    crowding = _number(found.rank) if found.rank is not None else found.same_node
    row: list[object] = [pod.position, pod.stock_position, pod.pod]
    row += [pod.domains.get(key) or "-" for key in keys]
    row += [found.node or "-", found.phase, "yes" if found.ready else "no", cost, crowding]
    row += [duration(found.ready_seconds), found.restarts, duration(found.age_seconds)]
    row += [_number(value) for each in pod.strategies for value in (each.raw, each.capped, each.weighted)]
    row += [_number(pod.total)] if pod.strategies else []
    return row + ([pod.decided_by, pod.stock_decided_by] if is_wide else [])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
