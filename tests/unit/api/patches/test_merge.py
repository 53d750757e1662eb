"""A JSON merge patch gives what RFC 7386 says, and what a Kubernetes API server makes of it."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.errors import InvalidError
from trimtab.api.patches import json_merge


@pytest.mark.parametrize(
    ("original", "patch", "want"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="a new field is added"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="a field is replaced"),
        pytest.param({"a": 1, "b": 2}, {"a": None, "c": None}, {"b": 2}, id="null deletes a field, if it is there"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}, id="objects are merged"),
        pytest.param({"a": [{"b": 1}]}, {"a": [2]}, {"a": [2]}, id="lists are replaced"),
        pytest.param({"a": 1}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}, id="a new object has no nulls"),
        pytest.param({"a": None}, {"a": {"b": None}}, {"a": {}}, id="null is like nothing"),
        pytest.param({"a": None}, {}, {"a": None}, id="a null that is not patched stays"),
        pytest.param({}, {"a": [None, {"b": None}]}, {"a": [None, {}]}, id="objects in a new list have no nulls"),
        pytest.param(
            {"a": {}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}, id="but where the list replaces an object they do"
        ),
        pytest.param([1], {"a": {"b": None}}, {"a": {}}, id="what is no object is replaced"),
        pytest.param(None, {"a": 1}, {"a": 1}, id="nothing becomes the patch"),
    ],
)
def test_merges(original: Any, patch: Any, want: Any) -> None:
    """The patch turns the one into the other."""
    assert json_merge(original, patch) == want


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        pytest.param(None, "the patch must be an object, not null", id="null"),
        pytest.param([{}], "the patch must be an object, not a list", id="a list"),
        pytest.param(2**70, "the patch must be an object, not a number", id="a number"),
    ],
)
def test_refuses(patch: Any, reason: str) -> None:
    """A patch that would replace the whole object by something else is refused."""
    with pytest.raises(InvalidError) as caught:
        json_merge({}, patch)
    assert str(caught.value) == reason


def test_deeply_nested_documents_are_refused() -> None:
    """Depth is input like any other: it is refused, not crashed on."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(InvalidError, match="nested too deeply"):
        json_merge({}, deep)


def branches(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(children, max_size=3) | st.dictionaries(st.sampled_from("abc"), children, max_size=3)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
TREES = st.recursive(LEAVES, branches, max_leaves=12)
OBJECTS = st.dictionaries(st.sampled_from("abc"), TREES)


@given(TREES, TREES)
def test_any_json_is_merged_or_refused(original: Any, patch: Any) -> None:
    """Whatever the documents are, there is a result or an `InvalidError`, and they stay as they were."""
    before = copy.deepcopy((original, patch))
    with contextlib.suppress(InvalidError):
        json_merge(original, patch)
    assert (original, patch) == before


@given(OBJECTS)
def test_an_empty_patch_changes_nothing(original: dict[str, Any]) -> None:
    """The result of an empty patch is the original."""
    assert json_merge(original, {}) == original


@given(OBJECTS, OBJECTS)
def test_a_patch_can_be_sent_again(original: dict[str, Any], patch: dict[str, Any]) -> None:
    """After the second time at the latest (the first may leave nulls in a list) the same patch changes nothing."""
    twice = json_merge(json_merge(original, patch), patch)
    assert json_merge(twice, patch) == twice
