"""Scale-downs and policies of a kind that the configuration names, with a stand-in for its controller."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.lab.rollouts import DEFINITION, KIND, OWNERS, REVISION, Rollout, RolloutController, rollout
from tests.unit.scaledown.policy_cluster import DEFINITIONS, PolicyCluster, target
from tests.unit.scaledown.scale_cluster import ScaleCluster
from trimtab.api.annotations import OPT_OUT, OPTED_OUT
from trimtab.api.apps import ReplicaSet
from trimtab.api.meta import ObjectReference
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.kube.clocks import cancel
from trimtab.kube.transport import Request
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.policy.defaults import DefaultPolicy, Defaults
from trimtab_lab.apiserver.kinds.errors import status_error
from trimtab_lab.testing import InMemoryLab
from trimtab_lab.testing.labs import deployment

ROLLOUT = target("web", "Rollout", KIND.api_version)


class RolloutCluster(ScaleCluster):
    """A cluster with Rollouts, whose scale requests are held."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(owners=OWNERS, **settings)
        self.about: list[ObjectReference] = []
        """The objects that events are about."""

    def record(self, about: ObjectReference, severity: str, reason: str, message: str) -> None:
        """Keep an event, and what it is about."""
        super().record(about, severity, reason, message)
        self.about.append(about)


def control(cluster: InMemoryLab) -> asyncio.Future[None]:
    """Start the controller of Rollouts."""
    client = cluster.client(seed=3)
    return asyncio.ensure_future(RolloutController(client).run())


async def deploy(cluster: InMemoryLab, replicas: int, **more: Any) -> None:
    """A Rollout with so many pods that run."""
    await cluster.create(Rollout, rollout(deployment("web", replicas, **more)))
    await cluster.run_pods()


async def three_zones(cluster: ScaleCluster) -> None:
    """Eight pods on two zones, and four more in a third that came later: stock empties that one again."""
    await cluster.add_zones(a=4, b=4)
    await deploy(cluster, 8)
    await cluster.add_zones(c=4)
    await cluster.clock.advance(3600)
    cluster.place_on("c-0", "c-1", "c-2", "c-3")
    await cluster.user.resize(Rollout, "web", 12, namespace="default")
    await cluster.settle()
    await cluster.run_pods()


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[RolloutCluster]:
    """A Rollout in three zones."""
    made = RolloutCluster()
    await made.start()
    await made.user.create(DEFINITIONS, DEFINITION)
    await made.clock.advance(60)  # until the kind is listed again
    task = control(made)
    await three_zones(made)
    yield made
    await cancel(task)
    await made.close()


def outcomes(cluster: ScaleCluster) -> dict[str, float]:
    """How often each outcome came."""
    found = {each.value: cluster.count("requests_total", outcome=each.value) for each in HoldOutcome}
    return {name: count for name, count in found.items() if count}


async def test_a_request_by_scale_is_held_and_stays_level(cluster: RolloutCluster) -> None:
    """As that of a Deployment; the event is about the Rollout."""
    await cluster.scale(6, kind=Rollout)
    assert await cluster.spread() == (2, 2, 2)
    (warning,) = [text for answer in cluster.answers for text in answer]
    assert re.fullmatch(r"kept 2/2/2; stock may leave \d/\d/\d", warning)
    assert outcomes(cluster) == {"planned": 1}
    (about,) = cluster.about
    assert (about.api_version, about.kind, about.name) == (KIND.api_version, "Rollout", "web")
    await cluster.advance(30)
    assert await cluster.costs() == []


async def test_a_request_by_update_is_held_and_stays_level(cluster: RolloutCluster) -> None:
    """Its controller's own write to the ReplicaSet is admitted at once."""
    await cluster.held(cluster.user.patch(Rollout, "web", {"spec": {"replicas": 6}}, namespace="default"))
    assert await cluster.spread() == (2, 2, 2)
    assert cluster.asked >= 2
    assert outcomes(cluster) == {"planned": 1}


async def test_a_rollouts_replicaset_scaled_by_hand_is_not_planned(cluster: RolloutCluster) -> None:
    """The Rollout restores its size."""
    (owned,) = await cluster.all(ReplicaSet)
    await cluster.held(cluster.user.resize(ReplicaSet, owned.metadata.name, 6, namespace="default"))
    assert outcomes(cluster) == {"managed": 1}
    assert cluster.writes() == []


async def test_an_observed_request_is_compared_with_the_plan(cluster: RolloutCluster) -> None:
    """Nothing is written to pods."""
    cluster.holder.configure(Defaults(policies=(DefaultPolicy("all", ScaleDownPolicySpec(mode="Observe")),)))
    await cluster.scale(6, kind=Rollout)
    await cluster.advance(5)
    assert outcomes(cluster) == {"observed": 1}
    assert [reason for reason, _ in cluster.events] == ["ScaleDownObserved"]
    assert await cluster.costs() == []


async def test_a_size_that_is_divided_in_an_unknown_way_is_left_to_the_rollout(cluster: RolloutCluster) -> None:
    """With pods of two ReplicaSets; the user is told."""
    changed = deployment("web", 12, labels={"app": "web", "version": "2"})["spec"]["template"]
    await cluster.user.patch(Rollout, "web", {"spec": {"template": changed}}, namespace="default")
    await cluster.settle()
    assert sorted(each.desired_replicas for each in await cluster.all(ReplicaSet)) == [12, 12]
    assert {each.metadata.annotations[REVISION] for each in await cluster.all(ReplicaSet)} == {"1", "2"}
    await cluster.held(cluster.user.resize(Rollout, "web", 6, namespace="default"))
    assert outcomes(cluster) == {"rollout": 1}
    assert [reason for reason, _ in cluster.events] == ["ScaleDownSkipped"]
    (warning,) = [text for answer in cluster.answers for text in answer]
    assert "its pods are of several revisions" in warning


