"""Scale-downs by costs that are kept current: complete ones are followed, others are reverted for all pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.scaledown.policy_cluster import POLICIES
from tests.unit.scaledown.scale_cluster import ScaleCluster
from trimtab.api.annotations import DELETION_COST, POLICY_COST, SUBSET_COST
from trimtab.api.apps import Deployment
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec, WhenUnranked
from trimtab.kube.errors import Forbidden
from trimtab.ranking.costs import Carrier
from trimtab.scaledown.intent.kept_costs import patience, wait_warning
from trimtab.scaledown.intent.requests import CheckedRequest, ScaleDownRequest, TimeBudget
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.pod_costs import PolicyCost, apply_policy_patch
from trimtab.scaledown.policy.defaults import NO_DEFAULTS
from trimtab.scaledown.policy.effective import EffectivePolicy
from trimtab.testing.clocks import VirtualClock

ENOUGH = 600
"""Seconds that a policy would wait."""
TOLD = (
    "waited 1 s for ranks and not 600 s: the controller does not wait, and an API server waits for a webhook only as "
    "long as its budget"
)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScaleCluster]:
    """Two pods in each of two zones, and two more in a third that came later: stock empties that one again."""
    made = ScaleCluster(defaults=NO_DEFAULTS)
    await made.start()
    await made.add_zones(a=2, b=2)
    await made.deploy(4)
    await made.add_zones(c=2)
    await made.grow(6, "c-0", "c-1")
    yield made
    await made.close()


async def policy(cluster: ScaleCluster, **spec: Any) -> None:
    """A policy whose costs are kept current, by another process."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy"}
    body = {**kind, "metadata": {"name": "web"}, "spec": {"targetRef": reference, "delivery": "Continuous", **spec}}
    await cluster.user.create(POLICIES, body, namespace="default")
    await cluster.advance(31)  # where the kind was not known at the start, it is looked for again


async def write(cluster: ScaleCluster, pods: list[Pod]) -> None:
    """Give pods costs of the policy: the oldest pods, which stock keeps, go first."""
    for pod in pods:
        cost = PolicyCost(pod, "ScaleDownPolicy default/web", Carrier.ANNOTATION, 10 if on_c(pod) else -10)
        patch = apply_policy_patch(cost)
        assert patch is not None
        await cluster.user.patch(Pod, pod.metadata.name, patch, namespace="default")
    await cluster.settle()


def on_c(pod: Pod) -> bool:
    """Whether a pod is in the zone that came later."""
    return pod.spec.node_name.startswith("c")


async def kept(cluster: ScaleCluster) -> int:
    """How many pods have a cost of the policy."""
    return sum(POLICY_COST in pod.metadata.annotations for pod in await cluster.pods())


async def test_complete_costs_are_followed_at_once(cluster: ScaleCluster) -> None:
    """Nothing is held, and nothing written."""
    await policy(cluster, whenUnranked={"timeoutSeconds": ENOUGH})
    await write(cluster, await cluster.pods())
    held, took = await cluster.held(cluster.holder.hold(await cluster.request(4)))
    assert (held.outcome, held.warnings) == (HoldOutcome.OTHER_DELIVERY, ())
    assert took < 0.05
    assert cluster.writes() == []


@pytest.mark.parametrize(
    ("annotations", "outcome"),
    [
        pytest.param({DELETION_COST: "7"}, HoldOutcome.OTHER_DELIVERY, id="of another writer"),
        pytest.param({DELETION_COST: "7", SUBSET_COST: "7"}, HoldOutcome.UNRANKED, id="of a subset alone"),
    ],
)
async def test_which_costs_complete_those_of_the_policy(
    cluster: ScaleCluster, annotations: dict[str, str], outcome: HoldOutcome
) -> None:
    """The policy leaves a cost of another writer to it for good; that of a subset is replaced by its own."""
    await policy(cluster, whenUnranked={"action": "Fallback"})
    first, *others = await cluster.pods()
    await write(cluster, others)
    patch = {"metadata": {"annotations": annotations}}
    await cluster.user.patch(Pod, first.metadata.name, patch, namespace="default")
    await cluster.settle()
    held, _ = await cluster.held(cluster.holder.hold(await cluster.request(4)))
    assert held.outcome is outcome
    assert await kept(cluster) == (5 if outcome is HoldOutcome.OTHER_DELIVERY else 0)


