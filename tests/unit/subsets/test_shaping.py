"""The pod as its subset wants it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subsets.topologies import subset
from trimtab.api.annotations import (
    RESERVATION,
    SUBSET,
    SUBSET_KEYS,
    TOPOLOGY,
    SubsetAnnotations,
    subset_annotations,
)
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.patches import json_patch
from trimtab.subsets.shaping import difference, shape
from trimtab.testing.builders import pod

ANNOTATIONS = SubsetAnnotations("spread", "a", "of-p")
IN_A = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
ON_SSD = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
BY_NAME = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


def requiring(*terms: JSON) -> JSON:
    """A pod with these required terms."""
    tree = pod("p").tree()
    tree["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    }
    return tree


def terms_of(tree: JSON) -> list[JSON]:
    """The required terms of a pod."""
    terms: list[JSON] = tree["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return terms


@pytest.mark.parametrize(
    ("tree", "want"),
    [
        pytest.param(pod("p").tree(), [IN_A], id="without any, it becomes the first"),
        pytest.param(
            requiring(ON_SSD),
            [{"matchExpressions": ON_SSD["matchExpressions"] + IN_A["matchExpressions"]}],
            id="it is added to the one there is",
        ),
        pytest.param(
            requiring(ON_SSD, BY_NAME),
            [{"matchExpressions": ON_SSD["matchExpressions"] + IN_A["matchExpressions"]}, {**BY_NAME, **IN_A}],
            id="it is added to each",
        ),
        pytest.param(requiring({}), [{}], id="a term that matches nothing still matches nothing"),
    ],
)
def test_the_node_selector_term(tree: JSON, want: list[JSON]) -> None:
    """Wherever the pod may go, the subset's term holds."""
    assert terms_of(shape(tree, subset("a", nodeSelectorTerm=IN_A), ANNOTATIONS)) == want


def test_an_empty_term_restricts_nothing() -> None:
    """A subset without expressions does not exclude every node."""
    assert "affinity" not in shape(pod("p").tree(), subset("a", nodeSelectorTerm={}), ANNOTATIONS)["spec"]


def test_tolerations_are_appended_once() -> None:
    """Those that the pod has stay where they are, and none is there twice."""
    old, new = {"key": "old", "operator": "Exists"}, {"key": "new", "operator": "Exists"}
    tree = pod("p").tree()
    own = {"key": "own", "operator": "Exists"}
    tree["spec"]["tolerations"] = [own, old]
    assert shape(tree, subset("a", tolerations=[old, new]), ANNOTATIONS)["spec"]["tolerations"] == [own, old, new]


def test_the_patch_is_merged_strategically_and_cannot_undo_the_term() -> None:
    """A container is found by its name, what the types do not know stays, and the term is added after the patch."""
    tree = pod("p").tree()
    tree["spec"]["containers"] = [{"name": "main", "image": "web:1", "env": [{"name": "A", "value": "1"}]}]
    patch: dict[str, Any] = {
        "metadata": {"labels": {"tier": "gold"}},
        "spec": {"affinity": None, "containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}]},
    }
    shaped = shape(tree, subset("a", nodeSelectorTerm=IN_A, patch=patch), ANNOTATIONS)
    assert shaped["metadata"]["labels"]["tier"] == "gold"
    assert shaped["spec"]["containers"][0]["image"] == "web:1"
    assert {each["name"] for each in shaped["spec"]["containers"][0]["env"]} == {"A", "B"}
    assert terms_of(shaped) == [IN_A]


def test_a_patch_that_does_not_apply_names_the_field() -> None:
    """A container without a name cannot be merged into the others."""
    with pytest.raises(InvalidError, match=r"^patch"):
        shape(pod("p").tree(), subset("a", patch={"spec": {"containers": [{"image": "x"}]}}), ANNOTATIONS)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param(
            {"metadata": {"labels": {"app": "other"}}}, r'^patch\.metadata\.labels\["app"\]: is', id="changed"
        ),
        pytest.param({"metadata": {"labels": {"app": None}}}, r'^patch\.metadata\.labels\["app"\]: is', id="removed"),
        pytest.param(
            {"spec": {"containers": [{"name": "nobody", "env": []}]}},
            r"^patch\.spec\.containers\[\d\]: the pod has no container 'nobody'",
            id="a container that the pod lacks",
        ),
        pytest.param({"spec": None}, r"^patch\.spec\.containers: none is left", id="no containers"),
    ],
)
def test_a_patch_that_makes_the_owner_release_the_pod_is_refused(patch: JSON, message: str) -> None:
    """An owner replaces pods for ever if they lose its labels; the API server refuses half a container."""
    with pytest.raises(InvalidError, match=message):
        shape(pod("p").labels({"app": "web"}).tree(), subset("a", patch=patch), ANNOTATIONS)


def test_a_patch_may_add_labels_and_containers() -> None:
    """What was there stays."""
    patch = {"metadata": {"labels": {"pool": "a"}}, "spec": {"containers": [{"name": "proxy", "image": "proxy:1"}]}}
    shaped = shape(pod("p").labels({"app": "web"}).tree(), subset("a", patch=patch), ANNOTATIONS)
    assert shaped["metadata"]["labels"] == {"app": "web", "pool": "a"}
    assert "proxy" in [container["name"] for container in shaped["spec"]["containers"]]


