"""Settings of the CloneSet controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimtab.api.pods import TopologySpreadConstraint
from trimtab.ranking.rankers import Scale
from trimtab.ranking.strategies import STRATEGIES, Factory

GATE = "CloneSetPodCost"
"""The feature gate: whether costs are honoured as ranks."""


DefaultsFor = Callable[[str], tuple[TopologySpreadConstraint, ...]]
"""The default constraints of pods with this `schedulerName`."""


def no_defaults(_: str) -> tuple[TopologySpreadConstraint, ...]:
    """No default constraints, whatever the scheduler."""
    return ()


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings."""

    name: str = "trimtab"
    """The controller's name: CloneSets whose annotation `trimtab.dev/managed-by` names another are skipped."""
    pod_cost: bool = False
    """The feature gate CloneSetPodCost."""
    default_constraints: DefaultsFor = no_defaults
    """The default constraints, for templates that state none."""
    scale: Scale = "balanced"
    """How the number of pods in a domain becomes a rank: see `ranking.rankers`."""
    strategies: Mapping[str, Factory] = field(default_factory=lambda: STRATEGIES)
    """The strategies that policies may name; a strategy says whether it needs recomputing."""
    burst: int = 500
    """How many pods of one CloneSet are created in one reconcile."""
    parallel_deletions: int = 32
    """How many pods are deleted at the same time, in order."""
    workers: int = 5
    namespaces: frozenset[str] = frozenset()
    """The namespaces that are handled; all, if empty."""


SETTINGS = Settings()
