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
from trimtab.snapshot.nodes import NodeTable
from trimtab.snapshot.requests import CPU, EPHEMERAL_STORAGE, MEMORY

DEFAULT_RESOURCES = (ResourceSpec(name=CPU), ResourceSpec(name=MEMORY))
MOST_WEIGHT = 100

_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_KUBERNETES = "kubernetes.io/"
_QUOTA = "requests."


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One resource on all nodes: capacity, the amount in use, and the amount that a pod would add.

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


def uses(
    nodes: NodeTable, resources: Iterable[ResourceSpec], requested: Mapping[str, int], *, assumed: bool
) -> list[Use]:
    """The use of each resource that counts for a pod with these requests.

    With `assumed`, containers without a request for CPU or memory count with the assumed amounts. Resources that no
    scheduler counts are left out, and extended resources that the pod does not request.
    """
    in_use: list[Use] = []
    for resource in resources:
        amount = requested.get(resource.name, 0)
        column = _column(nodes, resource.name, amount)
        if column is not None:
            capacity = nodes.allocatable[:, column]
            used = nodes.assumed if assumed and resource.name in (CPU, MEMORY) else nodes.requested
            counted = None if capacity.min(initial=1) > 0 else capacity != 0
            in_use.append(Use(resource.weight, capacity, used[:, column], amount, counted))
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


def _column(nodes: NodeTable, name: str, requested: int) -> int | None:
    counts = name in _NATIVE or (requested != 0 and is_scalar(name))
    return nodes.resources.get(name) if counts else None