async def test_a_missing_cost_is_waited_for(cluster: ScaleCluster) -> None:
    """When it is there, and the controller has had time to see it, the request is admitted."""
    await policy(cluster, whenUnranked={"timeoutSeconds": ENOUGH})
    first, *others = await cluster.pods()
    await write(cluster, others)
    holding = asyncio.ensure_future(cluster.holder.hold(await cluster.request(4)))
    await cluster.advance(0.5)
    assert not holding.done()
    await write(cluster, [first])
    held, took = await cluster.held(holding)
    assert held.outcome is HoldOutcome.OTHER_DELIVERY
    assert 0.2 < took < 0.5, "the settle time"
    assert await kept(cluster) == 6


@pytest.mark.parametrize(
    ("rule", "least", "waited"),
    [
        pytest.param(
            {"action": "Wait", "timeoutSeconds": ENOUGH},
            1.0,
            (TOLD,),
            id="the wait ends with the budget",
        ),
        pytest.param({"action": "Wait", "timeoutSeconds": 0}, 0.0, (), id="no wait"),
        pytest.param({"action": "Fallback", "timeoutSeconds": ENOUGH}, 0.0, (), id="fall back at once"),
    ],
)
async def test_one_unranked_pod_means_the_original_order_for_all(
    cluster: ScaleCluster, rule: dict[str, Any], least: float, waited: tuple[str, ...]
) -> None:
    """The costs of the others are reverted before the controller acts, and its user is told why."""
    await policy(cluster, whenUnranked=rule)
    pods = await cluster.pods()
    missing = next(pod for pod in pods if on_c(pod))
    await write(cluster, [pod for pod in pods if pod is not missing])
    held, took = await cluster.held(cluster.holder.hold(await cluster.request(4)))
    assert held.outcome is HoldOutcome.UNRANKED
    assert least <= took <= 2.0
    no_rank = f"{missing.metadata.name} had no rank, so the costs of all pods are ignored"
    plain = (
        "Trimtab did not plan this scale-down: a strategy could not rank every pod in time; the controller's own "
        "order decides"
    )
    assert held.warnings == (no_rank, *waited, plain)
    assert await kept(cluster) == 0
    assert await cluster.costs() == []
    assert cluster.count("costs_reverted_total", reason="unranked") == 5


@pytest.mark.parametrize(
    ("hangs", "reason", "cause", "most"),
    [
        pytest.param(True, "late", "not in time", 2.0, id="the budget ends while one is being written"),
        pytest.param(False, "failed", "failed", 0.6, id="one is refused, which no further time would change"),
    ],
)
async def test_costs_that_are_not_reverted_are_reported(
    cluster: ScaleCluster, hangs: bool, reason: str, cause: str, most: float
) -> None:
    """By a warning, an event on the workload and a metric: the controller may follow them."""
    await policy(cluster, whenUnranked={"action": "Fallback"})
    missing, stuck, *others = await cluster.pods()
    await write(cluster, [stuck, *others])

    def concerns(request: Any) -> bool:
        return bool(request.method == "PATCH" and request.path.endswith(stuck.metadata.name))

    if hangs:
        cluster.product.hangs = concerns
    else:
        cluster.product.refuse = lambda request: Forbidden("you may not") if concerns(request) else None
    held, took = await cluster.held(cluster.holder.hold(await cluster.request(4)))
    assert held.outcome is HoldOutcome.UNRANKED
    assert took <= most
    told = f"1 costs were not reverted (1 {cause}); the controller may follow them"
    assert held.warnings[:2] == (f"{missing.metadata.name} had no rank, so the costs of all pods are ignored", told)
    assert ("CostsNotReverted", f"6 → 4: {told}") in cluster.events
    counts = {each: cluster.count("costs_not_reverted_total", reason=each) for each in ("late", "failed")}
    assert counts == {"late": 0, "failed": 0, reason: 1}
    assert cluster.count("costs_reverted_total", reason="unranked") == (0 if hangs else 4)
    assert await kept(cluster) == 1


