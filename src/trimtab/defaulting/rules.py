"""The default constraints of namespaces, from the configuration. Pure.

Constraints are written into pods, and an API server refuses a pod with an invalid one. So everything that it would
refuse is refused here, when the configuration is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trimtab.api import selectors
from trimtab.api.default_constraints import ConstraintRule, DefaultConstraintSettings
from trimtab.api.errors import InvalidError
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.api.selectors import Selector
from trimtab.placement.defaults import HARD, check_list

_POLICIES = (None, "Honor", "Ignore")
_INT32 = range(1, 2**31)


@dataclass(frozen=True, slots=True)
class Rule:
    """Default constraints, and the namespaces that they are for."""

    name: str
    namespaces: Selector
    constraints: tuple[TopologySpreadConstraint, ...]


def read_rules(settings: DefaultConstraintSettings) -> tuple[Rule, ...]:
    """The rules of the configuration. Raises InvalidError with the path of the invalid field."""
    if settings.delivery == "Scheduler" and settings.rules:
        raise InvalidError("rules", "have no effect if delivery is Scheduler; write delivery: Admission, or omit them")
    if settings.delivery == "Admission" and not settings.rules:
        raise InvalidError("rules", "is required if delivery is Admission; write the constraints that pods get")
    names: set[str] = set()
    rules = []
    for index, rule in enumerate(settings.rules):
        try:
            rules.append(_read(rule, names))
        except InvalidError as error:
            raise error.under(f"rules[{index}]") from None
        names.add(rule.name)
    return tuple(rules)


def rule_for(rules: Sequence[Rule], labels: Mapping[str, str]) -> Rule | None:
    """The first rule for a namespace with these labels."""
    return next((rule for rule in rules if rule.namespaces.matches(labels)), None)


def _read(rule: ConstraintRule, names: set[str]) -> Rule:
    if rule.name in names:
        raise InvalidError("name", f'"{rule.name}" is used twice; give each rule a unique name')
    check_list(rule.constraints, "constraints")
    for index, constraint in enumerate(rule.constraints):
        for problem in _problems(constraint):
            raise problem.under(f"constraints[{index}]")
    if rule.namespace_selector is None:
        return Rule(rule.name, selectors.EVERYTHING, rule.constraints)
    try:
        return Rule(rule.name, selectors.compile(rule.namespace_selector), rule.constraints)
    except InvalidError as error:
        raise error.under("namespaceSelector") from None


def _problems(constraint: TopologySpreadConstraint) -> Iterator[InvalidError]:
    """What an API server refuses and kube-scheduler does not."""
    if constraint.max_skew not in _INT32:
        yield InvalidError("maxSkew", f"{constraint.max_skew} is greater than {_INT32[-1]}")
    if constraint.min_domains is not None and constraint.min_domains not in _INT32:
        yield InvalidError("minDomains", f"{constraint.min_domains} is not from 1 to {_INT32[-1]}")
    if constraint.min_domains is not None and constraint.when_unsatisfiable != HARD:
        yield InvalidError("minDomains", f"is valid with whenUnsatisfiable: {HARD} only; omit it")
    for name, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy not in _POLICIES:
            yield InvalidError(name, f'"{policy}" is neither Honor nor Ignore')
    for index, key in enumerate(constraint.match_label_keys):
        if not selectors.is_key(key):
            yield InvalidError(f"matchLabelKeys[{index}]", f'"{key}" is not a label key')
        if key in constraint.match_label_keys[:index]:
            yield InvalidError(f"matchLabelKeys[{index}]", f'"{key}" is listed twice')
