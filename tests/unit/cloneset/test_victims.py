"""Which pods go: the proposal's example, its two stories, and old revisions first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.cloneset.clusters import template
from trimtab.api import codec
from trimtab.api.cloneset import REVISION_HASH, CloneSetSpec
from trimtab.api.documents import Document
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.cloneset import observation, victims
from trimtab.cloneset.observation import Group
from trimtab.kube.clocks import SECOND
from trimtab.ranking.rankers import Constraint
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import PodBuilder, cluster, pod
from trimtab.testing.clocks import START

ZONES = (Constraint(ZONE),)
YOUNGEST_FIRST = ["c-2", "d-1", "e-1", "a-1", "c-1", "d-0", "e-0", "a-0", "b-0", "c-0"]
"""The proposal's pods (a letter is a node), with ages that give the two inner orders which it prints."""


def spec(**fields: Any) -> CloneSetSpec:
    """A spec with these fields."""
    tree = {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **fields}
    return codec.convert(tree, CloneSetSpec)


def web(name: str, node: str, *, minute: int = 0, revision: str = "web-new") -> PodBuilder:
    """A pod that has been ready since that minute."""
    at = f"2025-12-31T23:{minute:02d}:00Z"
    made = pod(name).on(node).labels({"app": "web", REVISION_HASH: revision}).owned_by("web", kind="CloneSet")
    return made.created("2025-12-31T22:00:00Z").ready(since=at)


def seen(zones: Sequence[str], *pods: PodBuilder, **fields: Any) -> tuple[Snapshot, Group]:
    """A cluster with these pods, and the group that they are."""
    snapshot = cluster(*zones).with_pods(*pods).snapshot()
    rows = range(len(pods))
    return snapshot, observation.observe(snapshot.pods, rows, spec(**fields), "web-new", START)


def names(group: Group, order: Sequence[int]) -> list[str]:
    """The pods at these positions."""
    return [group.pods[place].metadata.name for place in order]


def positions(snapshot: Snapshot, group: Group, rules: tuple[Constraint, ...], **how: Any) -> list[int]:
    """All pods, old ones first."""
    return [position for each in victims.old_first(snapshot, group, rules, **how) for position in each.positions]


def example() -> tuple[Snapshot, Group]:
    """The proposal's cluster."""
    pods = [web(name, name[0], minute=30 - age) for age, name in enumerate(YOUNGEST_FIRST)]
    return seen(("x: a b c", "y: d e"), *pods)


def test_the_proposals_example_goes_in_the_printed_inner_orders() -> None:
    """Within each zone crowded nodes give first; across zones the fuller one does, so that they stay level."""
    snapshot, group = example()
    order = names(group, positions(snapshot, group, ZONES))
    assert [name for name in order if name[0] in "abc"] == ["c-2", "a-1", "c-1", "a-0", "b-0", "c-0"]
    assert [name for name in order if name[0] in "de"] == ["d-1", "e-1", "d-0", "e-0"]
    assert order[:2] == ["c-2", "a-1"], "the fuller zone first, until both are level"


def test_proportional_ranks_give_the_printed_final_sequence() -> None:
    """Which takes the same share of every zone."""
    snapshot, group = example()
    order = names(group, positions(snapshot, group, ZONES, scale="proportional"))
    assert order == ["d-1", "c-2", "e-1", "a-1", "c-1", "d-0", "a-0", "b-0", "e-0", "c-0"]


def test_pods_that_share_a_node_go_first() -> None:
    """Story 1: without constraints only the node counts."""
    pods = [web("a-0", "a"), web("a-1", "a", minute=10), web("b-0", "b", minute=20), web("c-0", "c", minute=30)]
    snapshot, group = seen(("x: a b", "y: c"), *pods)
    assert names(group, positions(snapshot, group, ()))[0] == "a-1"


def test_pods_go_by_the_templates_constraints() -> None:
    """Story 2: the fullest zone gives first, although its pods are the oldest and alone on their nodes."""
    pods = [web("a-0", "a"), web("b-0", "b"), web("c-0", "c"), web("d-0", "d", minute=30), web("e-0", "e", minute=30)]
    snapshot, group = seen(("x: a b c", "y: d e"), *pods)
    assert names(group, positions(snapshot, group, ZONES))[0] in {"a-0", "b-0", "c-0"}
    assert names(group, positions(snapshot, group, ()))[0] in {"d-0", "e-0"}


