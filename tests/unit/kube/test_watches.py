"""Lists and watches, read into types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kube.fakes import pod_tree, status
from trimtab.api import codec, complexity
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.kube import errors, watches


def line(kind: str, tree: Any) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": kind, "object": tree}).encode()


def clone_set(name: str, **spec: Any) -> dict[str, Any]:
    """A CloneSet; without a template it is not one."""
    return {"metadata": {"name": name, "namespace": "n", "resourceVersion": "7"}, "spec": spec}


GOOD: dict[str, Any] = {"selector": {}, "template": {}}


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_a_change_is_decoded_into_its_type(kind: str) -> None:
    """With the version to go on from."""
    read = watches.reader(Pod)
    event = read(line(kind, {"metadata": {"name": "a", "resourceVersion": "12"}, "status": {"phase": "Running"}}))
    assert event.object is not None
    assert (event.type, event.resource_version, event.object.status.phase) == (kind, "12", "Running")


def test_a_change_can_be_read_as_plain_json() -> None:
    """Then every field is there."""
    read = watches.reader(dict[str, Any])
    event = read(line("ADDED", {"metadata": {"resourceVersion": "12"}, "whatever": 1}))
    assert event.object == {"metadata": {"resourceVersion": "12"}, "whatever": 1}
    assert event.resource_version == "12"


@pytest.mark.parametrize("model", [Pod, CloneSet, dict[str, Any]], ids=["lenient", "strict", "raw"])
def test_a_bookmark_has_a_version_and_no_object(model: type[Any]) -> None:
    """Even for a type that a bookmark does not fit."""
    tree = {"kind": "X", "apiVersion": "v1", "metadata": {"resourceVersion": "99", "creationTimestamp": None}}
    event = watches.reader(model)(line("BOOKMARK", tree))
    assert (event.type, event.object, event.resource_version) == ("BOOKMARK", None, "99")


@pytest.mark.parametrize("model", [Pod, CloneSet, dict[str, Any]], ids=["lenient", "strict", "raw"])
def test_an_error_event_is_raised(model: type[Any]) -> None:
    """410 within a watch is the same as 410 for the request."""
    with pytest.raises(errors.Gone, match="too old resource version"):
        watches.reader(model)(line("ERROR", status(410, "Expired", "too old resource version: 1 (5)")))


@pytest.mark.parametrize(
    "bad",
    [b"not json", b"[]", b'{"type":"ADDED"}', b'{"type":"NEWS","object":{"metadata":{}}}', b'{"type":1,"object":{}}'],
)
def test_malformed_events_are_errors(bad: bytes) -> None:
    """All malformed input raises the same error."""
    with pytest.raises(errors.Malformed):
        watches.reader(Pod)(bad)


def test_an_object_that_does_not_fit_its_type_is_rejected() -> None:
    """By its key, with its version, and with the reason."""
    event = watches.reader(CloneSet)(line("MODIFIED", clone_set("a", selector={}, template={}, replicas="many")))
    assert event.object is None
    assert event.rejected is not None
    assert (event.rejected.key, event.resource_version) == ("n/a", "7")
    assert str(event.rejected.error).startswith("spec.replicas: ")


def test_nulls_are_absent_fields() -> None:
    """API servers write null for what is not set."""
    event = watches.reader(Pod)(
        line("ADDED", {"metadata": {"name": "a", "labels": None}, "spec": {"containers": None}})
    )
    assert event.object is not None
    assert event.object.spec.containers == ()


def test_a_page_has_its_version_and_continue_token() -> None:
    """Items, version, and the token for the next part."""
    data = {"metadata": {"resourceVersion": "5", "continue": "next"}, "items": [{"metadata": {"name": "a"}}]}
    [page] = watches.parts(json.dumps(data).encode(), Pod)
    assert ([pod.metadata.name for pod in page.items], page.resource_version, page.continue_token) == (
        ["a"],
        "5",
        "next",
    )


@pytest.mark.parametrize("items", [{}, {"items": None}, {"items": []}])
def test_an_empty_page(items: dict[str, Any]) -> None:
    """However emptiness is written."""
    [page] = watches.parts(json.dumps({"metadata": {"resourceVersion": "5"}, **items}).encode(), Pod)
    assert page.items == ()


def test_one_bad_item_does_not_affect_the_others() -> None:
    """The others are read, and the bad one is named."""
    data = {"metadata": {"resourceVersion": "5"}, "items": [clone_set("a"), clone_set("b", **GOOD)]}
    [page] = watches.parts(json.dumps(data).encode(), CloneSet)
    assert [item.metadata.name for item in page.items] == ["b"]
    assert [rejected.key for rejected in page.rejected] == ["n/a"]


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b'{"items":3}'])
def test_a_malformed_page_is_an_error(data: bytes) -> None:
    """A proxy may answer 200 with a page of another kind."""
    with pytest.raises(errors.Malformed):
        list(watches.parts(data, Pod))


@given(st.lists(st.binary(min_size=1).filter(lambda text: b"\n" not in text)), st.data())
def test_lines_are_complete_however_chunks_are_split(texts: list[bytes], data: st.DataObject) -> None:
    """Chunks end anywhere; an incomplete last line is dropped."""
    whole = b"".join(text + b"\n" for text in texts) + b"cut off"
    lines, seen = watches.Lines(), []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        seen += lines.feed(whole[:size])
        whole = whole[size:]
    assert seen == texts


@pytest.mark.parametrize("pods", [0, 1, 100, 101, 220])
def test_a_page_is_decoded_in_parts(pods: int) -> None:
    """All objects in their order; each part has the page's version and token."""
    items = [{"metadata": {"name": f"p{n}"}} for n in range(pods)]
    data = {"metadata": {"resourceVersion": "5", "continue": "next"}, "items": items}
    parts = list(watches.parts(json.dumps(data).encode(), Pod))
    assert [pod.metadata.name for part in parts for pod in part.items] == [f"p{n}" for n in range(pods)]
    assert all(len(part.items) <= 100 for part in parts)
    assert {(part.resource_version, part.continue_token) for part in parts} == {("5", "next")}


