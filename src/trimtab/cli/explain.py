"""`trimtab explain`: one pod."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.completion import complete_pod
from trimtab.cli.output import emit, line, output_option, table, title
from trimtab.cli.placements import render_groups, render_scores
from trimtab.cli.source import Source, source_options

if TYPE_CHECKING:
    from trimtab.inspection.explanations import AppliedConstraint, PodExplanation
    from trimtab.inspection.subsets import AppliedSubset


@click.command(
    epilog="""
\b
Examples:
  trimtab explain pod/web-5d4f-x2b9k
  trimtab explain web-5d4f-x2b9k -n shop
  trimtab explain pod/web-5d4f-x2b9k --snapshot cluster.json.zst -o json
"""
)
@click.argument("pod", shell_complete=complete_pod)
@output_option("json", "yaml")
@source_options
def explain(
    pod: str,
    output: str | None,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    snapshot: Path | None,
    config: Path | None,
) -> None:
    """Explain a pod: where it is, when it goes, and what applies to it.

    Says how its node scores now and why other nodes do not, why it is deleted before or after its siblings, and which
    constraints, policy and subset apply, each with where it comes from.
    """
    from trimtab.inspection.explanations import explain_pod
    from trimtab.inspection.targets import find_pod

    source = Source(kubeconfig, context, namespace, snapshot, config)
    settings = source.settings()
    cluster = source.read()
    found = find_pod(cluster, pod, source.chosen_namespace(cluster))
    explained = explain_pod(cluster, found, settings)
    emit(explained, output, lambda: _render(explained))


def _render(found: PodExplanation) -> None:
    title(f"Pod {found.namespace}/{found.pod}")
    line(f"managed by: {', '.join(found.owners) or 'nothing that Trimtab knows'}")
    domains = ", ".join(f"{key}={value}" for key, value in found.domains.items() if value)
    line(f"node: {found.node or 'none'}{f' ({domains})' if domains else ''}")
    if found.pending_reason:
        line(f"not scheduled: {found.pending_reason}")
    for note in found.notes:
        line(f"note: {note}")
    _render_placement(found)
    _render_order(found)
    _render_what_applies(found)


def _render_placement(found: PodExplanation) -> None:
    placement = found.placement
    if placement is None:
        return
    line()
    title("where it is" if found.node else "where it would go")
    line(found.placement_sentence())
    render_scores(placement.scores)
    render_groups(placement.others)


def _render_order(found: PodExplanation) -> None:
    order = found.order
    if order is None:
        return
    line()
    title("when it goes")
    line(f"{order.position} of {order.of} in Trimtab's order, {order.stock_position} in the controller's own")
    if order.goes_after:
        line(f"after {order.goes_after}: {order.goes_after_because}")
    if order.goes_before:
        line(f"before {order.goes_before}: {order.goes_before_because}")
    if order.details is not None and order.goes_before:
        line(f"in the controller's own order, it goes before the next pod by: {order.details.stock_decided_by}")


def _render_what_applies(found: PodExplanation) -> None:
    line()
    title("what applies")
    line(f"policy: {'none' if found.policy is None else found.policy.sentence()}")
    if found.policy is not None and found.policy.overridden:
        line(f"overridden: {', '.join(found.policy.overridden)}")
    line(f"subset: {_subset(found.subset)}")
    if not found.constraints:
        line("constraints: none")
        return
    headers = ["constraint", "kind", "maxSkew", "its domain", "pods there", "fewest", "most", "from"]
    table(headers, [_constraint(each) for each in found.constraints])


def _constraint(found: AppliedConstraint) -> list[object]:
    count = "-" if found.count is None else found.count
    kind = "hard" if found.hard else "soft"
    return [
        *(found.topology_key, kind, found.max_skew, found.domain or "-", count, found.fewest, found.most),
        found.source,
    ]


def _subset(found: AppliedSubset | None) -> str:
    if found is None:
        return "none: no UnitedTopology targets its workload"
    if not found.subset:
        return f"none of UnitedTopology {found.topology}: {found.source}"
    limit = "no maximum" if found.limit is None else f"at most {found.limit}"
    return f"{found.subset} of UnitedTopology {found.topology} ({found.level}, {limit}), by {found.source}"
