"""Which objects a request selects, and how a watch with a selection shows events."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab_lab.apiserver.kinds.errors import StatusError
from trimtab_lab.apiserver.kinds.registry import BUILT_IN, Kind
from trimtab_lab.apiserver.storage.selections import Selection
from trimtab_lab.apiserver.storage.store import Entry, Event
from trimtab_lab.apiserver.verbs.selectors import select

Tree = dict[str, Any]
KINDS: dict[str, Kind] = {kind.name: kind for kind in BUILT_IN}
POD = KINDS["v1 Pod"]


def entry(version: int = 5, namespace: str = "a", phase: str = "Running", **labels: str) -> Entry:
    """A stored pod."""
    metadata = {"name": "web", "namespace": namespace, "uid": "1", "labels": labels}
    return Entry(
        f"{namespace}/web", {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": phase}}, version
    )


def selected(labels: str = "", fields: str = "", namespace: str = "a") -> Selection:
    """The selection of a request."""
    return select(POD, namespace, "", labels, fields)


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        pytest.param(selected(), True, id="everything in the namespace"),
        pytest.param(selected(namespace=""), True, id="everything everywhere"),
        pytest.param(selected(namespace="b"), False, id="another namespace"),
        pytest.param(selected("app=web"), True, id="its label"),
        pytest.param(selected("app!=web"), False, id="all others"),
        pytest.param(selected(fields="spec.nodeName=n1,status.phase!=Failed"), True, id="its fields"),
        pytest.param(selected(fields="metadata.name=other"), False, id="another name"),
        pytest.param(selected(fields="spec.hostNetwork=false"), True, id="a flag that is not set"),
        pytest.param(selected("app", "status.phase=Pending"), False, id="labels fit, fields do not"),
    ],
)
def test_an_object_is_selected_or_not(selection: Selection, wanted: bool) -> None:
    """By namespace, labels and fields."""
    assert selection.matches(entry(app="web")) is wanted


@pytest.mark.parametrize(
    ("type_", "before", "after", "seen"),
    [
        pytest.param("ADDED", None, "front", "ADDED", id="it is created inside"),
        pytest.param("ADDED", None, "back", None, id="it is created outside"),
        pytest.param("MODIFIED", "back", "front", "ADDED", id="it comes in"),
        pytest.param("MODIFIED", "front", "front", "MODIFIED", id="it stays in"),
        pytest.param("MODIFIED", "front", "back", "DELETED", id="it leaves"),
        pytest.param("MODIFIED", "back", "back", None, id="it stays out"),
        pytest.param("DELETED", "front", "front", "DELETED", id="it is deleted inside"),
        pytest.param("DELETED", "back", "back", None, id="it is deleted outside"),
    ],
)
def test_an_object_enters_or_leaves_a_selection(type_: Any, before: str | None, after: str, seen: str | None) -> None:
    """An object that leaves is shown in its last selected state, with the version at which it left."""
    previous = None if before is None else entry(5, tier=before)
    event = Event(6, type_, entry(6, tier=after), previous)
    shown = selected("tier=front").view(event)
    assert (shown[0] if shown else None) == seen
    if shown is not None:
        assert shown[1].labels == {"tier": "front"}
        assert shown[1].version == 6


def test_fields_of_the_other_event_kind_have_other_names() -> None:
    """The core Event is what is stored."""
    selection = select(KINDS["events.k8s.io/v1 Event"], "", "", "", "regarding.name=web")
    assert [term.field for term in selection.fields] == ["involvedObject.name"]


def test_unsupported_field_selectors_are_rejected() -> None:
    """Each kind supports a few fields."""
    with pytest.raises(StatusError, match=r"field label not supported: spec\.nodeName"):
        select(KINDS["v1 Node"], "", "", "", "spec.nodeName=x")
