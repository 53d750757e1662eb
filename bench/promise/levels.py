"""How level a layout is, and how level it could be."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bench.promise.comparison import JSON, PodFacts, is_active

Layout = Mapping[str, int]
"""Pods by zone, zones without pods included."""

_COUNTS = re.compile(r"\d+(?:/\d+)+")


def layout(pods: Iterable[JSON], zones: Mapping[str, str]) -> dict[str, int]:
    """Active pods by zone. `zones` maps each node to its zone; pods without a node are not counted."""
    counts = Counter(zones.get(pod["spec"].get("nodeName", "")) for pod in pods if is_active(pod))
    return {zone: counts[zone] for zone in sorted(set(zones.values()))}


def skew(counts: Layout) -> int:
    """The difference between the fullest and the emptiest zone."""
    return max(counts.values(), default=0) - min(counts.values(), default=0)


def written(counts: Layout) -> str:
    """A layout as people read it: `7/7/6`, by the names of the zones."""
    return "/".join(str(counts[zone]) for zone in sorted(counts))


def best_layout(pods: Sequence[PodFacts], delete: int, zones: Mapping[str, str]) -> dict[str, int]:
    """The most level layout that costs can reach: they choose among pods that are equal in criteria 1 to 3 only."""
    counts = Counter(zones.get(pod.node, "") for pod in pods)
    ordered = sorted(pods, key=_before_costs)
    for _, members in itertools.groupby(ordered, key=_before_costs):
        available = Counter(zones.get(pod.node, "") for pod in members)
        while delete and available.total():
            fullest = max(available, key=lambda zone: (available[zone] > 0, counts[zone]))
            counts[fullest] -= 1
            available[fullest] -= 1
            delete -= 1
    return {zone: counts[zone] for zone in sorted(set(zones.values()))}


def even_layout(size: int, zones: Mapping[str, str]) -> dict[str, int]:
    """So many pods spread evenly, as new pods can be."""
    names = sorted(set(zones.values()))
    return {name: size // len(names) + (index < size % len(names)) for index, name in enumerate(names)}


def announced_layouts(warning: str, zones: int) -> list[tuple[int, ...]]:
    """The layouts that a warning names, such as 7/7/6, in its order; zones in descending order of their pods."""
    counts = (tuple(int(part) for part in text.split("/")) for text in _COUNTS.findall(warning))
    return [tuple(sorted(each, reverse=True)) for each in counts if len(each) == zones]


def _before_costs(pod: PodFacts) -> tuple[bool, int, bool]:
    return bool(pod.node), pod.phase, pod.ready
