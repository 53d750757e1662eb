"""The registry of sources, and those that a configuration uses.

Users add sources of their own by entry points in the group `trimtab.sources`: the name is that of the source, the
object a factory such as those in `SOURCES`. A source is used if the configuration has settings for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from trimtab.api.errors import InvalidError
from trimtab.scaledown.sources.prometheus import PrometheusSource
from trimtab.scaledown.sources.signals import Source, SourceFactory

SOURCES: Mapping[str, SourceFactory] = {
    "Prometheus": PrometheusSource.configured,
}
"""What comes with Trimtab."""

ENTRY_POINTS = "trimtab.sources"
"""The entry point group by which users add theirs."""


def registry(found: Iterable[EntryPoint] | None = None) -> dict[str, SourceFactory]:
    """All sources by name: Trimtab's own, and those that installed packages offer (or `found`, where given).

    Raises InvalidError for a name that is taken, and for an entry point that cannot be loaded.
    """
    made = dict(SOURCES)
    for point in entry_points(group=ENTRY_POINTS) if found is None else found:
        if point.name in made:
            raise InvalidError("", f'source "{point.name}" is there twice, by {point.value} too; rename one of them')
        made[point.name] = _load(point)
    return made


def _load(point: EntryPoint) -> SourceFactory:
    try:
        factory = point.load()
    except Exception as error:
        raise InvalidError("", f'source "{point.name}" cannot be loaded from {point.value}: {error!r}') from error
    if not callable(factory):
        raise InvalidError("", f'source "{point.name}" is no factory: {point.value} is a {type(factory).__name__}')
    made: SourceFactory = factory
    return made


def make_sources(configured: Mapping[str, Mapping[str, Any]], known: Mapping[str, SourceFactory]) -> dict[str, Source]:
    """The sources that a configuration has settings for. Raises InvalidError with a path such as `Prometheus.url`."""
    made = {}
    for name, settings in configured.items():
        if name not in known:
            raise InvalidError(name, f"is not a source; known are {', '.join(sorted(known))}")
        try:
            made[name] = known[name](settings)
        except InvalidError as error:
            raise InvalidError(f"{name}{error.path.removeprefix('args')}", error.reason) from None
    return made
