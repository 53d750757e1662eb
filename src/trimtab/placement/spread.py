"""PodTopologySpread: which nodes would unbalance a topology, and which would balance it best.

A constraint divides the nodes into domains, by the value of a label, and looks at how many matching pods each domain
has. The snapshot keeps that number for each node (`Snapshot.matching`), and `domains` which node is in which domain, so
a domain's number is one sum away; no pod is looked at here.

Rules, which tests cite. Those of a hard constraint (`DoNotSchedule`):

1. Counted are pods of the incoming pod's namespace that match the selector and are not on their way out. An absent
   selector matches nothing; an empty one matches the incoming pod, and yet counts nobody.
2. A node counts for a constraint if it has the keys of all hard constraints and the constraint's policies include it:
   `nodeAffinityPolicy` (Honor unless said otherwise) asks for the pod's required node affinity, `nodeTaintsPolicy`
   (Ignore unless said otherwise) for taints that the pod tolerates.
3. The minimum is that of the domains with a node that counts, and 0 if there are fewer of them than `minDomains`.
4. A node is refused if its domain, with the incoming pod if that matches, would exceed the minimum by more than
   `maxSkew`. This holds for every node, also for one that does not count.
5. A node that lacks a key is refused for good. Constraints are tried in order, and the first that fails decides.

Those of soft constraints (`ScheduleAnyway`), among the feasible nodes:

6. A feasible node that lacks a soft constraint's key gets 0, and is no part of 7 to 9. The `System` and `Proposal`
   defaults differ: there such a node takes part, and its missing label is a value like any other, the empty one.
7. A node's raw score is the sum, over constraints, of `count * ln(domains + 2) + (maxSkew - 1)`, rounded; a key that
   the node lacks adds nothing. `domains` are those of the feasible nodes.
8. `count` is the domain's, as in 1 and 2 (but for the keys of all soft constraints). For the hostname it is the node's
   own, whatever the policies, and `domains` is the number of nodes: hostnames are not compared.
9. The score is `100 * (max + min - raw) / max`, cut off: the best node gets 100, the worst `100 * min / max`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trimtab.api import selectors
from trimtab.api.errors import InvalidError
from trimtab.api.logarithms import go_log
from trimtab.api.meta import Labels
from trimtab.api.nodes import HOSTNAME
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.api.schedulerconfig import PodTopologySpreadArgs
from trimtab.api.selectors import Operator, Requirement, Selector
from trimtab.api.tolerations import untolerated
from trimtab.placement import defaults
from trimtab.placement.affinity import suited_nodes
from trimtab.placement.defaults import HARD, SOFT
from trimtab.placement.domains import Totals, domains
from trimtab.placement.framework import (
    MAX_SCORE,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Codes,
    Cycle,
    Refusals,
    Scores,
)
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.nodes import LabelKey

SKEWED = "node(s) didn't match pod topology spread constraints"
LACKS_LABEL = f"{SKEWED} (missing required label)"

_UNBOUNDED = 2**31 - 1
"""The minimum of no domains at all, where `minDomains` does not make it 0."""

_REMEMBERED = 4096
"""How many templates' constraints are kept compiled."""

