"""How the CloneSet controller is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.api.pods import TopologySpreadConstraint
from trimtab.ranking.rankers import Scale
from trimtab.ranking.strategies import STRATEGIES, Factory

GATE = "CloneSetPodCost"
"""The feature gate: whether costs are honoured as ranks."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be chosen."""

    name: str = "trimtab"
    """The controller's name: CloneSets whose annotation `trimtab.dev/managed-by` names another are left to that one."""
    pod_cost: bool = False
    """The feature gate CloneSetPodCost."""
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    """The cluster's default constraints, for templates that state none."""
    scale: Scale = "balanced"
    """How crowding becomes a rank: see `ranking.rankers`."""
    strategies: Mapping[str, Factory] = field(default_factory=lambda: STRATEGIES)
    """What policies may name: whether a strategy needs recomputing is asked of it."""
    burst: int = 500
    """How many pods of one CloneSet are made before the controller looks again."""
    at_once: int = 32
    """How many pods are deleted at the same time, in the order in which they go."""
    workers: int = 5
    namespaces: frozenset[str] = frozenset()
    """The namespaces it is confined to; all, where empty."""


SETTINGS = Settings()
