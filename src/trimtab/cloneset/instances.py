"""The names of new pods. Pure.

The pods of a CloneSet are numbered, and a pod's id and name follow from its CloneSet's UID and its number alone. New
pods get the lowest numbers that are free. So whoever makes pods for a CloneSet from the same state, or from an older
one (a process that was killed while its requests were under way, and the one that takes over), makes the same names,
and the API server lets only one of each come about.

A number is free if it has not been used up and no pod has its name. The status says up to where numbers are used up:
`settled` moves on when pods have been seen, and that is written before any pod is deleted. Names therefore do not come
back when pods go, and a cost or a name in podsToDelete that was meant for one pod does not hit another.

Two numbers may have the same id, by chance; then the later one is passed over while the earlier one is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trimtab.api.meta import ObjectMeta
from trimtab.api.templates import name_of, safe_hash

_LENGTH = 5


@dataclass(frozen=True, slots=True)
class Instance:
    """A pod to be made."""

    id: str
    name: str


def instance(owner: ObjectMeta, number: int) -> Instance:
    """The pod of that number."""
    an_id = safe_hash(f"{owner.uid}/{number}".encode(), _LENGTH)
    return Instance(an_id, name_of(owner.name, an_id))


def free(owner: ObjectMeta, used_up: int, taken: Callable[[str], bool], count: int) -> tuple[Instance, ...]:
    """So many new pods; `taken` says whether there is a pod of that name, whoever it belongs to."""
    found: dict[str, Instance] = {}
    for candidate in _from(owner, used_up):
        if len(found) == count:
            break
        if candidate.name not in found and not taken(candidate.name):
            found[candidate.name] = candidate
    return tuple(found.values())


def settled(owner: ObjectMeta, used_up: int, taken: Callable[[str], bool]) -> int:
    """Up to where numbers are used up, now that everything that was made has been seen."""
    while taken(instance(owner, used_up).name):
        used_up += 1
    return used_up


def _from(owner: ObjectMeta, number: int) -> Iterator[Instance]:
    while True:
        yield instance(owner, number)
        number += 1
