"""Ranks for criterion 5 of a CloneSet's order: of pods that crowd a node or a topology domain, the higher goes first.

- **Same node**: of n pods on a node, the first to go gets n − 1, the last 0. A pod alone on its node gets 0.
- **Spread constraints**: for each constraint, the pods of each domain are put in order (by the same-node rank where
  they are otherwise equal, unless the domain is the node itself), and the rank of the one at index i of n depends on
  the scale:

  - *balanced*: (n − i) · ln(domains + 2). Pods with as many of their domain behind them have equal ranks, so the
    fullest domain gives pods first, until it is level with the next.
  - *proportional*: (n − i) / (n − 1). Every domain loses the same share, so small ones give as well. A pod alone in its
    domain gets 0: it is the last thing to take.

  The ranks of several constraints are added up. Domains are those that hold pods. A pod whose node is unknown, lacks
  the label, or is outside of the constraint's `limited_values` gets nothing from that constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from trimtab.api.annotations import RANK
from trimtab.api.errors import InvalidError
from trimtab.api.logarithms import go_log
from trimtab.api.nodes import HOSTNAME
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.api.selectors import Selector
from trimtab.ranking.contenders import Contenders
from trimtab.ranking.victims import FloatColumn, order_within
from trimtab.snapshot.columns import IntColumn, SmallColumn
from trimtab.snapshot.nodes import ABSENT, NodeTable
from trimtab.snapshot.pods import NOWHERE

Scale = Literal["balanced", "proportional"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """Spread over the values of a node label; over these values alone, where some are given.

    The other fields are those of Kubernetes' topology spread constraints: `selector` is what `labelSelector` and
    `matchLabelKeys` come to, and without one the workload's own pods count. `spreads` says what each of them means.
    """

    topology_key: str
    limited_values: tuple[str, ...] | None = None
    max_skew: int = 1
    hard: bool = False
    selector: Selector | None = None
    min_domains: int = 0
    honor_affinity: bool = True
    honor_taints: bool = False


DefaultsFor = Callable[[str], tuple[Constraint, ...]]
"""The default constraints of pods with this `schedulerName`."""


def no_defaults(_: str) -> tuple[Constraint, ...]:
    """No default constraints, whatever the scheduler."""
    return ()


@dataclass(frozen=True, slots=True)
class RankSettings:
    """How a CloneSet's controller ranks pods: the scale, and the constraints of templates that state none."""

    scale: Scale = "balanced"
    defaults: DefaultsFor = no_defaults

    def scale_for(self, annotations: Mapping[str, str]) -> Scale:
        """The scale of a CloneSet with these annotations: what its own says, if that is one."""
        stated = annotations.get(RANK)
        return next((scale for scale in SCALES if scale == stated), self.scale)


class Ranker(Protocol):
    """Ranks pods for their order: the higher rank goes first."""

    def ranks(self, contenders: Contenders, nodes: NodeTable) -> FloatColumn:
        """A rank for each contender, in the order of its rows."""
        ...


@dataclass(frozen=True, slots=True)
class SameNodeRanker:
    """Ranks pods by how many others of theirs are on their node."""

    def ranks(self, contenders: Contenders, nodes: NodeTable) -> FloatColumn:  # noqa: ARG002 - the Protocol has it
        """n − 1 for the first to go of n on a node, 0 for the last; pods without a node have 0."""
        queues = _queues(contenders, contenders.column("node"), NOWHERE)
        ranks = np.zeros(len(contenders))
        ranks[queues.places] = queues.waiting - 1
        return ranks


@dataclass(frozen=True, slots=True)
class SpreadConstraintsRanker:
    """Ranks pods by how many others of theirs are in their domains."""

    constraints: tuple[Constraint, ...]
    scale: Scale = "balanced"

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise InvalidError("scale", f'"{self.scale}" is not one of {", ".join(SCALES)}')

    def ranks(self, contenders: Contenders, nodes: NodeTable) -> FloatColumn:
        """The sum of what each constraint gives."""
        ranks = np.zeros(len(contenders))
        crowding = -SameNodeRanker().ranks(contenders, nodes).astype(np.int64)
        for constraint in self.constraints:
            domains = domains_of(contenders, nodes, constraint)
            finer = () if constraint.topology_key == HOSTNAME else (crowding,)
            queues = _queues(contenders, domains, ABSENT, *finer)
            ranks[queues.places] += SCALES[self.scale](queues)
        return ranks


def constraints_of(
    stated: Iterable[TopologySpreadConstraint], defaults: Iterable[TopologySpreadConstraint] = ()
) -> tuple[Constraint, ...]:
    """The constraints that a workload's template states, or else the cluster's default constraints."""
    return tuple(Constraint(each.topology_key) for each in (tuple(stated) or tuple(defaults)))


def ranker_for(constraints: tuple[Constraint, ...], scale: Scale = "balanced") -> Ranker:
    """The ranker of a workload with these constraints: without any, only the same node matters."""
    return SpreadConstraintsRanker(constraints, scale) if constraints else SameNodeRanker()


def domains_of(contenders: Contenders, nodes: NodeTable, constraint: Constraint) -> SmallColumn:
    """The domain of each contender as a code of the node label, or ABSENT."""
    label = nodes.label(constraint.topology_key)
    codes = np.append(label.codes[: len(nodes)], np.int32(ABSENT))  # the last, -1, is that of NOWHERE
    if constraint.limited_values:
        limited = [label.index[value] for value in constraint.limited_values if value in label.index]
        codes[~np.isin(codes, limited)] = ABSENT
    found: SmallColumn = codes[contenders.column("node")]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Queues:
    """The pods of each domain in the order in which they would go.

    `places` are the contenders, domain by domain; `waiting` says how many of the domain are left when it is a pod's
    turn, itself included (n − i); `size` how many the domain has (n).
    """

    places: IntColumn
    waiting: IntColumn
    size: IntColumn
    domains: int


def _queues(contenders: Contenders, domains: IntColumn | SmallColumn, outside: int, *finer: IntColumn) -> Queues:
    order = order_within(contenders, domains, contenders.standing_keys, *finer)
    sizes = np.bincount(domains - outside, minlength=1)
    order = order[sizes[0] :]
    sizes = sizes[1:][sizes[1:] > 0]
    ends = np.repeat(np.cumsum(sizes), sizes)
    return Queues(order, ends - np.arange(len(order)), np.repeat(sizes, sizes), len(sizes))


def _balanced(queues: Queues) -> FloatColumn:
    ranks: FloatColumn = queues.waiting * np.float64(go_log(queues.domains + 2))
    return ranks


def _proportional(queues: Queues) -> FloatColumn:
    share: FloatColumn = queues.waiting / np.maximum(queues.size - 1, 1)
    share[queues.size == 1] = 0
    return share


SCALES: Mapping[Scale, Callable[[Queues], FloatColumn]] = {"balanced": _balanced, "proportional": _proportional}
"""How a place in a domain's queue becomes a rank."""
