"""The configuration of scale-downs: whether they are enabled, where, and the default policies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trimtab.api import configuration
from trimtab.api.configuration import ScaleDown
from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.api.selectors import EVERYTHING, Selector
from trimtab.ranking.faults import recomputation_faults, strategy_faults
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.scaledown.policy.workloads import compile_selector


@dataclass(frozen=True, slots=True)
class DefaultPolicy:
    """A policy for workloads that have none of their own."""

    name: str
    spec: ScaleDownPolicySpec = field(default_factory=ScaleDownPolicySpec)
    namespaces: Selector = EVERYTHING
    """The namespaces that it is for, by their labels."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """The configuration of scale-downs."""

    enabled: bool = True
    """Whether any policy applies; where not, everything that was written is reverted."""
    policies: tuple[DefaultPolicy, ...] = ()
    exempt: frozenset[str] = frozenset({"kube-system"})
    """Namespaces that are never written to: the cluster's own, and Trimtab's."""
    only: frozenset[str] = frozenset()
    """The namespaces that this Trimtab is responsible for; all, where none are named."""
    settle_milliseconds: int = ScaleDown().settle_milliseconds
    """How long controllers have to observe costs, at least."""

    def covers(self, namespace: str) -> bool:
        """Whether this Trimtab is responsible for a namespace."""
        return not self.only or namespace in self.only

    def allows_writes(self, namespace: str) -> bool:
        """Whether anything may be written for a scale-down in a namespace."""
        return self.enabled and self.covers(namespace) and namespace not in self.exempt


NO_DEFAULTS = Defaults()
LEVEL_EVERYONE = Defaults(policies=(DefaultPolicy("everyone"),))
"""One default policy: all workloads are kept level."""


def read_defaults(
    configured: ScaleDown,
    *,
    exempt: Iterable[str] = ("kube-system",),
    only: Iterable[str] = (),
    registry: Mapping[str, Factory] = STRATEGIES,
) -> Defaults:
    """Read the configuration. Raises InvalidError with a path such as `defaultPolicies[0].strategies[1].name`."""
    policies = []
    for at, form in enumerate(configured.default_policies):
        for error in strategy_faults(form.strategies, registry):
            raise InvalidError(error.path.replace("spec", f"defaultPolicies[{at}]", 1), error.reason)
        policy = _default_policy(form)
        for error in recomputation_faults(policy.spec, "", registry):
            raise InvalidError(error.path.replace("spec", f"defaultPolicies[{at}]", 1), error.reason)
        policies.append(policy)
    settle = configured.settle_milliseconds
    return Defaults(configured.enabled, tuple(policies), frozenset(exempt), frozenset(only), settle)


def _default_policy(form: configuration.DefaultPolicy) -> DefaultPolicy:
    spec = ScaleDownPolicySpec(
        mode=form.mode,
        strategies=form.strategies,
        delivery=form.delivery,
        carrier=form.carrier,
        when_unranked=form.when_unranked,
        other_costs=form.other_costs,
        budget_milliseconds=form.budget_milliseconds,
    )
    everywhere = form.namespace_selector is None
    return DefaultPolicy(form.name, spec, EVERYTHING if everywhere else compile_selector(form.namespace_selector))
