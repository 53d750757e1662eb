"""Caches that are limited in number and weight."""

from __future__ import annotations

import pytest

from trimtab.api.bounded_caches import BoundedCache


def test_a_value_is_kept() -> None:
    cache: BoundedCache[str, list[int]] = BoundedCache()
    assert cache.get("a") is None
    made = cache.put("a", [1], 8)
    assert made == [1]
    assert cache.get("a") is made


@pytest.mark.parametrize(
    ("limits", "weight", "most"),
    [
        pytest.param({"entries": 10}, 1, 10, id="by the number of values"),
        pytest.param({"weight": 100}, 10, 10, id="by their weight"),
    ],
)
def test_a_full_cache_is_cleared(limits: dict[str, int], weight: int, most: int) -> None:
    """What is put last is kept."""
    cache: BoundedCache[int, int] = BoundedCache(**limits)
    sizes = []
    for number in range(35):
        cache.put(number, number, weight)
        assert cache.get(number) == number
        sizes.append(len(cache))
    assert max(sizes) == most
    assert sizes.count(1) == 4


def test_a_very_large_value_is_not_kept() -> None:
    """It would leave no room for others."""
    cache: BoundedCache[str, int] = BoundedCache(weight=80)
    assert cache.put("small", 1, 10) == 1
    assert cache.put("large", 2, 11) == 2
    assert (cache.get("small"), cache.get("large")) == (1, None)


def test_a_value_that_is_replaced_weighs_no_longer() -> None:
    """Another one in its place does not fill the cache."""
    cache: BoundedCache[str, int] = BoundedCache(weight=100)
    cache.put("other", 0, 10)
    for number in range(50):
        assert cache.put("same", number, 10) == number
    assert (cache.get("same"), cache.get("other"), len(cache)) == (49, 0, 2)
