"""Constraints as they apply to one pod, compiled from what its spec or the defaults say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from trimtab.api import selectors
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Labels
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.api.selectors import Operator, Requirement, Selector
from trimtab.placement.defaults import HARD, SOFT
from trimtab.snapshot.nodes import LabelKey


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A constraint as it applies to one pod."""

    key: LabelKey
    max_skew: int
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


@dataclass(frozen=True, slots=True)
class SpreadConstraints:
    """All constraints of one pod, its own or the default ones. `strict`: a node needs every soft key to be scored."""

    hard: tuple[SpreadConstraint, ...] = ()
    soft: tuple[SpreadConstraint, ...] = ()
    strict: bool = True

    def among(self, selector: Selector) -> SpreadConstraints:
        """The same constraints, over the pods that a selector matches."""
        hard = tuple(replace(constraint, selector=selector) for constraint in self.hard)
        soft = tuple(replace(constraint, selector=selector) for constraint in self.soft)
        return SpreadConstraints(hard, soft, self.strict)


def compile_constraints(
    written: Iterable[TopologySpreadConstraint],
    labels: Labels | None = None,
    aliases: Mapping[str, LabelKey] | None = None,
) -> SpreadConstraints:
    """Compile constraints for a pod with these labels."""
    by_action: dict[str, list[SpreadConstraint]] = {HARD: [], SOFT: []}
    for index, constraint in enumerate(written):
        if constraint.when_unsatisfiable not in by_action:
            continue
        try:
            selector = _selector(constraint, labels or {})
        except InvalidError as error:
            raise error.under(f"spec.topologySpreadConstraints[{index}].labelSelector") from None
        key = (aliases or {}).get(constraint.topology_key, constraint.topology_key)
        by_action[constraint.when_unsatisfiable].append(_compiled(constraint, key, selector))
    return SpreadConstraints(hard=tuple(by_action[HARD]), soft=tuple(by_action[SOFT]))


def _compiled(constraint: TopologySpreadConstraint, key: LabelKey, selector: Selector) -> SpreadConstraint:
    return SpreadConstraint(
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
