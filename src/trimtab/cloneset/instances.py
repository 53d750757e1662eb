"""The names of new pods. Pure.

The pods of a CloneSet are numbered, and a pod's id and name follow from its CloneSet's UID and its number alone. New
pods get the lowest free numbers. So every process that creates pods for a CloneSet from the same state, or from an
older one (a process that was killed during its requests, and the one that takes over), creates the same names, and the
API server accepts only one pod of each name.

A number is free if it has not been used up and no pod has its name. The status records up to where numbers are used up:
`settled` increases when pods are observed, and is written before any pod is deleted. Names therefore are not used again
after pods are deleted, and a cost or a name in podsToDelete that was meant for one pod does not apply to another.

Two numbers may have the same id by chance; then the later one is skipped while the pod of the earlier one exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trimtab.api.meta import ObjectMeta
from trimtab.api.templates import name_of, safe_hash

_LENGTH = 5


@dataclass(frozen=True, slots=True)
class Instance:
    """The id and name of a pod to be created."""

    id: str
    name: str


def instance(owner: ObjectMeta, number: int) -> Instance:
    """The pod with that number."""
    instance_id = safe_hash(f"{owner.uid}/{number}".encode(), _LENGTH)
    return Instance(instance_id, name_of(owner.name, instance_id))


def free(owner: ObjectMeta, used_up: int, is_taken: Callable[[str], bool], count: int) -> tuple[Instance, ...]:
    """This many new pods; `is_taken` says whether any pod has that name."""
    chosen: dict[str, Instance] = {}
    for candidate in _from(owner, used_up):
        if len(chosen) == count:
            break
        if candidate.name not in chosen and not is_taken(candidate.name):
            chosen[candidate.name] = candidate
    return tuple(chosen.values())


def settled(owner: ObjectMeta, used_up: int, is_taken: Callable[[str], bool]) -> int:
    """Up to where numbers are used up, when all created pods have been observed."""
    while is_taken(instance(owner, used_up).name):
        used_up += 1
    return used_up


def _from(owner: ObjectMeta, number: int) -> Iterator[Instance]:
    while True:
        yield instance(owner, number)
        number += 1
