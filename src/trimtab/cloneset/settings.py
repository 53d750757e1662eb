"""Settings of the CloneSet controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.ranking.rankers import RankSettings
from trimtab.ranking.strategies import STRATEGIES, Factory

GATE = "CloneSetPodCost"
"""The feature gate: whether costs are honoured as ranks."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings."""

    name: str = "trimtab"
    """The controller's name: CloneSets whose annotation `trimtab.dev/managed-by` names another are skipped."""
    pod_cost: bool = False
    """The feature gate CloneSetPodCost."""
    rank: RankSettings = field(default_factory=RankSettings)
    """How pods are ranked: see `ranking.rankers`."""
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
