"""The table of pods: finding rows."""

from __future__ import annotations

import pytest

from trimtab.api import selectors
from trimtab.api.pods import Pod
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import pod


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
