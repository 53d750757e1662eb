"""Uncached reads: which pods are whose, which are terminating, and what is read again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer
from tests.unit.unitedtopology.admission.test_status_batcher import DEPLOYMENTS, PODS, topology
from trimtab.api import codec
from trimtab.api.annotations import SubsetAnnotations
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound
from trimtab.subsets import members
from trimtab.subsets.demand import ListedPods, Owner
from trimtab.subsets.members import Member
from trimtab.testing.builders import PodBuilder, node, pod
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.admission import lookups
from trimtab.unitedtopology.admission.allocator import deletion_of
from trimtab.unitedtopology.admission.lookups import Lookups

JSON = dict[str, Any]
SETS = ("/apis/apps/v1", "replicasets")
NODES = ("/api/v1", "nodes")
EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
SELECTOR = {"matchLabels": {"app": "web"}}


class Reads:
    """A server, and the reads from it."""

    def __init__(self) -> None:
        self.server = FakeServer(VirtualClock())
        self.lookups = Lookups(Client(self.server))

    def workload(self, kind: str, name: str, owner: str = "", replicas: int = 3) -> str:
        """Store a workload; its UID."""
        metadata: JSON = {"name": name, "namespace": "shop", "labels": {"app": "web"}}
        if owner:
            metadata["ownerReferences"] = [reference("Deployment", "web", owner)]
        tree = {"metadata": metadata, "spec": {"replicas": replicas, "selector": SELECTOR, "template": {}}}
        return str(self.server.put(*(SETS if kind == "ReplicaSet" else DEPLOYMENTS), tree)["metadata"]["uid"])

    def pod(self, built: PodBuilder, owner: str = "") -> str:
        """Store a pod of a ReplicaSet; its UID."""
        tree = built.labels(app="web").tree()
        if owner:
            tree["metadata"]["ownerReferences"] = [reference("ReplicaSet", "web-1", owner)]
        return str(self.server.put(*PODS, tree)["metadata"]["uid"])

    def selectors(self) -> list[tuple[str, str]]:
        """What was listed since the last call of `paths`, and by which labels."""
        plurals = ("pods", "replicasets")
        lists = [each for each in self.server.requests if each.path.endswith(plurals)]
        return [(each.path.rpartition("/")[2], dict(each.params).get("labelSelector", "")) for each in lists]

    def paths(self) -> list[str]:
        """What was read since the last call."""
        found = [request.path.rpartition("/")[2] for request in self.server.requests]
        self.server.requests.clear()
        return found


def reference(kind: str, name: str, uid: str) -> JSON:
    """A reference to a controller."""
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def made(name: str, subset: str = "", of: str = "spread") -> PodBuilder:
    """A pod that runs, annotated with a subset."""
    built = pod(name, namespace="shop").on("n1").ready()
    return built.annotations(SubsetAnnotations(of, subset, f"of-{name}").written()) if subset else built


@pytest.fixture
def reads() -> Reads:
    """An empty server."""
    return Reads()


async def test_terminating_pods_are_read_once(reads: Reads) -> None:
    """That never becomes untrue; a pod that is active is read again, and so is a later one of the same name."""
    reads.pod(made("active"))
    reads.pod(made("leaving").terminating())
    reads.pod(made("failed").phase("Failed"))
    entries = dict.fromkeys(("active", "leaving", "failed", "gone"), EARLY)
    assert reads.lookups.known_terminating(entries, namespace="shop") == frozenset()
    want = {"leaving", "failed", "gone"}
    assert await reads.lookups.confirm_terminating(entries, namespace="shop") == want
    assert sorted(reads.paths()) == ["active", "failed", "gone", "leaving"]
    assert reads.lookups.known_terminating(entries, namespace="shop") == want
    assert reads.lookups.known_terminating(entries, namespace="other") == frozenset()
    assert await reads.lookups.confirm_terminating(entries, namespace="shop") == want
    assert reads.paths() == ["active"]
    assert reads.lookups.known_terminating({"gone": LATE}, namespace="shop") == frozenset()


async def test_only_the_last_terminating_pods_are_remembered(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are read again, with the same answer."""
    monkeypatch.setattr(lookups, "_REMEMBERED", 2)
    entries = dict.fromkeys(("p1", "p2", "p3"), EARLY)
    for name, since in entries.items():
        assert await reads.lookups.confirm_terminating({name: since}, namespace="shop") == {name}
    assert reads.lookups.known_terminating(entries, namespace="shop") == {"p2", "p3"}
    assert await reads.lookups.confirm_terminating(entries, namespace="shop") == {"p1", "p2", "p3"}


async def test_pods_are_read_by_name_once_each(reads: Reads) -> None:
    """Those that do not exist are left out."""
    reads.pod(made("p1"))
    assert list(await reads.lookups.pods(["p1", "p2", "p1"], namespace="shop")) == ["p1"]
    assert reads.paths() == ["p1", "p2"]


async def test_the_size_is_that_of_the_target(reads: Reads) -> None:
    """None where it does not exist."""
    divided = codec.convert(topology(3), UnitedTopology)
    assert await reads.lookups.size(divided) is None
    reads.workload("Deployment", "web", replicas=7)
    assert await reads.lookups.size(divided) == 7


async def test_an_owner_that_is_replaced_may_have_no_more_pods(reads: Reads) -> None:
    """Another object of that name has its own pods."""
    uid = reads.workload("ReplicaSet", "web-1")
    assert await reads.lookups.most_pods(Owner("ReplicaSet", "web-1", uid, 0), namespace="shop") == 3
    assert await reads.lookups.most_pods(Owner("ReplicaSet", "web-1", "other", 0), namespace="shop") == 0
    assert await reads.lookups.most_pods(Owner("ReplicaSet", "none", uid, 0), namespace="shop") == 0


