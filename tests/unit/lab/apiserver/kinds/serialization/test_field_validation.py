"""Repeated keys and unknown fields."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab_lab.apiserver.kinds.serialization import field_validation

TEXT = st.text(alphabet='ab":\\ \n{}', max_size=6)
JSON = st.recursive(
    st.none() | st.integers(0, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(TEXT, JSON, max_size=4), st.sampled_from([None, 1, 4]), st.sampled_from([":", ": ", " : "]))
def test_a_body_without_repeated_keys_has_none(tree: dict[str, Any], indent: int | None, colon: str) -> None:
    """Whatever its formatting and the texts in it."""
    body = json.dumps(tree, indent=indent, separators=(",", colon)).encode()
    assert field_validation.repeated_fields(body, msgspec.json.decode(body)) == []


@settings(deadline=None)
@given(st.dictionaries(TEXT, JSON, max_size=3), st.sampled_from([":", ": ", " : "]))
def test_a_repeated_key_is_found(tree: dict[str, Any], colon: str) -> None:
    """Even where the counts could cancel out."""
    inner = json.dumps(tree, separators=(",", colon))
    body = f'{{"again"{colon}1,"deep"{colon}{{"again"{colon}{inner},"again"{colon}2}},"again"{colon}3}}'.encode()
    assert field_validation.repeated_fields(body, msgspec.json.decode(body)) == [
        'duplicate field "again"',
        'duplicate field "deep.again"',
    ]


def test_problems_are_in_the_order_of_the_body() -> None:
    """Unknown and repeated fields together; below an unknown field nothing is checked."""
    body = (
        b'{"spec":{"zeta":{"a":1,"a":2},"replicas":1,"replicas":2},"alpha":1,"metadata":{"labels":{"a":"1","a":"2"}}}'
    )
    assert field_validation.read("apps/v1 Deployment", msgspec.json.decode(body), body) == [
        'unknown field "spec.zeta"',
        'duplicate field "spec.replicas"',
        'unknown field "alpha"',
        'duplicate field "metadata.labels.a"',
    ]


def test_without_a_body_only_unknown_fields_are_reported() -> None:
    """After a patch there is no text to search for repeated keys."""
    assert field_validation.read("v1 ConfigMap", {"date": {}}) == ['unknown field "date"']


def test_at_most_a_hundred_distinct_problems_are_reported() -> None:
    """A body with a million unknown fields gets a short response."""
    assert field_validation.unknown_fields(["a", "a", "b"]) == ['unknown field "a"', 'unknown field "b"']
    assert len(field_validation.unknown_fields([f"f{index}" for index in range(1000)])) == field_validation.MOST


@pytest.mark.parametrize(
    ("body", "repeats"),
    [
        pytest.param(b'{"a":1,"b":2}', False, id="plain"),
        pytest.param(b'{"a":1,"a":2}', True, id="twice"),
        pytest.param(b'{"a" :1,"b":2}', True, id="spaces before a colon cannot be counted"),
        pytest.param(b'{"a":"\\":"}', False, id="a colon in a text"),
        pytest.param(b'{"a":1,"a" :"\\":"}', True, id="a text that would make up for a repeated key"),
    ],
)
def test_counting_never_misses_a_repeated_key(body: bytes, repeats: bool) -> None:
    """It may send a valid body to the slow check, but not the reverse."""
    assert field_validation.has_repeats(body, msgspec.json.decode(body)) is repeats