def test_a_page_is_decoded_at_once_if_all_its_objects_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splitting it first takes a third of the time of a list."""
    monkeypatch.setattr(watches, "_split", None)
    body = {"metadata": {"resourceVersion": "7"}, "items": [pod_tree(f"p{number}") for number in range(220)]}
    parts = list(watches.parts(json.dumps(body).encode(), Pod))
    assert [len(part.items) for part in parts] == [100, 100, 20]
    assert [pod.metadata.name for part in parts for pod in part.items] == [f"p{number}" for number in range(220)]
    assert {part.resource_version for part in parts} == {"7"}


async def test_objects_of_many_values_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a watch, nor among initial events, nor in a page: that would keep the process from anything else."""
    spec: dict[str, Any] = {"selector": {}, "template": {"a": [[]] * complexity.MAX_VALUES}}
    wide = {"metadata": {"name": "wide", "namespace": "n", "uid": "u", "resourceVersion": "7"}, "spec": spec}
    good = {"metadata": {"name": "good", "namespace": "n"}, "spec": {**spec, "template": {}}}
    decoded: list[Any] = []

    def recorded(real: Any) -> Any:
        def decode(data: bytes, kind: Any) -> Any:
            decoded.append((len(data), kind.__name__))
            return real(data, kind)

        return decode

    monkeypatch.setattr(codec, "decode_exactly", recorded(codec.decode_exactly))
    monkeypatch.setattr(codec, "decode_lines_exactly", recorded(codec.decode_lines_exactly))
    lines = [json.dumps({"type": "ADDED", "object": each}).encode() for each in (good, wide, good)]
    assert watches.objects_reader(CloneSet)(b"\n".join(lines)) is None
    events = [watches.reader(CloneSet)(line) for line in lines]
    first, second = watches.parts(json.dumps({"items": [good, wide]}).encode(), CloneSet)
    for rejected in (events[1].rejected, *second.rejected):
        assert rejected is not None
        assert (rejected.key, rejected.resource_version) == ("n/wide", "7")
        assert str(rejected.error) == complexity.TOO_MANY_VALUES
    assert [each.object is not None for each in events] == [True, False, True]
    assert [each.metadata.name for each in (*first.items, *second.items)] == ["good"]
    assert {name for size, name in decoded if size > complexity.MAX_VALUES} == {"_RawEvent", "_RawList"}


def test_large_objects_of_a_list_are_handled_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of large pods is not decoded at once; other tasks run between its parts."""
    monkeypatch.setattr(watches, "_LARGE_PAGE", 5_000)
    monkeypatch.setattr(watches, "_LARGE", 2_000)
    sizes = [10, 10, 5_000, 10, 1_200, 1_200, 10]
    items = [{"metadata": {"name": f"p{n}", "labels": {"a": "x" * size}}} for n, size in enumerate(sizes)]
    found = list(watches.parts(json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode(), Pod))
    assert [[each.metadata.name for each in page.items] for page in found] == [
        ["p0", "p1"],
        ["p2"],
        ["p3", "p4"],
        ["p5", "p6"],
    ]
    assert {page.resource_version for page in found} == {"7"}
    small = list(watches.parts(json.dumps({"items": items[:2]}).encode(), Pod))
    assert [len(page.items) for page in small] == [2]
    (empty,) = watches.parts(b'{"metadata":{"resourceVersion":"7"},"items":[]}', CloneSet)
    assert (empty.items, empty.resource_version) == ((), "7")
