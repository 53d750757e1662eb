"""`trimtab plan`: what a scale-down would delete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.completion import complete_workload
from trimtab.cli.output import bar, emit, line, output_option, table, title
from trimtab.cli.source import Source, source_options

if TYPE_CHECKING:
    from trimtab.inspection.plans import Constrained, PlannedController, WorkloadPlan

_MOST_DOMAINS = 30
"""How many domains are drawn as bars; of more, only the skews are printed."""
_BY_STOCK = {"always": "also", "possible": "maybe", "never": "no"}


@click.command(
    epilog="""
\b
Examples:
  trimtab plan deploy/web --replicas 6
  trimtab plan deploy/web --replicas 6 -n shop -o wide         with the value of every strategy
  trimtab plan rs/web-5d4f --replicas 0 --snapshot cluster.json.zst
  trimtab plan cloneset/web --replicas 4 -o json | jq -r '.controllers[].victims[].pod'
"""
)
@click.argument("workload", shell_complete=complete_workload)
@click.option("--replicas", type=int, required=True, help="The size that the workload is scaled down to.")
@click.option(
    "--within",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds in which the controller may act: what it may delete depends on when it does.",
)
@output_option("json", "yaml", "wide")
@source_options
def plan(
    workload: str,
    replicas: int,
    within: float,
    output: str | None,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    snapshot: Path | None,
    config: Path | None,
) -> None:
    """Show which pods a scale-down would delete, and why.

    Prints the victims with what decided for each, the pods in each domain before, after the plan, and as the
    controller alone may leave them, the nodes that are emptied, and what stands in the way. Nothing is changed.
    """
    from trimtab.inspection.plans import plan_workload
    from trimtab.inspection.targets import find_workload

    source = Source(kubeconfig, context, namespace, snapshot, config)
    settings = source.settings()
    cluster = source.read()
    found = find_workload(cluster, workload, source.chosen_namespace(cluster))
    made = plan_workload(cluster, found, replicas, settings, within=within)
    emit(made, output, lambda: _render(made, is_wide=output == "wide"))


def _render(made: WorkloadPlan, *, is_wide: bool) -> None:
    title(f"{made.kind} {made.namespace}/{made.name}: {made.from_} → {made.to}")
    line(f"policy: {made.policy.sentence()}")
    for controller in made.controllers:
        if len(made.controllers) > 1:
            line()
            title(f"{controller.name}: {controller.from_} → {controller.to}")
        _render_controller(controller, is_wide=is_wide)
    line()
    line(f"nodes emptied: {', '.join(made.nodes_emptied) or 'none'}")
    if made.obstacles:
        line("in the way:")
        for obstacle in made.obstacles:
            line(f"  - {obstacle}")


def _render_controller(controller: PlannedController, *, is_wide: bool) -> None:
    line()
    headers = ["victim", "node", "stock", "because"]
    names = [each.strategy for each in controller.victims[0].strategies] if controller.victims else []
    headers += [f"{name}: raw, capped, weighted" for name in names] if is_wide else []
    rows = []
    for victim in controller.victims:
        values = [f"{each.raw}, {each.capped}, {each.weighted}" for each in victim.strategies] if is_wide else []
        rows.append([victim.pod, victim.node or "-", _BY_STOCK[victim.by_stock], victim.reason, *values])
    table(headers, rows)
    for constraint in controller.constraints:
        line()
        _render_constraint(constraint)
    line()
    line(_certainty(controller))


def _render_constraint(constraint: Constrained) -> None:
    kind = "hard" if constraint.hard else "soft"
    title(f"{constraint.topology_key} ({kind}, maxSkew {constraint.max_skew})")
    auxiliary = "would" if constraint.stock_is_certain else "may"
    skews = f"{constraint.skew_before} before, {constraint.skew_after} after; stock {auxiliary} leave"
    line(f"skew: {skews} {constraint.skew_stock}")
    if constraint.outside_before:
        line(f"in no domain: {constraint.outside_before} before, {constraint.outside_after} after")
    if len(constraint.domains) > _MOST_DOMAINS:
        line(f"{len(constraint.domains)} domains; -o json lists them")
        return
    most = max((*constraint.before, *constraint.after, *constraint.stock, 1))
    counts = zip(constraint.domains, constraint.before, constraint.after, constraint.stock, strict=True)
    rows = [
        [domain, *(f"{count:>3} {bar(count, most)}".rstrip() for count in (before, after, stock))]
        for domain, before, after, stock in counts
    ]
    table(["domain", "before", "after", f"stock {auxiliary} leave"], rows)


def _certainty(controller: PlannedController) -> str:
    if controller.costs is None:
        return "no costs can bring this plan about"
    if controller.costs == 0:
        return "the controller alone leaves a result that is as level: no costs are needed"
    pods = "pod" if controller.costs == 1 else "pods"
    return f"Trimtab makes this certain with costs on {controller.costs} {pods}"
