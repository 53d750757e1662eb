"""Who owns what."""

from __future__ import annotations

import pytest

from trimtab.api import codec, selectors
from trimtab.api.apps import ReplicaSet
from trimtab.api.meta import ObjectMeta
from trimtab.kube import ownership
from trimtab.kube.resources import Resource
from trimtab.testing.builders import PodBuilder, pod, uid_for

WEB = selectors.parse("app=web")
OWNER = ObjectMeta(name="web", namespace="default", uid=uid_for("ReplicaSet/web"))
GOING = codec.convert({"name": "web", "uid": OWNER.uid, "deletionTimestamp": "2026-01-01T00:00:00Z"}, ObjectMeta)


def matching(name: str = "p") -> PodBuilder:
    """A pod that the selector matches."""
    return pod(name).labels(app="web")


@pytest.mark.parametrize(
    ("owner", "candidate", "want"),
    [
        pytest.param(OWNER, matching().owned_by("web"), "owned", id="its own pod is owned"),
        pytest.param(OWNER, pod("p").owned_by("web"), "released", id="its own pod with other labels is released"),
        pytest.param(OWNER, matching(), "adopted", id="an orphan that matches is adopted"),
        pytest.param(OWNER, pod("p"), "", id="an orphan that does not match is left alone"),
        pytest.param(OWNER, matching().terminating(), "", id="an orphan that is going is left alone"),
        pytest.param(OWNER, matching().owned_by("web").terminating(), "owned", id="its own pod that is going is owned"),
        pytest.param(OWNER, matching().owned_by("other"), "", id="somebody else's pod is left alone"),
        pytest.param(OWNER, pod("p").owned_by("other"), "", id="somebody else's pod is not released"),
        pytest.param(GOING, matching().owned_by("web"), "owned", id="an owner that is going keeps its own"),
        pytest.param(GOING, pod("p").owned_by("web"), "", id="an owner that is going releases nothing"),
        pytest.param(GOING, matching(), "", id="an owner that is going adopts nothing"),
    ],
)
def test_objects_are_owned_adopted_or_released(owner: ObjectMeta, candidate: PodBuilder, want: str) -> None:
    """Every row of the table in the module's docstring, and what a deletion changes."""
    found = ownership.claims(owner, WEB, [candidate.build()])
    places = {"owned": found.owned, "adopted": found.adopted, "released": found.released}
    assert [place for place, pods in places.items() if pods] == ([want] if want else [])


def test_patches_have_the_uid_of_their_object() -> None:
    """Another object of the same name refuses the patch, because it has another UID."""
    target = matching().build().metadata
    adopted = ownership.adoption_patch(Resource.of(ReplicaSet), OWNER, target)["metadata"]
    released = ownership.release_patch(OWNER, target)["metadata"]
    assert adopted["uid"] == released["uid"] == target.uid
    assert adopted["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": OWNER.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert released["ownerReferences"] == [{"$patch": "delete", "uid": OWNER.uid}]


def test_a_reference_is_matched_by_group_and_kind() -> None:
    """The version of the group does not matter, the group does."""
    reference = pod("p").owned_by("web", api_version="apps/v1beta2").build().metadata.controller
    foreign = pod("p").owned_by("web", api_version="example.com/v1").build().metadata.controller
    assert reference is not None
    assert foreign is not None
    assert ownership.refers_to(reference, Resource.of(ReplicaSet))
    assert not ownership.refers_to(foreign, Resource.of(ReplicaSet))
