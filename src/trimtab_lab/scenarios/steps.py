"""The steps of a story, as types: the verbs, what a step waits for, and what it expects.

`stepreader` reads them from YAML, and `actions` has one function for each verb.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trimtab.api.documents import Document
from trimtab.kube.client import PatchKind
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.scenarios.ranges import Range

DEFAULT_TIMEOUT = 60.0
"""Seconds that a step waits unless the story sets another time."""


class Compare(StrEnum):
    """How much of the result of a step is compared with the golden result."""

    EXACT = "exact"
    """The count of each domain."""
    LEVELS = "levels"
    """The sorted counts: which domain has which is random."""
    CHANCE = "chance"
    """Nothing: only the expectations of the step."""


@dataclass(frozen=True, slots=True)
class Target:
    """An object of the story, by kind and name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """A selection of nodes: by zone, by labels, or by name."""

    zone: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.zone:
            return f"zone {self.zone}"
        return ", ".join(self.nodes) or ", ".join(f"{key}={value}" for key, value in self.labels.items())


@dataclass(frozen=True, slots=True)
class Apply:
    """Create objects, or patch them to their manifests."""

    manifests: tuple[Document, ...]

    def __str__(self) -> str:
        trees = [manifest.tree() for manifest in self.manifests]
        return "apply " + ", ".join(f"{tree['kind']}/{tree['metadata']['name']}" for tree in trees)


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale a workload through its scale subresource."""

    target: Target
    replicas: int

    def __str__(self) -> str:
        return f"scale {self.target} to {self.replicas}"


@dataclass(frozen=True, slots=True)
class Patch:
    """Patch an object."""

    target: Target
    patch: Any
    how: PatchKind

    def __str__(self) -> str:
        return f"patch {self.target}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object and its dependents."""

    target: Target

    def __str__(self) -> str:
        return f"delete {self.target}"


@dataclass(frozen=True, slots=True)
class Add:
    """Add nodes: a zone, a rack, a pool."""

    shape: Shape

    def __str__(self) -> str:
        """The added nodes, by zone."""
        zones = [f"zone {zone} ({len(self.shape.names(zone))} nodes)" for zone in self.shape.zones]
        others = sum(not plan.zone for plan in self.shape.nodes.values())
        return f"add {', '.join([*zones, *([f'{others} nodes'] if others else [])])}"


class NodeOperation(StrEnum):
    """The operations on existing nodes."""

    FAIL = "fail"
    RECOVER = "recover"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class OperateNodes:
    """Carry out an operation on existing nodes."""

    operation: NodeOperation
    selection: NodeSelection

    def __str__(self) -> str:
        return f"{self.operation} {self.selection}"


@dataclass(frozen=True, slots=True)
class Age:
    """Wait until all pods have an age, or until their ages have one scale.

    Ages are compared on a logarithmic scale. Pods that are at least twice as old as others have another scale; among
    pods with the same scale the deletion order is random.
    """

    at_least: float | None = None
    together: bool = False

    def __str__(self) -> str:
        return "wait until all ages are of one scale" if self.together else f"let all pods be {self.at_least:g} s old"


@dataclass(frozen=True, slots=True)
class Repeat:
    """Repeat steps."""

    times: int
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return f"repeat {self.times} times"


Action = Apply | Scale | Patch | Delete | Add | OperateNodes | Age | Repeat


@dataclass(frozen=True, slots=True)
class Wait:
    """The condition for the end of a step. Without counts: all workloads have settled."""

    of: str = ""
    counts: Mapping[str, Range] = field(default_factory=dict)
    within: float = DEFAULT_TIMEOUT

    def __str__(self) -> str:
        wanted = ", ".join(f"{name} {number}" for name, number in self.counts.items())
        return f"{self.of}: {wanted}" if self.of and wanted else wanted or "everything has settled"


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected result of a step, for one workload or for all pods."""

    of: str = ""
    domains: Mapping[str, Mapping[str, Range]] = field(default_factory=dict)
    levels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    skew: Mapping[str, Range] = field(default_factory=dict)
    counts: Mapping[str, Range] = field(default_factory=dict)

    @property
    def keys(self) -> set[str]:
        """The topology keys that it refers to, by their names in the story."""
        return {*self.domains, *self.levels, *self.skew}


@dataclass(frozen=True, slots=True)
class Step:
    """An action, the condition to wait for, and the expected result."""

    path: str
    action: Action | None = None
    title: str = ""
    wait: Wait | None = None
    expect: tuple[Expectation, ...] = ()
    compare: Compare = Compare.EXACT

    def __str__(self) -> str:
        return self.title or (str(self.action) if self.action is not None else f"wait: {self.wait}")
