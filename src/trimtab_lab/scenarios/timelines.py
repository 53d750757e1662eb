"""The history of every pod: its node and its state over time. Charts are drawn from it.

A timeline is a list of changes. `moments` replays it: the number of pods in each domain, and since when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from trimtab.api.pods import Pod
from trimtab_lab.scenarios.observations import NOWHERE, NodeView, Spread, State, state


@dataclass(frozen=True, slots=True)
class Change:
    """A new state of a pod, in seconds since the start of the story."""

    at: float
    pod: str
    uid: str
    state: State
    node: str = ""
    domains: Mapping[str, str] = field(default_factory=dict)
    """The domains of its node, by the story's names for topology keys."""


@dataclass(frozen=True, slots=True)
class StepMark:
    """The start of a step."""

    at: float
    number: int
    title: str


@dataclass(frozen=True, slots=True)
class DomainAdded:
    """The first appearance of a domain."""

    at: float
    key: str
    domain: str


@dataclass(slots=True)
class Timeline:
    """All changes of a run, in the order in which they were observed."""

    topology: Mapping[str, str]
    changes: list[Change] = field(default_factory=list)
    marks: list[StepMark] = field(default_factory=list)
    domains_added: list[DomainAdded] = field(default_factory=list)
    end: float = 0.0
    _last: dict[str, Change] = field(default_factory=dict)
    _known: set[tuple[str, str]] = field(default_factory=set)

    def record_node(self, node: NodeView, at: float) -> None:
        """Record the domains of a node."""
        for name, key in self.topology.items():
            domain = node.labels.get(key)
            if domain is not None and (name, domain) not in self._known:
                self._known.add((name, domain))
                self.domains_added.append(DomainAdded(at, name, domain))

    def record_pod(self, pod: Pod, nodes: Mapping[str, NodeView], at: float, *, gone: bool = False) -> Change | None:
        """Record the state of a pod, if it has changed."""
        node = nodes.get(pod.spec.node_name)
        labels = node.labels if node is not None else {}
        placed = bool(pod.spec.node_name)
        domains = {name: labels.get(key, NOWHERE) for name, key in self.topology.items()} if placed else {}
        distribution = State.GONE if gone else state(pod)
        change = Change(at, pod.metadata.name, pod.metadata.uid, distribution, pod.spec.node_name, domains)
        last = self._last.get(change.uid)
        if last is not None and (last.state, last.node, last.domains) == (change.state, change.node, change.domains):
            return None
        self._last[change.uid] = change
        self.changes.append(change)
        return change


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of pods in a domain, by state."""

    ready: int = 0
    starting: int = 0
    terminating: int = 0

    @property
    def pods(self) -> int:
        """The pods that count."""
        return self.ready + self.starting

    def plus(self, distribution: State, number: int) -> Tally:
        """The tally with a number of pods in this state added; pods without a node, or finished, are in no domain."""
        name = distribution.value
        return replace(self, **{name: getattr(self, name) + number}) if distribution in _TALLIED else self


_TALLIED = frozenset((State.READY, State.STARTING, State.TERMINATING))


@dataclass(frozen=True, slots=True)
class Moment:
    """The tallies of all domains from a moment on."""

    at: float
    tallies: Mapping[str, Tally]

    @property
    def skew(self) -> int:
        """The skew, as in `observations`."""
        return Spread({domain: tally.pods for domain, tally in self.tallies.items()}).skew


def moments(timeline: Timeline, key: str) -> list[Moment]:
    """The tallies of the domains of a key over time; only moments at which they changed."""
    last: dict[str, Change] = {}
    tallies: dict[str, Tally] = {}
    found: list[Moment] = []
    for at, event in _events(timeline, key):
        if isinstance(event, DomainAdded):
            tallies.setdefault(event.domain, Tally())
        else:
            _move(tallies, last.get(event.uid), event, key)
            last[event.uid] = event
        moment = Moment(at, dict(sorted(tallies.items())))
        if found and found[-1].at == at:
            found[-1] = moment
        elif not found or found[-1].tallies != moment.tallies:
            found.append(moment)
    return found


def _events(timeline: Timeline, key: str) -> Iterable[tuple[float, DomainAdded | Change]]:
    births = [(birth.at, birth) for birth in timeline.domains_added if birth.key == key]
    changes = [(change.at, change) for change in timeline.changes]
    return sorted([*births, *changes], key=lambda entry: entry[0])


def _move(tallies: dict[str, Tally], before: Change | None, after: Change, key: str) -> None:
    for change, number in ((before, -1), (after, 1)):
        if change is None or not change.node:
            continue
        domain = change.domains.get(key, NOWHERE)
        tallies[domain] = tallies.get(domain, Tally()).plus(change.state, number)
        if domain == NOWHERE and tallies[domain] == Tally():
            del tallies[domain]
