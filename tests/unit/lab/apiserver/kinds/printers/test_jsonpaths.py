"""The JSONPath of printer columns."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab_lab.apiserver.kinds.printers.jsonpaths import JSONPath

TREE = {
    "metadata": {"labels": {"a.b/c": "label"}, "name": "n"},
    "items": [{"type": "A", "n": 1}, {"type": "B", "n": 2, "deep": {"name": "d"}}],
    "empty": [],
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param(".metadata.name", ["n"], id="a field"),
        pytest.param("{.metadata.name}", ["n"], id="in braces"),
        pytest.param("$.metadata.name", ["n"], id="from the root"),
        pytest.param(".metadata.labels['a.b/c']", ["label"], id="a quoted key"),
        pytest.param(r".metadata.labels.a\.b/c", ["label"], id="an escaped dot"),
        pytest.param(".items[0].n", [1], id="an index"),
        pytest.param(".items[-1].n", [2], id="from the end"),
        pytest.param(".items[5].n", [], id="beyond the end"),
        pytest.param(".items[*].n", [1, 2], id="all"),
        pytest.param(".items.*.n", [1, 2], id="all, with a dot"),
        pytest.param(".items[0:1].type", ["A"], id="a slice"),
        pytest.param('.items[?(@.type=="B")].n', [2], id="a filter"),
        pytest.param(".items[?(@.type=='B')].n", [2], id="a filter in single quotes"),
        pytest.param(".items[?(@.n>1)].type", ["B"], id="a comparison"),
        pytest.param(".items[?(@.deep)].type", ["B"], id="what has a field"),
        pytest.param(".items[?(@.type>1)].n", [], id="what cannot be compared"),
        pytest.param("..name", ["n", "d"], id="anywhere below"),
        pytest.param(".missing.name", [], id="what is not there"),
        pytest.param(".metadata.name.more", [], id="below a text"),
        pytest.param(".empty[*].x", [], id="in an empty list"),
    ],
)
def test_a_path_finds(path: str, found: list[Any]) -> None:
    """All values at the path, in order; a missing field has none."""
    assert JSONPath(path).find(TREE) == found


@pytest.mark.parametrize("path", ["nodot", ".a[", ".a[?(]", ".a b"])
def test_an_invalid_path_is_an_error(path: str) -> None:
    """When the definition is created, not when a table is printed."""
    with pytest.raises(ValueError, match="unrecognized"):
        JSONPath(path)
