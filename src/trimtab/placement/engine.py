"""Placing a pod: run every filter and every score, then choose one node.

The filters run in the profile's order, and the first that refuses a node gives the node's reasons. The remaining nodes
are scored by every scoring plugin, and the highest total is chosen; ties are broken by a random source that the caller
passes, so that a decision can be repeated.

As kube-scheduler does:

1. A pod with scheduling gates is not placed.
2. A pod whose every required node affinity term names nodes is tried on those alone.
3. If the node that a pod is nominated for is feasible, it is chosen without scoring.
4. If a single node is feasible, it is chosen without scoring.

Unlike kube-scheduler, every node is evaluated: there is no sampling. Pods that another scheduler's preemption nominated
for a node do not count there before they are assigned: Trimtab does not preempt. And a pod that needs what Trimtab does
not support (storage, devices, groups of pods) gets no node: see `support`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Protocol

import msgspec
import numpy as np

from trimtab.api.pods import Pod
from trimtab.placement.affinity import CONFLICT, named_nodes
from trimtab.placement.decisions import NOT_SUPPORTED, Decision, Outcome, Placement, Refusal, WeightedScores
from trimtab.placement.framework import UNRESOLVABLE, Cycle, Refusals
from trimtab.placement.profiles import Profile
from trimtab.placement.support import unsupported
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask

_NODE_AFFINITY = "NodeAffinity"
_NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


class RandomSource(Protocol):
    """Breaks ties; `random.Random` is one."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to `stop` - 1."""


def place(pod: Pod, snapshot: Snapshot, profile: Profile, rng: RandomSource) -> Decision:
    """Choose a node for a pod. The snapshot is not changed; the pod may or may not be in it, unassigned.

    Raises InvalidError if the pod's constraints or affinities are invalid: an API server refuses such pods.
    """
    refused = _refused(pod)
    if refused is not None:
        return refused
    cycle = Cycle(pod, snapshot)
    feasible, refusals, problem = _filtered(cycle, profile)
    rows = np.flatnonzero(feasible)
    nominated = _nominated(cycle, feasible)
    scores = _scored(cycle, profile, feasible) if len(rows) > 1 and nominated is None else {}
    total = _total(scores, len(feasible))
    chosen = _best(total, rows, rng) if nominated is None else nominated
    names = snapshot.nodes.derived("names", lambda: tuple(snapshot.nodes.rows.names))
    return Decision(
        pod=pod.key,
        outcome=Outcome.UNSCHEDULABLE if chosen is None else Outcome.PLACED,
        node=None if chosen is None else names[chosen],
        problem=problem,
        names=names,
        feasible=feasible,
        refusals=refusals,
        scores=scores,
        total=total,
    )


def place_many(
    pods: Iterable[Pod],
    snapshot: Snapshot,
    profile: Profile,
    rng: RandomSource,
    *,
    see: Callable[[Decision], None] | None = None,
) -> list[Placement]:
    """Place pods in order, each with the earlier ones assumed. The snapshot is restored at the end.

    Pods of one template may have no name, or the same: they count as distinct pods. `see` is called with each complete
    decision; the decisions in short are returned.
    """
    placements: list[Placement] = []
    taken: set[str] = set()
    with ExitStack() as assumptions:
        for pod in pods:
            decision = place(pod, snapshot, profile, rng)
            if see is not None:
                see(decision)
            placements.append(decision.brief())
            if decision.node is not None:
                distinct = _distinct(pod, taken)
                assumptions.enter_context(snapshot.with_assumed(placed=[(distinct, decision.node)]))
    return placements


def _refused(pod: Pod) -> Decision | None:
    """The decision for a pod that must not be placed on any node; None for other pods."""
    need = unsupported(pod)
    if need is not None:
        return Decision(pod=pod.key, outcome=Outcome.UNSUPPORTED, problem=f"{NOT_SUPPORTED}: {need}")
    if pod.spec.scheduling_gates:
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return Decision(pod=pod.key, outcome=Outcome.GATED, problem=f"waiting for scheduling gates: [{gates}]")
    return None


