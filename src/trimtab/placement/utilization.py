"""How much of a resource is in use on every node, with a pod there and without: what scores of resources start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import ResourceSpec
from trimtab.api.selectors import is_key
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.nodes import NodeTable
from trimtab.snapshot.requests import CPU, EPHEMERAL_STORAGE, MEMORY

DEFAULT_RESOURCES = (ResourceSpec(name=CPU), ResourceSpec(name=MEMORY))
MOST_WEIGHT = 100

_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_KUBERNETES = "kubernetes.io/"
_QUOTA = "requests."


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One resource on all nodes: what they have, what is in use, and what a pod would add.

    `counted` are the nodes that have any of it; None means all.
    """

    weight: int
    capacity: IntColumn
    used: IntColumn
    asked: int
    counted: Mask | None

    @property
    def divisor(self) -> IntColumn:
        """The capacity, and 1 where there is none."""
        return self.capacity if self.counted is None else np.maximum(self.capacity, 1)


def uses(nodes: NodeTable, resources: Iterable[ResourceSpec], asked: Mapping[str, int], *, assumed: bool) -> list[Use]:
    """The use of each resource that plays a part for a pod that asks for so much.

    With `assumed`, containers that state no CPU or memory count with the assumed amounts. Left out are resources that
    no scheduler counts, and extended ones that the pod does not ask for.
    """
    found = []
    for resource in resources:
        amount = asked.get(resource.name, 0)
        column = _column(nodes, resource.name, amount)
        if column is not None:
            capacity = nodes.allocatable[:, column]
            used = nodes.assumed if assumed and resource.name in (CPU, MEMORY) else nodes.requested
            counted = None if capacity.min(initial=1) > 0 else capacity != 0
            found.append(Use(resource.weight, capacity, used[:, column], amount, counted))
    return found


def weighed(resources: tuple[ResourceSpec, ...], path: str, *, most: int = MOST_WEIGHT) -> tuple[ResourceSpec, ...]:
    """The resources of a configuration: CPU and memory where none are given, and a weight of 1 where it is left out.

    Raises InvalidError with the path of a weight that is out of range.
    """
    for index, resource in enumerate(resources):
        if not 0 <= resource.weight <= most:
            reason = f"{resource.weight} is not a weight from 1 to {most}" if most > 1 else "must be 1"
            raise InvalidError(f"{path}[{index}].weight", reason)
    chosen = resources or DEFAULT_RESOURCES
    return tuple(ResourceSpec(name=resource.name, weight=resource.weight or 1) for resource in chosen)


@lru_cache(maxsize=1024)
def is_extended(name: str) -> bool:
    """Whether a resource is one that an operator made up: it has a domain, and not Kubernetes' own."""
    own = "/" not in name or _KUBERNETES in name
    return not own and not name.startswith(_QUOTA) and is_key(f"{_QUOTA}{name}")


@lru_cache(maxsize=1024)
def is_scalar(name: str) -> bool:
    """Whether schedulers count a resource that is none of CPU, memory, ephemeral storage and pods."""
    return is_extended(name) or _KUBERNETES in name or name.startswith(("hugepages-", "attachable-volumes-"))


def is_counted(name: str) -> bool:
    """Whether schedulers find room for what a pod asks of this resource."""
    return name in _NATIVE or is_scalar(name)


def _column(nodes: NodeTable, name: str, asked: int) -> int | None:
    plays_a_part = name in _NATIVE or (asked != 0 and is_scalar(name))
    return nodes.resources.get(name) if plays_a_part else None
