"""Stores: objects by key and by index."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.meta import ObjectMeta, OwnerReference
from trimtab.api.pods import Pod, PodSpec
from trimtab.kube.resources import Key
from trimtab.kube.stores import Store, by_controller, by_namespace, key_of


def pod(name: str, node: str = "", *, namespace: str = "n", owner: str = "") -> Pod:
    """A pod on a node."""
    owners = (OwnerReference(uid=owner, controller=True),) if owner else ()
    metadata = ObjectMeta(name=name, namespace=namespace, owner_references=owners)
    return Pod(metadata=metadata, spec=PodSpec(node_name=node))


def by_node(a_pod: Pod) -> Iterable[str]:
    """An index of pods that are on a node."""
    return (a_pod.spec.node_name,) if a_pod.spec.node_name else ()


def keep(store: Store[Pod], a_pod: Pod) -> Pod | None:
    """Put a pod under its own key."""
    return store.put(key_of(a_pod), a_pod)


def test_an_object_is_found_by_its_key() -> None:
    """And not any more when it is removed."""
    store: Store[Pod] = Store()
    assert keep(store, pod("a")) is None
    assert keep(store, pod("a", "x")) == pod("a")
    assert store.get(Key("n/a")) == pod("a", "x")
    assert Key("n/a") in store
    assert len(store) == 1
    assert store.remove(Key("n/a")) == pod("a", "x")
    assert store.remove(Key("n/a")) is None
    assert list(store) == []


def test_an_object_is_found_by_its_index_values() -> None:
    """When the value changes the object moves; an empty value is removed."""
    store: Store[Pod] = Store({"node": by_node, "namespace": by_namespace, "owner": by_controller})
    keep(store, pod("a", "x", owner="o"))
    keep(store, pod("b", "x"))
    assert [p.metadata.name for p in store.by("node", "x")] == ["a", "b"]
    keep(store, pod("a", "y", owner="o"))
    assert [p.metadata.name for p in store.by("node", "x")] == ["b"]
    assert store.by("owner", "o") == [pod("a", "y", owner="o")]
    store.remove(Key("n/b"))
    assert store.by("node", "x") == []
    assert store.values("node") == ["y"]
    assert len(store.by("namespace", "n")) == 1


def test_an_unknown_index_is_a_mistake() -> None:
    """An empty answer would hide it."""
    with pytest.raises(KeyError):
        Store[Pod]().by("nothing", "x")


def test_objects_are_inserted_together_or_not_at_all() -> None:
    """An index function that fails for one object leaves the store and every index as they were."""

    def fails_for_b(found: Pod) -> list[str]:
        if found.metadata.name == "b":
            raise ValueError("no such name")
        return [found.metadata.name]

    store: Store[Pod] = Store({"node": by_node, "name": fails_for_b})
    pods = {key_of(each): each for each in (pod("a", "x"), pod("b", "x"))}
    with pytest.raises(ValueError, match="no such name"):
        store.insert_all(pods)
    assert len(store) == 0
    assert store.values("node") == store.values("name") == []
    store.insert_all({Key("n/a"): pods[Key("n/a")]})
    assert store.by("node", "x") == store.by("name", "a") == [pod("a", "x")]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "x", "y"]), st.booleans()), max_size=30))
def test_an_index_agrees_with_a_search(steps: list[tuple[str, str, bool]]) -> None:
    """After any history of puts and removals."""
    store: Store[Pod] = Store({"node": by_node})
    for name, node, put in steps:
        if put:
            keep(store, pod(name, node))
        else:
            store.remove(Key(f"n/{name}"))
        for value in ("x", "y"):
            assert {key_of(p) for p in store.by("node", value)} == {
                key_of(p) for p in store if p.spec.node_name == value
            }
    assert set(store.values("node")) == {p.spec.node_name for p in store} - {""}
