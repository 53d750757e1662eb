"""Requests that wait for a decision about one UnitedTopology, and the decision."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from trimtab.api.unitedtopology import UnitedTopology
from trimtab.subsets.allocation import PodCreation, Reservations

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assignment:
    """The subset of a new pod: the UnitedTopology that was decided from, and an index in its subsets, or None."""

    topology: UnitedTopology
    subset: int | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for one batch, before it is written."""

    topology: UnitedTopology
    """With the new status."""
    choices: Mapping[str, int | None] = field(default_factory=dict)
    announced: frozenset[str] = frozenset()
    """The pods whose deletion was announced."""
    unwanted: frozenset[str] = frozenset()
    """The reservations that were not made because the owner of the pod wants no more pods."""
    unsimulated: int = 0
    """How many pods took a subset because there was no time to simulate them."""
    listed_version: str = ""
    """The resource version of the pods, if they were listed uncached."""


@dataclass(slots=True)
class PendingBatch:
    """Requests about one UnitedTopology, in the order of their arrival."""

    creations: dict[str, tuple[PodCreation, asyncio.Future[Assignment | None]]] = field(default_factory=dict)
    """By reservation."""
    deletions: dict[str, tuple[str, asyncio.Future[bool]]] = field(default_factory=dict)
    """By pod name, with the UID."""
    reverts: set[str] = field(default_factory=set)
    """Pods whose announced deletion is to be reverted if they still exist."""
    withdrawn: set[str] = field(default_factory=set)
    """Reservations to remove."""
    former: Reservations = field(default_factory=dict)
    """Reservations of a UnitedTopology of the same name that was deleted; restored with the next request."""

    def __bool__(self) -> bool:
        return bool(self.creations or self.deletions or self.reverts or self.withdrawn)

    def take(self) -> PendingBatch:
        """Remove and return everything that is still waited for."""
        taken = PendingBatch(
            {each: request for each, request in self.creations.items() if not request[1].done()},
            {each: request for each, request in self.deletions.items() if not request[1].done()},
            self.reverts,
            self.withdrawn,
            self.former,
        )
        self.creations, self.deletions, self.reverts, self.withdrawn, self.former = {}, {}, set(), set(), {}
        return taken

    def put_back(self, taken: PendingBatch) -> None:
        """Insert what was taken before what has arrived since."""
        self.creations = taken.creations | self.creations
        self.deletions = taken.deletions | self.deletions
        self.reverts |= taken.reverts
        self.withdrawn |= taken.withdrawn
        self.former = {**taken.former, **self.former}

    def answer(self, decision: Decision) -> None:
        """Answer every request with the decision, which has been written."""
        for reservation, (_, creation) in self.creations.items():
            _settle(creation, Assignment(decision.topology, decision.choices.get(reservation)), None)
        for name, (_, deletion) in self.deletions.items():
            _settle(deletion, name in decision.announced, None)

    def reject(self, error: Exception | None) -> None:
        """Answer every request with an error; with None, that there is no UnitedTopology."""
        for _, creation in self.creations.values():
            _settle(creation, None, error)
        for _, deletion in self.deletions.values():
            _settle(deletion, False, error)


def _settle(future: asyncio.Future[T], result: T, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
