"""Scale-downs in the status of their policy: counts that add up, and the last ten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.kube.fakes import FakeServer
from trimtab.api import codec
from trimtab.api.scaledown import ScaleDownPolicy, ScaleDownPolicySpec, ScaleDownPolicyStatus
from trimtab.kube.client import Client
from trimtab.kube.clocks import GRACE, cancel
from trimtab.kube.resources import Key
from trimtab.kube.runners import Result
from trimtab.kube.transport import Request, Response
from trimtab.scaledown.intent.plan_reports import RECENT, PlanReports, status_patch
from trimtab.scaledown.intent.requests import DeliveredPlan
from trimtab.scaledown.policy.effective import EffectivePolicy
from trimtab.scaledown.results.history import Distribution, ScaleDownRecord
from trimtab.testing.clocks import VirtualClock

ZONES = Distribution(topology_key="zone", planned=(4, 4, 4), stock=(6, 6, 0), left=(6, 6, 0))


def ended(number: int, outcome: str = "planned", result: str = "level", policy_uid: str = "p") -> ScaleDownRecord:
    """A scale-down that has ended."""
    return ScaleDownRecord(
        id=str(number),
        time=f"2026-01-01T00:00:{number:02d}Z",
        mode="Enforce",
        kind="Deployment",
        namespace="default",
        name="web",
        uid="u",
        policy="default/web",
        policy_uid=policy_uid,
        user="",
        from_=20,
        to=number,
        generation=1,
        resource_version="1",
        outcome=outcome,
        result=result,
        distributions=(ZONES,),
    )


def test_counts_are_added_to_what_the_status_has() -> None:
    """By how scale-downs ended, and what came of their requests."""
    status = codec.convert({"counts": {"total": 5, "level": 4, "missed": 1}}, ScaleDownPolicyStatus)
    records = [
        ended(1),
        ended(2, result="best"),
        ended(3, "observed", "missed"),
        ended(4, "rate-limited", "missed"),
        ended(5, "partial"),
    ]
    assert status_patch(status, records)["counts"] == {
        "total": 10,
        "level": 6,
        "best": 1,
        "missed": 3,
        "skipped": 1,
        "observed": 1,
    }


def test_the_last_ten_are_listed_the_latest_first() -> None:
    """With what was left, planned, and possible without Trimtab; the status can be decoded again."""
    status = ScaleDownPolicyStatus()
    for number in range(1, 13):
        patch = status_patch(status, [ended(number)])
        status = codec.convert(patch, ScaleDownPolicyStatus)
    assert [each.to for each in status.recent] == list(range(12, 12 - RECENT, -1))
    first = status.recent[0]
    assert (first.workload, first.from_, first.left, first.planned, first.stock) == (
        "Deployment/web",
        20,
        "6/6/0",
        "4/4/4",
        "6/6/0",
    )


POLICIES = ("/apis/trimtab.dev/v1alpha1", "scaledownpolicies")


class Stage:
    """A policy on a server, as it is cached, and reports about it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.cached: dict[str, Any] = {}
        self.reports = PlanReports(Client(self.server, clock=self.clock), self._find)
        self.see({"metadata": {"name": "web", "namespace": "default"}, "spec": {}})
        self.uid = str(self.cached["metadata"]["uid"])

    def see(self, tree: dict[str, Any]) -> None:
        """Store the policy, and let the cache see it."""
        self.cached = self.server.put(*POLICIES, tree)

    def _find(self, key: Key) -> ScaleDownPolicy | None:
        assert key == "default/web"
        return codec.convert(self.cached, ScaleDownPolicy) if self.cached else None

    @property
    def status(self) -> dict[str, Any]:
        """The status as it is stored."""
        (stored,) = self.server.objects("scaledownpolicies")
        found: dict[str, Any] = stored.get("status", {})
        return found

    @property
    def patches(self) -> int:
        """How often a status was written, or tried to be."""
        return sum(request.method == "PATCH" for request in self.server.requests)

    def delivered(self, at: int = 0, **policy: str) -> DeliveredPlan:
        """A plan by the policy."""
        effective = EffectivePolicy(ScaleDownPolicySpec(), "default/web", "web", self.uid)
        applied = EffectivePolicy(effective.spec, policy["key"], "web") if policy else effective
        return DeliveredPlan(applied, "Deployment", "default", "web", 9, 5, (), at, "2 costs failed")


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """Reports that are being written."""
    made = Stage()
    running = asyncio.create_task(made.reports.run())
    yield made
    await cancel(running)


async def test_a_plan_is_written_to_the_status_of_its_policy_once(stage: Stage) -> None:
    """One by a default policy has no status to be written to."""
    stage.reports.record(stage.delivered(key=""))
    await stage.clock.advance(1)
    assert stage.patches == 0
    stage.reports.record(stage.delivered())
    await stage.clock.advance(1)
    last = stage.status["lastPlan"]
    assert (last["from"], last["to"], last["error"]) == (9, 5, "2 costs failed")
    stage.reports.queue.add(Key("default/web"))
    await stage.clock.advance(1)
    assert stage.patches == 1


