"""What follows from a pod's spec alone: worked out once for all the pods of a template.

Host ports, images and the affinity terms that a pod holds against others. The requests have a book of their own, for
they depend on a resize under way as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from trimtab.api import selectors
from trimtab.api.pods import Pod, PodAffinityTerm
from trimtab.api.selectors import Selector

_pack = msgspec.msgpack.Encoder().encode
# Templates come and go; a book that has grown so large holds mostly those that went, and starts anew.
_BOOK_LIMIT = 16_384


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a pod takes for itself."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class Term:
    """A pod affinity term, ready to match: which pods, in which namespaces, near in which sense.

    `namespaces` are those named, or the holder's own where none are; `namespace_selector` adds those it matches.
    """

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector | None


@dataclass(frozen=True, slots=True)
class HeldTerm:
    """A term that a pod holds: for (positive) or against (negative) others near it, required (weight 0) or
    preferred."""

    term: Term
    weight: int
    anti: bool

    @property
    def required(self) -> bool:
        """Whether it must hold."""
        return self.weight == 0


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What the pods of one template in one namespace have in common."""

    ports: tuple[HostPort, ...]
    terms: tuple[HeldTerm, ...]


class ShapeBook:
    """Shapes by template and namespace."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, Shape] = {}

    def of(self, pod: Pod) -> Shape:
        """The pod's shape."""
        spec = pod.spec
        affinity = spec.affinity
        ports = [c.ports for c in spec.containers] + [(c.restart_policy, c.ports) for c in spec.init_containers]
        key = _pack((pod.metadata.namespace if affinity else "", affinity, ports))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _BOOK_LIMIT:
                self._known.clear()
            found = self._known[key] = Shape(ports=tuple(host_ports(pod)), terms=tuple(held_terms(pod)))
        return found


def host_ports(pod: Pod) -> Iterable[HostPort]:
    """The host ports of containers and sidecars; an ordinary init container has given its ports back by then."""
    sidecars = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                yield HostPort(ip=port.host_ip or "0.0.0.0", protocol=port.protocol or "TCP", port=port.host_port)  # noqa: S104 - how Kubernetes names "every address"; nothing listens here


def held_terms(pod: Pod) -> Iterable[HeldTerm]:
    """The affinity and anti-affinity terms of a pod."""
    affinity = pod.spec.affinity
    if affinity is None:
        return
    namespace = pod.metadata.namespace
    for part, anti in ((affinity.pod_affinity, False), (affinity.pod_anti_affinity, True)):
        if part is None:
            continue
        for required in part.required_during_scheduling_ignored_during_execution:
            yield HeldTerm(term(required, namespace), 0, anti)
        for preferred in part.preferred_during_scheduling_ignored_during_execution:
            yield HeldTerm(term(preferred.pod_affinity_term, namespace), preferred.weight, anti)


def term(written: PodAffinityTerm, namespace: str) -> Term:
    """A term as it is written, by a pod of that namespace."""
    own = not written.namespaces and written.namespace_selector is None
    return Term(
        topology_key=written.topology_key,
        selector=selectors.compile(written.label_selector),
        namespaces=frozenset({namespace} if own else written.namespaces),
        namespace_selector=(
            None if written.namespace_selector is None else selectors.compile(written.namespace_selector)
        ),
    )
