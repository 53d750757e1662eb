"""PodGroupCosts of policies: what is written, when nothing is, and whose objects are left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer, failure
from trimtab.api import codec
from trimtab.api.annotations import FIELD_MANAGER, POLICY_COST
from trimtab.api.scaledown import PodGroupCost
from trimtab.kube.client import Client
from trimtab.kube.errors import Conflict
from trimtab.kube.limits import TokenBucket
from trimtab.kube.retries import NO_RETRIES
from trimtab.scaledown.continuous.carriers import CarrierReport
from trimtab.scaledown.continuous.group_costs import GroupCosts, group_object, group_patch
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.policy.groups import GroupOwner
from trimtab.testing.clocks import VirtualClock

JSON = dict[str, Any]
COSTS = ("/apis/trimtab.dev/v1alpha1", "podgroupcosts")
OWNER = GroupOwner("apps/v1", "ReplicaSet", "shop", "web-1", "u1")
KEY = f"shop/{OWNER.group_name}"
TWO = {"web-1-a": 1, "web-1-b": 2}


def stored(costs: JSON = TWO, *, policy: str = "default/web", **changes: JSON) -> PodGroupCost:
    """A PodGroupCost of the policy as it is cached."""
    tree = group_object(OWNER, policy, costs)
    return codec.convert({**tree, **{name: {**tree[name], **change} for name, change in changes.items()}}, PodGroupCost)


def test_an_object_names_its_owner_its_policy_and_all_costs() -> None:
    """It is deleted with the owner of the pods, and found by its annotation."""
    tree = group_object(OWNER, "default/web", TWO)
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1"}
    assert tree["spec"] == {"owner": reference, "costs": TWO}
    metadata = tree["metadata"]
    assert (metadata["namespace"], metadata["annotations"]) == ("shop", {POLICY_COST: "default/web"})
    owned = {**reference, "uid": "u1", "controller": False, "blockOwnerDeletion": False}
    assert metadata["ownerReferences"] == [owned]


@pytest.mark.parametrize(
    ("known", "costs", "changed"),
    [
        pytest.param(stored(), TWO, None, id="it has these costs"),
        pytest.param(stored(), {"web-1-a": 5, "web-1-b": 2}, {"web-1-a": 5, "web-1-b": 2}, id="another cost"),
        pytest.param(stored(), {"web-1-a": 1}, {"web-1-a": 1, "web-1-b": None}, id="a pod that is gone"),
        pytest.param(stored(policy="default/other"), TWO, TWO, id="costs of another policy"),
        pytest.param(stored(metadata={"ownerReferences": []}), TWO, TWO, id="without its owner"),
        pytest.param(stored(spec={"owner": {"kind": "ReplicaSet", "name": "web-2"}}), TWO, TWO, id="of another group"),
    ],
)
def test_a_patch_changes_what_differs(known: PodGroupCost, costs: JSON, changed: JSON | None) -> None:
    """Conditionally on the version that was read."""
    patch = group_patch(known, OWNER, "default/web", costs)
    assert (None if patch is None else patch["spec"]["costs"]) == changed
    if patch is not None:
        assert patch["metadata"]["resourceVersion"] == known.metadata.resource_version


class Writing:
    """A server, and the writer of PodGroupCosts."""

    def __init__(self, burst: int = 1000) -> None:
        self.clock = clock = VirtualClock()
        self.server = FakeServer(clock)
        self.metrics = Metrics()
        self.report = CarrierReport()
        client = Client(self.server, clock=clock).using(retry=NO_RETRIES)
        self.costs = GroupCosts(client, TokenBucket(burst, burst, clock), metrics=self.metrics)

    def put(self, tree: JSON) -> PodGroupCost:
        """Store a PodGroupCost; as it is cached then."""
        return codec.convert(self.server.put(*COSTS, tree), PodGroupCost)

    async def write(self, known: PodGroupCost | None, costs: JSON = TWO) -> None:
        """Write the costs of the group."""
        await self.costs.write(OWNER, "default/web", costs, known, self.report)

    @property
    def found(self) -> list[JSON]:
        """The costs of each object that is stored."""
        return [each["spec"]["costs"] for each in self.server.objects("podgroupcosts")]

    @property
    def writes(self) -> list[str]:
        """The methods of all writes."""
        return [request.method for request in self.server.requests if request.method != "GET"]

    def count(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.metrics.registry.get_sample_value(f"trimtab_scaledown_{name}_total", labels) or 0.0


@pytest.fixture
def writing() -> Writing:
    """An empty server."""
    return Writing()


async def test_costs_are_created_updated_and_left_alone(writing: Writing) -> None:
    """One write for the whole group, and none where nothing differs."""
    await writing.write(None)
    assert (writing.found, writing.writes) == ([TWO], ["POST"])
    (tree,) = writing.server.objects("podgroupcosts")
    await writing.write(codec.convert(tree, PodGroupCost))
    assert writing.writes == ["POST"]
    await writing.write(codec.convert(tree, PodGroupCost), {"web-1-a": 7})
    assert (writing.found, writing.writes) == ([{"web-1-a": 7}], ["POST", "PATCH"])
    assert (writing.report.written, writing.count("costs_written")) == (2, 2)


async def test_an_object_that_another_process_has_changed_is_a_conflict(writing: Writing) -> None:
    """The caller reads it again."""
    known = writing.put(group_object(OWNER, "default/web", TWO))
    with pytest.raises(Conflict):
        await writing.write(None)
    writing.put(group_object(OWNER, "default/web", {"web-1-a": 3}))
    with pytest.raises(Conflict):
        await writing.write(known, {"web-1-a": 4})
    assert writing.report == CarrierReport()


async def test_the_object_of_another_writer_is_left_alone(writing: Writing) -> None:
    """Neither written nor deleted."""
    tree = group_object(OWNER, "default/web", {"web-1-a": 9})
    del tree["metadata"]["annotations"]
    known = writing.put(tree)
    await writing.write(known)
    await writing.costs.revert(known, writing.report, reason="policy")
    assert (writing.found, writing.writes) == ([{"web-1-a": 9}], [])


@pytest.mark.parametrize(("manager", "writes"), [("kubectl-edit", ["DELETE"]), (FIELD_MANAGER, ["PATCH"])])
async def test_an_object_that_another_writer_has_changed_is_deleted(
    writing: Writing, manager: str, writes: list[str]
) -> None:
    """It is created again with the next reconcile; what we manage alone is updated."""
    tree = group_object(OWNER, "default/web", TWO)
    managed = {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}
    tree["metadata"]["managedFields"] = [managed]
    await writing.write(writing.put(tree), {"web-1-a": 7})
    is_deleted = writes == ["DELETE"]
    assert writing.writes == writes
    assert writing.count("costs_reverted", reason="changed") == is_deleted
    assert writing.report == CarrierReport(written=not is_deleted, reverted=is_deleted)


async def test_a_refused_write_is_reported(writing: Writing) -> None:
    """With its name; nothing is counted as written or reverted."""
    known = writing.put(group_object(OWNER, "default/web", {}))
    writing.server.intercept = lambda _: failure(403, "Forbidden", "you may not")
    await writing.write(known)
    assert list(writing.report.failed) == [OWNER.group_name]
    writing.report.failed.clear()
    await writing.costs.revert(known, writing.report, reason="policy")
    assert list(writing.report.failed) == [OWNER.group_name]
    assert (writing.report.written, writing.report.reverted) == (0, 0)
    assert (writing.count("costs_written"), writing.count("costs_reverted", reason="policy")) == (0, 0)


async def test_an_object_that_is_gone_is_no_revert(writing: Writing) -> None:
    """Nor a failure."""
    known = writing.put(group_object(OWNER, "default/web", TWO))
    await writing.costs.revert(known, writing.report, reason="policy")
    assert (writing.found, writing.report.reverted, writing.count("costs_reverted", reason="policy")) == ([], 1, 1)
    await writing.costs.revert(known, writing.report, reason="policy")
    assert (writing.report.reverted, writing.report.failed) == (1, {})


async def test_writes_and_deletions_do_not_exceed_the_limit() -> None:
    """One a second: each waits for its turn."""
    writing = Writing(burst=1)
    await writing.write(None)
    known = codec.convert(writing.server.objects("podgroupcosts")[0], PodGroupCost)
    for method, work in (
        ("PATCH", writing.write(known, {"web-1-a": 7})),
        ("DELETE", writing.costs.revert(known, writing.report, reason="policy")),
    ):
        task = asyncio.ensure_future(work)
        await writing.clock.advance(0.8)
        assert method not in writing.writes
        await writing.clock.advance(0.3)
        await task
        assert writing.writes[-1] == method
