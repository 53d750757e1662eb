"""JSON patches are applied as RFC 6902 says, refused by operation and member, and computed from two documents."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.errors import InvalidError
from trimtab.api.patches import diff, json_patch


def op(name: str, path: Any, **members: Any) -> dict[str, Any]:
    """An operation; `source` stands for `from`, which is a keyword."""
    if "source" in members:
        members["from"] = members.pop("source")
    return {"op": name, "path": path, **members}


@pytest.mark.parametrize(
    ("document", "operations", "want"),
    [
        pytest.param({"a": 1}, [], {"a": 1}, id="no operation changes nothing"),
        pytest.param({"a": 1}, [op("add", "/b", value=2)], {"a": 1, "b": 2}, id="add a field"),
        pytest.param({"a": 1}, [op("add", "/a", value=2)], {"a": 2}, id="add replaces a field"),
        pytest.param([1, 3], [op("add", "/1", value=2)], [1, 2, 3], id="add into a list"),
        pytest.param([1], [op("add", "/-", value=2)], [1, 2], id="add to the end of a list"),
        pytest.param({"a": 1}, [op("add", "", value=[2])], [2], id="add replaces the document"),
        pytest.param({"a/b": 1, "c~d": 2}, [op("remove", "/a~1b"), op("remove", "/c~0d")], {}, id="escaped names"),
        pytest.param({"": 1}, [op("replace", "/", value=None)], {"": None}, id="the empty name is a name"),
        pytest.param([1, 2, 3], [op("remove", "/1")], [1, 3], id="remove from a list"),
        pytest.param({"a": [1], "b": 2}, [op("move", "/a/0", source="/b")], {"a": [2, 1]}, id="move"),
        pytest.param({"a": [1]}, [op("copy", "/b", source="/a")], {"a": [1], "b": [1]}, id="copy"),
        pytest.param(
            {"a": {"b": [1, None]}}, [op("test", "/a", value={"b": [1, None]})], {"a": {"b": [1, None]}}, id="test"
        ),
        pytest.param(
            {},
            [
                op("add", "/a", value={}),
                op("add", "/a/b", value=1),
                op("copy", "/c", source="/a"),
                op("remove", "/a/b"),
            ],
            {"a": {}, "c": {"b": 1}},
            id="each works on what the one before left",
        ),
    ],
)
def test_applies(document: Any, operations: list[Any], want: Any) -> None:
    """The operations turn the one document into the other."""
    assert json_patch(document, operations) == want


@pytest.mark.parametrize(
    ("operations", "path", "reason"),
    [
        pytest.param({}, "", "a JSON patch must be a list of operations, not an object", id="no list"),
        pytest.param(["add"], "[0]", "must be an object, not a string", id="a word"),
        pytest.param([{}], "[0].op", "must be one of add, copy, move, remove, replace, test, not null", id="no op"),
        pytest.param([op("merge", "/a")], "[0].op", 'not "merge"', id="an unknown op"),
        pytest.param(
            [op("test", "/s", value="text"), {"op": "remove"}], "[1].path", "is missing; remove needs it", id="no path"
        ),
        pytest.param([op("add", "/a")], "[0].value", "is missing; add needs it", id="no value"),
        pytest.param([op("move", "/a")], "[0].from", "is missing; move needs it", id="no from"),
        pytest.param([op("remove", 1)], "[0].path", "must be a string, not an integer", id="a path that is no text"),
        pytest.param([op("remove", "list")], "[0].path", '"list" is not a JSON pointer', id="a path without a slash"),
        pytest.param([op("remove", "/a~2")], "[0].path", '"/a~2" is not a JSON pointer', id="a path with a bad escape"),
        pytest.param([op("remove", "/z")], "[0].path", '"/z" does not exist', id="remove what is not there"),
        pytest.param([op("remove", "/list/2")], "[0].path", '"/list/2" does not exist', id="remove beyond the end"),
        pytest.param([op("remove", "/list/-")], "[0].path", '"/list/-" does not exist', id="remove the end"),
        pytest.param([op("replace", "/z", value=1)], "[0].path", '"/z" does not exist', id="replace what is not there"),
        pytest.param([op("replace", "/list/-1", value=1)], "[0].path", "does not exist", id="an index from the end"),
        pytest.param([op("replace", "/list/01", value=1)], "[0].path", "does not exist", id="an index with a zero"),
        pytest.param([op("replace", f"/list/{'9' * 5000}", value=1)], "[0].path", "does not exist", id="a huge index"),
        pytest.param([op("copy", "/b", source="/z")], "[0].from", '"/z" does not exist', id="copy what is not there"),
        pytest.param([op("add", "/z/y", value=1)], "[0].path", "is not in an object or a list", id="add to nothing"),
        pytest.param([op("add", "/s/0", value=1)], "[0].path", "is not in an object or a list", id="add to a text"),
        pytest.param([op("add", "/list/3", value=1)], "[0].path", "outside of list", id="add beyond the end"),
        pytest.param([op("add", "/list/x", value=1)], "[0].path", "not a valid sequence index", id="a name in a list"),
        pytest.param([op("move", "/o/p/q", source="/o")], "[0].path", "own children", id="move into itself"),
        pytest.param([op("remove", "")], "[0].path", '"" cannot be used', id="remove the document"),
        pytest.param(
            [op("test", "/s", value="other")], "[0].value", 'is not what the document has at "/s"', id="a test fails"
        ),
        pytest.param([op("test", "/z", value=None)], "[0].path", '"/z" does not exist', id="a test of nothing"),
    ],
)
def test_refuses(operations: Any, path: str, reason: str) -> None:
    """What cannot be applied is refused with the operation, its member and the reason."""
    document = {"list": [1, 2], "s": "text", "o": {"p": {}}}
    with pytest.raises(InvalidError) as caught:
        json_patch(document, operations)
    assert caught.value.path == path
    assert reason in caught.value.reason
    assert len(caught.value.reason) < 200


def test_nothing_is_applied_if_the_last_operation_fails() -> None:
    """A patch is applied as a whole, or the document stays as it was."""
    document = {"a": [1]}
    with pytest.raises(InvalidError):
        json_patch(document, [op("add", "/a/-", value=2), op("remove", "/b")])
    assert document == {"a": [1]}


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param({"a": [1, {}]}, {"a": [1, {}]}, [], id="the same"),
        pytest.param({}, {"a/b": {"c": 1}}, [op("add", "/a~1b", value={"c": 1})], id="a new field"),
        pytest.param({"a~b": 1}, {}, [op("remove", "/a~0b")], id="a field less"),
        pytest.param(
            {"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [op("replace", "/a/c", value=3)], id="a new value"
        ),
        pytest.param({"a": None}, {"a": {}}, [op("replace", "/a", value={})], id="a value of another kind"),
        pytest.param([{"a": 1}, 2], [{"a": 3}, 2], [op("replace", "/0/a", value=3)], id="lists of one length"),
        pytest.param(
            {"a": [1]}, {"a": [1, 2]}, [op("replace", "/a", value=[1, 2])], id="a list that grows is replaced"
        ),
        pytest.param({"a": 1}, {"a": True}, [op("replace", "/a", value=True)], id="one is not true"),
        pytest.param({"a": 1}, {"a": 1.0}, [op("replace", "/a", value=1.0)], id="an integer is not a fraction"),
        pytest.param(1, [], [op("replace", "", value=[])], id="whole documents"),
    ],
)
def test_differs(before: Any, after: Any, want: list[Any]) -> None:
    """The difference is said in as few and plain operations as it needs."""
    assert diff(before, after) == want


def branches(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "", "/", "~1", "0", "-"])
    return st.lists(children, max_size=4) | st.dictionaries(names, children, max_size=4)


LEAVES = st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from([0.0, 1.5, "", "a", "1"])
TREES = st.recursive(LEAVES, branches, max_leaves=15)
POINTERS = st.lists(st.sampled_from(["a", "b", "", "~1", "~01", "0", "1", "-"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])},
    optional={"path": POINTERS | TREES, "from": POINTERS | TREES, "value": TREES},
)


def typed(value: Any) -> Any:
    """The value such that 1, 1.0 and true are three."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return [typed(item) for item in value] if isinstance(value, list) else (type(value), value)


@given(TREES, TREES)
def test_a_difference_leads_from_one_document_to_the_other(before: Any, after: Any) -> None:
    """To apply the difference gives the second document, down to the kind of its numbers."""
    unchanged = copy.deepcopy((before, after))
    assert typed(json_patch(before, diff(before, after))) == typed(after)
    assert (before, after) == unchanged


@given(TREES, st.lists(OPERATIONS | TREES, max_size=4) | TREES)
def test_any_json_is_applied_or_refused(document: Any, operations: Any) -> None:
    """Whatever the patch is, there is a result or an `InvalidError`, and nothing is changed in place."""
    before = copy.deepcopy((document, operations))
    with contextlib.suppress(InvalidError):
        json_patch(document, operations)
    assert (document, operations) == before


def test_deeply_nested_documents_are_refused() -> None:
    """Depth is input like any other: it is refused, not crashed on."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidError, match="nested too deeply"):
        json_patch(deep, [])
    with pytest.raises(InvalidError, match="nested too deeply"):
        diff([], [deep])
