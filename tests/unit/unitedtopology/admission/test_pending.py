"""Pending requests of one UnitedTopology: taken once, put back in order, and answered."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.unitedtopology.admission.test_status_batcher import topology
from trimtab.api import codec
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.subsets.allocation import PodCreation
from trimtab.unitedtopology.admission.pending import Assignment, Decision, PendingBatch


def add(batch: PendingBatch, *reservations: str) -> list[asyncio.Future[Assignment | None]]:
    """Add creations, and return their futures."""
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[Assignment | None]] = [loop.create_future() for _ in reservations]
    for reservation, future in zip(reservations, futures, strict=True):
        batch.creations[reservation] = (PodCreation(reservation, "r1"), future)
    return futures


async def test_taking_empties_the_batch() -> None:
    """Requests that are cancelled already are left out."""
    batch = PendingBatch(reverts={"p"}, withdrawn={"w"})
    cancelled, _ = add(batch, "a", "b")
    cancelled.cancel()
    taken = batch.take()
    assert not batch
    assert (list(taken.creations), taken.reverts, taken.withdrawn) == (["b"], {"p"}, {"w"})


async def test_what_is_put_back_comes_before_what_has_arrived_since() -> None:
    """After a conflict the order of arrival still holds."""
    batch = PendingBatch()
    add(batch, "a", "b")
    taken = batch.take()
    add(batch, "c")
    batch.withdrawn.add("w")
    taken.withdrawn.add("x")
    batch.put_back(taken)
    assert list(batch.creations) == ["a", "b", "c"]
    assert batch.withdrawn == {"w", "x"}


async def test_every_request_is_answered() -> None:
    """With its subset, with None where there is none, and whether its deletion was announced."""
    batch = PendingBatch()
    first, second = add(batch, "a", "b")
    announced: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    ignored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    batch.deletions = {"p": ("", announced), "q": ("", ignored)}
    of = codec.convert(topology(1), UnitedTopology)
    batch.answer(Decision(of, {"a": 0, "b": None}, frozenset({"p"})))
    assert (first.result(), second.result()) == (Assignment(of, 0), Assignment(of, None))
    assert (announced.result(), ignored.result()) == (True, False)


async def test_a_rejected_batch_raises_its_error_or_returns_none() -> None:
    """None where the UnitedTopology does not exist."""
    gone, failed = PendingBatch(), PendingBatch()
    (without,) = add(gone, "a")
    (error,) = add(failed, "a")
    gone.reject(None)
    failed.reject(ValueError("no token"))
    assert without.result() is None
    with pytest.raises(ValueError, match="no token"):
        error.result()


def deletions(batch: PendingBatch, *names: str) -> list[asyncio.Future[bool]]:
    """Add deletions, and return their futures."""
    futures: list[asyncio.Future[bool]] = [asyncio.get_running_loop().create_future() for _ in names]
    batch.deletions |= {name: (f"uid-{name}", future) for name, future in zip(names, futures, strict=True)}
    return futures


async def test_a_batch_is_empty_only_without_any_request() -> None:
    """Whatever kind of request it is."""
    creation, deletion = PendingBatch(), PendingBatch()
    add(creation, "a")
    deletions(deletion, "p")
    assert not PendingBatch()
    assert all([creation, deletion, PendingBatch(reverts={"p"}), PendingBatch(withdrawn={"w"})])


async def test_deletions_are_taken_and_put_back_like_creations() -> None:
    """Those that nobody waits for any more are left out; reverts are kept."""
    batch = PendingBatch(reverts={"x"})
    cancelled, _ = deletions(batch, "p", "q")
    cancelled.cancel()
    taken = batch.take()
    assert (list(taken.deletions), batch.deletions, batch.reverts) == (["q"], {}, set())
    deletions(batch, "r")
    batch.reverts.add("y")
    batch.put_back(taken)
    assert (list(batch.deletions), batch.reverts) == (["q", "r"], {"x", "y"})


async def test_a_rejected_deletion_was_not_announced_or_has_its_error() -> None:
    """A request that was answered or cancelled before stays as it is."""
    gone, failed = PendingBatch(), PendingBatch()
    without, cancelled = deletions(gone, "p", "q")
    (error,) = deletions(failed, "p")
    cancelled.cancel()
    gone.reject(None)
    failed.reject(ValueError("no token"))
    assert without.result() is False
    assert cancelled.cancelled()
    with pytest.raises(ValueError, match="no token"):
        error.result()
