"""Objects in memory: versions, history, what was there at a version, and what is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab_lab.apiserver.storage.store import Changed, Compacted, Event, Exists, Shelf, Store, key_of

Tree = dict[str, Any]


def tree(name: str, namespace: str = "", **more: Any) -> Tree:
    """An object that can be kept."""
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **more}}


def test_an_object_is_kept_with_its_version() -> None:
    """The version is written into it, and what is read is a copy of its own each time."""
    store = Store()
    shelf = store.shelf("/things")
    entry = store.insert(shelf, "a", tree("a"))
    assert entry.tree()["metadata"]["resourceVersion"] == str(store.version)
    entry.tree()["metadata"]["name"] = "changed"
    assert shelf.entries["a"].tree()["metadata"]["name"] == "a"


def test_a_key_is_taken_once() -> None:
    """Who has it is told."""
    store = Store()
    first = store.insert(store.shelf("/things"), "a", tree("a"))
    with pytest.raises(Exists) as refused:
        store.insert(store.shelf("/things"), "a", tree("a"))
    assert refused.value.entry is first


def test_what_was_overtaken_is_not_written() -> None:
    """A change names what it was based on."""
    store = Store()
    shelf = store.shelf("/things")
    seen = store.insert(shelf, "a", tree("a"))
    store.replace(shelf, seen, tree("a", labels={"x": "y"}))
    with pytest.raises(Changed):
        store.replace(shelf, seen, tree("a"))
    with pytest.raises(Changed):
        store.remove(shelf, seen)


def test_keys_sort_as_kubernetes_sorts_them() -> None:
    """By their text, in which a namespace ends with a slash: `a-b/x` comes before `a/x`."""
    store = Store()
    shelf = store.shelf("/things")
    for namespace in ("a", "a-b", "b"):
        store.insert(shelf, key_of(namespace, "x"), tree("x", namespace))
    assert [entry.key for entry in shelf.present()] == ["a-b/x", "a/x", "b/x"]
    assert [entry.key for entry in shelf.present("a/")] == ["a/x"]
    assert [entry.key for entry in shelf.present("", "a-b/x")] == ["a/x", "b/x"]


def test_listeners_hear_everything_right_away() -> None:
    """In the order in which it happened, with the state before."""
    store = Store()
    shelf = store.shelf("/things")
    heard: list[tuple[str, str, int | None]] = []

    def listen(where: Shelf, event: Event) -> None:
        heard.append((where.name, event.type, event.previous.version if event.previous else None))

    store.listen(listen)
    entry = store.insert(shelf, "a", tree("a"))
    entry = store.replace(shelf, entry, tree("a", labels={"x": "y"}))
    store.remove(shelf, entry)
    assert heard == [("/things", "ADDED", None), ("/things", "MODIFIED", 2), ("/things", "DELETED", 3)]


def test_what_is_too_old_is_forgotten() -> None:
    """A shelf remembers its last events; who asks for more is told the oldest version it can have."""
    store = Store(history=10)
    shelf = store.shelf("/things")
    for number in range(30):
        store.insert(shelf, f"{number:02}", tree(f"{number:02}"))
    assert 10 <= len(shelf.events) < 20
    with pytest.raises(Compacted) as refused:
        shelf.since(1)
    assert len(shelf.since(refused.value.oldest)) == len(shelf.events)


def test_everything_can_be_forgotten_at_once() -> None:
    """What is there stays, and can be watched from now on."""
    store = Store()
    shelf = store.shelf("/things")
    store.insert(shelf, "a", tree("a"))
    store.compact()
    assert shelf.since(store.version) == []
    with pytest.raises(Compacted):
        shelf.since(store.version - 1)
    assert len(shelf) == 1


_STEPS = st.lists(st.tuples(st.sampled_from(["insert", "replace", "remove"]), st.sampled_from("abcd")), max_size=40)


@settings(deadline=None, max_examples=200)
@given(steps=_STEPS, prefix=st.sampled_from(["", "n/"]), after=st.sampled_from(["", "n/b"]))
def test_the_past_is_what_was_there(steps: list[tuple[str, str]], prefix: str, after: str) -> None:
    """At every version the shelf gives exactly the objects that it had then: the slow twin keeps copies."""
    store = Store()
    shelf = store.shelf("/things")
    copies: dict[int, list[bytes]] = {store.version: []}
    for what, name in steps:
        key = key_of("n", name)
        seen = shelf.entries.get(key)
        if what == "insert" and seen is None:
            store.insert(shelf, key, tree(name, "n"))
        elif what == "replace" and seen is not None:
            store.replace(shelf, seen, tree(name, "n", labels={"at": str(store.version)}))
        elif what == "remove" and seen is not None:
            store.remove(shelf, seen)
        kept = [entry.data for key, entry in sorted(shelf.entries.items()) if key > after]
        copies[store.version] = kept
    for version, kept in copies.items():
        assert [entry.data for entry in shelf.at(version, prefix, after)] == kept
    assert [entry.data for entry in shelf.present(prefix, after)] == copies[store.version]


@settings(deadline=None, max_examples=100)
@given(steps=_STEPS)
def test_events_replayed_give_the_present(steps: list[tuple[str, str]]) -> None:
    """Whoever starts with the state at a version and applies what happened since has what is there now."""
    store = Store()
    shelf = store.shelf("/things")
    for what, name in steps:
        seen = shelf.entries.get(name)
        if what == "insert" and seen is None:
            store.insert(shelf, name, tree(name))
        elif what == "replace" and seen is not None:
            store.replace(shelf, seen, tree(name, labels={"at": str(store.version)}))
        elif what == "remove" and seen is not None:
            store.remove(shelf, seen)
    for version in range(1, store.version + 1):
        state = {entry.key: entry for entry in shelf.at(version)}
        for event in shelf.since(version):
            if event.type == "DELETED":
                del state[event.entry.key]
            else:
                state[event.entry.key] = event.entry
        assert state == shelf.entries
