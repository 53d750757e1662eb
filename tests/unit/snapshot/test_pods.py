"""The table of pods: finding rows."""

from __future__ import annotations

import pytest

from trimtab.api import selectors
from trimtab.api.pods import Pod
from trimtab.snapshot import Snapshot
from trimtab.snapshot.pods import LabelSets
from trimtab.testing.builders import pod, uid_for


@pytest.fixture
def view() -> Snapshot:
    """Pods of two namespaces."""
    made = Snapshot()
    for each in (
        pod("one").labels(app="web"),
        pod("two").labels(app="web", tier="front"),
        pod("other").labels(app="db"),
        pod("far", namespace="elsewhere").labels(app="web"),
        pod("bare"),
    ):
        made.put(each.build())
    return made


def matching(view: Snapshot, selector: str, namespace: str = "default") -> set[str]:
    """The keys of the pods that a selector matches."""
    rows = view.pods.matching(namespace, selectors.parse(selector)).tolist()
    return {view.pods.rows.names[row] or "" for row in rows}


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param("app=web", {"default/one", "default/two"}, id="a label"),
        pytest.param("app,!tier", {"default/one", "default/other"}, id="one that is there, one that is not"),
        pytest.param("", {"default/one", "default/two", "default/other", "default/bare"}, id="everything"),
        pytest.param("app=nobody", set(), id="nothing"),
    ],
)
def test_pods_of_a_namespace_are_matched(view: Snapshot, selector: str, want: set[str]) -> None:
    """Those of other namespaces never are."""
    assert matching(view, selector) == want


def test_deleted_pods_are_not_matched(view: Snapshot) -> None:
    """Their rows keep old values until they are reused."""
    view.drop(Pod, "default", "one")
    assert matching(view, "app=web") == {"default/two"}
    view.put(pod("new").labels(app="db").build())
    assert matching(view, "app=db") == {"default/other", "default/new"}


def test_an_empty_table_matches_nothing() -> None:
    """There are no rows at all."""
    assert matching(Snapshot(), "app=web") == set()


def owned(view: Snapshot, owner: str) -> set[str]:
    """The names of the pods that a ReplicaSet manages."""
    rows = view.pods.owned_by(uid_for(f"ReplicaSet/{owner}")).tolist()
    return {(view.pods.rows.names[row] or "").removeprefix("default/") for row in rows}


def test_controllers_without_pods_are_forgotten() -> None:
    """Each rollout makes a new ReplicaSet: a process that runs for months does not remember all of them."""
    view = Snapshot()
    for number in range(50):
        view.put(pod("old").owned_by(f"web-{number}").build())
        view.put(pod("new").owned_by(f"web-{number + 1}").build())
        assert (owned(view, f"web-{number}"), owned(view, f"web-{number + 1}")) == ({"old"}, {"new"})
        assert len(view.pods.owners) == 2
    view.drop(Pod, "default", "old")
    view.put(pod("new").build())
    assert len(view.pods.owners) == 0
    assert owned(view, "web-50") == set()


def test_a_controller_is_known_as_long_as_one_of_its_pods() -> None:
    """Also in a copy, whatever happens to the original; its number is not given to another one before."""
    view = Snapshot()
    for name in ("a", "b"):
        view.put(pod(name).owned_by("web").build())
    view.put(pod("a").owned_by("web").ready().build())
    copied = view.copy()
    view.drop(Pod, "default", "a")
    view.put(pod("x").owned_by("api").build())
    assert (owned(view, "web"), owned(view, "api")) == ({"b"}, {"x"})
    view.drop(Pod, "default", "b")
    view.put(pod("y").owned_by("job").build())
    assert (owned(view, "web"), owned(view, "api"), owned(view, "job")) == (set(), {"x"}, {"y"})
    assert (owned(copied, "web"), owned(copied, "api")) == ({"a", "b"}, set())


def test_labels_are_found_by_the_object_that_pods_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing them for each pod takes longer than all else that is done for them."""
    sets, labels = LabelSets(), {"app": "web"}
    number = sets.take("default", labels)
    monkeypatch.setattr("trimtab.snapshot.pods._pack", None)
    assert sets.take("default", labels) == number
    assert not sets.release(number)


def test_one_object_of_labels_may_be_of_several_namespaces() -> None:
    """And of one whose set was freed meanwhile: its number may be another set's by now."""
    sets, labels = LabelSets(), {"app": "web"}
    here, there = sets.take("default", labels), sets.take("elsewhere", labels)
    assert here != there
    assert sets.take("default", labels) == here
    assert sets.release(there)
    other = sets.take("elsewhere", {"app": "db"})
    assert other == there
    assert sets.take("default", labels) == here
    assert sets.take("elsewhere", labels) not in (here, there)
    assert sets.copy().take("elsewhere", labels) == sets.take("elsewhere", labels)