def test_old_revisions_go_first() -> None:
    """However old, ready and lonely their pods are."""
    pods = [web("new", "a", minute=30), web("old", "b", revision="web-old"), web("foreign", "b", revision="")]
    snapshot, group = seen(("x: a b",), *pods)
    assert names(group, positions(snapshot, group, ()))[2] == "new"


def test_pods_that_are_ready_but_not_available_yet_go_before_those_that_are() -> None:
    """As minReadySeconds asks, whatever the crowding."""
    pods = [web("a-0", "a"), web("a-1", "a"), web("b-0", "b", minute=59)]
    snapshot, group = seen(("x: a b",), *pods, minReadySeconds=120)
    assert group.available.tolist() == [True, True, False]
    assert names(group, positions(snapshot, group, ()))[0] == "b-0"
    assert group.next_available == pytest.approx(60)


def test_costs_replace_those_of_the_pods_and_come_before_crowding() -> None:
    """The higher rank goes first; pods of one rank go in the original order."""
    pods = [web("a-0", "a").cost(-5), web("a-1", "a", minute=5), web("b-0", "b"), web("c-0", "c", minute=3)]
    snapshot, group = seen(("x: a b c",), *pods)
    costs = victims.as_costs([1.0, 2.0, 2.0, 3.5])
    assert names(group, positions(snapshot, group, (), costs=costs)) == ["c-0", "a-1", "b-0", "a-0"]


@pytest.mark.parametrize(
    ("stated", "want"),
    [
        pytest.param("", (Constraint(HOSTNAME),), id="none: the default constraints"),
        pytest.param(ZONE, (Constraint(ZONE),), id="the template's come first"),
    ],
)
def test_constraints(stated: str, want: tuple[Constraint, ...]) -> None:
    """The template's, or else the defaults, where pods are ranked by them."""
    assert victims.constraints(Document(template(spread=stated)), lambda _: (Constraint(HOSTNAME),)) == want


def test_default_constraints_decide_where_the_template_has_none() -> None:
    """The operator's zones keep a workload level that says nothing of zones."""
    pods = [web("a-0", "a"), web("b-0", "b"), web("c-0", "c", minute=30)]
    snapshot, group = seen(("x: a b", "y: c"), *pods)
    rules = victims.constraints(Document(template()), lambda _: ZONES)
    assert names(group, positions(snapshot, group, rules))[0] in {"a-0", "b-0"}


@pytest.mark.parametrize(
    ("spare", "want"),
    [
        pytest.param(0, ["down"], id="nothing can be spared: what does not serve may go all the same"),
        pytest.param(1, ["down", "up-1"], id="one can be spared: the first"),
        pytest.param(9, ["down", "up-1", "up-0"], id="all can be spared"),
    ],
)
def test_sparing(spare: int, want: list[str]) -> None:
    """The floor holds for pods that serve."""
    down = web("down", "c").not_ready()
    snapshot, group = seen(("x: a b c",), web("up-0", "a"), web("up-1", "b", minute=5), down)
    order = positions(snapshot, group, ())
    assert names(group, victims.deletable(group, order, spare)) == want


def test_a_specified_pod_is_no_candidate() -> None:
    """It goes by itself."""
    pods = [web("a", "a"), web("b", "b").labels({"apps.kruise.io/specified-delete": "true"}), web("c", "c")]
    snapshot, group = seen(("x: a b c",), *pods, scaleStrategy={"podsToDelete": ["c"]})
    assert group.specified.tolist() == [False, True, True]
    assert names(group, positions(snapshot, group, ())) == ["a"]


def test_times_are_compared_in_nanoseconds() -> None:
    """A pod is available in the very moment that its time has come."""
    _, group = seen(("x: a",), web("a", "a", minute=59), minReadySeconds=60)
    assert group.available.tolist() == [True]
    assert START % SECOND == 0
    assert np.array_equal(group.ready, group.available)
