"""Strategies: each ranks pods by one idea, one a file; and the registry that policies find them in.

Belongs here: what ranks the pods of a group by one idea, from a view that holds everything it needs.

Does not belong here: combining ranks (see `ranking.combination`), turning them into costs (see `ranking.costs`), and
fetching the values that a strategy needs (usage, scores): those are arguments.

May import: the standard library, msgspec, numpy, `trimtab.snapshot` and `trimtab.api`.

Users add strategies of their own by entry points in the group `trimtab.strategies`: the name is the one that policies
use, the object a factory such as those in `STRATEGIES`. Nothing is loaded until `registry` is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

from trimtab.ranking.strategies.age import Oldest, Youngest
from trimtab.ranking.strategies.antiaffinity import AntiAffinity
from trimtab.ranking.strategies.balance import Balance
from trimtab.ranking.strategies.idle import Idle
from trimtab.ranking.strategies.prefernoschedule import PreferNoSchedule
from trimtab.ranking.strategies.probe import Probe
from trimtab.ranking.strategies.prometheus import Prometheus
from trimtab.ranking.strategies.scheduled import Scheduled
from trimtab.ranking.strategies.settings import read_settings
from trimtab.ranking.strategies.signals import Signal
from trimtab.ranking.strategies.stated import Stated
from trimtab.ranking.strategies.taints import Taints
from trimtab.ranking.strategies.view import UNRANKED, Factory, Ranks, Strategy, StrategyError, View

__all__ = [
    "ENTRY_POINTS",
    "STRATEGIES",
    "UNRANKED",
    "Factory",
    "Ranks",
    "Signal",
    "Strategy",
    "StrategyError",
    "View",
    "read_settings",
    "registry",
]

STRATEGIES: Mapping[str, Factory] = {
    "Balance": Balance.configured,
    "Taints": Taints.configured,
    "PreferNoSchedule": PreferNoSchedule.configured,
    "AntiAffinity": AntiAffinity.configured,
    "Youngest": Youngest.configured,
    "Oldest": Oldest.configured,
    "Idle": Idle.configured,
    "Stated": Stated.configured,
    "Probe": Probe.configured,
    "Prometheus": Prometheus.configured,
    "Scheduled": Scheduled.configured,
}
"""What comes with Trimtab."""

ENTRY_POINTS = "trimtab.strategies"
"""The entry point group by which users add theirs."""


def registry(found: Iterable[EntryPoint] | None = None) -> Mapping[str, Factory]:
    """All strategies by name: Trimtab's own, and those that installed packages offer (or `found`, where given).

    Raises StrategyError for a name that is taken, and for an entry point that cannot be loaded.
    """
    known = dict(STRATEGIES)
    origins = dict.fromkeys(known, "Trimtab itself")
    for point in entry_points(group=ENTRY_POINTS) if found is None else found:
        if point.name in known:
            raise StrategyError(
                point.name, f"is there twice: by {origins[point.name]} and by {_origin(point)}; rename one of them"
            )
        known[point.name] = _load(point)
        origins[point.name] = _origin(point)
    return known


def _origin(point: EntryPoint) -> str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"{point.value}{package}"


def _load(point: EntryPoint) -> Factory:
    try:
        factory = point.load()
    except Exception as error:
        raise StrategyError(point.name, f"cannot be loaded from {_origin(point)}: {error!r}") from error
    if not callable(factory):
        raise StrategyError(point.name, f"is no factory: {_origin(point)} is a {type(factory).__name__}")
    made: Factory = factory
    return made
