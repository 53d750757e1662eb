"""A pod as a member of a UnitedTopology: its subset by its annotations, or by its node."""

from __future__ import annotations

import pytest

from tests.unit.subsets.topologies import subset, topology
from trimtab.api.annotations import SubsetAnnotations
from trimtab.api.nodes import ZONE
from trimtab.api.times import from_ns, parse_ns
from trimtab.subsets.members import Member, member_of, revision_of
from trimtab.testing.builders import PodBuilder, node, pod, uid_for

ZONE_A = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
SPREAD = topology(
    subset("a", nodeSelectorTerm=ZONE_A),
    subset("b", nodeSelectorTerm={"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}),
)
CREATED = "2026-03-01T11:00:00Z"


def made(of: str = "", name: str = "", reservation: str = "") -> PodBuilder:
    """A pod of a ReplicaSet that is ready on a node of zone b."""
    built = pod("p").on("n1").created(CREATED).ready().owned_by("web-1")
    return built.annotations(SubsetAnnotations(of, name, reservation).written()) if of else built


@pytest.mark.parametrize(
    ("built", "zone", "want"),
    [
        pytest.param(made("spread", "a", "r"), "b", ("a", "r", False), id="by its annotations, wherever it runs"),
        pytest.param(made("spread", "gone", "r"), "b", ("b", "r", True), id="a subset that is gone: by its node"),
        pytest.param(made("other", "a", "r"), "b", ("b", "", True), id="annotations of another one: by its node"),
        pytest.param(made(), "b", ("b", "", True), id="without annotations: by its node"),
        pytest.param(made(), "c", ("", "", False), id="a node of no subset"),
        pytest.param(made(), None, ("", "", False), id="a node that is not known"),
    ],
)
def test_the_subset_of_a_pod(built: PodBuilder, zone: str | None, want: tuple[str, str, bool]) -> None:
    """With its reservation, and whether it must be annotated."""
    at = None if zone is None else node("n1", zone=zone).build()
    found = member_of(built.build(), SPREAD, at)
    assert (found.subset, found.reservation, found.is_matched) == want


def test_a_member_has_what_counting_needs() -> None:
    """Of a pod that is ready, and of one that has failed."""
    found = member_of(made("spread", "a").build(), SPREAD, None)
    assert found == Member(
        name="p",
        uid=made().build().metadata.uid,
        revision=uid_for("ReplicaSet/web-1"),
        subset="a",
        ready=True,
        created=from_ns(parse_ns(CREATED)),
    )
    failed = member_of(made("spread", "a").phase("Failed").not_ready().build(), SPREAD, None)
    assert (failed.active, failed.ready) == (False, False)


def test_the_revision_is_the_replicaset_or_the_hash_of_a_cloneset() -> None:
    """A pod without either has none."""
    clone = pod("p").owned_by("web", kind="CloneSet", api_version="apps.kruise.io/v1alpha1")
    hashed = clone.labels({"controller-revision-hash": "web-7f"}).build()
    assert revision_of(hashed.metadata) == "web-7f"
    assert revision_of(pod("p").build().metadata) == ""
    assert revision_of(made().labels({"controller-revision-hash": "x"}).build().metadata) == uid_for("ReplicaSet/web-1")
