"""Unknown fields survive every path: reading, making a pod from a template, patching, admitting."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api import codec
from trimtab.api.admission import AdmissionResponse, AdmissionReview, answer
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import Document, pod_from_template
from trimtab.api.errors import InvalidError
from trimtab.api.patches import diff, json_patch, schema_for, strategic_merge

NAMES = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ", min_size=1, max_size=8)
ANYTHING = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u1", "controller": True}

FULL_SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": "web:1",
            "env": [{"name": "MODE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
            "securityContext": {"capabilities": {"drop": ["ALL"]}},
        }
    ],
    "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
    "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}],
    "os": {"name": "linux"},
}


@st.composite
def templates(draw: st.DrawFn) -> dict[str, Any]:
    """A full template with fields that no version of Kubernetes has."""
    spec = {
        **FULL_SPEC,
        **{f"x{key}": value for key, value in draw(st.dictionaries(NAMES, ANYTHING, max_size=3)).items()},
    }
    labels = draw(st.dictionaries(NAMES, NAMES, max_size=2))
    extra = {f"x{key}": value for key, value in draw(st.dictionaries(NAMES, ANYTHING, max_size=2)).items()}
    return {"metadata": {"labels": labels, **extra}, "spec": spec}


@settings(deadline=None)
@given(template=templates())
@pytest.mark.parametrize("kind", [ReplicaSet, Deployment, CloneSet], ids=lambda kind: kind.__name__)
def test_reading_a_workload_keeps_its_template_whole(kind: Any, template: dict[str, Any]) -> None:
    """What goes in as a template comes out as it was, through bytes and back."""
    tree = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    workload = codec.decode(json.dumps(tree), kind)
    assert workload.spec.template.tree() == template
    assert codec.to_tree(workload)["spec"]["template"] == template


@settings(deadline=None)
@given(template=templates())
def test_a_pod_made_from_a_template_has_every_field_of_it(template: dict[str, Any]) -> None:
    """Only the name, the namespace and the owner are added."""
    pod = pod_from_template(Document(template), namespace="default", owner=OWNER, generate_name="web-1-")
    assert pod["spec"] == template["spec"]
    assert {key: pod["metadata"][key] for key in template["metadata"]} == template["metadata"]
    assert pod["metadata"]["ownerReferences"] == [OWNER]
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")


def test_a_pod_needs_a_name_or_a_prefix() -> None:
    """A controller that forgot both is told."""
    with pytest.raises(InvalidError, match=r"metadata\.name"):
        pod_from_template(Document({}), namespace="default", owner=OWNER)


def test_a_name_wins_over_a_prefix_and_old_metadata_goes() -> None:
    """A template's own name, prefix and timestamp are not the pod's."""
    template = Document(
        {"metadata": {"name": "x", "generateName": "y-", "creationTimestamp": None, "labels": {"a": "b"}}}
    )
    metadata = pod_from_template(template, namespace="default", owner=OWNER, name="z", generate_name="w-")["metadata"]
    assert metadata == {"name": "z", "namespace": "default", "labels": {"a": "b"}, "ownerReferences": [OWNER]}


@settings(deadline=None)
@given(template=templates())
def test_patching_a_pod_keeps_what_the_patch_does_not_name(template: dict[str, Any]) -> None:
    """A subset's patch adds to a pod on the raw tree."""
    pod = pod_from_template(Document(template), namespace="default", owner=OWNER, generate_name="web-1-")
    patched = strategic_merge(pod, {"metadata": {"labels": {"zone": "a"}}}, schema_for("v1", "Pod"))
    assert patched["metadata"]["labels"] == {**template["metadata"]["labels"], "zone": "a"}
    patched["metadata"]["labels"] = pod["metadata"]["labels"]
    assert patched == pod


@settings(deadline=None)
@given(template=templates())
def test_admitting_a_pod_changes_only_what_was_meant(template: dict[str, Any]) -> None:
    """Reviewed, changed on its tree and answered with a patch, an object keeps every other field."""
    pod = pod_from_template(Document(template), namespace="default", owner=OWNER, generate_name="web-1-")
    request = {"uid": "r1", "operation": "CREATE", "object": pod, "oldObject": None}
    review = codec.decode(json.dumps({"kind": "AdmissionReview", "request": request}), AdmissionReview)
    assert review.request is not None
    assert review.request.object is not None
    changed = review.request.object.tree()
    changed["spec"]["schedulerName"] = "trimtab"
    patch = msgspec.json.encode(diff(review.request.object.tree(), changed))
    body = answer(AdmissionResponse(uid="r1", allowed=True, patch=patch, patch_type="JSONPatch"))
    sent = json.loads(base64.b64decode(body["response"]["patch"]))
    assert json_patch(pod, sent) == {**pod, "spec": {**pod["spec"], "schedulerName": "trimtab"}}


def test_a_refusal_states_allowed_false() -> None:
    """`allowed: false` must be written: an absent field would be read as an error of ours."""
    assert answer(AdmissionResponse(uid="r1", allowed=False))["response"] == {"uid": "r1", "allowed": False}


@given(tree=st.dictionaries(NAMES, ANYTHING, max_size=4))
def test_a_tree_is_the_callers_to_change(tree: dict[str, Any]) -> None:
    """Changing a copy does not change the document."""
    document = Document(tree)
    document.tree()["changed"] = True
    assert document.tree() == tree
