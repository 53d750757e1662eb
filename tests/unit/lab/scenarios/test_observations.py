"""What there is at one moment, counted as stories count it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lab.scenarios.stories import scale, story
from trimtab.api import codec
from trimtab.api.pods import Pod
from trimtab.api.selectors import from_labels
from trimtab.testing.builders import PodBuilder, node, pod
from trimtab_lab.scenarios import observations
from trimtab_lab.scenarios.observations import (
    NOWHERE,
    NodeView,
    NonRollingWorkload,
    Observation,
    Spread,
    State,
    Workload,
)
from trimtab_lab.scenarios.steps import Wait

ZONES = {"zone": "topology.kubernetes.io/zone"}


def placed(*names: str) -> tuple[Pod, ...]:
    """Ready pods of the workload, on these nodes."""
    return tuple(pod(f"p{i}").on(name).labels(app="web").ready().build() for i, name in enumerate(names))


def nodes_by_name(**zones: str) -> dict[str, NodeView]:
    """Nodes by name, each in a zone."""
    return {name: NodeView({ZONES["zone"]: zone}) for name, zone in zones.items()}


def workload(wanted: int, model: type[Workload] = Workload, **status: int) -> Workload:
    """A workload of that size whose status has settled."""
    said = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"), wanted)
    tree: dict[str, Any] = {
        "metadata": {"name": "web", "generation": 2},
        "spec": {"replicas": wanted, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"observedGeneration": 2, **said, **status},
    }
    return codec.convert(tree, model)


def test_empty_domains_count() -> None:
    """A zone with nodes and no pods makes the skew."""
    spread = observations.spread(
        placed("a", "a", "b"), nodes_by_name(a="zone-a", b="zone-b", c="zone-c"), ZONES["zone"]
    )
    assert spread.domains == {"zone-a": 2, "zone-b": 1, "zone-c": 0}
    assert spread.skew == 2
    assert spread.levels == (2, 1, 0)
    assert str(spread) == "2/1/0"


def test_pods_without_a_domain_are_separate() -> None:
    """A node that is unknown, or lacks the key, is no domain, and takes no part in the skew."""
    spread = observations.spread(placed("a", "x"), nodes_by_name(a="zone-a", b="zone-b"), ZONES["zone"])
    assert spread.domains == {"zone-a": 1, "zone-b": 0, NOWHERE: 1}
    assert spread.skew == 1


def test_no_pods_and_no_nodes_are_level() -> None:
    """Nothing differs from nothing."""
    assert Spread({}).skew == 0


@pytest.mark.parametrize(
    ("built", "want"),
    [
        pytest.param(pod("p"), State.WAITING, id="no node yet"),
        pytest.param(pod("p").on("a"), State.STARTING, id="on a node"),
        pytest.param(pod("p").on("a").ready(), State.READY, id="ready"),
        pytest.param(pod("p").on("a").ready().terminating(), State.TERMINATING, id="on its way out"),
        pytest.param(pod("p").on("a").phase("Failed"), State.FINISHED, id="failed"),
    ],
)
def test_how_a_pod_stands(built: PodBuilder, want: State) -> None:
    """One word for each pod."""
    assert observations.state(built.build()) is want


def test_pods_that_leave_count_as_leaving() -> None:
    """As their controllers have it: they are replaced already."""
    leaving = pod("l").on("a").labels(app="web").ready().terminating().build()
    refused = pod("r").labels(app="web").condition("PodScheduled", "False", reason="Unschedulable").build()
    seen = Observation((*placed("a"), leaving, refused), nodes_by_name(a="zone-a"), {"web": workload(2)})
    assert seen.counts("web") == {"pods": 2, "ready": 1, "available": 2, "unschedulable": 1, "terminating": 1}
    assert seen.distribution(ZONES).spreads["zone"].domains == {"zone-a": 1}


def test_a_workload_has_the_pods_that_its_selector_matches() -> None:
    """Others in the namespace are not its own; a bare pod goes by its name."""
    other = pod("other").on("a").labels(app="api").build()
    seen = Observation((*placed("a"), other), nodes_by_name(a="zone-a"), {"web": workload(1)})
    assert [each.metadata.name for each in seen.of("web")] == ["p0"]
    assert [each.metadata.name for each in seen.of("other")] == ["other"]
    assert len(seen.of("")) == 2


@pytest.mark.parametrize(
    ("model", "status", "problem"),
    [
        pytest.param(Workload, {"observedGeneration": 1}, "has not observed its last change", id="an old look"),
        pytest.param(Workload, {"replicas": 3}, "replicas is 3, not 2", id="one too many"),
        pytest.param(Workload, {"readyReplicas": 1}, "readyReplicas is 1, not 2", id="one not ready"),
        pytest.param(Workload, {"availableReplicas": 1}, "availableReplicas is 1", id="one not available"),
        pytest.param(Workload, {"updatedReplicas": 1}, "updatedReplicas is 1", id="an update under way"),
        pytest.param(NonRollingWorkload, {"updatedReplicas": 0}, "", id="a kind without updates"),
    ],
)
def test_the_status_must_match_the_spec(model: type[Workload], status: dict[str, int], problem: str) -> None:
    """Everything has settled when there is no problem left."""
    seen = Observation(placed("a", "b"), nodes_by_name(a="zone-a", b="zone-b"), {"web": workload(2, model, **status)})
    assert observations.is_satisfied(Wait(), seen) == (not problem)
    assert problem in "; ".join(observations.unsettled(seen))


def test_the_status_must_match_the_pods() -> None:
    """A status that is newer than the pods is not believed."""
    seen = Observation(placed("a", "b", "a"), nodes_by_name(a="zone-a", b="zone-b"), {"web": workload(2)})
    assert observations.unsettled(seen) == ["web: pods is 3, not 2", "web: ready is 3, not 2"]


def test_pods_on_a_node_that_does_not_answer_are_not_waited_for() -> None:
    """They stay until it can_terminate; those on others must go first."""
    leaving = pod("l").on("b").labels(app="web").terminating().build()
    dead = {**nodes_by_name(a="zone-a"), "b": NodeView({}, ready=False)}
    live = nodes_by_name(a="zone-a", b="zone-b")
    assert not observations.unsettled(Observation((*placed("a"), leaving), dead, {"web": workload(1)}))
    assert observations.unsettled(Observation((*placed("a"), leaving), live, {"web": workload(1)})) == [
        "web: 1 pods are terminating"
    ]


def test_pods_of_a_deleted_workload_must_be_gone() -> None:
    """Nothing has settled while they are there."""
    seen = Observation(placed("a"), nodes_by_name(a="zone-a"), {})
    gone = [from_labels({"app": "web"})]
    assert observations.unsettled(seen, deleted=gone) == ["1 pods of a deleted workload are left"]
    assert not observations.unsettled(Observation(), deleted=gone)


def test_numbers_are_waited_for_as_written() -> None:
    """With numbers, nothing else counts."""
    (step,) = story({"wait": {"pods": 2, "terminating": ">= 1"}}).steps
    assert step.wait is not None
    leaving = pod("l").on("a").terminating().build()
    assert not observations.is_satisfied(step.wait, Observation(placed("a", "a")))
    assert observations.is_satisfied(step.wait, Observation((*placed("a", "a"), leaving)))


@pytest.mark.parametrize(
    ("expect", "says"),
    [
        pytest.param({"domains": {"zone": {"zone-a": 2, "zone-b": "0..1"}}}, [], id="as expected"),
        pytest.param({"domains": {"zone": {"zone-a": 1}}}, ["zone zone-a has 2 pods, expected 1"], id="too many"),
        pytest.param(
            {"domains": {"zone": {"zone-c": 0}}}, ["there is no zone zone-c; there are zone-a, zone-b"], id="no zone"
        ),
        pytest.param({"levels": {"zone": [1, 2]}}, [], id="levels in any order"),
        pytest.param(
            {"levels": {"zone": [3, 0]}}, ["pods by zone are 2/1, expected 3/0 in any order"], id="other levels"
        ),
        pytest.param({"skew": {"zone": "<= 0"}}, ["skew by zone is 1, expected 0"], id="skewed"),
        pytest.param({"pods": 3, "ready": ">= 4"}, ["ready is 3, expected >= 4"], id="counts"),
        pytest.param({"of": "web", "pods": 4}, ["web: pods is 3, expected 4"], id="of a workload"),
    ],
)
def test_failed_expectations_are_reported(expect: dict[str, Any], says: list[str]) -> None:
    """In sentences, one for each."""
    (step,) = story(scale(3, expect=expect)).steps
    seen = Observation(placed("a", "a", "b"), nodes_by_name(a="zone-a", b="zone-b"), {"web": workload(3)})
    (expectation,) = step.expect
    assert observations.failures(expectation, seen.distribution(ZONES, expectation.of)) == says


def test_a_node_is_called_as_the_story_calls_it() -> None:
    """The prefix of a run would make every run's hosts different ones."""
    place = NodeView.of(node("xyz-a-1", zone="z").build(), "xyz-")
    assert place.labels["kubernetes.io/hostname"] == "a-1"
