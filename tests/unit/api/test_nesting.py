"""The depth of JSON, and what is removed from text that is too deep, compared with a slow twin."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api import nesting
from trimtab.api.documents import Document

STRINGS = st.text(alphabet='a"\\[]{},:é', max_size=5)
TREES = st.recursive(
    st.one_of(st.none(), st.integers(), STRINGS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(STRINGS, inner, max_size=3)),
    max_leaves=40,
)


def depth(value: Any) -> int:
    """The number of levels."""
    if not isinstance(value, (dict, list)):
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)


def shortened(value: Any, limit: int) -> Any:
    """The value with 0 for what is below so many levels."""
    if not isinstance(value, (dict, list)):
        return value
    if limit == 0:
        return 0
    if isinstance(value, dict):
        return {name: shortened(part, limit - 1) for name, part in value.items()}
    return [shortened(part, limit - 1) for part in value]


@settings(deadline=None)  # the first call imports numpy
@given(TREES, st.integers(1, 6), st.booleans())
def test_levels_below_a_limit_are_removed(value: Any, limit: int, is_ascii: bool) -> None:
    """And nothing else, whatever is in strings."""
    text = json.dumps(value, ensure_ascii=is_ascii).encode()
    assert json.loads(nesting.cut(text, limit)) == shortened(value, limit)
    assert nesting.is_too_deep(text, limit) == (depth(value) > limit)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_text_that_is_no_json_is_no_error(text: bytes) -> None:
    """The decoder says what is wrong with it."""
    nesting.cut(text, 2)
    nesting.is_too_deep(text, 2)


def test_documents_have_a_limit() -> None:
    """The deepest that is allowed can still be decoded, compared and patched."""
    value: Any = 1
    for _ in range(nesting.MAX_DEPTH):
        value = {"a": value}
    assert Document(value).tree() == value
    with pytest.raises(ValueError, match="is nested more than 128 levels deep; make it flatter"):
        Document({"a": value})
    for _ in range(2000):
        value = {"a": value}
    with pytest.raises(ValueError, match="is nested more than 128 levels deep"):
        Document(value)
