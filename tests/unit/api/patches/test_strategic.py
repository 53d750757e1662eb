"""A strategic merge patch gives what a Kubernetes API server gives, surprises included."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.errors import InvalidError
from trimtab.api.patches import schema_for, strategic_merge

POD = schema_for("v1", "Pod")


def containers(*elements: Any, **more: Any) -> dict[str, Any]:
    """A pod, or a patch for one, with these containers."""
    return {"spec": {"containers": list(elements), **more}}


def named(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def finalizers(*names: Any, **more: Any) -> dict[str, Any]:
    return {"metadata": {"finalizers": list(names), **more}}


OBJECTS = [
    pytest.param(
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"b": "3", "c": "4"}}},
        {"metadata": {"labels": {"a": "1", "b": "3", "c": "4"}}},
        id="objects are merged field by field",
    ),
    pytest.param(
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"a": None, "gone": None}}},
        {"metadata": {"labels": {"b": "2"}}},
        id="null deletes a field, if it is there",
    ),
    pytest.param(
        {}, {"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {}}}, id="a new field has no nulls"
    ),
    pytest.param(
        {"metadata": {"labels": None}},
        {"metadata": {"labels": {"a": None}}},
        {"metadata": {"labels": {}}},
        id="null is new",
    ),
    pytest.param(
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"$patch": "replace", "b": None}}},
        {"metadata": {"labels": {"b": None}}},
        id="a replaced object keeps its nulls",
    ),
    pytest.param(
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"$patch": "delete", "b": "2"}}},
        {"metadata": {"labels": {}}},
        id="a deleted object is empty, not gone",
    ),
    pytest.param(
        {"metadata": {}},
        {"metadata": {"labels": {"$patch": "replace", "a": "1"}}},
        {"metadata": {}},
        id="to replace what is not there gives nothing",
    ),
    pytest.param({"kind": "Pod"}, {"$patch": "delete"}, {}, id="the whole object can be deleted"),
    pytest.param({"kind": "Pod"}, {"$patch": "replace", "a": 1}, {"a": 1}, id="the whole object can be replaced"),
    pytest.param(
        {"spec": {"affinity": {"podAffinity": {}}}},
        {"spec": {"affinity": [1]}},
        {"spec": {"affinity": [1]}},
        id="a value of another kind replaces",
    ),
    pytest.param(
        {"spec": {"unknown": 1}},
        {"spec": {"unknown": 2, "other": {"a": [None]}}},
        {"spec": {"unknown": 2, "other": {"a": [None]}}},
        id="unknown fields are merged",
    ),
    pytest.param(
        {"spec": {"nodeName": {"a": 1}}},
        {"spec": {"nodeName": {"b": 2}}},
        {"spec": {"nodeName": {"a": 1, "b": 2}}},
        id="an object where there should be none is merged if the field is known",
    ),
    pytest.param(
        {"spec": {"containers": {"name": "a"}}},
        {"spec": {"containers": {"image": "1"}}},
        {"spec": {"containers": {"name": "a", "image": "1"}}},
        id="so is one in the place of a list",
    ),
    pytest.param(None, None, {}, id="null is an empty object"),
]

LISTS = [
    pytest.param(
        containers({"name": "a", "image": "1"}, {"name": "b"}),
        containers({"name": "a", "image": "2"}),
        containers({"name": "a", "image": "2"}, {"name": "b"}),
        id="an element is merged into the one with its key",
    ),
    pytest.param(
        containers(*named("a", "b")),
        containers({"name": "c"}),
        containers(*named("c", "a", "b")),
        id="new ones come first",
    ),
    pytest.param(
        containers(*named("a", "b", "c")),
        containers({"name": "c"}, {"name": "a"}),
        containers({"name": "b"}, {"name": "c"}, {"name": "a"}),
        id="the order of the patch wins over that of the object",
    ),
    pytest.param(
        containers({"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        containers({"name": "a", "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 443}]}),
        containers(
            {"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}, {"containerPort": 443}]}
        ),
        id="the key of ports is the number alone",
    ),
    pytest.param(
        containers({"name": "a", "ports": [{"containerPort": 80}]}),
        containers({"name": "a", "ports": [{"containerPort": 80.0, "name": "web"}]}),
        containers({"name": "a", "ports": [{"containerPort": 80.0, "name": "web"}, {"containerPort": 80}]}),
        id="a number with a point is another key",
    ),
    pytest.param(
        containers({"name": "a"}),
        containers({"name": "b", "command": None, "resources": {"$patch": "delete"}}),
        containers({"name": "b", "command": None, "resources": {"$patch": "delete"}}, {"name": "a"}),
        id="a new element keeps its nulls and directives",
    ),
    pytest.param(
        {"spec": {}},
        containers({"name": "b", "command": None, "resources": {"$patch": "delete"}}, {"$patch": "replace"}),
        containers({"name": "b"}),
        id="a new list loses both",
    ),
    pytest.param(
        containers({"name": "a"}),
        containers({"name": "b", "image": "1"}, {"name": "b", "tty": True}),
        containers({"name": "b", "image": "1", "tty": True}, {"name": "a"}),
        id="two elements with one key become one",
    ),
    pytest.param(
        containers(*named("a")), {"spec": {"containers": []}}, containers(*named("a")), id="nothing adds nothing"
    ),
    pytest.param(
        {"spec": {"tolerations": [{"key": "a"}]}},
        {"spec": {"tolerations": [{"$patch": "delete", "key": "a", "value": None}]}},
        {"spec": {"tolerations": [{"$patch": "delete", "key": "a", "value": None}]}},
        id="a list without a merge key is replaced as it stands",
    ),
    pytest.param(
        {"spec": {"Containers": named("a")}},
        {"spec": {"Containers": named("b")}},
        {"spec": {"Containers": named("b", "a")}},
        id="a field is known whatever its case",
    ),
    pytest.param(
        {"spec": {"volume\u017f": named("a")}},
        {"spec": {"volume\u017f": named("b")}},
        {"spec": {"volume\u017f": named("b", "a")}},
        id="even the long s is an s",
    ),
    pytest.param(
        finalizers("a", "b"), finalizers("c", "b"), finalizers("c", "a", "b"), id="scalars are merged as a set"
    ),
    pytest.param(finalizers("a", "a", "b", "c"), finalizers(), finalizers("a", "c", "b"), id="duplicates are removed"),
]

DIRECTIVES = [
    pytest.param(
        containers(*named("a", "b")),
        containers({"$patch": "delete", "name": "a"}),
        containers({"name": "b"}),
        id="delete",
    ),
    pytest.param(
        containers(*named("a", "b", "a")),
        containers({"$patch": "delete", "name": "a"}),
        containers({"name": "b"}),
        id="delete takes all with the key",
    ),
    pytest.param(
        containers(*named("a")),
        containers({"$patch": "delete", "name": "z"}),
        containers(*named("a")),
        id="delete nothing",
    ),
    pytest.param(
        {"spec": {}},
        containers({"$patch": "delete", "name": "z"}),
        containers(),
        id="delete from a missing list leaves one",
    ),
    pytest.param(
        containers(*named("a", "b")),
        containers({"name": "c"}, {"$patch": "replace", "name": "d"}),
        containers({"name": "c"}),
        id="replace keeps the others of the patch, not itself",
    ),
    pytest.param(
        containers(*named("a")),
        containers({"$patch": "delete", "name": "a"}, {"name": "a", "image": "2"}),
        containers({"name": "a", "image": "2"}),
        id="delete and add makes anew",
    ),
    pytest.param(
        {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]}},
        {"spec": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}},
        id="retainKeys clears what it does not name",
    ),
    pytest.param(
        {"spec": {"nodeName": "n", "hostname": "h"}},
        {"spec": {"$retainKeys": ["hostname"], "nodeName": None}},
        {"spec": {"hostname": "h"}},
        id="retainKeys need not name what the patch deletes",
    ),
    pytest.param(
        finalizers("a", "b", "a"),
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}},
        finalizers("b"),
        id="scalars are taken out",
    ),
    pytest.param(
        {"metadata": {}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
        {"metadata": {}},
        id="of no list",
    ),
    pytest.param(
        finalizers("a"),
        finalizers("b", **{"$deleteFromPrimitiveList/finalizers": ["a", "b"]}),
        finalizers("b"),
        id="scalars are taken out before others are put in",
    ),
    pytest.param(
        containers({"name": "a", "args": ["x", "y"]}),
        containers({"name": "a", "$deleteFromPrimitiveList/args": ["x"]}),
        containers({"name": "a", "args": ["y"]}),
        id="scalars can be taken out of a list that is not merged",
    ),
    pytest.param(
        containers(*named("a")),
        {"spec": {"$deleteFromPrimitiveList/containers": named("b")}},
        containers(*named("b", "a")),
        id="objects that should be taken out are put in",
    ),
    pytest.param(
        {"metadata": {"name": "a"}},
        {"metadata": {"$deleteFromPrimitiveList/name": "b"}},
        {"metadata": {"name": "b"}},
        id="a scalar that should be taken out of a scalar replaces it",
    ),
]

ORDERS = [
    pytest.param(
        containers(*named("a", "b", "c")),
        {"spec": {"$setElementOrder/containers": named("c", "a")}},
        containers(*named("b", "c", "a")),
        id="a list is reordered; the others keep their distance",
    ),
    pytest.param(
        containers(*named("a", "b")),
        containers({"name": "n"}, **{"$setElementOrder/containers": named("a", "n")}),
        containers(*named("a", "n", "b")),
        id="a new element takes its place",
    ),
    pytest.param(
        {"spec": {}},
        containers(*named("n"), **{"$setElementOrder/containers": named("n", "m")}),
        containers(*named("n")),
        id="the order may name what is not there",
    ),
    pytest.param(
        {"spec": {}}, {"spec": {"$setElementOrder/containers": named("a")}}, {"spec": {}}, id="no list has no order"
    ),
    pytest.param(
        finalizers("a", "b", "c"),
        finalizers("n", **{"$setElementOrder/finalizers": ["n", "c", "a"]}),
        finalizers("n", "b", "c", "a"),
        id="scalars have an order too",
    ),
    pytest.param(
        containers(*named("a", "b", "c")),
        containers({"$patch": "delete", "name": "a"}, {"name": "a"}, **{"$setElementOrder/containers": named("a")}),
        containers(*named("b", "c", "a")),
        id="what is deleted and added stands where the deletion left a gap",
    ),
    pytest.param(
        containers(*named("a")),
        containers(*named("b", "c"), **{"$setElementOrder/containers": []}),
        containers(*named("a", "c", "b")),
        id="an empty order turns everything round",
    ),
    pytest.param(
        {"spec": {"tolerations": []}},
        {"spec": {"tolerations": [1, 2], "$setElementOrder/tolerations": [2, 1, 2]}},
        {"spec": {"tolerations": [2, 1]}},
        id="a list that is replaced is ordered nevertheless",
    ),
]


@pytest.mark.parametrize(("original", "patch", "want"), [*OBJECTS, *LISTS, *DIRECTIVES, *ORDERS])
def test_merges(original: Any, patch: Any, want: Any) -> None:
    """The patch turns the one into the other."""
    assert strategic_merge(original, patch, POD) == want


@pytest.mark.parametrize(
    ("original", "patch", "path", "reason"),
    [
        pytest.param([], {}, "", "the object must be an object, not a list", id="an original that is no object"),
        pytest.param({}, "a", "", "the patch must be an object, not a string", id="a patch that is no object"),
        pytest.param(
            {"spec": {}},
            {"spec": {"$patch": "merge"}},
            "spec.$patch",
            'must be "delete" or "replace", not "merge"',
            id="merge is no directive for an object",
        ),
        pytest.param(
            containers(*named("a")),
            containers({"$patch": "merge", "name": "a"}),
            "spec.containers.$patch",
            'must be "delete" or "replace", not "merge"',
            id="merge is no directive for an element",
        ),
        pytest.param(
            containers({"name": "a", "env": named("x")}),
            containers({"name": "a", "env": [{"value": "1"}]}),
            'spec.containers[name="a"].env',
            'the element {"value": "1"} lacks the merge key name',
            id="an element without its key",
        ),
        pytest.param(
            containers({"image": "1"}),
            containers({"name": "a"}),
            "spec.containers",
            'the element {"image": "1"} lacks the merge key name',
            id="an element of the original without its key",
        ),
        pytest.param(
            containers(*named("a")),
            containers({"$patch": "delete"}),
            "spec.containers",
            "lacks the merge key name",
            id="a deletion without the key",
        ),
        pytest.param(
            containers({"name": {}}),
            containers({"name": {}}),
            "spec.containers",
            "its elements cannot be identified by an object: {}",
            id="a key that is an object",
        ),
        pytest.param(
            containers("a"),
            containers(*named("a")),
            "spec.containers",
            "elements of one kind, in the object and the patch together, not a string and an object",
            id="scalars among objects",
        ),
        pytest.param(
            finalizers("a"), finalizers(["b"]), "metadata.finalizers", "not a list and a string", id="lists in lists"
        ),
        pytest.param(finalizers(), finalizers(["b"]), "metadata.finalizers", "cannot be merged", id="lists in a list"),
        pytest.param(finalizers(None), finalizers(), "metadata.finalizers", "has null among", id="null in a list"),
        pytest.param(
            finalizers({"a": 1}),
            finalizers({"b": 1}),
            "metadata.finalizers",
            "the schema has no merge key",
            id="objects in a set",
        ),
        pytest.param(
            containers("a"), containers("b"), "spec.containers", "which should be objects", id="scalars for objects"
        ),
        pytest.param(
            {"spec": {"unknown": {}}},
            {"spec": {"unknown": {}}},
            "spec.unknown",
            "is not a field of core.v1.PodSpec",
            id="an unknown object in both",
        ),
        pytest.param(
            {"metadata": {"labels": {"example.com/a": {}}}},
            {"metadata": {"labels": {"example.com/a": {}}}},
            "metadata.labels[example.com/a]",
            "its parent has no known fields",
            id="objects among labels in both",
        ),
        pytest.param(
            {"spec": {"containers": {"resources": {}}}},
            {"spec": {"containers": {"resources": {}}}},
            "spec.containers.resources",
            "its parent has no known fields",
            id="an object in the place of a list has no fields",
        ),
        pytest.param(
            {"metadata": {"labels": []}},
            {"metadata": {"labels": []}},
            "metadata.labels",
            "is a list in the patch, but not in meta.v1.ObjectMeta",
            id="a list where there should be none",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"$retainKeys": ["name"], "uid": "1"}},
            "metadata.$retainKeys",
            "does not name uid, which the patch sets",
            id="retainKeys that leaves out what is set",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"$retainKeys": "name"}},
            "metadata.$retainKeys",
            "must be a list",
            id="no list",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"$retainKeys": [{}]}},
            "metadata.$retainKeys",
            "must be a list",
            id="of objects",
        ),
        pytest.param(
            finalizers("a"),
            {"metadata": {"$deleteFromPrimitiveList": ["a"]}},
            "metadata.$deleteFromPrimitiveList",
            "must be written $deleteFromPrimitiveList/FIELD",
            id="a deletion from no field",
        ),
        pytest.param(
            containers(*named("a")),
            containers({"name": "b"}, **{"$setElementOrder/containers": named("a")}),
            "spec.$setElementOrder/containers",
            'does not name {"name": "b"}, or not in the order of the patch',
            id="an order that leaves out what is added",
        ),
        pytest.param(
            containers(*named("a")),
            {"spec": {"$setElementOrder/containers": {"name": "a"}}},
            "spec.$setElementOrder/containers",
            "must be a list, not an object",
            id="an order that is no list",
        ),
        pytest.param(
            containers(*named("a")),
            {"spec": {"$setElementOrder/containers": [], "containers": None}},
            "spec.$setElementOrder/containers",
            "orders containers, which is null in the patch",
            id="an order for what is deleted",
        ),
        pytest.param(
            containers(),
            {"spec": {"$setElementOrder/containers": []}},
            "spec.$setElementOrder/containers",
            "not no elements at all",
            id="an order for an empty list",
        ),
        pytest.param(
            {"spec": {"tolerations": [{}]}},
            {"spec": {"$setElementOrder/tolerations": []}},
            "spec.$setElementOrder/tolerations",
            "its elements cannot be identified by an object",
            id="an order for objects without a key",
        ),
    ],
)
def test_refuses(original: Any, patch: Any, path: str, reason: str) -> None:
    """What Kubernetes refuses is refused, with the place and the reason."""
    with pytest.raises(InvalidError) as caught:
        strategic_merge(original, patch, POD)
    assert caught.value.path == path
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("api_version", "kind", "original", "patch", "want"),
    [
        pytest.param(
            "v1",
            "PodTemplateSpec",
            containers(*named("a")),
            containers(*named("b")),
            containers(*named("b", "a")),
            id="a pod template",
        ),
        pytest.param(
            "apps/v1",
            "Deployment",
            {"spec": {"template": containers(*named("a")), "strategy": {"type": "Recreate"}}},
            {
                "spec": {
                    "template": containers(*named("b")),
                    "strategy": {"$retainKeys": ["type"], "type": "RollingUpdate"},
                }
            },
            {"spec": {"template": containers(*named("b", "a")), "strategy": {"type": "RollingUpdate"}}},
            id="a deployment has a template",
        ),
        pytest.param(
            "v1",
            "Service",
            {"spec": {"ports": [{"port": 80, "name": "web"}]}},
            {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
            {"spec": {"ports": [{"port": 80, "name": "web", "targetPort": 8080}]}},
            id="a service's ports have another key than a container's",
        ),
        pytest.param(
            "policy/v1",
            "PodDisruptionBudget",
            {"spec": {"selector": {"matchLabels": {"a": "1"}}}},
            {"spec": {"selector": {"matchLabels": {"b": None}}}},
            {"spec": {"selector": {"matchLabels": {"b": None}}}},
            id="an object can be meant to be replaced",
        ),
    ],
)
def test_every_kind_has_its_own_rules(api_version: str, kind: str, original: Any, patch: Any, want: Any) -> None:
    """The schema of the kind decides how lists are merged."""
    assert strategic_merge(original, patch, schema_for(api_version, kind)) == want


SCALARS = st.sampled_from(["a", "b", "c", "delete", "replace", 1, 2, 1.5, True])
KEYS = st.sampled_from(
    [
        "metadata",
        "finalizers",
        "labels",
        "spec",
        "containers",
        "name",
        "env",
        "tolerations",
        "nodeSelector",
        "a",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList",
    ]
)


def trees(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    def branches(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(children, max_size=3) | st.dictionaries(keys, children, max_size=4)

    return st.recursive(leaves, branches, max_leaves=15)


TEXT = st.sampled_from(["a", "b", "c", "d"])


def records(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that have some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def distinct(elements: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Lists of elements with names, no name twice."""
    return st.dictionaries(TEXT, elements).map(
        lambda found: [{**fields, "name": name} for name, fields in found.items()]
    )