async def test_a_rollout_that_opts_out_is_left_alone(cluster: RolloutCluster) -> None:
    """Its ReplicaSet with it."""
    await cluster.user.patch(Rollout, "web", {"metadata": {"annotations": {OPT_OUT: OPTED_OUT}}}, namespace="default")
    await cluster.settle()
    await cluster.scale(6, kind=Rollout)
    assert outcomes(cluster) == {"no-policy": 1}


async def test_a_kind_that_is_not_installed_is_no_outage() -> None:
    """Deployments stay level; when the kind comes, its workloads do too."""
    cluster = RolloutCluster()
    await cluster.start()
    assert cluster.view.custom["Rollout"].absent
    assert cluster.view.synced
    assert cluster.view.problems == []
    await cluster.add_zones(a=4, b=4)
    await cluster.deploy(8)
    await cluster.add_zones(c=4)
    await cluster.grow(12, "c-0", "c-1", "c-2", "c-3")
    await cluster.scale(6)
    assert await cluster.spread() == (2, 2, 2)
    await cluster.user.create(DEFINITIONS, DEFINITION)
    await cluster.advance(60)
    assert cluster.view.custom["Rollout"].synced
    await cluster.close()


# Policies.


@pytest_asyncio.fixture
async def policies() -> AsyncIterator[PolicyCluster]:
    """Nodes in two zones, and the controllers of policies and of Rollouts."""
    made = PolicyCluster()
    made.owners = OWNERS
    await made.start()
    await made.user.create(DEFINITIONS, DEFINITION)
    await made.advance(60)
    await made.add_nodes("node-0", "node-1", zone="a")
    await made.add_nodes("node-2", zone="b")
    task = control(made)
    yield made
    await cancel(task)
    await made.close()


async def ready(cluster: PolicyCluster, name: str = "web") -> tuple[str, str]:
    """Reason and message of the condition Ready."""
    found = await cluster.condition("Ready", name)
    assert found is not None
    return found.reason, found.message


async def test_a_policy_for_a_rollout_reports_it(policies: PolicyCluster) -> None:
    """And does not take its ReplicaSet for a workload of its own."""
    await deploy(policies, 6)
    await policies.policy(targetRef=ROLLOUT, strategies=[{"name": "Balance"}])
    assert await ready(policies) == (
        "OnScaleIntent",
        "applies to Rollout web: 6 pods are ranked, costs are written on each scale-down",
    )
    assert [each.type for each in (await policies.status()).status.conditions] == ["Ready"]


async def test_costs_are_kept_current_for_a_rollout(policies: PolicyCluster) -> None:
    """And the last plan is reported."""
    await deploy(policies, 6)
    await policies.policy(targetRef=ROLLOUT, strategies=[{"name": "Balance"}], delivery="Continuous")
    assert len(await policies.costs()) == 6
    await policies.user.resize(Rollout, "web", 4, namespace="default")
    await policies.settle()
    await policies.run_pods()
    await policies.look()
    plan = (await policies.status()).status.last_plan
    assert plan is not None
    assert (plan.from_, plan.to) == (6, 4)
    assert await policies.zones() == {"a": 2, "b": 2}


async def test_a_policy_for_a_rollouts_replicaset_says_to_name_the_rollout(policies: PolicyCluster) -> None:
    """Requests to it are what is held."""
    await deploy(policies, 3)
    (owned,) = await policies.all(ReplicaSet)
    await policies.policy(targetRef=target(owned.metadata.name, "ReplicaSet"))
    reason, message = await ready(policies)
    assert reason == "ManagedByDeployment"
    assert message == (
        f"ReplicaSet {owned.metadata.name} is resized by its Rollout web; only requests to the Rollout are held; "
        "name the Rollout in spec.targetRef, or use delivery: Continuous"
    )


async def test_a_policy_for_a_kind_that_is_not_installed_says_so() -> None:
    """The configuration names it, so the policy is accepted."""
    cluster = PolicyCluster()
    cluster.owners = OWNERS
    await cluster.start()
    await cluster.policy(targetRef=ROLLOUT)
    assert await ready(cluster) == (
        "WorkloadNotFound",
        f"the cluster does not serve {KIND.api_version} Rollout; install its definition",
    )
    await cluster.close()


async def test_a_policy_for_a_kind_that_is_not_named_says_how_to_name_it(policies: PolicyCluster) -> None:
    """It may have been stored before."""
    await policies.policy(targetRef=target("web", "Rollout", "argoproj.io/v1alpha1"))
    reason, message = await ready(policies)
    assert reason == "Invalid"
    assert message.endswith("in workloads of Trimtab's configuration")


async def test_a_rollouts_opt_out_holds_for_costs_that_are_kept_current(policies: PolicyCluster) -> None:
    """Also right after a start, when the kind is listed last."""
    await deploy(policies, 3, metadata={"annotations": {OPT_OUT: OPTED_OUT}})
    await policies.policy(selector={"matchLabels": {"app": "web"}}, delivery="Continuous")
    await policies.stop_policies()
    await policies.start_policies(refuse=_without_rollouts)
    assert policies.writes() == []
    policies.product.refuse = None
    await policies.advance(60)
    assert policies.view.custom["Rollout"].synced
    assert policies.writes() == []


def _without_rollouts(request: Request) -> Exception | None:
    """A refusal of everything about Rollouts."""
    return status_error(503, "come back later") if "/rollouts" in request.path else None
