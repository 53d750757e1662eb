"""Trees as Go's types read and write them."""

from __future__ import annotations

import copy
import json
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab_lab.apiserver.kinds.serialization import wiretypes
from trimtab_lab.apiserver.kinds.serialization.wirevalues import WrongTypeError

Tree = dict[str, Any]

TABLE = json.loads(
    (resources.files("trimtab_lab.apiserver.kinds.serialization") / "wiretypes.json").read_text(encoding="utf-8")
)
STRUCTS = {name: fields for name, fields in TABLE["types"].items() if isinstance(fields, dict)}


def published() -> dict[str, Tree]:
    """The schemas that Kubernetes publishes, by the names of the table."""
    folder = resources.files("kubernetes_validate") / "kubernetes-json-schema" / "v1.36.0-local"
    definitions = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
    return {".".join(name.split(".")[-3:]): schema for name, schema in definitions.items()}


def test_the_table_has_the_published_fields() -> None:
    """The table is read from Go; the schemas that are published for the same version have the same fields."""
    schemas = published()
    compared = {name: set(fields) for name, fields in STRUCTS.items() if name in schemas}
    assert len(compared) > 280
    assert {name: set(schemas[name].get("properties", {})) for name in compared} == compared


@pytest.mark.parametrize("kind", sorted(TABLE["kinds"]))
def test_reading_is_idempotent(kind: str) -> None:
    """Reading an object a second time changes nothing."""
    tree: Tree = {}
    wiretypes.read(kind, tree)
    once = copy.deepcopy(tree)
    assert wiretypes.read(kind, tree) == []
    assert tree == once


@pytest.mark.parametrize(
    ("kind", "sent", "read"),
    [
        pytest.param(
            "v1 ConfigMap", {"data": None, "immutable": False}, {"metadata": {}, "immutable": False}, id="null"
        ),
        pytest.param("v1 ConfigMap", {"data": {}}, {"metadata": {}}, id="an empty map"),
        pytest.param("v1 Secret", {"type": ""}, {"metadata": {}}, id="an empty text"),
        pytest.param(
            "coordination.k8s.io/v1 Lease",
            {"spec": {"renewTime": "2024-01-01T01:00:00.000001+01:00", "holderIdentity": ""}},
            {"metadata": {}, "spec": {"renewTime": "2024-01-01T00:00:00.000001Z", "holderIdentity": ""}},
            id="a time elsewhere, and an empty text that a pointer keeps",
        ),
        pytest.param(
            "v1 ResourceQuota",
            {"spec": {"hard": {"cpu": 1, "memory": "1024Mi", "pods": 0.5}}},
            {"metadata": {}, "spec": {"hard": {"cpu": "1", "memory": "1Gi", "pods": "500m"}}, "status": {}},
            id="quantities",
        ),
        pytest.param("v1 ConfigMap", {"data": {"a": None}}, {"metadata": {}, "data": {"a": ""}}, id="null in a map"),
    ],
)
def test_a_tree_becomes_what_go_would_write(kind: str, sent: Tree, read: Tree) -> None:
    """Empty values are dropped, kept or added, by the field's type and tag."""
    assert wiretypes.read(kind, sent) == []
    assert sent == read


def test_unknown_fields_are_dropped_and_reported() -> None:
    """Their paths, in the order of the object."""
    tree: Tree = {"x": 1, "spec": {"containers": [{"name": "c", "y": {"z": 1}}], "nodeSelector": {"free": "key"}}}
    assert wiretypes.read("v1 Pod", tree) == ["x", "spec.containers[0].y"]
    assert tree["spec"]["containers"] == [{"name": "c", "resources": {}}]


@pytest.mark.parametrize(
    ("kind", "tree", "message"),
    [
        pytest.param(
            "v1 Pod",
            {"spec": {"hostNetwork": "no"}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
            id="a text for a boolean",
        ),
        pytest.param(
            "v1 Pod",
            {"spec": {"priority": 2**31}},
            "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
            id="a number beyond 32 bits",
        ),
        pytest.param(
            "v1 Pod",
            {"spec": {"terminationGracePeriodSeconds": 2**63}},
            "json: cannot unmarshal number 9223372036854775808 into Go struct field "
            "PodSpec.spec.terminationGracePeriodSeconds of type int64",
            id="a number beyond 64 bits",
        ),
        pytest.param(
            "v1 Pod",
            {"kind": 5},
            "json: cannot unmarshal number into Go struct field Pod.TypeMeta.kind of type string",
            id="an embedded field",
        ),
        pytest.param(
            "v1 Pod",
            {"spec": {"restartPolicy": []}},
            "json: cannot unmarshal array into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
            id="a named type",
        ),
        pytest.param(
            "v1 ResourceQuota",
            {"spec": {"hard": {"cpu": "1.2.3"}}},
            "unable to parse numeric part of quantity",
            id="points",
        ),
        pytest.param(
            "v1 Secret", {"data": {"a": "####"}}, "illegal base64 data at input byte 0", id="data that is not base64"
        ),
        pytest.param(
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"additionalProperties": "all"}}}]}},
            "boolean or JSON schema expected",
            id="a schema that is neither",
        ),
    ],
)
def test_a_wrong_type_has_go_s_message(kind: str, tree: Tree, message: str) -> None:
    """It names the innermost struct, and the whole path of the field."""
    with pytest.raises(WrongTypeError) as caught:
        wiretypes.read(kind, tree)
    assert str(caught.value) == message


FIELDS = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "name",
        "labels",
        "containers",
        "template",
        "volumes",
        "emptyDir",
        "resources",
        "bogus",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(FIELDS, JSON, max_size=4), st.sampled_from(["v1 Pod", "apps/v1 Deployment", "v1 Node"]))
def test_any_json_is_read_or_rejected(tree: Tree, kind: str) -> None:
    """No other error is raised; and reading the result again changes nothing."""
    try:
        wiretypes.read(kind, tree)
    except WrongTypeError:
        return
    once = copy.deepcopy(tree)
    assert wiretypes.read(kind, tree) == []
    assert tree == once
