"""The use of resources on every node, with and without a pod: the input of the scores of resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import ResourceSpec
from trimtab.api.selectors import is_key
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.kept import Selection
from trimtab.snapshot.nodes import NodeTable
from trimtab.snapshot.requests import CPU, EPHEMERAL_STORAGE, MEMORY, Requests

DEFAULT_RESOURCES = (ResourceSpec(name=CPU), ResourceSpec(name=MEMORY))
MOST_WEIGHT = 100

_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_KUBERNETES = "kubernetes.io/"
_QUOTA = "requests."


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One resource on some nodes: capacity, the amount in use, and the amount that a pod would add.

    `counted` are the nodes whose capacity is not 0; None means all.
    """

    weight: int
    capacity: IntColumn
    used: IntColumn
    requested: int
    counted: Mask | None

    @property
    def divisor(self) -> IntColumn:
        """The capacity, and 1 where there is none."""
        return self.capacity if self.counted is None else np.maximum(self.capacity, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Occupancy:
    """Some nodes, with so many more pods of a template than they have."""

    nodes: NodeTable
    requests: Requests
    rows: Selection
    more: IntColumn | int

    @property
    def pods(self) -> IntColumn:
        """The number of pods on each node."""
        return self._after(self.nodes.pods[self.rows], 1)

    def capacity(self, name: str) -> IntColumn:
        """The capacity of each node for a resource."""
        column = self.nodes.resources.get(name)
        return np.zeros_like(self.pods) if column is None else self.nodes.allocatable[self.rows, column]

    def requested(self, name: str) -> IntColumn:
        """The amount of a resource that the pods of each node request."""
        column = self.nodes.resources.get(name)
        if column is None:
            return np.zeros_like(self.pods)
        return self._after(self.nodes.requested[self.rows, column], self.requests.amounts.get(name, 0))

    def assumed(self, name: str) -> IntColumn:
        """As `requested`, with assumed amounts of CPU and memory for containers without a request."""
        if name not in (CPU, MEMORY):
            return self.requested(name)
        amount = self.requests.assumed_cpu if name == CPU else self.requests.assumed_memory
        return self._after(self.nodes.assumed[self.rows, self.nodes.resources[name]], amount)

    def _after(self, present: IntColumn, amount: int) -> IntColumn:
        return present if isinstance(self.more, int) and not self.more else present + self.more * amount


def uses(
    occupancy: Occupancy, resources: Iterable[ResourceSpec], requested: Mapping[str, int], *, assumed: bool
) -> list[Use]:
    """The use of each resource that counts for a pod with these requests.

    With `assumed`, containers without a request for CPU or memory count with the assumed amounts. Resources that no
    scheduler counts are left out, and extended resources that the pod does not request.
    """
    in_use: list[Use] = []
    for resource in resources:
        amount = requested.get(resource.name, 0)
        if _counts(occupancy.nodes, resource.name, amount):
            capacity = occupancy.capacity(resource.name)
            used = occupancy.assumed(resource.name) if assumed else occupancy.requested(resource.name)
            counted = None if capacity.min(initial=1) > 0 else capacity != 0
            in_use.append(Use(resource.weight, capacity, used, amount, counted))
    return in_use


def weighed(resources: tuple[ResourceSpec, ...], path: str, *, most: int = MOST_WEIGHT) -> tuple[ResourceSpec, ...]:
    """The resources of a configuration: CPU and memory by default, with a default weight of 1.

    Raises InvalidError with the path of a weight that is out of range.
    """
    for index, resource in enumerate(resources):
        if not 0 <= resource.weight <= most:
            reason = f"{resource.weight} is not a weight from 1 to {most}" if most > 1 else "must be 1"
            raise InvalidError(f"{path}[{index}].weight", reason)
    configured = resources or DEFAULT_RESOURCES
    return tuple(ResourceSpec(name=resource.name, weight=resource.weight or 1) for resource in configured)


@lru_cache(maxsize=1024)
def is_extended(name: str) -> bool:
    """Whether a resource is an extended one: its name has a domain that is not Kubernetes' own."""
    own = "/" not in name or _KUBERNETES in name
    return not own and not name.startswith(_QUOTA) and is_key(f"{_QUOTA}{name}")


@lru_cache(maxsize=1024)
def is_scalar(name: str) -> bool:
    """Whether schedulers count this resource, other than CPU, memory, ephemeral storage and pods."""
    return is_extended(name) or _KUBERNETES in name or name.startswith(("hugepages-", "attachable-volumes-"))


def is_counted(name: str) -> bool:
    """Whether schedulers filter nodes by requests for this resource."""
    return name in _NATIVE or is_scalar(name)


def _counts(nodes: NodeTable, name: str, requested: int) -> bool:
    return name in nodes.resources and (name in _NATIVE or (requested != 0 and is_scalar(name)))
