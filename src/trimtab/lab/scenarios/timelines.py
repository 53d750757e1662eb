"""What was seen of every pod, moment by moment: where it was, and how it stood. The chart is drawn from this.

A timeline is a list of changes. `counts` plays it back: how many pods each domain had from when on, counted as
`observations` counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trimtab.api.pods import Pod
from trimtab.lab.scenarios.observations import NOWHERE, Place, Spread, State, state

COUNTED = frozenset((State.STARTING, State.READY))
"""The states in which a pod counts in the domain of its node."""


@dataclass(frozen=True, slots=True)
class Change:
    """From this moment on (seconds since the story began) a pod stood like this."""

    at: float
    pod: str
    uid: str
    state: State
    node: str = ""
    domains: Mapping[str, str] = field(default_factory=dict)
    """By the story's names of its topology keys, the domains of its node."""


@dataclass(frozen=True, slots=True)
class Mark:
    """From this moment on, this step of the story was under way."""

    at: float
    number: int
    title: str


@dataclass(frozen=True, slots=True)
class Birth:
    """From this moment on there was such a domain."""

    at: float
    key: str
    domain: str


@dataclass(slots=True)
class Timeline:
    """All changes of a run, in the order in which they were seen."""

    topology: Mapping[str, str]
    changes: list[Change] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    births: list[Birth] = field(default_factory=list)
    end: float = 0.0
    _last: dict[str, Change] = field(default_factory=dict)
    _known: set[tuple[str, str]] = field(default_factory=set)

    def saw_node(self, node: Place, at: float) -> None:
        """Note the domains that a node brings."""
        for name, key in self.topology.items():
            domain = node.labels.get(key)
            if domain is not None and (name, domain) not in self._known:
                self._known.add((name, domain))
                self.births.append(Birth(at, name, domain))

    def saw_pod(self, pod: Pod, nodes: Mapping[str, Place], at: float, *, gone: bool = False) -> Change | None:
        """Note how a pod stands, if that is new."""
        node = nodes.get(pod.spec.node_name)
        labels = node.labels if node is not None else {}
        placed = bool(pod.spec.node_name)
        domains = {name: labels.get(key, NOWHERE) for name, key in self.topology.items()} if placed else {}
        standing = State.GONE if gone else state(pod)
        change = Change(at, pod.metadata.name, pod.metadata.uid, standing, pod.spec.node_name, domains)
        last = self._last.get(change.uid)
        if last is not None and (last.state, last.node, last.domains) == (change.state, change.node, change.domains):
            return None
        self._last[change.uid] = change
        self.changes.append(change)
        return change


def counts(timeline: Timeline, key: str) -> list[tuple[float, Spread]]:
    """How many pods each domain of a key had, and from when on. Moments at which nothing changed are left out."""
    places: dict[str, str] = {}
    domains: dict[str, int] = {}
    series: list[tuple[float, Spread]] = []
    for at, event in _events(timeline, key):
        if isinstance(event, Birth):
            domains.setdefault(event.domain, 0)
        else:
            _move(places, domains, event, key)
        spread = Spread(dict(sorted(domains.items())))
        if series and series[-1][0] == at:
            series[-1] = (at, spread)
        elif not series or series[-1][1] != spread:
            series.append((at, spread))
    return series


def _events(timeline: Timeline, key: str) -> Iterable[tuple[float, Birth | Change]]:
    births = [(birth.at, birth) for birth in timeline.births if birth.key == key]
    changes = [(change.at, change) for change in timeline.changes]
    return sorted([*births, *changes], key=lambda entry: entry[0])


def _move(places: dict[str, str], domains: dict[str, int], change: Change, key: str) -> None:
    before = places.pop(change.uid, None)
    if before is not None:
        domains[before] -= 1
        if before == NOWHERE and not domains[before]:
            del domains[before]
    if change.state in COUNTED:
        domain = change.domains.get(key, NOWHERE)
        places[change.uid] = domain
        domains[domain] = domains.get(domain, 0) + 1
