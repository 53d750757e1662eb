"""Validation of large UnitedTopologies: outside the event loop, and once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.unit.unitedtopology.clusters import subset, topology_tree
from trimtab.api import codec, unitedtopology
from trimtab.api.documents import JSON
from trimtab.api.unitedtopology import UnitedTopology, validation
from trimtab.api.unitedtopology.validation import _subset_problems
from trimtab.kube.caches import Cache
from trimtab.unitedtopology.validation import BackgroundValidation, validate_large


def patched(size: int, salt: str = "x") -> JSON:
    """A subset with a patch of so many bytes."""
    return {**subset("a", "z1", 5), "patch": {"metadata": {"annotations": {"note": salt * size}}}}


def topology(*subsets: JSON) -> UnitedTopology:
    """A UnitedTopology with these subsets."""
    return codec.convert(topology_tree(*subsets), UnitedTopology)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads in which subsets are validated."""
    found: list[str] = []

    def watched(*arguments: Any) -> Any:
        found.append(threading.current_thread().name)
        return _subset_problems(*arguments)

    monkeypatch.setattr(validation, "_subset_problems", watched)
    monkeypatch.setattr(validation, "_KNOWN", {})
    return found


async def test_a_large_one_is_validated_in_another_thread_and_then_known(threads: list[str]) -> None:
    """So that the event loop goes on."""
    await validate_large(topology(patched(20_000)))
    assert len(threads) == 1
    assert threads != ["MainThread"]
    assert not list(unitedtopology.problems(topology(patched(20_000))))
    assert len(threads) == 1


async def test_a_small_one_is_not_validated_ahead(threads: list[str]) -> None:
    """It takes less time than a thread."""
    await validate_large(topology(patched(100)))
    assert threads == []


class StubCache:
    """A cache that reports what a test says."""

    def subscribe(
        self, *, added: Callable[[UnitedTopology], None], updated: Callable[[UnitedTopology, UnitedTopology], None]
    ) -> None:
        """Remember the functions."""
        self.added, self.updated = added, updated


def generation(number: int, *subsets: JSON) -> UnitedTopology:
    """A generation of a UnitedTopology."""
    tree = topology_tree(*subsets)
    tree["metadata"] |= {"uid": "one", "generation": number}
    return codec.convert(tree, UnitedTopology)


async def test_a_large_one_is_validated_when_it_appears_and_when_its_spec_changes(threads: list[str]) -> None:
    """In the background; until its end it is known to be running."""
    cache = StubCache()
    background = BackgroundValidation(cast("Cache[UnitedTopology]", cache))
    first, second = generation(1, patched(20_000)), generation(2, patched(20_000, "y"))
    cache.added(first)
    assert [background.is_running(each) for each in (first, second)] == [True, False]
    while background.is_running(first):
        await asyncio.sleep(0.001)
    assert len(threads) == 1
    cache.updated(first, generation(1, patched(20_000)))
    assert not background.is_running(first), "only its status has changed"
    cache.updated(first, second)
    assert [background.is_running(each) for each in (first, second)] == [False, True]
    await background.wait(first)
    assert background.is_running(second), "another generation is not waited for"
    await background.wait(second)
    assert not background.is_running(second)
    assert len(threads) == 2
    assert "MainThread" not in threads


async def test_a_small_one_is_not_validated_in_the_background(threads: list[str]) -> None:
    """Its result is computed where it is needed."""
    cache = StubCache()
    background = BackgroundValidation(cast("Cache[UnitedTopology]", cache))
    cache.added(generation(1, patched(100)))
    assert not background.is_running(generation(1, patched(100)))
    assert threads == []


def test_a_subset_is_validated_once_for_the_same_allowed_fields(threads: list[str]) -> None:
    """Another subset, and other fields, are not the same."""
    for _ in range(2):
        list(unitedtopology.problems(topology(patched(10))))
    assert len(threads) == 1
    list(unitedtopology.problems(topology(patched(10, salt="y"))))
    list(unitedtopology.problems(topology(patched(10)), allowed_fields=["hostNetwork"]))
    assert len(threads) == 3


def test_errors_of_a_known_subset_have_its_place(threads: list[str]) -> None:
    """Which may be another one each time."""
    wrong = {**subset("b", "z1", 5), "patch": {"status": {}}}
    for subsets, place in (([wrong], 0), ([subset("a", "z1", 5), wrong], 1)):
        (problem,) = unitedtopology.problems(topology(*subsets))
        assert problem.path == f"spec.subsets[{place}].patch.status"
    assert len(threads) == 2


def test_what_is_known_is_limited(threads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """So is the number of errors of one subset."""
    known: dict[Any, Any] = {}
    monkeypatch.setattr(validation, "_KNOWN", known)
    monkeypatch.setattr(validation, "_MOST_KNOWN", 2)
    for size in range(1, 6):
        list(unitedtopology.problems(topology(patched(size))))
    assert 1 <= len(known) <= 2
    many = {**subset("a", "z1", 5), "patch": {f"field{number}": 1 for number in range(50)}}
    assert len(list(unitedtopology.problems(topology(many)))) == 20
    assert len(threads) == 6
