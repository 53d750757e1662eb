"""Counts of matching pods by node: right at the first request, and kept current by events."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api import selectors
from trimtab.api.meta import LabelSelector
from trimtab.api.pods import Pod
from trimtab.snapshot import Snapshot, counts
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.counts import TallyKey
from trimtab.testing.builders import cluster, node, pod

WEB = selectors.compile(LabelSelector(match_labels={"app": "web"}))
ANY_APP = selectors.parse("app")


def per_node(view: Snapshot, selector: selectors.Selector = WEB, namespace: str = "default") -> dict[str, int]:
    """The counts of matching pods by node name, zeros left out."""
    found = view.matching(namespace, selector)
    return {name: int(found[row]) for name, row in view.nodes.rows.index.items() if found[row]}


def test_matching_pods_are_counted_on_their_nodes() -> None:
    """A tally is right at its first request, and stays right as pods are added and deleted."""
    view = cluster("z1: a b", "z2: x").running("a", "a", "x").snapshot()
    assert per_node(view) == {"a": 2, "x": 1}
    view.put(pod("new").on("b").labels(app="web").build())
    view.put(pod("other").on("b").labels(app="db").build())
    view.drop(Pod, "default", "pod-00")
    assert per_node(view) == {"a": 1, "b": 1, "x": 1}


def test_nodes_that_are_added_later_are_counted_too() -> None:
    """However many: a tally grows with the nodes, whether or not they have pods."""
    view = cluster("z1: a").running("a").snapshot()
    assert per_node(view) == {"a": 1}
    for number in range(200):
        view.put(node(f"n{number}").build())
    assert len(view.matching("default", WEB)) == 201
    view.put(pod("new").on("n199").labels(app="web").build())
    assert per_node(view) == {"a": 1, "n199": 1}


def test_a_pod_on_a_node_that_was_added_later_is_counted() -> None:
    """Its tally has not been asked for since."""
    view = cluster("z1: a").running("a").snapshot()
    assert per_node(view) == {"a": 1}
    for number in range(200):
        view.put(node(f"n{number}").build())
    view.put(pod("new").on("n199").labels(app="web").build())
    assert per_node(view) == {"a": 1, "n199": 1}


def test_a_pod_on_each_node_is_counted_as_nodes_are_added() -> None:
    """Its tally is not asked for in between."""
    view = cluster("z1: a").running("a").snapshot()
    assert per_node(view) == {"a": 1}
    names = [f"n{number}" for number in range(200)]
    for name in names:
        view.put(node(name).build())
        view.put(pod(f"on-{name}").on(name).labels(app="web").build())
    assert per_node(view) == dict.fromkeys(["a", *names], 1)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda p: p.terminating(), id="terminating"),
        pytest.param(lambda p: p.phase("Succeeded"), id="finished well"),
        pytest.param(lambda p: p.phase("Failed"), id="finished badly"),
        pytest.param(lambda p: p.labels(app="db"), id="relabelled"),
        pytest.param(lambda p: p.spec(nodeName=""), id="unassigned"),
    ],
)
def test_a_pod_stops_counting_when_it_changes(change: Any) -> None:
    """Pods that leave, finish or no longer match are not counted for spreading."""
    view = cluster("z1: a").snapshot()
    made = pod("p").on("a").labels(app="web")
    view.put(made.build())
    assert per_node(view) == {"a": 1}
    view.put(change(made).build())
    assert per_node(view) == {}
    later = cluster("z1: a").snapshot()
    later.put(made.build())
    assert per_node(later) == {}, "nor by a tally that is new"


def test_a_set_of_labels_is_matched_anew_when_its_number_is_reused() -> None:
    """No pod has the old labels any more, and a pod with other labels comes."""
    view = cluster("z1: a").snapshot()
    assert per_node(view) == {}
    view.put(pod("old").on("a").labels(app="db").build())
    view.drop(Pod, "default", "old")
    view.put(pod("new").on("a").labels(app="web").build())
    assert per_node(view) == {"a": 1}


@pytest.mark.parametrize(
    ("namespaces", "want"),
    [
        pytest.param({"default"}, 1, id="one namespace"),
        pytest.param({"default", "shop"}, 2, id="two namespaces"),
        pytest.param(None, 3, id="all namespaces"),
        pytest.param({"elsewhere"}, 0, id="one without pods"),
    ],
)
@pytest.mark.parametrize("requested", [pytest.param(True, id="known before"), pytest.param(False, id="new")])
def test_pods_of_the_namespaces_of_a_tally_are_counted(namespaces: set[str] | None, want: int, requested: bool) -> None:
    """Whether they came before its first request or after it."""
    view = cluster("z1: a").snapshot()
    key = TallyKey(None if namespaces is None else frozenset(namespaces), WEB, terminating=False)
    if requested:
        assert view.tallies.per_node(key).tolist() == [0]
    for namespace in ("default", "shop", "bank"):
        view.put(pod("web", namespace=namespace).on("a").labels(app="web").build())
        view.put(pod("db", namespace=namespace).on("a").labels(app="db").build())
    assert view.tallies.per_node(key).tolist() == [want]


@pytest.fixture
def recounts(monkeypatch: pytest.MonkeyPatch) -> list[TallyKey]:
    """The tallies that are counted anew, once for each time."""
    found: list[TallyKey] = []
    original = counts.TallyBook._count  # noqa: SLF001

    def counted(book: counts.TallyBook, key: TallyKey, sets: Mask) -> IntColumn:
        found.append(key)
        return original(book, key, sets)

    monkeypatch.setattr(counts.TallyBook, "_count", counted)
    return found


def test_tallies_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes memory for every node: the one that was not requested longest goes."""
    monkeypatch.setattr(counts, "MAX_TALLIES", 3)
    view = cluster("z1: a").running("a").snapshot()
    for n in range(10):
        per_node(view, selectors.parse(f"app=a{n}"))
        assert per_node(view, WEB) == {"a": 1}
    assert len(view.tallies) == 3
    view.put(pod("more").on("a").labels(app="web").build())
    assert per_node(view, WEB) == {"a": 2}


