"""The checks before a plan: what preparing for a new size may take, and the budget that is left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.scaledown.policy_cluster import POLICIES
from tests.unit.scaledown.scale_cluster import ScaleCluster
from trimtab.api.apps import Deployment
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.kube.client import Client
from trimtab.kube.errors import Unreachable
from trimtab.scaledown.intent.gate import Gate
from trimtab.scaledown.intent.ratelimits import RateLimiter, Rates
from trimtab.scaledown.intent.requests import CheckedRequest, HoldResult, ScaleDownRequest, TimeBudget
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.policy.defaults import LEVEL_EVERYONE, NO_DEFAULTS
from trimtab_lab.testing.labs import deployment

RATES = Rates(writes=0.001, writes_burst=100, each=0.001, each_burst=3, observations=0.001, observations_burst=1)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScaleCluster]:
    """Six pods in two zones."""
    made = ScaleCluster()
    await made.start()
    await made.add_zones(a=2, b=2)
    await made.deploy(6)
    yield made
    await made.close()


class Checking:
    """A gate by itself, and what it has asked for."""

    def __init__(
        self,
        cluster: ScaleCluster,
        *,
        takes: float = 0.0,
        fails: Exception | None = None,
        tiers: dict[str, int] | None = None,
    ) -> None:
        self.cluster = cluster
        self.takes = takes
        self.fails = fails
        self.prepared: list[str] = []
        self.limits = RateLimiter(RATES, cluster.clock)
        client = Client(cluster.product, clock=cluster.clock)
        self.unprepared: list[tuple[str, str]] = []
        self.gate = Gate(
            *(client, cluster.view, self.limits),
            defaults=LEVEL_EVERYONE,
            prepare=self._prepare,
            tiers=lambda *_: tiers,
            report_unprepared=self._report_unprepared,
        )

    async def _prepare(self, kind: str, namespace: str, name: str, replicas: int) -> int:
        self.prepared.append(f"{namespace}/{kind}/{name}: {replicas}")
        await self.cluster.clock.sleep(self.takes)
        if self.fails is not None:
            raise self.fails
        return 7

    def _report_unprepared(self, request: ScaleDownRequest, reason: str, why: str) -> str:
        self.unprepared.append((reason, why))
        return f"{request.name} is not prepared"

    async def check(
        self, after: int, seconds: float = 2.0, **changes: Any
    ) -> tuple[CheckedRequest | HoldResult, float]:
        """What becomes of a request, and how long that took."""
        clock = self.cluster.clock
        budget = TimeBudget(clock, clock.monotonic(), seconds)
        return await self.cluster.held(self.gate.check(await self.cluster.request(after, **changes), budget))


@pytest.mark.parametrize(
    ("takes", "seconds", "took", "left"),
    [
        pytest.param(0.4, 2.0, 0.4, 93, id="in time: its writes count"),
        pytest.param(60.0, 2.0, 1.0, 100, id="late: it is cut off after half of the budget"),
        pytest.param(60.0, 0.6, 0.3, 100, id="late in a shorter budget"),
        pytest.param(60.0, 0.15, 0.05, 100, id="late in a budget of which less than half is left without the answer"),
    ],
)
async def test_preparing_takes_half_of_the_budget_at_most(
    cluster: ScaleCluster, takes: float, seconds: float, took: float, left: int
) -> None:
    """And what it writes is within the limit on writes."""
    checking = Checking(cluster, takes=takes)
    found, elapsed = await checking.check(4, seconds)
    assert isinstance(found, CheckedRequest)
    assert checking.prepared == ["default/Deployment/web: 4"]
    assert elapsed == pytest.approx(took, abs=0.02)
    assert checking.limits.writes.left == left
    is_late = left == 100
    assert checking.unprepared == ([("late", "there was no time left")] if is_late else [])
    assert found.notes == (("web is not prepared",) if is_late else ())


@pytest.mark.parametrize(
    ("tiers", "skip"),
    [
        pytest.param({}, HoldOutcome.NOT_SYNCED, id="they are not known yet"),
        pytest.param({"default/web-1": 1}, None, id="they are known, and planned by"),
        pytest.param(None, None, id="it has none"),
    ],
)
async def test_a_workload_whose_subsets_are_not_known_in_time_is_not_planned(
    cluster: ScaleCluster, tiers: dict[str, int] | None, skip: HoldOutcome | None
) -> None:
    """A large UnitedTopology is still being validated: a plan without its subsets would delete the wrong pods."""
    checking = Checking(cluster, takes=60.0, tiers=tiers)
    found, _ = await checking.check(4)
    assert isinstance(found, CheckedRequest)
    assert (found.skip, found.notes) == (skip, ("web is not prepared",))


async def test_preparing_that_fails_is_reported_and_does_not_prevent_the_plan(cluster: ScaleCluster) -> None:
    """The user gets the warning, whatever becomes of the plan."""
    checking = Checking(cluster, fails=Unreachable("connection refused", sent=False))
    found, _ = await checking.check(4)
    assert isinstance(found, CheckedRequest)
    assert found.notes == ("web is not prepared",)
    ((reason, why),) = checking.unprepared
    assert reason == "failed"
    assert "connection refused" in why


async def policy(cluster: ScaleCluster, **spec: Any) -> None:
    """A policy for the Deployment web."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy"}
    body = {**kind, "metadata": {"name": "web"}, "spec": {"targetRef": reference, **spec}}
    await cluster.user.create(POLICIES, body, namespace="default")
    await cluster.advance(31)


