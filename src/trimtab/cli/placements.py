"""Scores and refused nodes, as `place` and `explain` show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trimtab.cli.output import line, table

if TYPE_CHECKING:
    from trimtab.inspection.placements import NodeGroup, NodeScore

_NAMED = 5
"""How many nodes of a group are named."""


def render_scores(scores: Sequence[NodeScore]) -> None:
    """The scores of a node, the heaviest first."""
    if scores:
        ordered = sorted(scores, key=lambda each: -each.weighted)
        rows = [[each.plugin, each.raw, each.normalized, each.weight, each.weighted] for each in ordered]
        table(["plugin", "raw", "score", "weight", "weighted"], rows)


def render_groups(groups: Sequence[NodeGroup]) -> None:
    """Nodes that were not chosen, by reason."""
    if not groups:
        return
    line("other nodes:")
    rows = []
    for group in groups:
        more = f" and {group.count - _NAMED} more" if group.count > _NAMED else ""
        rows.append([group.count, group.reason, group.plugin or "-", ", ".join(group.nodes[:_NAMED]) + more])
    table(["nodes", "why not", "plugin", "names"], rows)
