"""AntiAffinity: by how much less would be wrong if a pod went."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ranking.groups import NOW, aged, ranks, strategy, view_of
from trimtab.api import codec
from trimtab.api.core import Namespace
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.ranking.strategies import View
from trimtab.snapshot import Snapshot
from trimtab.snapshot.shapes import shape
from trimtab.testing.builders import PodBuilder, cluster, pod, topology_key


def term(key: str, app: str, **more: Any) -> dict[str, Any]:
    """An anti-affinity term against the pods of an app."""
    return {"topologyKey": topology_key(key), "labelSelector": {"matchLabels": {"app": app}}, **more}


def against(
    who: PodBuilder,
    *required: dict[str, Any],
    preferred: Iterable[tuple[int, dict[str, Any]]] = (),
) -> PodBuilder:
    """A pod that must, or would like to, be away from others."""
    wishes = [{"weight": weight, "podAffinityTerm": written} for weight, written in preferred]
    part = {
        "requiredDuringSchedulingIgnoredDuringExecution": list(required),
        "preferredDuringSchedulingIgnoredDuringExecution": wishes,
    }
    return who.affinity({"podAntiAffinity": part})


def company(who: PodBuilder, *required: dict[str, Any]) -> PodBuilder:
    """A pod that must be near others."""
    return who.affinity({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(required)}})


NO_TEAM = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}


def test_a_zone_that_holds_two_gives_one_up() -> None:
    """Three pods that should be a zone apart, on two zones: shrinking to two keeps both zones."""
    group = cluster("z1: a b", "z2: x").with_pods(
        *(against(aged(name, 1).on(on), preferred=[(100, term("zone", "web"))]) for name, on in ("pa", "qb", "rx"))
    )
    assert ranks(strategy("AntiAffinity"), view_of(group)) == {"p": 2, "q": 2, "r": 0}


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(
            [against(aged("p", 1).on("a"), term("host", "web")), aged("q", 1).on("a"), aged("r", 1).on("b")],
            {"p": 1, "q": 1, "r": 0},
            id="who refuses and who is refused rank the same",
        ),
        pytest.param(
            [against(aged("p", 1).on("a"), preferred=[(25, term("host", "web"))]), aged("q", 1).on("a")],
            {"p": 0.25, "q": 0.25},
            id="a wish counts by its weight",
        ),
        pytest.param(
            [
                against(aged("p", 1).on("a"), term("zone", "web")),
                aged("q", 1).on("a").terminating(),
                aged("r", 1).on("b").phase("Failed"),
                aged("s", 1),
            ],
            {"p": 0, "q": 0, "r": 0, "s": 0},
            id="pods on their way out, ended, or nowhere are in nobody's way",
        ),
        *(
            pytest.param(
                [
                    against(aged("p", 1).on("a"), term("zone", "web", namespaceSelector=selector)),
                    aged("q", 1).on("a").terminating(),
                    aged("r", 1).on("b"),
                ],
                {"p": 1, "q": 0, "r": 1},
                id=f"nor are those on their way out in the way of terms for {namespaces}",
            )
            for selector, namespaces in (({}, "all namespaces"), (NO_TEAM, "namespaces with certain labels"))
        ),
        pytest.param(
            [against(aged("p", 1).on("a").terminating(), term("zone", "web")), aged("q", 1).on("a")],
            {"p": 0, "q": 0},
            id="whoever is going no longer refuses anybody",
        ),
        pytest.param(
            [against(aged("p", 1).on("a"), term("rack", "web")), aged("q", 1).on("a")],
            {"p": 0, "q": 0},
            id="nodes without the topology key are near nobody",
        ),
        pytest.param(
            [
                against(aged("p", 1).on("a"), term("host", "web"), preferred=[(50, term("host", "web"))] * 2),
                aged("q", 1).on("a"),
            ],
            {"p": 2, "q": 2},
            id="a term that is written twice counts twice",
        ),
        pytest.param(
            [
                against(aged("p", 1).on("a"), term("host", "web")),
                against(pod("q").labels(app="db").on("a"), term("host", "web")),
                against(aged("r", 1).on("a"), term("host", "web")),
            ],
            {"p": 3, "q": 2, "r": 3},
            id="pods with the same terms are told apart by their labels",
        ),
        pytest.param(
            [company(aged("p", 1).on("a"), term("host", "web")), aged("q", 1).on("a")],
            {"p": 0, "q": 0},
            id="wanting company is no reason to go",
        ),
    ],
)
def test_pairs_that_should_not_be_together(pods: list[PodBuilder], want: dict[str, float]) -> None:
    """A pod ranks by the pairs that its going would part."""
    assert ranks(strategy("AntiAffinity"), view_of(cluster("z1: a b").with_pods(*pods))) == want


def test_labels_that_no_pod_has_any_more_are_no_namespace() -> None:
    """A term for namespaces with certain labels looks at those of the pods there are."""
    group = cluster("z1: a").with_pods(
        pod("gone").labels(app="old").on("a"),
        against(aged("p", 1).on("a"), term("host", "web", namespaceSelector=NO_TEAM)),
        aged("q", 1).on("a"),
    )
    snapshot = group.snapshot()
    snapshot.drop(Pod, "default", "gone")
    assert ranks(strategy("AntiAffinity"), view_of(snapshot, "p", "q")) == {"p": 1, "q": 1}


def test_other_workloads_count() -> None:
    """What a pod of another workload holds against this one makes a difference, and is not itself ranked."""
    group = cluster("z1: a b").with_pods(
        aged("p", 1).on("a"), aged("q", 1).on("b"), against(pod("lonely").labels(app="db").on("a"), term("host", "web"))
    )
    assert ranks(strategy("AntiAffinity"), view_of(group, "p", "q")) == {"p": 1, "q": 0}


def test_ranks_are_wrong_once_a_pod_has_gone() -> None:
    """Which is why they are recomputed, and why only one goes at a time: nothing more is in the way of the second."""
    chosen = strategy("AntiAffinity")
    snapshot = (
        cluster("z1: a b")
        .with_pods(*(against(aged(name, 1).on(on), term("host", "web")) for name, on in ("pa", "qa", "rb")))
        .snapshot()
    )
    assert ranks(chosen, view_of(snapshot)) == {"p": 2, "q": 2, "r": 0}
    with snapshot.with_assumed(gone=["default/p"]):
        assert ranks(chosen, view_of(snapshot)) == {"q": 0, "r": 0}
    assert chosen.recompute
    assert chosen.one_at_a_time


APPS = st.sampled_from(["web", "db"])
TERMS = st.builds(
    term,
    st.sampled_from(["zone", "host"]),
    APPS,
    namespaces=st.sampled_from([[], ["default"], ["other"]]),
    namespaceSelector=st.sampled_from([None, {}, {"matchLabels": {"team": "blue"}}, NO_TEAM]),
).map(lambda made: {key: value for key, value in made.items() if value is not None})


@st.composite
def any_pod(draw: st.DrawFn, name: str) -> Pod:
    """A pod in any state, with any terms, anywhere."""
    made = pod(name, namespace=draw(st.sampled_from(["default", "other", "unseen"]))).labels(app=draw(APPS))
    where = draw(st.sampled_from(["", "a", "b", "x", "unlabelled", "ghost"]))
    if where:
        made.on(where)
    if draw(st.integers(0, 5)) == 0:
        made.phase("Succeeded")
    if draw(st.integers(0, 3)) == 0:
        made.terminating()
    required, wishes = draw(st.lists(TERMS, max_size=2)), draw(st.lists(TERMS, max_size=2))
    return against(made, *required, preferred=[(draw(st.integers(1, 100)), wish) for wish in wishes]).build()


def wrong(pods: list[Pod], snapshot: Snapshot) -> int:
    """The formula at the head of the strategy's file, word by word, in hundredths."""
    staying = [p for p in pods if p.spec.node_name and p.active]
    total = 0
    for holder in staying:
        for held in (t for t in shape(holder).terms if t.anti):
            for other in staying:
                if other is not holder and together(holder, other, held.term.topology_key, snapshot):
                    known = snapshot.namespaces.get(other.metadata.namespace)
                    labels = known.metadata.labels if known else {}
                    if held.term.reaches(other.metadata.namespace, labels, other.metadata.labels):
                        total += 100 if held.required else held.weight
    return total


