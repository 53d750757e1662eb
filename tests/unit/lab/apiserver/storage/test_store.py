"""The store: versions, history, states at older versions, and compaction."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab_lab.apiserver.storage.store import (
    Collection,
    CompactedError,
    ConflictError,
    Event,
    KeyExistsError,
    Store,
    key_of,
)

Tree = dict[str, Any]


def tree(name: str, namespace: str = "", **more: Any) -> Tree:
    """An object that can be stored."""
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **more}}


def test_an_object_is_stored_with_its_version() -> None:
    """The version is written into it, and every read returns a copy."""
    store = Store()
    collection = store.collection("/things")
    entry = store.insert(collection, "a", tree("a"))
    assert entry.tree()["metadata"]["resourceVersion"] == str(store.version)
    entry.tree()["metadata"]["name"] = "changed"
    assert collection.entries["a"].tree()["metadata"]["name"] == "a"


def test_a_key_exists_once() -> None:
    """The error has the entry that exists."""
    store = Store()
    first = store.insert(store.collection("/things"), "a", tree("a"))
    with pytest.raises(KeyExistsError) as refused:
        store.insert(store.collection("/things"), "a", tree("a"))
    assert refused.value.entry is first


def test_a_stale_write_is_a_conflict() -> None:
    """A write names the entry that it is based on."""
    store = Store()
    collection = store.collection("/things")
    seen = store.insert(collection, "a", tree("a"))
    store.replace(collection, seen, tree("a", labels={"x": "y"}))
    with pytest.raises(ConflictError):
        store.replace(collection, seen, tree("a"))
    with pytest.raises(ConflictError):
        store.remove(collection, seen)


def test_keys_sort_as_kubernetes_sorts_them() -> None:
    """By their text, in which a namespace ends with a slash: `a-b/x` comes before `a/x`."""
    store = Store()
    collection = store.collection("/things")
    for namespace in ("a", "a-b", "b"):
        store.insert(collection, key_of(namespace, "x"), tree("x", namespace))
    assert [entry.key for entry in collection.present()] == ["a-b/x", "a/x", "b/x"]
    assert [entry.key for entry in collection.present("a/")] == ["a/x"]
    assert [entry.key for entry in collection.present("", "a-b/x")] == ["a/x", "b/x"]


def test_listeners_receive_every_event_at_once() -> None:
    """In order, with the state before."""
    store = Store()
    collection = store.collection("/things")
    heard: list[tuple[str, str, int | None]] = []

    def listen(where: Collection, event: Event) -> None:
        heard.append((where.name, event.type, event.previous.version if event.previous else None))

    store.listen(listen)
    entry = store.insert(collection, "a", tree("a"))
    entry = store.replace(collection, entry, tree("a", labels={"x": "y"}))
    store.remove(collection, entry)
    assert heard == [("/things", "ADDED", None), ("/things", "MODIFIED", 2), ("/things", "DELETED", 3)]


def test_old_events_are_compacted() -> None:
    """The error has the oldest available version."""
    store = Store(history=10)
    collection = store.collection("/things")
    for number in range(30):
        store.insert(collection, f"{number:02}", tree(f"{number:02}"))
    assert 10 <= len(collection.events) < 20
    with pytest.raises(CompactedError) as refused:
        collection.since(1)
    assert len(collection.since(refused.value.oldest)) == len(collection.events)


def test_the_whole_history_can_be_compacted() -> None:
    """The objects stay, and can be watched from now on."""
    store = Store()
    collection = store.collection("/things")
    store.insert(collection, "a", tree("a"))
    store.compact()
    assert collection.since(store.version) == []
    with pytest.raises(CompactedError):
        collection.since(store.version - 1)
    assert len(collection) == 1


_STEPS = st.lists(st.tuples(st.sampled_from(["insert", "replace", "remove"]), st.sampled_from("abcd")), max_size=40)


@settings(deadline=None, max_examples=200)
@given(steps=_STEPS, prefix=st.sampled_from(["", "n/"]), after=st.sampled_from(["", "n/b"]))
def test_older_states_are_exact(steps: list[tuple[str, str]], prefix: str, after: str) -> None:
    """At every version the collection returns the objects that it had then; the slow counterpart keeps copies."""
    store = Store()
    collection = store.collection("/things")
    copies: dict[int, list[bytes]] = {store.version: []}
    for what, name in steps:
        key = key_of("n", name)
        seen = collection.entries.get(key)
        if what == "insert" and seen is None:
            store.insert(collection, key, tree(name, "n"))
        elif what == "replace" and seen is not None:
            store.replace(collection, seen, tree(name, "n", labels={"at": str(store.version)}))
        elif what == "remove" and seen is not None:
            store.remove(collection, seen)
        kept = [entry.data for key, entry in sorted(collection.entries.items()) if key > after]
        copies[store.version] = kept
    for version, kept in copies.items():
        assert [entry.data for entry in collection.at(version, prefix, after)] == kept
    assert [entry.data for entry in collection.present(prefix, after)] == copies[store.version]


@settings(deadline=None, max_examples=100)
@given(steps=_STEPS)
def test_replayed_events_lead_to_the_present(steps: list[tuple[str, str]]) -> None:
    """Applied to the state at a version, the events since then give the present state."""
    store = Store()
    collection = store.collection("/things")
    for what, name in steps:
        seen = collection.entries.get(name)
        if what == "insert" and seen is None:
            store.insert(collection, name, tree(name))
        elif what == "replace" and seen is not None:
            store.replace(collection, seen, tree(name, labels={"at": str(store.version)}))
        elif what == "remove" and seen is not None:
            store.remove(collection, seen)
    for version in range(1, store.version + 1):
        state = {entry.key: entry for entry in collection.at(version)}
        for event in collection.since(version):
            if event.type == "DELETED":
                del state[event.entry.key]
            else:
                state[event.entry.key] = event.entry
        assert state == collection.entries
