"""Values that depend on a pod's spec alone, computed once for all pods of a template.

These are the host ports and the affinity terms between pods. Requests have a cache of their own, since they also depend
on a resize in progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

from trimtab.api import selectors
from trimtab.api.bounded_caches import BoundedCache
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Labels
from trimtab.api.pods import Affinity, Pod, PodAffinityTerm, WeightedPodAffinityTerm
from trimtab.api.selectors import Selector

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 – how Kubernetes names it; nothing listens here

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_pack = msgspec.msgpack.Encoder().encode
MAX_TERMS = 100
MAX_ENTRIES = 2000
"""The most affinity terms of a pod that count, and the most labels, expressions, values and namespaces in them."""
MAX_PORTS = 1000
"""The most host ports of a pod that count."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a pod uses exclusively."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class Term:
    """A compiled pod affinity term: which pods, in which namespaces, in the same domain of which key.

    `namespaces` are those listed, or that of the pod which holds the term; `namespace_selector` adds those it matches.
    """

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector | None

    def reaches(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        """Whether it applies to pods with these labels, in a namespace of that name with those labels."""
        if namespace not in self.namespaces:
            selector = self.namespace_selector
            if selector is None or not selector.matches(namespace_labels):
                return False
        return self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class HeldTerm:
    """An affinity or (`anti`) anti-affinity term of a pod; required, or preferred with a weight."""

    term: Term
    anti: bool
    required: bool
    weight: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The values that the pods of one template in one namespace share.

    `problem` describes an invalid affinity term. All terms of its list are then left out: an existing pod must not
    prevent others from being placed. If a pod has too many terms, or host ports, all are left out: they would take the
    time and memory of the process.
    """

    ports: tuple[HostPort, ...]
    terms: tuple[HeldTerm, ...]
    problem: str = ""


class ShapeBook:
    """A cache of shapes, by template and namespace."""

    __slots__ = ("_cache", "on_problem")

    def __init__(self) -> None:
        self._cache: BoundedCache[bytes, Shape] = BoundedCache()
        self.on_problem: Callable[[Pod, str], None] | None = None
        """Called for the first pod of each shape that has a problem."""

    def of(self, pod: Pod) -> Shape:
        """The pod's shape."""
        spec = pod.spec
        affinity = spec.affinity
        ports = [c.ports for c in spec.containers] + [(c.restart_policy, c.ports) for c in spec.init_containers]
        key = _pack((pod.metadata.namespace if affinity else "", affinity, ports))
        known = self._cache.get(key)
        if known is None:
            known = self._cache.put(key, shape(pod), len(key))
            if known.problem and self.on_problem is not None:
                self.on_problem(pod, known.problem)
        return known


def shape(pod: Pod) -> Shape:
    """Compute a pod's shape from its spec."""
    terms: list[HeldTerm] = []
    problems: list[str] = []
    if problem := _excess(pod.spec.affinity):
        problems.append(problem)
    for path, anti, written in () if problem else _term_lists(pod):
        try:
            terms += [_held(each, pod.metadata.namespace, anti=anti) for each in written]
        except InvalidError as error:
            problems.append(str(error.under(path)))
    ports = tuple(islice(host_ports(pod), MAX_PORTS + 1))
    if len(ports) > MAX_PORTS:
        ports = ()
        problems.append(f"spec.containers[*].ports: has more than {MAX_PORTS:,} host ports")
    return Shape(ports=ports, terms=tuple(terms), problem="; ".join(problems))


def _excess(affinity: Affinity | None) -> str:
    """Why none of the affinity terms between pods counts; empty if they do."""
    if affinity is None:
        return ""
    terms = pod_terms(affinity)
    size = term_entries(terms)
    if len(terms) > MAX_TERMS:
        return f"spec.affinity: has {len(terms):,} terms, and {MAX_TERMS:,} is the most"
    return f"spec.affinity: has {size:,} entries, and {MAX_ENTRIES:,} is the most" if size > MAX_ENTRIES else ""


def term_entries(terms: Iterable[PodAffinityTerm]) -> int:
    """How many labels, expressions, values and namespaces affinity terms between pods have."""
    return sum(
        selectors.entries(each.label_selector) + selectors.entries(each.namespace_selector) + len(each.namespaces)
        for each in terms
    )


def pod_terms(affinity: Affinity) -> list[PodAffinityTerm]:
    """All affinity terms between pods, of whatever sort."""
    found: list[PodAffinityTerm] = []
    for part in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if part is not None:
            found += part.required_during_scheduling_ignored_during_execution
            found += [each.pod_affinity_term for each in part.preferred_during_scheduling_ignored_during_execution]
    return found


def host_ports(pod: Pod) -> Iterable[HostPort]:
    """The host ports of containers and sidecars; ordinary init containers have ended before."""
    sidecars = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                yield HostPort(ip=port.host_ip or EVERY_ADDRESS, protocol=port.protocol or "TCP", port=port.host_port)


def _term_lists(pod: Pod) -> Iterable[tuple[str, bool, Sequence[PodAffinityTerm | WeightedPodAffinityTerm]]]:
    """The lists of affinity and anti-affinity terms of a pod: path, whether anti-affinity, and terms."""
    affinity = pod.spec.affinity or Affinity()
    for name, part in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if part is not None:
            path, anti = f"spec.affinity.{name}", name == "podAntiAffinity"
            yield f"{path}.{_REQUIRED}", anti, part.required_during_scheduling_ignored_during_execution
            yield f"{path}.{_PREFERRED}", anti, part.preferred_during_scheduling_ignored_during_execution


def _held(written: PodAffinityTerm | WeightedPodAffinityTerm, namespace: str, *, anti: bool) -> HeldTerm:
    if isinstance(written, WeightedPodAffinityTerm):
        wanted = term(written.pod_affinity_term, namespace)
        return HeldTerm(wanted, anti=anti, required=False, weight=written.weight)
    return HeldTerm(term(written, namespace), anti=anti, required=True)


def term(written: PodAffinityTerm, namespace: str) -> Term:
    """Compile a term of a pod in that namespace."""
    own = not written.namespaces and written.namespace_selector is None
    return Term(
        topology_key=written.topology_key,
        selector=selectors.compile(written.label_selector),
        namespaces=frozenset({namespace} if own else written.namespaces),
        namespace_selector=(
            None if written.namespace_selector is None else selectors.compile(written.namespace_selector)
        ),
    )
