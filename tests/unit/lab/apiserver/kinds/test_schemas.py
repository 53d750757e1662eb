"""Schemas of custom kinds; their messages are compared with recordings in `test_recordings`."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab_lab.apiserver.kinds.schemas import Schema, patterns, structure
from trimtab_lab.apiserver.kinds.schemas.nodes import Node
from trimtab_lab.apiserver.kinds.schemas.validator import Validator
from trimtab_lab.apiserver.kinds.schemas.value_causes import causes

Tree = dict[str, Any]


def schema(**spec: Any) -> Schema:
    """A schema whose `spec` has these properties."""
    return Schema({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}})


# --- whether a value is valid, and why not ----------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(-4, 4) | st.sampled_from([-0.5, 1.0, 1.5, 2.5])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "x", "aa", "2024-01-01T00:00:00Z", "10.0.0.1", "1h"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
TEXTS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 3),
        "pattern": st.sampled_from(["^a", "x$", "^[a-z]+$"]),
        "format": st.sampled_from(["date-time", "ipv4", "duration", "nonsense", "int32"]),
        "enum": st.lists(st.sampled_from(["x", "aa"]), min_size=1, max_size=2),
        "nullable": st.booleans(),
    },
)
COUNTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": st.integers(-2, 2),
        "exclusiveMinimum": st.booleans(),
        "maximum": st.integers(-2, 3),
        "exclusiveMaximum": st.booleans(),
        "format": st.sampled_from(["int32", "double"]),
        "nullable": st.booleans(),
    },
)
OTHERS = st.sampled_from([{"type": "boolean"}, {"x-kubernetes-int-or-string": True}, {}])


def _composed(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    lists = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={"minItems": st.integers(0, 2), "maxItems": st.integers(0, 3)},
    )
    objects = st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(0, 3),
            "nullable": st.booleans(),
        },
    )
    maps = st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": inner})
    combined = st.fixed_dictionaries(
        {},
        optional={kind: st.lists(inner, min_size=1, max_size=2) for kind in ("allOf", "anyOf", "oneOf")}
        | {"not": inner},
    )
    return lists | objects | maps | combined


SCHEMAS = st.recursive(TEXTS | COUNTS | OTHERS, _composed, max_leaves=6)


@settings(deadline=None, max_examples=300)
@given(SCHEMAS, VALUES)
def test_a_value_has_errors_exactly_if_it_is_not_accepted(given_schema: Tree, value: Any) -> None:
    """The fast answer and the slow one agree, and every error is a cause."""
    subject = Validator(given_schema)
    found = list(causes(subject.errors(value), Node(given_schema), value))
    assert subject.accepts(value) is (found == [])


# --- pruning and defaulting ------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(SCHEMAS, st.dictionaries(NAMES, VALUES, max_size=3))
def test_pruning_and_defaulting_are_idempotent(given_schema: Tree, spec: Tree) -> None:
    """A second time there is nothing left to do."""
    subject = Schema({"type": "object", "properties": {"spec": given_schema}})
    tree = {"metadata": {}, "spec": spec}
    subject.prune(tree)
    subject.default(tree)
    once = copy.deepcopy(tree)
    assert subject.prune(tree) == []
    subject.default(tree)
    assert tree == once


@pytest.mark.parametrize(
    ("spec", "sent", "left", "unknown"),
    [
        pytest.param({"a": {"type": "string"}}, {"a": 1, "b": 2}, {"a": 1}, ["spec.b"], id="an unknown field"),
        pytest.param(
            {"l": {"type": "array", "items": {"type": "object"}}},
            {"l": [{"x": 1}, {"y": 2}]},
            {"l": [{}, {}]},
            ["spec.l[0].x", "spec.l[1].y"],
            id="in a list",
        ),
        pytest.param(
            {"m": {"type": "object", "additionalProperties": {"type": "object"}}},
            {"m": {"any": {"x": 1}}},
            {"m": {"any": {}}},
            ["spec.m.any.x"],
            id="in a map",
        ),
        pytest.param(
            {"f": {"x-kubernetes-preserve-unknown-fields": True, "properties": {"k": {"type": "object"}}}},
            {"f": {"x": {"y": 1}, "k": {"z": 1}}},
            {"f": {"x": {"y": 1}, "k": {}}},
            ["spec.f.k.z"],
            id="what is kept, and what is known below it",
        ),
        pytest.param(
            {"f": {"x-kubernetes-preserve-unknown-fields": True}},
            {"f": [{"x": [1]}]},
            {"f": [{"x": [1]}]},
            [],
            id="a list",
        ),
    ],
)
def test_unknown_fields_are_pruned(spec: Tree, sent: Tree, left: Tree, unknown: list[str]) -> None:
    """Their paths are returned."""
    tree = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": sent}
    assert schema(**spec).prune(tree) == unknown
    assert tree["spec"] == left


@pytest.mark.parametrize(
    ("spec", "sent", "completed"),
    [
        pytest.param({"a": {"type": "integer", "default": 1}}, {}, {"a": 1}, id="what is missing"),
        pytest.param({"a": {"type": "integer", "default": 1}}, {"a": None}, {"a": 1}, id="null counts as missing"),
        pytest.param(
            {"a": {"type": "integer", "default": 1, "nullable": True}},
            {"a": None},
            {"a": None},
            id="unless it is allowed",
        ),
        pytest.param({"a": {"type": "integer"}}, {"a": None}, {}, id="null without a default goes"),
        pytest.param(
            {"o": {"type": "object", "default": {}, "properties": {"i": {"type": "string", "default": "x"}}}},
            {},
            {"o": {"i": "x"}},
            id="defaults in a default",
        ),
        pytest.param(
            {
                "l": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 2}}},
                }
            },
            {"l": [{}, {"n": 3}]},
            {"l": [{"n": 2}, {"n": 3}]},
            id="in a list",
        ),
        pytest.param(
            {"m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"n": {"default": 2}}}}},
            {"m": {"k": {}}},
            {"m": {"k": {"n": 2}}},
            id="in a map",
        ),
        pytest.param(
            {"o": {"type": "object", "properties": {"i": {"default": 1}}}}, {}, {}, id="not below what is missing"
        ),
    ],
)
def test_missing_fields_get_their_defaults(spec: Tree, sent: Tree, completed: Tree) -> None:
    """From the outside in."""
    tree = {"metadata": {}, "spec": sent}
    schema(**spec).default(tree)
    assert tree["spec"] == completed


def test_a_default_is_not_shared() -> None:
    """A change of one object does not change the next."""
    subject = schema(l={"type": "array", "items": {"type": "string"}, "default": []})
    first: Tree = {"spec": {}}
    second: Tree = {"spec": {}}
    subject.default(first)
    first["spec"]["l"].append("x")
    subject.default(second)
    assert second["spec"]["l"] == []


# --- validation ------------------------------------------------------------------------------------------------------


def test_only_changed_values_of_an_update_are_validated() -> None:
    """A value from before the schema got stricter may stay; a changed value must be valid."""
    subject = schema(
        a={"type": "string", "maxLength": 2},
        b={"type": "string"},
        parts={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}},
        },
    )
    old: Tree = {"spec": {"a": "long", "b": "x", "parts": [{"name": "p", "size": "big"}]}}
    new: Tree = {"spec": {"a": "long", "b": "y", "parts": [{"name": "q", "size": 1}, {"name": "p", "size": "big"}]}}
    assert subject.validate(new, old) == []
    assert len(subject.validate(new)) == 2
    new["spec"]["a"] = "longer"
    assert [cause.field for cause in subject.validate(new, old)] == ["spec.a"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(-1, "Invalid value: -1: should be a non-negative integer", id="negative"),
        pytest.param(2**31, "Invalid value: 2147483648: should be less than or equal to 2147483647", id="too many"),
        pytest.param("3", 'Invalid value: "3": accessor error: expected an integer', id="text"),
        pytest.param(None, "Invalid value: null: accessor error: expected an integer", id="null"),
    ],
)
def test_the_replicas_of_a_scale_must_be_counts(value: Any, message: str) -> None:
    """Those that the scale subresource shows."""
    subject = Schema({"type": "object"}, {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"})
    assert [str(cause) for cause in subject.validate({"spec": {"n": value}})] == [f".spec.n: {message}"]


def test_a_version_without_a_schema_accepts_everything() -> None:
    """It can no longer be created, and prunes nothing."""
    subject = Schema(None)
    tree: Tree = {"metadata": {}, "spec": {"x": [1]}}
    assert subject.prune(tree) == []
    assert subject.validate(tree) == []


@pytest.mark.parametrize(
    ("format_", "good", "bad"),
    [
        pytest.param("byte", ["aGk="], ["", "a", "####"], id="base64"),
        pytest.param("date", ["2024-02-29"], ["2023-02-29", "20240101", "2024-1-1"], id="dates"),
        pytest.param("date-time", ["2024-01-01T00:00:00Z", "2024-01-01t00:00:00.5+01:00"], ["2024-01-01"], id="times"),
        pytest.param(
            "duration", ["1h", "1h30m", "1.5s", "-1s", "0", "22 ns", "3 weeks"], ["1", "h", ""], id="durations"
        ),
        pytest.param("ipv4", ["10.0.0.1"], ["::1", "10.0.0", "010.0.0.1"], id="IPv4"),
        pytest.param("ipv6", ["::1"], ["10.0.0.1", "fe80::1%eth0"], id="IPv6"),
    ],
)
def test_formats_are_checked(format_: str, good: list[str], bad: list[str]) -> None:
    """As in Kubernetes."""
    subject = Validator({"type": "string", "format": format_})
    assert [text for text in good if not subject.accepts(text)] == []
    assert [text for text in bad if subject.accepts(text)] == []


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        pytest.param("^a", "ab", "ba", id="an anchor"),
        pytest.param("b", "abc", "ac", id="anywhere"),
        pytest.param(r"\Aa\z", "a", "aa", id="the ends of the text"),
        pytest.param("(?P<name>a)b", "ab", "a", id="a named group"),
        pytest.param("(?i)abc", "ABC", "ab", id="a flag at the start"),
        pytest.param("^x(?i)abc$", "xABC", "XABC", id="a flag in the middle"),
        pytest.param("^(a(?i)b|c)d$", "aBd", "aBD", id="a flag in a group"),
        pytest.param("^[[:alpha:]_]+$", "aB_", "a1", id="a class of POSIX"),
        pytest.param(r"^\pL+$", "äb", "a1", id="letters of all scripts"),
        pytest.param(r"^\Qa.b\E$", "a.b", "axb", id="quoted text"),
        pytest.param(r"^\d+$", "12", "１２", id="digits"),
    ],
)
def test_a_pattern_is_read_as_go_reads_it(pattern: str, good: str, bad: str) -> None:
    """Although the matcher has another syntax."""
    subject = Validator({"type": "string", "pattern": pattern})
    assert (subject.accepts(good), subject.accepts(bad)) == (True, False)


@pytest.mark.parametrize("pattern", ["[", "(", "a{2,1}", "[[:nope:]]", r"(?=a)"])
def test_an_invalid_pattern_is_rejected(pattern: str) -> None:
    """When the definition is created."""
    with pytest.raises(ValueError, match=re.escape(pattern)):
        patterns.rewritten(pattern)


def test_unknown_formats_are_not_checked() -> None:
    """An unknown one, or one for another type."""
    assert Validator({"type": "string", "format": "nonsense"}).accepts("x")
    assert Validator({"type": "string", "format": "regex"}).accepts("(")
    assert Validator({"type": "integer", "format": "date-time"}).accepts(1)


# --- what a definition may hold --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        pytest.param(
            {"x-kubernetes-validations": [{"rule": "self.x > 0"}]},
            "s.x-kubernetes-validations: Forbidden: this API server evaluates no CEL: "
            "say it with the keywords of OpenAPI, or in a validating webhook",
            id="rules that the lab cannot evaluate",
        ),
        pytest.param({"$ref": "#/x"}, "s.$ref: Forbidden: $ref is not supported", id="references"),
        pytest.param(
            {"properties": {"metadata": {"type": "object", "default": {}}}},
            "s.properties[metadata].default: Forbidden: must not be set in top-level metadata",
            id="defaults of metadata",
        ),
        pytest.param(
            {"allOf": [{"properties": {"a": {"minLength": 1}}}]},
            "s.properties[a]: Required value: because it is defined in s.allOf[0].properties[a]",
            id="a field that is only spoken of",
        ),
        pytest.param(
            {"additionalProperties": {"type": "string"}},
            "s.additionalProperties: Forbidden: must not be used at the root",
            id="a map at the root",
        ),
    ],
)
def test_an_invalid_schema_is_rejected(extra: Tree, message: str) -> None:
    """With the path of the error."""
    assert message in [str(cause) for cause in structure.faults({"type": "object", **extra}, "s")]


@pytest.mark.parametrize(
    "field",
    [
        pytest.param({"x-kubernetes-int-or-string": True}, id="a number or text"),
        pytest.param(
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, id="said twice"
        ),
        pytest.param({"x-kubernetes-preserve-unknown-fields": True}, id="anything"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]}, id="narrowed"
        ),
        pytest.param({"type": "string", "pattern": r"^[[:alpha:]\pL]\d+(?P<x>a)?\z"}, id="an expression of Go"),
    ],
)
def test_a_valid_schema_is_accepted(field: Tree) -> None:
    """Shapes that real definitions have."""
    assert structure.faults({"type": "object", "properties": {"spec": field}}, "s") == []
