"""A sweep of all costs that policies keep current: what it reverts, what it leaves, and what it reports."""

from __future__ import annotations

import pytest

from tests.unit.kube.fakes import FakeServer, failure
from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.errors import IncompleteSweep
from trimtab.kube.retries import NO_RETRIES
from trimtab.ranking.costs import Carrier
from trimtab.scaledown.continuous.group_costs import group_object
from trimtab.scaledown.continuous.sweeps import sweep
from trimtab.scaledown.pod_costs import PolicyCost, apply_policy_patch
from trimtab.scaledown.policy.groups import GroupOwner
from trimtab.testing.builders import pod
from trimtab.testing.clocks import VirtualClock

COSTS = ("/apis/trimtab.dev/v1alpha1", "podgroupcosts")


@pytest.fixture
def server() -> FakeServer:
    """Two namespaces, each with a pod that has a policy's cost, one that has another writer's, and a PodGroupCost."""
    made = FakeServer(VirtualClock())
    for namespace in ("shop", "other"):
        patch = apply_policy_patch(PolicyCost(pod("p").build(), "default/web", Carrier.ANNOTATION, 5))
        assert patch is not None
        ours, foreign = pod("ours", namespace=namespace), pod("foreign", namespace=namespace).cost(7)
        made.put("/api/v1", "pods", ours.annotations(patch["metadata"]["annotations"]).tree())
        made.put("/api/v1", "pods", foreign.tree())
        owner = GroupOwner("apps/v1", "ReplicaSet", namespace, "web", "u1")
        made.put(*COSTS, group_object(owner, "default/web", {"ours": 1}))
    return made


def client(server: FakeServer) -> Client:
    """A client that repeats nothing."""
    return Client(server, clock=server.clock).using(retry=NO_RETRIES)


def left(server: FakeServer) -> tuple[list[str], list[str]]:
    """The pods that have costs, and the namespaces of PodGroupCosts."""
    pods = [codec.convert(tree, Pod) for tree in server.objects("pods")]
    costs = [each.key for each in pods if DELETION_COST in each.metadata.annotations]
    return costs, [tree["metadata"]["namespace"] for tree in server.objects("podgroupcosts")]


async def test_a_sweep_reverts_the_costs_of_policies_alone(server: FakeServer) -> None:
    """In all namespaces; how many there were is returned, and a second sweep finds none."""
    assert await sweep(client(server)) == 4
    assert left(server) == (["shop/foreign", "other/foreign"], [])
    assert await sweep(client(server)) == 0


async def test_a_sweep_leaves_namespaces_that_are_not_included_alone(server: FakeServer) -> None:
    """Those of another Trimtab, which still needs its costs."""
    assert await sweep(client(server), includes=lambda namespace: namespace == "shop") == 2
    assert left(server) == (["shop/foreign", "other/ours", "other/foreign"], ["other"])


async def test_a_sweep_that_could_not_revert_everything_says_what(server: FakeServer) -> None:
    """After all objects have been tried."""
    server.intercept = lambda request: (
        failure(403, "Forbidden", "no") if request.path.endswith("shop/pods/ours") else None
    )
    with pytest.raises(IncompleteSweep) as caught:
        await sweep(client(server))
    assert (list(caught.value.failed), caught.value.count) == (["shop/ours"], 3)


async def test_a_sweep_needs_no_pod_group_costs(server: FakeServer) -> None:
    """The kind may not be installed."""
    server.intercept = lambda request: failure(404, "NotFound") if "podgroupcosts" in request.path else None
    assert await sweep(client(server)) == 2