_pack = msgspec.msgpack.Encoder().encode

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint as it applies to one pod."""

    key: LabelKey
    max_skew: int
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


@dataclass(frozen=True, slots=True)
class Constraints:
    """All constraints of one pod, its own or the default ones. `strict`: a node needs every soft key to be scored."""

    hard: tuple[Constraint, ...] = ()
    soft: tuple[Constraint, ...] = ()
    strict: bool = True

    def among(self, selector: Selector) -> Constraints:
        """The same constraints, over the pods that a selector matches."""
        hard = tuple(replace(constraint, selector=selector) for constraint in self.hard)
        soft = tuple(replace(constraint, selector=selector) for constraint in self.soft)
        return Constraints(hard, soft, self.strict)


class PodTopologySpread:
    """Keeps the pods of a workload spread, by their own constraints or by the default ones."""

    name = "PodTopologySpread"

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        """Raises InvalidError with the path of an argument that is wrong."""
        args = args or PodTopologySpreadArgs()
        defaults.check(args, any_key=True)
        self._defaults = _compile(defaults.constraints(args), aliases=defaults.ALIASES)
        self._defaults = replace(self._defaults, strict=args.defaulting_type == "List")
        self._known: dict[Hashable, Constraints] = {}

    def constraints(self, cycle: Cycle) -> Constraints:
        """The constraints that apply to the pod, worked out once for filter and score."""
        return cycle.once("spread.constraints", lambda: self._constraints(cycle))

    def filter(self, cycle: Cycle) -> Refusals | None:
        """Refuse nodes on which the pod would break a hard constraint."""
        hard = self.constraints(cycle).hard
        if not hard:
            return None
        topologies = [_Topology(cycle.snapshot, constraint) for constraint in hard]
        complete = _all(topology.present for topology in topologies)
        first, *others = (topology.verdicts(cycle, complete) for topology in topologies)
        for verdicts in others:
            first = np.where(first, first, verdicts)
        return Refusals(first, _reasons(first))

    def score(self, cycle: Cycle, feasible: Mask) -> Scores | None:
        """Prefer nodes whose domains have few matching pods."""
        constraints = self.constraints(cycle)
        if not constraints.soft:
            return None
        topologies = [_Topology(cycle.snapshot, constraint) for constraint in constraints.soft]
        takes_part = (
            _all(topology.present for topology in topologies) if constraints.strict else cycle.snapshot.nodes.known
        )
        scored = feasible & takes_part
        first, *others = (topology.credit(cycle, takes_part, scored) for topology in topologies)
        for credit in others:
            first += credit
        return _scores(first, scored)

    def _constraints(self, cycle: Cycle) -> Constraints:
        pod = cycle.pod
        stated = pod.spec.topology_spread_constraints
        if stated:
            labels = {key: pod.metadata.labels.get(key) for c in stated for key in c.match_label_keys}
            return self._remembered(_pack((stated, labels)), lambda: _compile(stated, pod.metadata.labels))
        if not self._defaults.hard and not self._defaults.soft:
            return self._defaults
        selector = defaults.deduced_selector(cycle)
        if selector.empty:
            return Constraints()
        return self._remembered(selector, lambda: self._defaults.among(selector))

    def _remembered(self, key: Hashable, compute: Callable[[], Constraints]) -> Constraints:
        """What was worked out for the last pod of the same template or group."""
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[key] = compute()
        return known


class _Topology:
    """A constraint seen against the nodes."""

    __slots__ = ("_constraint", "_domains", "present")

    def __init__(self, snapshot: Snapshot, constraint: Constraint) -> None:
        self._constraint = constraint
        self._domains = domains(snapshot.nodes, constraint.key)
        self.present = self._domains.present

    def verdicts(self, cycle: Cycle, complete: Mask) -> Codes:
        """What this constraint alone says of each node (rules 3 to 5)."""
        constraint = self._constraint
        eligible = _eligible(cycle, constraint, complete)
        counts = self._domains.sums(_matching(cycle, constraint), eligible)
        lowest = self._lowest(counts[1:][self._domains.sizes(eligible)[1:] > 0])
        most = lowest + constraint.max_skew - constraint.selector.matches(cycle.pod.metadata.labels)
        by_domain = (counts > most).astype(np.int8)
        by_domain[0] = UNRESOLVABLE
        return by_domain.take(self._domains.slots)

    def credit(self, cycle: Cycle, takes_part: Mask, scored: Mask) -> Floats:
        """What this constraint adds to the raw score of each node (rules 7 and 8)."""
        constraint = self._constraint
        matching = _matching(cycle, constraint)
        if constraint.key == HOSTNAME:
            credit = self._term(matching, np.count_nonzero(scored))
            return credit if self.present.all() else credit * self.present
        counts = self._domains.sums(matching, _eligible(cycle, constraint, takes_part))
        by_domain = self._term(counts, np.count_nonzero(self._domains.sizes(scored)))
        by_domain[0] = 0.0
        return by_domain.take(self._domains.slots)

    def _term(self, counts: Totals, domains: np.integer[Any]) -> Floats:
        return counts * go_log(float(domains + 2)) + float(self._constraint.max_skew - 1)

    def _lowest(self, counts: Totals) -> int:
        if len(counts) < self._constraint.min_domains:
            return 0
        return int(counts.min()) if len(counts) else _UNBOUNDED


def _compile(
    written: Iterable[TopologySpreadConstraint],
    labels: Labels | None = None,
    aliases: Mapping[str, LabelKey] | None = None,
) -> Constraints:
    """Constraints made ready for a pod with these labels."""
    by_action: dict[str, list[Constraint]] = {HARD: [], SOFT: []}
    for index, constraint in enumerate(written):
        if constraint.when_unsatisfiable not in by_action:
            continue
        try:
            selector = _selector(constraint, labels or {})
        except InvalidError as error:
            raise error.under(f"spec.topologySpreadConstraints[{index}].labelSelector") from None
        key = (aliases or {}).get(constraint.topology_key, constraint.topology_key)
        by_action[constraint.when_unsatisfiable].append(_compiled(constraint, key, selector))
    return Constraints(hard=tuple(by_action[HARD]), soft=tuple(by_action[SOFT]))


def _compiled(constraint: TopologySpreadConstraint, key: LabelKey, selector: Selector) -> Constraint:
    return Constraint(
        key=key,
        max_skew=constraint.max_skew,
        selector=selector,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honor_affinity=constraint.node_affinity_policy in (None, "Honor"),
        honor_taints=constraint.node_taints_policy == "Honor",
    )


def _selector(constraint: TopologySpreadConstraint, labels: Labels) -> Selector:
    """The constraint's selector, narrowed to the pod's values of `matchLabelKeys`."""
    selector = selectors.compile(constraint.label_selector)
    kept = [key for key in constraint.match_label_keys if key in labels]
    return selector.with_requirements(*(Requirement(key, Operator.EQUALS, (labels[key],)) for key in kept))


def _matching(cycle: Cycle, constraint: Constraint) -> IntColumn:
    """How many pods each node has that count (rule 1)."""
    selector = constraint.selector
    if selector.empty or selector.nothing:
        return np.zeros(len(cycle.snapshot.nodes), dtype=np.int64)
    return cycle.snapshot.matching(cycle.pod.metadata.namespace, selector)


def _eligible(cycle: Cycle, constraint: Constraint, nodes: Mask) -> Mask:
    """Those of the nodes that the constraint's policies include (rule 2)."""
    if constraint.honor_affinity:
        suited = suited_nodes(cycle)
        nodes = nodes if suited is None else nodes & suited
    if constraint.honor_taints:
        nodes = nodes & cycle.once("spread.taints", lambda: _tolerated_nodes(cycle))
    return nodes


