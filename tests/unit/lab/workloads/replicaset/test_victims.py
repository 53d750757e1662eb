"""Which pods of a ReplicaSet go."""

from __future__ import annotations

import pytest

from trimtab.api import selectors
from trimtab.api.selectors import Selector
from trimtab.api.times import parse_ns
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import PodBuilder, pod
from trimtab_lab.workloads.options import STOCK
from trimtab_lab.workloads.replicaset import victims

NOW = parse_ns("2026-01-02T00:00:00Z")
LONG_AGO = "2026-01-01T00:00:00Z"
NEW, OLD = selectors.parse("hash=new"), selectors.parse("hash=old")


def running(name: str, node: str, created: str = LONG_AGO, **labels: str) -> PodBuilder:
    """A ready pod."""
    return pod(name).on(node).labels(labels or {"hash": "new"}).created(created).ready()


def chosen(
    count: int, *pods: PodBuilder, related: tuple[Selector, ...] = (NEW, OLD), options: dict[str, bool] | None = None
) -> list[str]:
    """The names of those that go, of all pods of the new ReplicaSet."""
    view = Snapshot()
    for each in pods:
        view.put(each.build())
    rows = [view.pods.matching("default", selector) for selector in related]
    order = STOCK.gated(options or {}).order
    found = victims.choose(view.pods, view.pods.matching("default", NEW), rows, count, NOW, order)
    return [each.metadata.name for each in found.pods]


def test_a_crowded_node_gives_a_pod_first() -> None:
    """Pods of all ReplicaSets of the owner count, whichever they belong to."""
    pods = [running("lonely", "a"), running("crowded", "b"), running("sibling", "b", hash="old")]
    assert chosen(1, *pods) == ["crowded"]


def test_pods_of_others_do_not_crowd() -> None:
    """What no related selector matches is not there; in another namespace it is not either."""
    stranger = running("stranger", "b", hash="other")
    away = pod("away", namespace="elsewhere").on("b").labels(hash="old").created(LONG_AGO).ready()
    pods = [running("a1", "a"), running("a2", "a"), running("b1", "b"), stranger, away]
    assert set(chosen(2, *pods)) <= {"a1", "a2"}


def test_a_replicaset_without_an_owner_has_no_crowds() -> None:
    """Kubernetes finds related pods by the owner, so there are none: the youngest is deleted on any node."""
    pods = [running("a1", "a"), running("a2", "a"), running("young", "b", "2026-01-01T23:59:00Z")]
    assert chosen(1, *pods, related=()) == ["young"]
    assert chosen(1, *pods) != ["young"]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param({}, "cheap", id="the cost decides"),
        pytest.param({"PodDeletionCost": False}, "young", id="without the gate it does not"),
    ],
)
def test_the_cost_counts_behind_its_gate(options: dict[str, bool], want: str) -> None:
    """The annotation is honoured unless the feature is off."""
    pods = [running("cheap", "a").cost(-5), running("young", "b", "2026-01-01T23:59:00Z")]
    assert chosen(1, *pods, options=options) == [want]


def test_ages_are_compared_in_scales_behind_their_gate() -> None:
    """Ages of 60 and 100 seconds are of one scale, in which UIDs decide; without the gate the younger goes."""
    younger = running("younger", "a", "2026-01-01T23:59:00Z").uid("b")
    older = running("older", "b", "2026-01-01T23:58:55Z").uid("a")
    assert chosen(1, younger, older) == ["older"]
    assert chosen(1, younger, older, options={"LogarithmicScaleDown": False}) == ["younger"]


def test_where_all_go_nothing_is_compared() -> None:
    """No order, no ratios."""
    view = Snapshot()
    active = [running("a1", "a").build(), running("b1", "b").build()]
    for each in active:
        view.put(each)
    rows = view.pods.matching("default", NEW)
    found = victims.choose(view.pods, rows, (rows,), 2, NOW, STOCK.order)
    assert list(found.pods) == active
    assert found.age_ratios == ()


def test_ratios_are_those_of_victims_by_age() -> None:
    """A victim that went because it is not ready has no ratio; one that went by its age has one, a fraction."""
    view = Snapshot()
    pods = [
        pod("unready").on("a").labels(hash="new").created(LONG_AGO),
        running("younger", "a", "2026-01-01T23:00:00Z"),
        running("older", "b", "2026-01-01T12:00:00Z"),
        running("oldest", "b"),
    ]
    for each in pods:
        view.put(each.build())
    rows = view.pods.matching("default", NEW)
    found = victims.choose(view.pods, rows, (), 3, NOW, STOCK.gated({"LogarithmicScaleDown": False}).order)
    assert [each.metadata.name for each in found.pods] == ["unready", "younger", "older"]
    assert found.age_ratios == (1.0, 12.0)
