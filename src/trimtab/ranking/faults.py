"""What keeps a ScaleDownPolicy from working, although it is of the right shape: each fault with its field.

Validation at admission refuses a policy for these, and the controller reports them in a condition: a policy may have
been created before Trimtab was installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trimtab.api import limits, scaledown
from trimtab.api.compiled_selectors import compiled
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.scaledown import ScaleDownPolicy, ScaleDownPolicySpec, StrategySpec
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.ranking import combination
from trimtab.ranking.strategies import STRATEGIES, Factory

_ANSWERED = ("Probe", "Stated")
"""Strategies that use what pods answer to a probe; a policy can configure only one kind of probe."""


def faults(
    policy: ScaleDownPolicy,
    registry: Mapping[str, Factory] = STRATEGIES,
    owners: ReplicaSetOwners = DEPLOYMENTS,
    *,
    settle_milliseconds: int = 0,
) -> Iterator[InvalidError]:
    """Everything that is wrong with a policy, each with its path and what to write instead.

    `settle_milliseconds` is how long controllers have to observe costs, where that is known.
    """
    several = {str(error) for error in scaledown.strategy_problems(policy.spec.strategies)}
    for error in scaledown.problems(policy, owners):
        if str(error) not in several:  # which the strategies' own check reports again
            yield error
    if policy.spec.selector is not None and next(limits.problems(policy.spec.selector, ""), None) is None:
        yield from _selector_faults(policy.spec.selector)
    yield from strategy_faults(policy.spec.strategies, registry)
    if policy.spec.delivery == "OnScaleIntent":
        yield from scaledown.budget_problems(policy.spec.budget_milliseconds, settle_milliseconds)
    target = policy.spec.target_ref
    yield from recomputation_faults(policy.spec, "" if target is None else target.kind, registry)


def recomputation_faults(
    spec: ScaleDownPolicySpec, kind: str, registry: Mapping[str, Factory] = STRATEGIES
) -> Iterator[InvalidError]:
    """Why a policy cannot have its ranks recomputed after each removal by workloads of a kind (empty for any kind).

    A built-in controller deletes as many pods as it is told to, by the costs that it sees. Only Trimtab's CloneSets
    wait for the next ones.
    """
    if kind == "CloneSet" or (spec.delivery, spec.carrier) != ("Continuous", "Annotation"):
        return
    names = combination.recomputed(spec.strategies, registry)
    if names:
        yield InvalidError(
            "spec.delivery",
            f"Continuous with the carrier Annotation cannot be used with {' and '.join(names)}: the ranks must be "
            f"recomputed after each removal, and the controller of a {kind or 'built-in kind'} does not wait for that; "
            "write OnScaleIntent, or a targetRef that names a CloneSet",
        )


def strategy_faults(
    strategies: tuple[StrategySpec, ...], registry: Mapping[str, Factory] = STRATEGIES
) -> Iterator[InvalidError]:
    """Everything that is wrong with the strategies of a policy."""
    yield from combination.problems(strategies, registry)
    if "Probe" not in [strategy.name for strategy in strategies]:
        return
    asked = [at for at, strategy in enumerate(strategies) if strategy.name in _ANSWERED]
    for at in asked[1:]:
        yield InvalidError(
            f"spec.strategies[{at}].name",
            f"{strategies[at].name} and {strategies[asked[0]].name} both look at what pods answer; write one of them",
        )


def _selector_faults(written: LabelSelector) -> Iterator[InvalidError]:
    try:
        compiled(written)
    except InvalidError as error:
        yield error.under("spec.selector")