def _tolerated_nodes(cycle: Cycle) -> Mask:
    nodes, tolerations = cycle.snapshot.nodes, cycle.pod.spec.tolerations
    tolerated = np.array([untolerated(tolerations, taints) is None for taints in nodes.taint_sets])
    return tolerated.take(nodes.taints)


def _all(masks: Iterable[Mask]) -> Mask:
    first, *others = masks
    for mask in others:
        first = first & mask
    return first


def _reasons(codes: npt.NDArray[np.int8]) -> tuple[tuple[Mask, str], ...]:
    if not codes.any():
        return ()
    return ((codes == UNSCHEDULABLE, SKEWED), (codes == UNRESOLVABLE, LACKS_LABEL))


def _scores(total: Floats, scored: Mask) -> Scores:
    """Raw scores as whole numbers; and between 0 and 100, the fewer pods the higher (rules 7 and 9).

    A total is 0 or more than 1, so adding a half and cutting off rounds exactly, halves upwards.
    """
    raw = (total + 0.5).astype(np.int64)
    counted = raw
    if not scored.all():
        raw *= scored
        counted = raw.compress(scored)
    if not len(counted):
        return Scores(raw, raw)
    low, high = int(counted.min()), int(counted.max())
    normalized = (high + low - raw) * MAX_SCORE // high if high else np.full_like(raw, MAX_SCORE)
    if counted is not raw:
        normalized *= scored
    return Scores(raw, normalized)
