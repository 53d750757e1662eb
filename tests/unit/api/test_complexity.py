"""The depth of JSON and its values, and what is removed from text that is too deep, compared with slow twins."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api import complexity
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


def values(value: Any) -> int:
    """The number of values, itself included."""
    if not isinstance(value, (dict, list)):
        return 1
    return 1 + sum(map(values, value.values() if isinstance(value, dict) else value))


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
    assert json.loads(complexity.cut(text, limit)) == shortened(value, limit)
    assert complexity.is_too_deep(text, limit) == (depth(value) > limit)


@settings(deadline=None)
@given(TREES, st.booleans())
def test_values_are_counted(value: Any, is_ascii: bool) -> None:
    """Whatever is in strings; a comma or bracket in a string is none of JSON's."""
    text = json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":")).encode()
    assert complexity.has_more_values(text, values(value) - 1)
    assert not complexity.has_more_values(text, values(value))


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_text_that_is_no_json_is_no_error(text: bytes) -> None:
    """The decoder says what is wrong with it."""
    complexity.cut(text, 2)
    complexity.is_too_deep(text, 2)
    complexity.has_more_values(text, 2)


def test_documents_have_a_limit() -> None:
    """The deepest that is allowed can still be decoded, compared and patched."""
    value: Any = 1
    for _ in range(complexity.MAX_DEPTH):
        value = {"a": value}
    assert Document(value).tree() == value
    with pytest.raises(ValueError, match="is nested more than 128 levels deep; make it flatter"):
        Document({"a": value})
    for _ in range(2000):
        value = {"a": value}
    with pytest.raises(ValueError, match="is nested more than 128 levels deep"):
        Document(value)


def test_documents_have_a_limit_of_values() -> None:
    """Made from values, or from text."""
    most: dict[str, Any] = {"a": [[]] * (complexity.MAX_VALUES - 2)}
    assert Document(most).tree() == most
    with pytest.raises(ValueError, match="has more than 100,000 values; make it smaller"):
        Document({"a": [*most["a"], []]})
    with pytest.raises(ValueError, match="has more than 100,000 values"):
        Document.of_text(json.dumps({"a": [*most["a"], []]}, separators=(",", ":")).encode())
