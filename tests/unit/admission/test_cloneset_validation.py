"""The hook that validates CloneSets: what is not supported is refused with the field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kube.fakes import ScriptedTransport
from trimtab.admission.validation import Validation
from trimtab.api.admission import AdmissionRequest, AdmissionResponse, GroupVersionKind
from trimtab.api.documents import Document
from trimtab.kube.client import Client

KIND = GroupVersionKind(group="apps.kruise.io", version="v1alpha1", kind="CloneSet")
LABELS = {"app": "web"}
SPEC: dict[str, Any] = {
    "selector": {"matchLabels": LABELS},
    "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}},
}


async def review(spec: dict[str, Any], old: dict[str, Any] | None = None) -> AdmissionResponse:
    """The answer to a review of a CloneSet."""
    request = AdmissionRequest(
        uid="u",
        kind=KIND,
        name="web",
        namespace="default",
        operation="CREATE" if old is None else "UPDATE",
        object=Document({"metadata": {"name": "web"}, "spec": spec}),
        old_object=None if old is None else Document({"metadata": {"name": "web"}, "spec": old}),
    )
    return await Validation(Client(ScriptedTransport())).decide(request)


async def test_a_good_cloneset_is_admitted() -> None:
    """Without a word."""
    assert (await review(SPEC)).allowed
    assert (await review({**SPEC, "replicas": 5}, SPEC)).allowed


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        pytest.param({"updateStrategy": {"type": "InPlaceOnly"}}, ["spec.updateStrategy.type"], id="in place"),
        pytest.param(
            {"updateStrategy": {"partition": 1}, "lifecycle": {}, "volumeClaimTemplates": [{}]},
            ["spec.updateStrategy.partition", "spec.volumeClaimTemplates", "spec.lifecycle"],
            id="several things at once",
        ),
        pytest.param({"selector": {}}, ["spec.selector"], id="every pod"),
    ],
)
async def test_what_is_not_supported_is_refused(change: dict[str, Any], fields: list[str]) -> None:
    """With every field that is wrong."""
    answer = await review({**SPEC, **change})
    assert not answer.allowed
    assert answer.status is not None
    assert answer.status.details is not None
    assert [cause.field for cause in answer.status.details.causes] == fields


async def test_the_selector_cannot_be_changed() -> None:
    """Not even to one that matches the template."""
    template = {**SPEC["template"], "metadata": {"labels": {**LABELS, "tier": "front"}}}
    answer = await review({"selector": {"matchLabels": {"tier": "front"}}, "template": template}, SPEC)
    assert answer.status is not None
    assert "spec.selector: cannot be changed" in answer.status.message


async def test_what_was_wrong_before_does_not_stop_other_changes() -> None:
    """A spec that stays as it was is not validated again: labels can be changed, and it can be deleted."""
    broken = {**SPEC, "lifecycle": {}}
    assert (await review(broken, broken)).allowed