@pytest.mark.parametrize(
    ("action", "seconds", "budget", "waits", "is_warned"),
    [
        pytest.param("Wait", 1, 2.0, 1.0, False, id="as the policy says"),
        pytest.param("Wait", 2, 2.0, 1.0, True, id="half of the budget at most"),
        pytest.param("Wait", 0, 2.0, 0.0, False, id="no time"),
        pytest.param("Fallback", 60, 2.0, 0.0, False, id="not at all"),
    ],
)
def test_how_long_a_request_is_held_for_missing_ranks(
    action: Any, seconds: int, budget: float, waits: float, is_warned: bool
) -> None:
    """A user who may have expected a longer wait is told."""
    rule = WhenUnranked(action=action, timeout_seconds=seconds)
    policy = EffectivePolicy(ScaleDownPolicySpec(when_unranked=rule), "default/web", "web")
    clock = VirtualClock()
    request = ScaleDownRequest("Deployment", "default", "web", "u", 4, 2)
    checked = CheckedRequest(request, Deployment(), policy, TimeBudget(clock, clock.monotonic(), budget))
    assert patience(rule, checked.budget) == waits
    assert bool(wait_warning(checked)) is is_warned


@pytest.mark.parametrize(("missing", "more"), [(3, ""), (4, " and 1 more"), (6, " and 3 more")])
async def test_the_first_three_pods_without_a_rank_are_named(cluster: ScaleCluster, missing: int, more: str) -> None:
    """And how many more there are."""
    await policy(cluster, whenUnranked={"action": "Fallback"})
    pods = await cluster.pods()
    await write(cluster, pods[missing:])
    held, _ = await cluster.held(cluster.holder.hold(await cluster.request(4)))
    names = held.warnings[0].removesuffix(f"{more} had no rank, so the costs of all pods are ignored").split(", ")
    assert len(names) == 3
    assert set(names) <= {each.metadata.name for each in pods[:missing]}


async def test_a_request_waits_until_our_own_watch_shows_that_costs_are_reverted(cluster: ScaleCluster) -> None:
    """What it has not shown, the controller may not have seen; those that are reverted are not reported."""
    await policy(cluster, whenUnranked={"action": "Fallback"})
    _, *others = await cluster.pods()
    await write(cluster, others)
    cluster.product.hold("pods")
    holding = asyncio.ensure_future(cluster.holder.hold(await cluster.request(4)))
    await cluster.advance(0.5)
    assert (await kept(cluster), holding.done()) == (0, False)
    cluster.product.resume()
    held, took = await cluster.held(holding)
    assert held.outcome is HoldOutcome.UNRANKED
    assert 0.2 < took < 0.4, "the settle time"
    assert not any("were not reverted" in warning for warning in held.warnings)
    assert cluster.count("costs_not_reverted_total", reason="late") == 0


async def test_a_pod_that_is_terminating_needs_no_cost(cluster: ScaleCluster) -> None:
    """The controller does not choose among those."""
    await policy(cluster, whenUnranked={"timeoutSeconds": ENOUGH})
    first, *others = await cluster.pods()
    await write(cluster, others)
    await cluster.stop()
    await cluster.user.delete(Pod, first.metadata.name, namespace="default")
    await cluster.settle()
    held, took = await cluster.held(cluster.holder.hold(await cluster.request(4)))
    assert (held.outcome, held.warnings) == (HoldOutcome.OTHER_DELIVERY, ())
    assert took < 0.05


async def test_the_controller_then_chooses_as_it_always_did(cluster: ScaleCluster) -> None:
    """The youngest go, which the costs would have kept."""
    await policy(cluster, whenUnranked={"action": "Fallback"})
    pods = await cluster.pods()
    await write(cluster, pods[1:])
    await cluster.scale(4)
    assert await cluster.spread() == (2, 2, 0)


async def test_a_policy_that_cannot_be_recomputed_is_not_waited_for(cluster: ScaleCluster) -> None:
    """It was stored without admission: its costs will never be written."""
    await policy(cluster, strategies=[{"name": "AntiAffinity"}], whenUnranked={"timeoutSeconds": ENOUGH})
    held, took = await cluster.held(cluster.holder.hold(await cluster.request(4)))
    assert held.outcome is HoldOutcome.UNRANKED
    assert took < 0.5