@pytest.mark.parametrize(
    ("spec", "seconds", "want"),
    [
        pytest.param({}, 2.0, 2.0, id="the budget as it is"),
        pytest.param({"budgetMilliseconds": 800}, 2.0, 0.8, id="less, where the policy says so"),
        pytest.param({"budgetMilliseconds": 1500}, 1.0, 1.0, id="never more"),
    ],
)
async def test_a_policy_may_shorten_the_budget(
    cluster: ScaleCluster, spec: dict[str, int], seconds: float, want: float
) -> None:
    """It never lengthens what the API server waits for."""
    await policy(cluster, **spec)
    found, _ = await Checking(cluster).check(4, seconds)
    assert isinstance(found, CheckedRequest)
    assert (found.budget.seconds, found.skip, found.policy.is_default) == (want, None, False)


async def test_requests_that_are_observed_have_a_limit_of_their_own(cluster: ScaleCluster) -> None:
    """They write nothing: neither do they use up what others may write."""
    await policy(cluster, mode="Observe")
    checking = Checking(cluster)
    skips = []
    for _ in range(2):
        found, _ = await checking.check(4)
        assert isinstance(found, CheckedRequest)
        skips.append(found.skip)
    assert skips == [None, HoldOutcome.RATE_LIMITED]
    assert checking.limits.allow("default/Deployment/web")


async def test_the_policy_of_an_observed_request_is_looked_up_once(
    cluster: ScaleCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is prepared: a workload with subsets is planned whatever its policy says."""
    await policy(cluster, mode="Observe")
    lookups: list[str] = []
    policies_in = cluster.view.policies_in

    def counted(namespace: str) -> Iterable[ScaleDownPolicy]:
        lookups.append(namespace)
        return policies_in(namespace)

    monkeypatch.setattr(cluster.view, "policies_in", counted)
    checking = Checking(cluster)
    found, _ = await checking.check(4)
    assert isinstance(found, CheckedRequest)
    assert not found.policy.is_enforced
    assert (lookups, checking.prepared) == (["default"], [])


async def test_requests_of_one_workload_are_limited(cluster: ScaleCluster) -> None:
    """A fourth within a burst of three is skipped, and says why."""
    checking = Checking(cluster)
    found = [(await checking.check(4))[0] for _ in range(4)]
    assert [each.skip for each in found if isinstance(each, CheckedRequest)] == [None] * 3 + [HoldOutcome.RATE_LIMITED]


async def test_a_workload_that_is_not_planned_has_no_policy_for_reports(cluster: ScaleCluster) -> None:
    """`policy_for` answers by the same rules, without a request."""
    gate = Checking(cluster).gate
    workload = cluster.view.workload("Deployment", "default", "web")
    assert workload is not None
    found = gate.policy_for(workload)
    assert found is not None
    assert found.is_default
    owned = next(iter(cluster.view.sets.store))
    assert gate.policy_for(owned) is None, "its Deployment resizes it"
    await policy(cluster, delivery="Continuous", carrier="PodGroupCost")
    assert gate.policy_for(workload) is None, "its costs are kept current in another way"
    await cluster.user.delete(POLICIES, "web", namespace="default")
    await cluster.create(Deployment, deployment("other", 0, labels={"app": "web"}))
    assert gate.policy_for(workload) is None, "another workload selects its pods"
    await cluster.user.delete(Deployment, "other", namespace="default")
    await cluster.settle()
    assert gate.policy_for(workload) is not None
    gate.configure(NO_DEFAULTS)
    assert gate.policy_for(workload) is None, "no policy applies"


async def test_nothing_is_planned_where_no_pod_stays(cluster: ScaleCluster) -> None:
    """It is no stale request: the order does not matter."""
    found, _ = await Checking(cluster).check(0)
    assert isinstance(found, HoldResult)
    assert found.outcome is HoldOutcome.AS_STOCK


async def test_requests_that_are_not_planned_say_why(cluster: ScaleCluster) -> None:
    """By a result, which is final, or as skipped, where a policy applies."""
    checking = Checking(cluster)
    forged: list[dict[str, Any]] = [{"uid": "another"}, {"uid": ""}, {"resource_version": "1"}, {"before": 9}]
    seen = [(await checking.check(4, 2.0, **changes))[0] for changes in forged]
    seen.append((await checking.check(6))[0])
    for defaults in (replace(LEVEL_EVERYONE, exempt=frozenset({"default"})), NO_DEFAULTS):
        checking.gate.configure(defaults)
        seen.append((await checking.check(4))[0])
    await policy(cluster, delivery="Continuous", carrier="PodGroupCost")
    seen.append((await checking.check(4))[0])
    stale, none, other = HoldOutcome.STALE, HoldOutcome.NO_POLICY, HoldOutcome.OTHER_DELIVERY
    assert [each.outcome for each in seen if isinstance(each, HoldResult)] == [stale] * 5 + [none, none, other]
    await cluster.create(Deployment, deployment("other", 0, labels={"app": "web"}))
    found, _ = await checking.check(4)
    assert isinstance(found, CheckedRequest)
    assert (found.skip, len(found.skip_warnings)) == (HoldOutcome.CONFLICT, 1)
