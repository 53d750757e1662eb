"""Builders: words that make objects."""

from __future__ import annotations

import pytest

from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.testing.builders import cluster, node, pod


def test_a_pod_in_words() -> None:
    """Each word sets what it says."""
    made = (
        pod("p").on("a").labels(app="web").created("2026-01-01T00:00:00Z").ready(since="2026-01-01T00:00:09Z").build()
    )
    assert (made.key, made.spec.node_name, made.status.phase, made.ready) == ("default/p", "a", "Running", True)
    condition = made.status.condition("Ready")
    assert condition is not None
    assert condition.last_transition_time is not None
    assert condition.last_transition_time.second == 9


def test_the_same_name_has_the_same_uid() -> None:
    """Tests that depend on UIDs are repeatable."""
    assert pod("p").build().metadata.uid == pod("p").build().metadata.uid != pod("q").build().metadata.uid


def test_a_node_in_words() -> None:
    """Labels, taints and resources."""
    made = node("a", zone="z1", pool="blue").taint("gpu", effect="NoExecute").allocatable(cpu="2").cordoned().build()
    assert made.metadata.labels == {HOSTNAME: "a", ZONE: "z1", "pool": "blue"}
    assert (made.spec.taints[0].key, made.spec.unschedulable, made.status.allocatable["cpu"]) == ("gpu", True, "2")
    assert made.ready


def test_a_cluster_in_words() -> None:
    """Zones with their nodes, and pods where they run."""
    made = cluster("z1: a b", "z2: x").running("a", "x").with_pods(pod("p"))
    assert [n.metadata.labels[ZONE] for n in made.nodes()] == ["z1", "z1", "z2"]
    assert [p.spec.node_name for p in made.pods()] == ["a", "x", ""]
    assert len(made.snapshot().pods.rows.index) == 3


@pytest.mark.parametrize("line", ["z1", "z1:", "z1 a b"])
def test_a_zone_without_nodes_is_refused(line: str) -> None:
    """A typing error in a test is found where it stands."""
    with pytest.raises(ValueError, match='write "z1: a b"'):
        cluster(line)


def test_a_pod_on_a_node_that_is_not_there_is_refused() -> None:
    """So is a node that was never named."""
    with pytest.raises(LookupError, match="it has a, b"):
        cluster("z1: a b").running("c")