async def test_a_plan_that_comes_while_another_is_written_is_written_too(stage: Stage) -> None:
    """The later one is not taken for the one that was written."""

    def meanwhile(_: Request) -> Response | Exception | None:
        stage.server.intercept = None
        stage.reports.record(stage.delivered(at=61_000_000_000))
        return None

    stage.server.intercept = meanwhile
    stage.reports.record(stage.delivered())
    await stage.clock.advance(1)
    assert stage.patches == 2
    assert stage.status["lastPlan"]["time"] == "1970-01-01T00:01:01Z"


async def test_ended_scale_downs_are_counted_in_the_status(stage: Stage) -> None:
    """Those of the policy that is there: one of the same name that was deleted has its own UID."""
    stage.reports.record_end(ended(1, policy_uid=""))
    await stage.clock.advance(1)
    assert stage.patches == 0
    for number, uid in ((2, stage.uid), (3, "former"), (4, stage.uid)):
        stage.reports.record_end(ended(number, policy_uid=uid))
    await stage.clock.advance(1)
    assert stage.status["counts"]["total"] == 2
    assert [each["to"] for each in stage.status["recent"]] == [4, 2]
    stage.reports.queue.add(Key("default/web"))
    await stage.clock.advance(1)
    assert stage.patches == 1


async def test_counts_are_added_to_what_another_process_wrote(stage: Stage) -> None:
    """After a conflict they are written again, once the cache has seen the other's."""
    before = stage.cached
    stage.see({**before, "status": {"counts": {"total": 7}}})
    current, stage.cached = stage.cached, before
    stage.reports.record_end(ended(1, policy_uid=stage.uid))
    await stage.clock.advance(0.4)
    assert (stage.patches, stage.status["counts"]["total"]) == (1, 7)
    stage.cached = current
    await stage.clock.advance(0.2)
    assert (stage.patches, stage.status["counts"]["total"]) == (2, 8)


async def test_what_ends_while_counts_are_written_is_written_next(stage: Stage) -> None:
    """Nothing is counted twice, and nothing is lost."""
    arrived: list[Callable[[], None]] = [lambda: stage.reports.record_end(ended(2, policy_uid=stage.uid))]

    def meanwhile(_: Request) -> Response | Exception | None:
        if arrived:
            arrived.pop()()
        return None

    stage.server.intercept = meanwhile
    stage.reports.record_end(ended(1, policy_uid=stage.uid))
    for _ in range(4):
        await stage.clock.advance(0.3)
        (stage.cached,) = stage.server.objects("scaledownpolicies")
    assert stage.status["counts"]["total"] == 2
    assert [each["to"] for each in stage.status["recent"]] == [2, 1]


async def test_reports_about_a_policy_that_is_gone_are_dropped(stage: Stage) -> None:
    """Whether the cache knows that already or not."""
    stage.server.drop(*POLICIES, "default/web")
    stage.reports.record(stage.delivered())
    stage.reports.record_end(ended(1, policy_uid=stage.uid))
    await stage.clock.advance(5)
    tried = stage.patches
    assert tried == 2
    stage.cached = {}
    stage.reports.record_end(ended(1, policy_uid=stage.uid))
    await stage.clock.advance(60)
    assert stage.patches == tried


async def test_a_policy_is_reported_on_again_only_after_a_conflict() -> None:
    """What has been written, or has nowhere to be written to, is done."""
    stage, key = Stage(), Key("default/web")
    assert await stage.reports.reconcile(key) == Result()
    stage.reports.record(stage.delivered())
    stage.reports.record_end(ended(1, policy_uid=stage.uid))
    (result, patches) = (await stage.reports.reconcile(key), stage.patches)
    assert (result.requeue_after is not None, patches) == (True, 2), "the plan has changed what the cache has"
    (stage.cached,) = stage.server.objects("scaledownpolicies")
    assert await stage.reports.reconcile(key) == Result()
    assert (stage.patches, stage.status["counts"]["total"]) == (3, 1)


async def test_reports_that_are_queued_are_written_when_they_stop(caplog: pytest.LogCaptureFixture) -> None:
    """Such as the plan of a request that was answered a moment before."""
    stage = Stage()
    running = asyncio.create_task(stage.reports.run())
    await stage.clock.advance(1)
    stage.reports.record(stage.delivered())
    await cancel(running)
    assert stage.status["lastPlan"]["to"] == 5
    assert "could not be written" not in caplog.text


async def test_reports_that_cannot_be_written_are_logged_with_their_number(caplog: pytest.LogCaptureFixture) -> None:
    """So their absence from the status is explained."""
    stage = Stage()
    running = asyncio.create_task(stage.reports.run())
    await stage.clock.advance(1)
    stage.server.bad.latency = 60.0
    stage.reports.record(stage.delivered())
    for number in (1, 2):
        stage.reports.record_end(ended(number, policy_uid=stage.uid))
    running.cancel()
    await stage.clock.advance(GRACE)
    assert running.done()
    assert "3 reports of scale-downs could not be written to the statuses of their policies" in caplog.text