def _filtered(cycle: Cycle, profile: Profile) -> tuple[Mask, tuple[Refusal, ...], str]:
    """The feasible nodes, the refusals of the others, and what is wrong with the pod itself."""
    feasible = cycle.snapshot.nodes.known.copy()
    recorded: list[Refusal] = []
    unnamed, problem = _unnamed_nodes(cycle, profile)
    if unnamed is not None:
        _record(recorded, _NODE_AFFINITY, unnamed, feasible)
    for plugin in profile.filters:
        refusals = plugin.filter(cycle)
        if refusals is not None:
            _record(recorded, plugin.name, refusals, feasible)
    return feasible, tuple(recorded), problem


def _record(recorded: list[Refusal], plugin: str, refusals: Refusals, feasible: Mask) -> None:
    """Remove the refused nodes from the feasible ones, and record the reasons."""
    if not refusals.codes.any():
        return
    codes = refusals.codes * feasible
    if not codes.any():
        return
    refused = codes > 0
    recorded.append(Refusal(plugin, codes, tuple((mask & refused, reason) for mask, reason in refusals.reasons)))
    feasible &= ~refused


def _unnamed_nodes(cycle: Cycle, profile: Profile) -> tuple[Refusals | None, str]:
    """The nodes that a pod does not name, if it names some (rule 2); and the problem if its terms exclude all nodes."""
    affinity = cycle.pod.spec.affinity
    required = (
        affinity
        and affinity.node_affinity
        and affinity.node_affinity.required_during_scheduling_ignored_during_execution
    )
    if not required or not required.node_selector_terms or all(f.name != _NODE_AFFINITY for f in profile.filters):
        return None, ""
    names = named_nodes(required.node_selector_terms)
    if names is None:
        return None, ""
    others = np.ones(len(cycle.snapshot.nodes), dtype=np.bool_)
    index = cycle.snapshot.nodes.rows.index
    others[[index[name] for name in names if name in index]] = False
    problem = "" if names else CONFLICT
    return Refusals.of(others, UNRESOLVABLE, problem or _NOT_NAMED), problem


def _scored(cycle: Cycle, profile: Profile, feasible: Mask) -> dict[str, WeightedScores]:
    scores: dict[str, WeightedScores] = {}
    for plugin, weight in profile.scores:
        plugin_scores = plugin.score(cycle, feasible)
        if plugin_scores is not None:
            scores[plugin.name] = WeightedScores(weight, plugin_scores)
    return scores


def _total(scores: dict[str, WeightedScores], rows: int) -> IntColumn:
    total = np.zeros(rows, dtype=np.int64)
    for weighted in scores.values():
        normalized, weight = weighted.scores.normalized, weighted.weight
        total += normalized if weight == 1 else normalized * weight
    return total


def _nominated(cycle: Cycle, feasible: Mask) -> int | None:
    """The row of the node that the pod is nominated for, if it is feasible (rule 3)."""
    row = cycle.snapshot.nodes.rows.index.get(cycle.pod.status.nominated_node_name)
    return row if row is not None and feasible[row] else None


def _best(total: IntColumn, rows: IntColumn, rng: RandomSource) -> int | None:
    """One of the rows with the highest total; None if there are no rows."""
    if not len(rows):
        return None
    totals = total if len(rows) == len(total) else total.take(rows)
    ties = np.flatnonzero(totals == totals.max())
    return int(rows[ties[rng.randrange(len(ties))] if len(ties) > 1 else ties[0]])


def _distinct(pod: Pod, taken: set[str]) -> Pod:
    """The pod under a name that no earlier pod has."""
    if pod.metadata.name and pod.key not in taken:
        taken.add(pod.key)
        return pod
    name = f"{pod.metadata.name or pod.metadata.generate_name}#{len(taken)}"
    renamed = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))
    taken.add(renamed.key)
    return renamed
