"""Pods that have been unschedulable for too long, and autoscalers that may add a node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.unitedtopology.clusters import JSON, subset, topology_tree
from trimtab.api import codec
from trimtab.api.core import Event
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.testing.builders import pod
from trimtab.unitedtopology.controller import unschedulable

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def topology(strategy: JSON | None) -> UnitedTopology:
    """A UnitedTopology with this strategy."""
    tree = topology_tree(subset("a"), subset("b"))
    if strategy is not None:
        tree["spec"]["scheduleStrategy"] = strategy
    return codec.convert(tree, UnitedTopology)


ADAPTIVE = topology({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}})


def stuck(name: str, since: str) -> Pod:
    """A pod that no node would take since then."""
    return pod(name).condition("PodScheduled", "False", since=since, reason="Unschedulable").build()


def test_pods_that_are_due() -> None:
    """The longest first; when the next one will have."""
    pods = [
        stuck("late", "2026-03-01T11:59:20Z"),
        stuck("newest", "2026-03-01T11:59:50Z"),
        stuck("new", "2026-03-01T11:59:45Z"),
        stuck("old", "2026-03-01T11:00:00Z"),
    ]
    found = unschedulable.unschedulable_pods(ADAPTIVE, pods, NOON)
    assert [each.metadata.name for each in found.due] == ["old", "late"]
    assert found.next_in == 15


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(None, id="fixed"),
        pytest.param({"type": "Adaptive"}, id="adaptive without a time"),
        pytest.param({"type": "Fixed", "adaptive": {"rescheduleCriticalSeconds": 1}}, id="a time without adaptive"),
    ],
)
def test_without_the_field_no_pod_is_due(strategy: JSON | None) -> None:
    """Only Adaptive with rescheduleCriticalSeconds reschedules pods."""
    assert (
        unschedulable.unschedulable_pods(topology(strategy), [stuck("old", "2026-03-01T11:00:00Z")], NOON)
        == unschedulable.UnschedulablePods()
    )


def event(reason: str, **moments: str) -> Event:
    """An event about a pod."""
    return codec.convert({"reason": reason, **moments}, Event)


@pytest.mark.parametrize(
    ("events", "want"),
    [
        pytest.param([], None, id="no news"),
        pytest.param([event("FailedScheduling", lastTimestamp="2026-03-01T11:59:00Z")], None, id="other news"),
        pytest.param(
            [event("TriggeredScaleUp", lastTimestamp="2026-03-01T11:59:00Z")],
            NOON + timedelta(minutes=4),
            id="a node is coming",
        ),
        pytest.param(
            [
                event("TriggeredScaleUp", firstTimestamp="2026-03-01T11:50:00Z"),
                event("Nominated", eventTime="2026-03-01T11:58:00Z"),
            ],
            NOON + timedelta(minutes=3),
            id="the latest counts",
        ),
        pytest.param([event("TriggeredScaleUp")], None, id="without a time"),
    ],
)
def test_until_when_a_node_is_expected(events: list[Event], want: datetime | None) -> None:
    """An autoscaler gets five minutes from its event on."""
    assert unschedulable.node_expected_until(events, timedelta(minutes=5)) == want
