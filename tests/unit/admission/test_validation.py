"""The hook that validates our kinds: every wrong field is named, and nothing else stands in anybody's way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kube.fakes import ScriptedTransport, answer, failure
from tests.unit.unitedtopology.clusters import subset, topology_tree
from trimtab.admission.validation import Validation
from trimtab.api.admission import AdmissionRequest, AdmissionResponse, GroupVersionKind
from trimtab.api.documents import Document
from trimtab.kube.client import Client

JSON = dict[str, Any]
KIND = GroupVersionKind(group="apps.kruise.io", version="v1alpha1", kind="UnitedTopology")


async def review(tree: JSON, *others: JSON, old: JSON | None = None) -> AdmissionResponse:
    """The answer to a review of an object, in a namespace with these others."""
    page = {"kind": "UnitedTopologyList", "metadata": {"resourceVersion": "5"}, "items": list(others)}
    request = AdmissionRequest(
        uid="u",
        kind=KIND,
        name=tree["metadata"]["name"],
        namespace="default",
        operation="CREATE" if old is None else "UPDATE",
        object=Document(tree),
        old_object=None if old is None else Document(old),
    )
    without_target = failure(404, "NotFound")
    return await Validation(Client(ScriptedTransport(answer(200, page), without_target))).decide(request)


async def test_what_works_is_admitted() -> None:
    """One UnitedTopology for each workload."""
    other = topology_tree(subset("a"), name="api", target="api")
    assert (await review(topology_tree(subset("a", "z1", 3), subset("b")), other)).allowed


async def test_every_wrong_field_is_named() -> None:
    """All at once, so that they can be fixed at once."""
    response = await review(topology_tree(subset("a", most="130%"), subset("a"), kind="StatefulSet"))
    assert not response.allowed
    assert response.status is not None
    assert response.status.code == 422
    assert response.status.details is not None
    assert [cause.field for cause in response.status.details.causes] == [
        "spec.targetRef.kind",
        "spec.subsets[0].maxReplicas",
        "spec.subsets[1].name",
    ]
    assert 'UnitedTopology "web" is invalid: spec.targetRef.kind:' in response.status.message


async def test_a_workload_is_divided_by_one_alone() -> None:
    """The message names the other one, and what can be done."""
    response = await review(topology_tree(subset("a")), topology_tree(subset("b"), name="first"))
    assert response.status is not None
    assert "first already targets Deployment web; change that one, or delete it first" in response.status.message


async def test_an_object_does_not_conflict_with_itself() -> None:
    """A change of what is there already."""
    before = topology_tree(subset("a"))
    assert (await review(topology_tree(subset("a", most=3)), before, old=before)).allowed


async def test_a_change_of_something_else_is_not_held_up() -> None:
    """An object that an older version took can be labelled and released without being mended first."""
    wrong = topology_tree(subset("a", most="130%"))
    labelled = wrong | {"metadata": wrong["metadata"] | {"labels": {"team": "shop"}}}
    assert (await review(labelled, old=wrong)).allowed


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"targetRef": {}, "subsets": [{"name": "a"}]}, "spec.targetRef", id="a field that is missing"),
        pytest.param(
            {"targetRef": topology_tree(subset("a"))["spec"]["targetRef"], "subsets": []},
            "spec.subsets",
            id="no subset at all",
        ),
    ],
)
async def test_what_does_not_even_decode_is_refused_with_its_path(spec: JSON, field: str) -> None:
    """A schema says so first; where there is none, this does."""
    response = await review({"metadata": {"name": "web"}, "spec": spec})
    assert response.status is not None
    assert response.status.details is not None
    assert response.status.details.causes[0].field == field


async def test_other_kinds_are_none_of_its_business() -> None:
    """Whatever is sent here by mistake goes on."""
    request = AdmissionRequest(uid="u", kind=GroupVersionKind(group="", version="v1", kind="Pod"), object=Document({}))
    assert (await Validation(Client(ScriptedTransport())).decide(request)).allowed