def test_a_tenth_of_the_tallies_is_dropped_at_once(monkeypatch: pytest.MonkeyPatch, recounts: list[TallyKey]) -> None:
    """Those whose last request is longest ago; all others are not counted again."""
    monkeypatch.setattr(counts, "MAX_TALLIES", 90)
    view = cluster("z1: a").running("a").snapshot()
    some = [selectors.parse(f"app=a{n}") for n in range(91)]
    for each in (*some[:90], some[0], some[90]):
        per_node(view, each)
    assert len(view.tallies) == 90 - 9 + 1
    recounts.clear()
    for each in (some[0], *some[10:]):
        per_node(view, each)
    assert recounts == []
    per_node(view, some[1])
    assert len(recounts) == 1


def test_sets_of_labels_are_matched_with_new_tallies_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with all others again, unless some were dropped, a tenth at once; pods are counted by all that are kept."""
    monkeypatch.setattr(counts, "MAX_TALLIES", 20)
    view = cluster("z1: a").running("a").snapshot()
    apps = [selectors.parse(f"app in (web,a{n})") for n in range(40)]
    matched: list[int] = []
    matches = counts.TallyBook._matches  # noqa: SLF001

    def counted(book: counts.TallyBook, key: TallyKey, labels: int) -> bool:
        matched.append(labels)
        return matches(book, key, labels)

    monkeypatch.setattr(counts.TallyBook, "_matches", counted)
    for n, each in enumerate(apps):
        per_node(view, each)
        view.put(pod(f"p{n}").on("a").labels(app="web").build())
    assert len(view.tallies) < 25
    assert len(matched) <= 1 + 20 * 11, "not 20 for each of 40"
    assert [per_node(view, each) for each in reversed(apps)] == [{"a": 41}] * 40


def test_what_is_kept_of_sets_of_labels_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Selectors may match every set of labels; the counts are the same."""
    monkeypatch.setattr(counts, "MAX_PAIRS", 30)
    view = cluster("z1: a").running("a").snapshot()
    wide = [selectors.parse(f"x notin (v{n})") for n in range(10)]
    for n in range(12):
        for each in wide[: n + 1]:
            per_node(view, each)
        view.put(pod(f"p{n}").on("a").labels(app=f"a{n}").build())
        held = view.tallies._by_labels.values()  # noqa: SLF001
        assert sum(map(len, held)) == view.tallies._pairs <= 30  # noqa: SLF001
    view.drop(Pod, "default", "p11")
    held = view.tallies._by_labels.values()  # noqa: SLF001
    assert sum(map(len, held)) == view.tallies._pairs  # noqa: SLF001
    assert [per_node(view, each) for each in wide] == [{"a": 12}] * 10


@pytest.mark.parametrize(
    ("requests", "kept"), [pytest.param(1, 3, id="requested lately"), pytest.param(5, 2, id="not requested for long")]
)
def test_idle_tallies_are_dropped(monkeypatch: pytest.MonkeyPatch, requests: int, kept: int) -> None:
    """An unused constraint must not cost for ever; the next request counts again."""
    monkeypatch.setattr(counts, "IDLE_REQUESTS", 3)
    view = cluster("z1: a").running("a").snapshot()
    per_node(view, WEB)
    for _ in range(requests):
        per_node(view, ANY_APP)
    per_node(view, selectors.parse("app=new"))
    assert len(view.tallies) == kept
    assert per_node(view, WEB) == {"a": 1}


@pytest.mark.parametrize("text", ["", "app=web", "app=web,tier in (a,b)", "tier", "!tier", "app!=web", "app in (web)"])
@pytest.mark.parametrize("namespaces", [None, {"default"}, {"default", "other"}])
def test_sets_of_labels_are_matched_at_once_as_one_by_one(text: str, namespaces: set[str] | None) -> None:
    """Also where numbers of sets have been freed."""
    view = cluster("z1: a").running("a", "a", app="web", tier="a").running("a", app="db").running("a").snapshot()
    view.put(pod("p", namespace="other").on("a").labels(app="web", tier="c").build())
    view.put(pod("gone").on("a").labels(app="gone").build())
    view.drop(Pod, "default", "gone")
    key = TallyKey(None if namespaces is None else frozenset(namespaces), selectors.parse(text), terminating=True)
    book, sets = view.tallies, len(view.pods.labels.rows)
    assert book._matching(key) == [book._matches(key, number) for number in range(sets)]  # noqa: SLF001
