"""Compiled label selectors of cached objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trimtab.api import compiled_selectors, selectors
from trimtab.api.bounded_caches import BoundedCache
from trimtab.api.compiled_selectors import compiled, compiled_or_nothing
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector, LabelSelectorRequirement
from trimtab.api.selectors import NOTHING, Selector


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[LabelSelector | None]:
    """The selectors that are compiled."""
    found: list[LabelSelector | None] = []
    original: Callable[[LabelSelector | None], Selector] = selectors.compile

    def counted(selector: LabelSelector | None) -> Selector:
        found.append(selector)
        return original(selector)

    monkeypatch.setattr(selectors, "compile", counted)
    return found


def test_a_selector_is_compiled_once(compilations: list[Any]) -> None:
    """As long as it exists; an equal one of another object is compiled for itself."""
    web, other = (LabelSelector(match_labels={"app": "web"}) for _ in range(2))
    assert compiled(web) is compiled(web)
    assert len(compilations) == 1
    assert compiled(other) == compiled(web)
    assert len(compilations) == 2


def test_an_invalid_selector_is_compiled_once_and_raises_each_time(compilations: list[Any]) -> None:
    """With the path; where no error is wanted, it matches nothing."""
    wrong = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Is"),))
    for _ in range(2):
        with pytest.raises(InvalidError) as caught:
            compiled(wrong)
        assert caught.value.path == "matchExpressions[0].operator"
        assert compiled_or_nothing(wrong) is NOTHING
    assert len(compilations) == 1


def test_an_absent_selector_matches_nothing() -> None:
    """As where it is compiled."""
    assert compiled(None) is NOTHING


def test_what_is_kept_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes, and each selector has its own result whatever was forgotten meanwhile."""
    monkeypatch.setattr(compiled_selectors, "_kept", BoundedCache(weight=16 * 1024))
    for at in range(200):
        written = LabelSelector(match_labels={"app": f"web-{at}", "tier": "x"})
        assert str(compiled(written)) == f"app=web-{at},tier=x"
        assert len(compiled_selectors._kept) <= 16  # noqa: SLF001
        del written


def test_a_selector_with_a_very_long_value_is_not_kept(compilations: list[Any]) -> None:
    """Its error quotes the value."""
    wrong = LabelSelector(match_labels={"app": "x" * (8 << 20)})
    for _ in range(2):
        with pytest.raises(InvalidError, match="matchLabels"):
            compiled(wrong)
    assert len(compilations) == 2
