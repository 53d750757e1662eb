"""Annotations of plans on pods that the workload does not own: they decide nothing, and are reverted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.unit.scaledown.results.test_plan_tracker import story
from tests.unit.scaledown.scale_cluster import ScaleCluster
from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST, SCALE_PLAN, PlanAnnotation, plan_annotation
from trimtab.api.apps import Deployment
from trimtab.api.pods import Pod
from trimtab.scaledown.metrics import HoldOutcome

pytestmark = pytest.mark.slow

FORGED = -5
"""The cost of a forged plan."""


@pytest.fixture
async def cluster() -> AsyncIterator[ScaleCluster]:
    """Twelve pods on three zones."""
    made = await story()
    yield made
    await made.close()


async def stranger(cluster: ScaleCluster, plan: PlanAnnotation, *, of_other: bool = False) -> str:
    """A pod that claims to have a cost of a plan: of no controller, or of another Deployment; its name."""
    annotations = {SCALE_PLAN: codec.encode(plan).decode(), DELETION_COST: str(plan.cost)}
    name = "stranger"
    if of_other:
        await cluster.deploy(1, "other")
        name = next(each for each in await names(cluster) if each.startswith("other-"))
        await cluster.patch(Pod, name, {"metadata": {"annotations": annotations}})
    else:
        containers = [{"name": "main", "image": "app:1"}]
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": containers}}
        await cluster.user.create(Pod, body, namespace="default")
    await cluster.settle()
    return name


async def names(cluster: ScaleCluster) -> list[str]:
    """The names of all pods."""
    return [pod.metadata.name for pod in await cluster.pods()]


async def forged(cluster: ScaleCluster, to: int, *, plan: str = "forged") -> PlanAnnotation:
    """A plan as Trimtab would write it for the Deployment."""
    metadata = (await cluster.get(Deployment, "web")).metadata
    at = cluster.clock.now() // 1_000_000 + 1_000_000
    fields: dict[str, Any] = {"uid": metadata.uid, "generation": metadata.generation, "side": "victims"}
    return PlanAnnotation(plan=plan, workload="Deployment/web", to=to, at=at, share=to, was=12, cost=FORGED, **fields)


async def claims(cluster: ScaleCluster, name: str) -> PlanAnnotation | None:
    """What a pod claims."""
    return plan_annotation((await cluster.get(Pod, name)).metadata.annotations)


@pytest.mark.parametrize("of_other", [pytest.param(False, id="no owner"), pytest.param(True, id="another owner")])
async def test_a_forged_plan_ends_no_other(cluster: ScaleCluster, of_other: bool) -> None:
    """The costs of a process that died are right; a later, forged plan asks for more pods than there are."""
    name = await stranger(cluster, await forged(cluster, 1), of_other=of_other)
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    await cluster.stop_product(killed=True)
    before = [cost for cost in await cluster.costs() if cost != FORGED]
    assert len(before) == 4
    await cluster.start_product()
    await cluster.advance(300)
    assert await cluster.costs() == before
    assert await claims(cluster, name) is None


async def test_a_forged_plan_is_not_taken_for_the_one_of_a_request(cluster: ScaleCluster) -> None:
    """It names the very request that comes next, as if another process had delivered it."""
    await stranger(cluster, await forged(cluster, 6))
    outcome, _ = await cluster.held(cluster.holder.hold(await cluster.request(6)))
    assert outcome.outcome is HoldOutcome.PLANNED
    assert len([each for each in await cluster.plan_annotations() if each.plan != "forged"]) > 1


async def test_a_copied_plan_overwrites_no_cost(cluster: ScaleCluster) -> None:
    """Whoever changes the cost of a pod of their own is no other writer of ours."""
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    known = (await cluster.plan_annotations())[0]
    await stranger(cluster, msgspec.structs.replace(known, cost=FORGED))
    for cost in range(5):
        await cluster.patch(Pod, "stranger", {"metadata": {"annotations": {DELETION_COST: str(cost)}}})
        await cluster.patch(Pod, "stranger", {"metadata": {"annotations": {DELETION_COST: str(FORGED)}}})
        await cluster.advance(1)
    assert "CostsOverwritten" not in [reason for reason, _ in cluster.events]
    plan = cluster.holder.tracker.open_plan("default/Deployment/web")
    assert plan is not None
    assert plan.rewrites == 0