def test_the_pod_is_annotated_and_the_original_unchanged() -> None:
    """Three annotations, in a new document; annotations of the template are replaced."""
    tree = pod("p").annotations({SUBSET: "old", "keep": "me"}).tree()
    shaped = shape(tree, subset("a"), ANNOTATIONS)
    assert shaped["metadata"]["annotations"] == {TOPOLOGY: "spread", SUBSET: "a", RESERVATION: "of-p", "keep": "me"}
    assert tree["metadata"]["annotations"] == {SUBSET: "old", "keep": "me"}


@pytest.mark.parametrize(
    "known", [ANNOTATIONS, SubsetAnnotations("spread", "a")], ids=["with a reservation", "matched afterwards"]
)
def test_annotations_are_read_as_they_were_written(known: SubsetAnnotations) -> None:
    """`SUBSET_KEYS` has every annotation."""
    assert subset_annotations(known.written()) == known
    assert set(SUBSET_KEYS) >= set(known.written())
    assert subset_annotations({}) is None


VALUES = st.none() | st.booleans() | st.integers(0, 3) | st.text("a/~", max_size=3)
PARTS = st.dictionaries(st.sampled_from(["a", "b/c", "d~e"]), VALUES | st.lists(VALUES, max_size=2), max_size=3)
PODS = st.dictionaries(st.sampled_from(["metadata", "spec", "kind"]), PARTS | VALUES, max_size=3)


@given(before=PODS, after=PODS)
def test_the_difference_is_a_patch_from_one_to_the_other(before: JSON, after: JSON) -> None:
    """Whatever the two documents are."""
    assert json_patch(before, difference(before, after)) == after


def test_the_difference_has_no_field_that_is_the_same() -> None:
    """Another webhook may have changed it meanwhile; and null is not the same as absent."""
    before = {"kind": "Pod", "metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"nodeName": None, "volumes": []}}
    after = {"kind": "Pod", "metadata": {"name": "p", "labels": {"a": "2"}}, "spec": {"volumes": []}}
    assert difference(before, after) == [
        {"op": "add", "path": "/metadata/labels", "value": {"a": "2"}},
        {"op": "remove", "path": "/spec/nodeName"},
    ]


def prioritized(**spec: Any) -> JSON:
    """A pod whose priority the API server has resolved already."""
    tree = pod("p").tree()
    tree["spec"] |= {"priorityClassName": "low", "priority": 5, "preemptionPolicy": "Never", **spec}
    return tree


def test_another_priority_class_is_resolved_anew() -> None:
    """An API server refuses a pod whose priority is not that of its class."""
    changed = subset("a", patch={"spec": {"priorityClassName": "high"}})
    spec = shape(prioritized(), changed, ANNOTATIONS, allowed_fields=["priorityClassName"])["spec"]
    assert spec["priorityClassName"] == "high"
    assert not {"priority", "preemptionPolicy"} & spec.keys()


def test_a_patch_changes_privileged_fields_only_where_that_is_allowed() -> None:
    """A UnitedTopology must not give its author more than the author of the workload has."""
    with pytest.raises(InvalidError, match=r"^patch\.spec\.priority: needs consent"):
        shape(prioritized(), subset("a", patch={"spec": {"priorityClassName": "high"}}), ANNOTATIONS)


def test_the_same_priority_class_stays_resolved() -> None:
    """Nothing is removed for nothing."""
    same = subset("a", patch={"spec": {"priorityClassName": "low"}})
    spec = shape(prioritized(), same, ANNOTATIONS, allowed_fields=["priorityClassName"])["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (5, "Never")


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        pytest.param(
            {"spec": {"containers": [{"name": "main", "volumeMounts": [{"name": "none", "mountPath": "/a"}]}]}},
            "volumeMounts",
            id="a mount without its volume",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1m"}}}]}},
            "resources.requests.cpu",
            id="a limit below the template's request",
        ),
        pytest.param({"metadata": 1}, "patch.metadata: is not an object", id="no metadata"),
        pytest.param({"metadata": {"labels": 1}}, "patch.metadata.labels: is not an object", id="no labels"),
        pytest.param({"spec": "a"}, "patch.spec: is not an object", id="no spec"),
        pytest.param({"spec": {"containers": {"name": "a"}}}, "patch.spec.containers: is not a list", id="no list"),
        pytest.param({"spec": {"initContainers": True}}, "patch.spec.initContainers: is not a list", id="true"),
    ],
)
def test_a_pod_that_would_be_refused_takes_no_capacity(patch: JSON, field: str) -> None:
    """It is admitted without the patch, and an event says why."""
    tree = pod("p").tree()
    tree["spec"]["containers"] = [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}]
    with pytest.raises(InvalidError, match=re.escape(field)):
        shape(tree, subset("a", patch=patch), ANNOTATIONS)