async def test_the_pods_of_an_owner_are_listed(reads: Reads) -> None:
    """Active ones are counted; the reservations of all of them have been used."""
    uid = reads.workload("ReplicaSet", "web-1")
    for each in (made("p1", "a"), made("p2"), made("p3", "a").terminating(), made("p4", "a").phase("Failed")):
        reads.pod(each, uid)
    reads.pod(made("p5", "a"), "another")
    reads.pod(made("p6", "a"))
    owner = Owner("ReplicaSet", "web-1", uid, 3)
    assert await reads.lookups.owned_pods(owner, namespace="shop") == ListedPods(
        2, frozenset({"of-p1", "of-p3", "of-p4"})
    )
    assert reads.selectors() == [("pods", "app=web")]
    gone = Owner("ReplicaSet", "none", uid, 3)
    assert await reads.lookups.owned_pods(gone, namespace="shop") == ListedPods()


async def test_a_recount_observes_the_pods_of_all_replicasets_of_a_deployment(reads: Reads) -> None:
    """Nodes are read for pods only whose annotations name no subset of this UnitedTopology."""
    divided = codec.convert(topology(3, -1), UnitedTopology)
    with pytest.raises(NotFound):
        await reads.lookups.observe(divided, "r1")
    deployment = reads.workload("Deployment", "web", replicas=6)
    first, second = (reads.workload("ReplicaSet", name, deployment) for name in ("web-1", "web-2"))
    foreign = reads.workload("ReplicaSet", "other", "another")
    reads.workload("ReplicaSet", "free")
    reads.server.put(*NODES, node("n2").tree())
    reads.pod(made("p1", "a"), first)
    reads.pod(made("p2", "b").on("n1"), second)
    reads.pod(made("p3", "removed").on("n2"), second)
    reads.pod(made("p4", "a", of="another").on("n3"), second)
    reads.pod(made("p5").on("n2"), first)
    reads.pod(made("p6"), foreign)
    reads.pod(made("p7"))
    reads.pod(pod("p8", namespace="shop"), first)
    reads.paths()
    found = await reads.lookups.observe(divided, "r1")
    assert [member.name for member in found.members] == ["p1", "p2", "p3", "p4", "p5", "p8"]
    assert {member.name: member.subset for member in found.members if member.name in ("p1", "p2")} == {
        "p1": "a",
        "p2": "b",
    }
    assert (found.replicas, found.revision) == (6, "r1")
    assert found.version == str(reads.server.version)
    assert reads.selectors() == [("replicasets", "app=web"), ("pods", "app=web")]
    assert reads.paths() == ["web", "replicasets", "pods", "n2", "n3"]


async def test_other_tasks_run_while_pods_are_observed(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two parts of the pods of one UnitedTopology."""
    monkeypatch.setattr(members, "_COMPARISONS", 2)
    turns, matched, member_of = 0, list[int](), members.member_of

    def noted(*given: Any) -> Member:
        matched.append(turns)
        return member_of(*given)

    monkeypatch.setattr(lookups, "member_of", noted)
    uid = reads.workload("ReplicaSet", "web-1", reads.workload("Deployment", "web"))
    for name in ("p1", "p2", "p3", "p4"):
        reads.pod(made(name, "a"), uid)
    observing = asyncio.ensure_future(reads.lookups.observe(codec.convert(topology(3), UnitedTopology), "r1"))
    while not observing.done():
        await asyncio.sleep(0)
        turns += 1
    assert [matched.count(turn) for turn in sorted(set(matched))] == [2, 2]
    assert [member.name for member in observing.result().members] == ["p1", "p2", "p3", "p4"]


async def test_a_replicaset_that_is_the_target_owns_its_pods_itself(reads: Reads) -> None:
    """No other ReplicaSets are listed."""
    tree = topology(3)
    tree["spec"]["targetRef"] |= {"kind": "ReplicaSet", "name": "web-1"}
    uid = reads.workload("ReplicaSet", "web-1")
    reads.pod(made("p1", "a"), uid)
    reads.paths()
    found = await reads.lookups.observe(codec.convert(tree, UnitedTopology), "r1")
    assert [(member.name, member.subset) for member in found.members] == [("p1", "a")]
    assert isinstance(found.members[0], Member)
    assert "replicasets" not in reads.paths()


@pytest.mark.parametrize(
    ("built", "uid", "is_announced"),
    [
        pytest.param(made("p", "a"), "", True, id="a pod of the UnitedTopology"),
        pytest.param(made("p", "a").uid("u1"), "u1", True, id="with the UID of the request"),
        pytest.param(made("p", "a").uid("u2"), "u1", False, id="another pod of that name"),
        pytest.param(made("p", "a").terminating(), "", False, id="one that is terminating"),
        pytest.param(made("p", "a").phase("Succeeded"), "", False, id="one that has finished"),
        pytest.param(made("p", "a", of="other"), "", False, id="one of another UnitedTopology"),
        pytest.param(made("p"), "", False, id="one of none"),
    ],
)
def test_only_deletions_of_active_pods_are_announced(built: PodBuilder, uid: str, is_announced: bool) -> None:
    """With the subset and the reservation that they are counted by."""
    found = deletion_of(built.build(), codec.convert(topology(3), UnitedTopology), uid)
    assert (found is not None) is is_announced
    if found is not None:
        assert (found.name, found.subset, found.reservation) == ("p", "a", "of-p")


def test_the_deletion_of_a_pod_that_is_gone_is_not_announced() -> None:
    """There is nothing to free."""
    assert deletion_of(None, codec.convert(topology(3), UnitedTopology), "") is None