# Pods that Kubernetes would store, or patches for one without directives and nulls.
PODS = records(
    metadata=records(labels=st.dictionaries(TEXT, TEXT), finalizers=st.lists(TEXT, unique=True)),
    spec=records(
        containers=distinct(records(image=TEXT, args=st.lists(TEXT), env=distinct(records(value=TEXT)))),
        tolerations=st.lists(records(key=TEXT)),
        nodeSelector=st.dictionaries(TEXT, TEXT),
    ),
)


@given(trees(SCALARS | st.none(), KEYS), trees(SCALARS | st.none(), KEYS))
def test_any_json_is_merged_or_refused(original: Any, patch: Any) -> None:
    """Whatever the documents are, there is a result or an `InvalidError`, and they stay as they were."""
    before = copy.deepcopy((original, patch))
    with contextlib.suppress(InvalidError):
        strategic_merge(original, patch, POD)
    assert (original, patch) == before


@given(st.dictionaries(KEYS, trees(SCALARS | st.none(), KEYS)))
def test_an_empty_patch_changes_nothing(original: dict[str, Any]) -> None:
    """The result of an empty patch is the original, anew."""
    result = strategic_merge(original, {}, POD)
    assert result == original
    assert result is not original


@given(PODS, PODS)
def test_a_patch_without_directives_can_be_sent_twice(original: dict[str, Any], patch: dict[str, Any]) -> None:
    """Once a patch is applied, the same patch changes nothing."""
    once = strategic_merge(original, patch, POD)
    assert strategic_merge(once, patch, POD) == once


@given(PODS, PODS)
def test_the_result_shares_nothing_with_the_arguments(original: dict[str, Any], patch: dict[str, Any]) -> None:
    """What is done to the result later is not done to the original or the patch."""
    before = copy.deepcopy((original, patch))
    result = strategic_merge(original, patch, POD)
    for container in result.get("spec", {}).get("containers", []):
        container.setdefault("env", []).append("changed")
        container.setdefault("args", []).append("changed")
    assert (original, patch) == before


def test_deeply_nested_documents_are_refused() -> None:
    """Depth is input like any other: it is refused, not crashed on."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(InvalidError, match="nested too deeply"):
        strategic_merge(deep, {}, POD)
