"""Pods without a reservation: the subset whose rules they meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.subsets.topologies import subset, topology
from trimtab.api import codec
from trimtab.api.annotations import RESERVATION, SUBSET, TOPOLOGY
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import Subset
from trimtab.subsets.matching import match
from trimtab.subsets.members import Member, member_of, revision_of
from trimtab.testing.builders import PodBuilder, node, pod, uid_for


def index_of(subject: Pod, its_node: Node | None, subsets: Sequence[Subset]) -> int | None:
    """The index of the subset that a pod is matched with."""
    return match(subject, its_node, subsets).index


def zone(name: str, **more: Any) -> Subset:
    """A subset in a zone."""
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [name]}
    return subset(name, nodeSelectorTerm={"matchExpressions": [expression]}, **more)


GOLD = {"metadata": {"labels": {"tier": "gold"}}}
NODE_A = node("n", zone="a").build()


@pytest.mark.parametrize(
    ("subject", "on_node", "subsets", "want"),
    [
        pytest.param(pod("p").on("n"), True, [zone("b"), zone("a")], 1, id="where its node is"),
        pytest.param(pod("p").on("n"), True, [zone("b")], None, id="nowhere, if no term matches its node"),
        pytest.param(
            pod("p").on("n"),
            True,
            [
                subset(
                    "a", nodeSelectorTerm={"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["many"]}]}
                )
            ],
            None,
            id="nowhere, if the term cannot be read",
        ),
        pytest.param(pod("p").on("n"), False, [zone("a")], None, id="nowhere, while its node is unknown"),
        pytest.param(pod("p"), False, [zone("a")], None, id="none, while it has neither node nor affinity"),
        pytest.param(pod("p"), False, [zone("a"), subset("any")], 1, id="a subset without a term takes any pod"),
        pytest.param(pod("p"), False, [subset("any", nodeSelectorTerm={})], 0, id="so does one with an empty term"),
        pytest.param(pod("p").on("n"), True, [subset("any"), zone("a")], 1, id="a subset with a term comes first"),
        pytest.param(pod("p").on("n"), True, [zone("a"), zone("a")], 0, id="of equal ones the first"),
        pytest.param(
            pod("p").on("n").labels(tier="gold"),
            True,
            [zone("a"), zone("a", patch={"metadata": {"labels": {"tier": "lead"}}}), zone("a", patch=GOLD)],
            0,
            id="of those whose patch it has, the first",
        ),
        pytest.param(
            pod("p").on("n").labels(tier="gold"),
            True,
            [zone("a", patch={"metadata": {"labels": {"tier": "lead"}}}), zone("a", patch=GOLD)],
            1,
            id="one whose patch it has before one whose patch it has not",
        ),
        pytest.param(
            pod("p").on("n"),
            True,
            [zone("a", tolerations=[{"key": "gold", "operator": "Exists"}])],
            0,
            id="a node takes precedence over tolerations",
        ),
    ],
)
def test_a_pod_is_matched(subject: PodBuilder, on_node: bool, subsets: list[Subset], want: int | None) -> None:
    """The index of its subset."""
    assert index_of(subject.build(), NODE_A if on_node else None, subsets) == want


def test_a_pod_without_a_node_is_matched_by_what_it_requires() -> None:
    """Each of its own terms must contain the subset's."""
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    more = {"key": "disk", "operator": "Exists"}
    tree = pod("p").tree()
    required: dict[str, Any] = {
        "nodeSelectorTerms": [{"matchExpressions": [expression, more]}, {"matchExpressions": [more]}]
    }
    tree["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert index_of(codec.convert(tree, Pod), None, [zone("a")]) is None
    del required["nodeSelectorTerms"][1]
    assert index_of(codec.convert(tree, Pod), None, [zone("a")]) == 0
    required["nodeSelectorTerms"][0]["matchExpressions"].remove(more)
    assert index_of(codec.convert(tree, Pod), None, [zone("a")]) == 0, "it requires just what the subset does"


ANNOTATED = {TOPOLOGY: "spread", SUBSET: "b", RESERVATION: "r"}


def test_annotations_take_precedence_over_the_node() -> None:
    """A pod stays where it was counted, wherever it runs."""
    of = topology(zone("a"), zone("b"))
    found = member_of(pod("p").on("n").annotations(ANNOTATED).owned_by("web-1").build(), of, NODE_A)
    assert (found.subset, found.reservation, found.is_matched) == ("b", "r", False)
    assert found.revision == uid_for("ReplicaSet/web-1")


@pytest.mark.parametrize(
    ("annotations", "reservation"),
    [
        pytest.param({}, "", id="without annotations"),
        pytest.param({**ANNOTATED, TOPOLOGY: "other"}, "", id="with annotations of another UnitedTopology"),
        pytest.param({**ANNOTATED, SUBSET: "removed"}, "r", id="with annotations of a removed subset"),
    ],
)
def test_pods_without_annotations_are_matched_and_flagged_for_annotation(
    annotations: dict[str, str], reservation: str
) -> None:
    """The reservation is kept, for its entry may still be there."""
    found = member_of(pod("p").on("n").annotations(annotations).build(), topology(zone("a")), NODE_A)
    assert (found.subset, found.reservation, found.is_matched) == ("a", reservation, True)


def test_a_pod_in_no_subset_is_not_flagged_for_annotation() -> None:
    """It is counted in no subset."""
    found = member_of(pod("p").build(), topology(zone("a")), None)
    assert (found.subset, found.is_matched) == ("", False)
    assert isinstance(found, Member)


def test_the_revision_comes_from_the_replicaset_or_the_label() -> None:
    """A ReplicaSet is its own revision; a CloneSet labels its pods."""
    labels = {"controller-revision-hash": "web-7"}
    cloned = pod("p").labels(labels).owned_by("web", kind="CloneSet", api_version="apps.kruise.io/v1alpha1").build()
    assert revision_of(cloned.metadata) == "web-7"
    assert revision_of(pod("p").build().metadata) == ""
