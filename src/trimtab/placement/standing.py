"""How pods stand where they are: how crowded their domains are, and how their nodes score.

A scheduler compares nodes for one pod; a scale-down compares the present nodes of equal pods. So the nodes that hold
them are compared by the profile's own plugins for one more pod of the same template, as things are now: the node that
the scheduler likes least for another one is where one is missed least.

1. **Crowding.** For each spread constraint that the profile enforces, how many of the pods that it counts are in the
   node's domain. A hard constraint is enforced where PodTopologySpread filters, a soft one where it scores. Hard ones
   come before soft ones, and of those, coarse ones (zones) before fine ones (nodes). A constraint that does not count
   the pod itself is left out: no removal changes it.
2. **Score.** The total of all scoring plugins, from 0 to 100, normalized among these nodes.
3. A node that would refuse such a pod for what the node itself is (cordoned, tainted, or with other labels since)
   scores 0. What the pods on a node use up is no reason here: the pod itself is one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from trimtab.api.pods import Pod
from trimtab.placement.framework import MAX_SCORE, Cycle
from trimtab.placement.profiles import Profile
from trimtab.placement.spread.constraints import SpreadConstraint
from trimtab.placement.spread.plugin import PodTopologySpread
from trimtab.placement.spread.topology import Floats, Topology
from trimtab.placement.support import unsupported
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask

_OF_NODES = frozenset({"NodeUnschedulable", "TaintToleration", "NodeAffinity"})
"""The filters that depend on the node and not on the pods there."""


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """How nodes stand for pods of one template, by row of the node table; only rows that were asked for count."""

    crowding: tuple[IntColumn, ...]
    """For each enforced constraint, the pods in the node's domain; a node that is in none counts as its own."""
    scores: Floats
    """From 0 to 100."""


def standing(pod: Pod, snapshot: Snapshot, profile: Profile, nodes: Mask) -> Standing | None:
    """How these nodes stand for pods like this one; None if Trimtab cannot evaluate such a pod.

    Raises InvalidError if the pod's constraints or affinities are invalid.
    """
    if unsupported(pod) is not None:
        return None
    loose = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    cycle = Cycle(loose, snapshot)
    accepted = nodes & ~_refused(cycle, profile)
    crowding = tuple(Topology(snapshot, each).crowding(cycle) for each in _enforced(cycle, profile))
    return Standing(crowding, _scores(cycle, profile, accepted) * accepted)


def _refused(cycle: Cycle, profile: Profile) -> Mask:
    refused = ~cycle.snapshot.nodes.known
    for plugin in profile.filters:
        if plugin.name in _OF_NODES and (refusals := plugin.filter(cycle)) is not None:
            refused |= refusals.codes > 0
    return refused


def _enforced(cycle: Cycle, profile: Profile) -> list[SpreadConstraint]:
    """The spread constraints that the profile enforces for a pod, the most important first."""
    filters = next((each for each in profile.filters if isinstance(each, PodTopologySpread)), None)
    scores = next((each for each, _ in profile.scores if isinstance(each, PodTopologySpread)), None)
    hard = filters.constraints(cycle).hard if filters is not None else ()
    soft = scores.constraints(cycle).soft if scores is not None else ()
    ordered = (each for part in (hard, soft) for each in _coarse_first(part, cycle.snapshot))
    return [each for each in ordered if each.selector.matches(cycle.pod.metadata.labels)]


def _coarse_first(constraints: tuple[SpreadConstraint, ...], snapshot: Snapshot) -> Iterator[SpreadConstraint]:
    known = snapshot.nodes.known
    sizes = [len(np.unique(snapshot.nodes.codes(each.key)[known])) for each in constraints]
    return (constraints[at] for at in sorted(range(len(sizes)), key=sizes.__getitem__))


def _scores(cycle: Cycle, profile: Profile, nodes: Mask) -> Floats:
    total = np.zeros(len(nodes))
    most = 0
    for plugin, weight in profile.scores:
        scores = plugin.score(cycle, nodes)
        if scores is not None:
            total += scores.normalized * weight
            most += weight * MAX_SCORE
    return total * MAX_SCORE / most if most else np.full(len(nodes), float(MAX_SCORE))