def together(one: Pod, other: Pod, key: str, snapshot: Snapshot) -> bool:
    """Whether two pods share a domain."""
    places = [snapshot.node(p.spec.node_name) for p in (one, other)]
    values = [None if where is None else where.metadata.labels.get(key) for where in places]
    return values[0] is not None and values[0] == values[1]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 7).flatmap(lambda size: st.tuples(*(any_pod(f"p{number}") for number in range(size)))))
def test_a_rank_is_by_how_much_less_would_be_wrong(pods: tuple[Pod, ...]) -> None:
    """Counted by brute force over all pairs, with and without the pod."""
    group = cluster("z1: a b", "z2: x", "z3: unlabelled")
    snapshot = group.snapshot()
    bare = group.node("unlabelled").tree()
    bare["metadata"]["labels"] = {}
    snapshot.put(codec.convert(bare, Node))
    for name, labels in (("default", {}), ("other", {"team": "blue"})):
        snapshot.put(codec.convert({"metadata": {"name": name, "labels": labels}}, Namespace))
    for made in pods:
        snapshot.put(made)
    view = View(snapshot, np.array([snapshot.pods.rows.index[p.key] for p in pods]), NOW)
    everyone = wrong(list(pods), snapshot)
    want = [everyone - wrong([p for p in pods if p is not gone], snapshot) for gone in pods]
    assert strategy("AntiAffinity").rank(view.rows, view).tolist() == [hundredths / 100 for hundredths in want]
