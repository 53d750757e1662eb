"""Events about scale-downs: one for each outcome and ending, on the workload, and none where nothing is to be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.scaledown.results.test_history import checked, leveling
from trimtab.api.meta import ObjectReference
from trimtab.ranking.costs import Side
from trimtab.ranking.delivery import Delivery
from trimtab.ranking.plan import Plan, StockChoice, Victim
from trimtab.scaledown.intent.requests import HoldResult
from trimtab.scaledown.metrics import HoldOutcome, MissCause
from trimtab.scaledown.proportional import ControllerSize
from trimtab.scaledown.replicaset_plans import ControllerPlan
from trimtab.scaledown.results.evaluation import PlanState
from trimtab.scaledown.results.history import History
from trimtab.scaledown.results.levels import ExpectedLevel, LevelCheck, LevelResult
from trimtab.scaledown.results.open_plans import OpenPlan, PlanResult
from trimtab.scaledown.results.reporter import ScaleDownReporter
from trimtab.testing.clocks import VirtualClock

Event = tuple[str, str, str]


class Recorder:
    """Keeps events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.about: list[ObjectReference] = []

    def record(self, about: ObjectReference, severity: str, reason: str, message: str) -> None:
        """Keep one."""
        self.about.append(about)
        self.events.append((severity, reason, message))


class Stage:
    """A reporter, and what it has reported."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.history = History(VirtualClock())
        self.reporter = ScaleDownReporter(self.recorder, self.history)

    @property
    def events(self) -> list[Event]:
        """Severity, reason and message of each event."""
        return self.recorder.events


@pytest.fixture
def stage() -> Stage:
    """With nothing reported."""
    return Stage()


def plan(**fields: Any) -> OpenPlan:
    """A plan for the request to shrink from nine pods to five."""
    made = OpenPlan("p", "u", 5, {}, {}, frozenset(), request=checked())
    made.expected = (ExpectedLevel("u", (), (leveling(),)),)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def check(skew: int, *, key: str = "zone") -> LevelCheck:
    """One constraint after it, of which a skew of 1 was possible."""
    return LevelCheck(key, 1, 1, skew, (skew, 0))


def ended(result: LevelResult | None, *checks: LevelCheck, cause: str = "") -> PlanResult:
    """The end of the plan."""
    state = PlanState.NOT_APPLIED if result is None else PlanState.DONE
    return PlanResult("shop/Deployment/web", "p", state, 4, {MissCause.LAG: 0}, result, cause, checks)


NOTHING = "the policy observes, so nothing was changed"


def observed(text: str) -> Event:
    """The event of an observed scale-down."""
    return ("Normal", "ScaleDownObserved", f"9 → 5: {text}")


def missed(cause: str) -> Event:
    """The event of a scale-down that left 3/0."""
    return ("Warning", "ScaleDownMissed", f"9 → 5: left 3/0, a skew of 3 where 1 was possible (zone); cause: {cause}")


@pytest.mark.parametrize(
    ("outcome", "want"),
    [
        pytest.param(HoldOutcome.PLANNED, [("Normal", "ScaleDownPlanned", "9 → 5: kept; so")], id="planned"),
        pytest.param(HoldOutcome.PARTIAL, [("Warning", "ScaleDownPartial", "9 → 5: kept; so")], id="in part"),
        pytest.param(
            HoldOutcome.AS_STOCK, [("Normal", "ScaleDownPlanned", "9 → 5: no further costs are needed")], id="no costs"
        ),
        pytest.param(
            HoldOutcome.REPEATED, [("Normal", "ScaleDownPlanned", "9 → 5: no further costs are needed")], id="repeated"
        ),
        pytest.param(HoldOutcome.OBSERVED, [], id="observed: when it has ended"),
        pytest.param(HoldOutcome.RATE_LIMITED, [], id="skipped: reported as such"),
    ],
)
def test_an_answered_request_is_an_event(stage: Stage, outcome: HoldOutcome, want: list[Event]) -> None:
    """On the workload, with both sizes."""
    made = plan()
    stage.reporter.answered(checked(), HoldResult(outcome, ("kept", "so"), plan=made), ())
    assert stage.events == want
    (record,) = stage.history.records()
    assert (made.decision, record.result, record.ended) == (record.id, "", "")
    for about in stage.recorder.about:
        assert (about.api_version, about.kind, about.namespace, about.name, about.uid) == (
            *("apps/v1", "Deployment", "shop", "web"),
            "u1",
        )


def controller_plan(key: str, *victims: str) -> ControllerPlan:
    """The plan for one ReplicaSet, with a constraint on this topology key."""
    levelings = (replace(leveling(), topology_key=key),)
    chosen = tuple(Victim(f"shop/{name}", None, key, "") for name in victims)
    made = Plan(9, 5, chosen, StockChoice((), ()), levelings, obstacles=(), guaranteed=1)
    return ControllerPlan(ControllerSize(uid=key, name="web-1", before=9, after=5), made, Delivery(Side.VICTIMS, ()))


@pytest.mark.parametrize(
    ("keys", "added"),
    [
        pytest.param(("zone",), " (zone)", id="one ReplicaSet"),
        pytest.param(("zone", "zone"), " (zone)", id="two with the same key"),
        pytest.param(("zone", "rack"), "", id="two with different keys"),
    ],
)
def test_the_event_of_a_plan_names_the_topology_key_if_it_is_about_one(
    stage: Stage, keys: Sequence[str], added: str
) -> None:
    """The numbers in it are of that key."""
    plans = [controller_plan(key) for key in keys]
    stage.reporter.answered(checked(), HoldResult(HoldOutcome.PLANNED, ("kept 2/2/1",), plan=plan()), plans)
    assert stage.events == [("Normal", "ScaleDownPlanned", f"9 → 5: kept 2/2/1{added}")]


def test_a_plan_that_needs_no_costs_is_an_event_with_what_it_keeps(stage: Stage) -> None:
    """As a plan with costs is."""
    stage.reporter.answered(checked(), HoldResult(HoldOutcome.AS_STOCK, plan=plan()), [controller_plan("zone")])
    kept = "kept 2/2/1; stock may leave 3/2/0; no further costs are needed (zone)"
    assert stage.events == [("Normal", "ScaleDownPlanned", f"9 → 5: {kept}")]


def test_the_record_of_a_request_has_the_victims_and_constraints_of_all_its_plans(stage: Stage) -> None:
    """A Deployment may have several ReplicaSets; pods are named without their namespace, which is the workload's."""
    plans = [controller_plan("zone", "web-1-a", "web-1-b"), controller_plan("rack", "web-2-a")]
    stage.reporter.answered(checked(), HoldResult(HoldOutcome.PLANNED, plan=plan()), plans)
    (record,) = stage.history.records()
    assert record.victims == ("web-1-a", "web-1-b", "web-2-a")
    assert [each.topology_key for each in record.distributions] == ["zone", "rack"]


def test_a_request_without_a_plan_has_ended_when_it_is_answered(stage: Stage) -> None:
    """Nothing is waited for."""
    stage.reporter.answered(checked(), HoldResult(HoldOutcome.RATE_LIMITED), ())
    (record,) = stage.history.records()
    assert (record.result, record.ended) == ("", "2026-01-01T00:00:00Z")


@pytest.mark.parametrize("verified", [True, False])
def test_a_skipped_request_is_a_warning_and_an_event_if_it_was_verified(stage: Stage, verified: bool) -> None:
    """The same words, with the sizes in the event."""
    told = stage.reporter.skipped(checked().request, HoldOutcome.BUSY, verified=verified)
    assert told == (
        "Trimtab did not plan this scale-down: earlier scale requests for the same workload were still being served; "
        "the controller's own order decides"
    )
    assert stage.events == ([("Warning", "ScaleDownSkipped", f"9 → 5: {told}")] if verified else [])


def test_the_event_of_a_skipped_request_has_the_details(stage: Stage) -> None:
    """Which its user gets as further warnings."""
    told = stage.reporter.skipped(checked().request, HoldOutcome.CONFLICT, details=("web and api overlap", "see both"))
    assert stage.events == [("Warning", "ScaleDownSkipped", f"9 → 5: {told} (web and api overlap; see both)")]


@pytest.mark.parametrize("cause", [*MissCause, HoldOutcome.BUSY, HoldOutcome.CONFLICT, HoldOutcome.FOREIGN_COSTS])
def test_every_cause_of_a_miss_is_explained(stage: Stage, cause: str) -> None:
    """In words, beside the value that metrics have."""
    stage.reporter.ended(ended(LevelResult.MISSED, check(3), cause=cause), plan())
    ((_, _, message),) = stage.events
    assert f"; cause: {cause}, " in message
    assert "does not know" not in message


@pytest.mark.parametrize(
    ("fields", "result", "want"),
    [
        pytest.param({}, ended(LevelResult.LEVEL, check(1)), [], id="level"),
        pytest.param({}, ended(None), [], id="not applied"),
        pytest.param(
            {},
            ended(LevelResult.MISSED, check(1, key="host"), check(3), cause="lag"),
            [missed("lag, the controller acted before it saw the costs; Trimtab waits longer from now on")],
            id="missed: the constraint that is",
        ),
        pytest.param(
            {},
            ended(LevelResult.MISSED, check(3), cause="rate-limited"),
            [
                missed(
                    "rate-limited, the scale-down was not planned: there were too many scale requests in a short time"
                )
            ],
            id="missed: it was not planned",
        ),
        pytest.param(
            {},
            ended(LevelResult.MISSED, check(3), cause="rollout"),
            [missed("rollout, a rollout was in progress, which decides how level the pods are in the end")],
            id="missed: during a rollout",
        ),
        pytest.param(
            {},
            ended(LevelResult.MISSED, check(3), cause="unknown"),
            [missed("unknown, Trimtab does not know why; its log has the plan")],
            id="missed: nobody knows why",
        ),
        pytest.param(
            {"is_rolling": True},
            ended(LevelResult.LEVEL, check(1)),
            [
                (
                    "Normal",
                    "ScaleDownDuringRollout",
                    "9 → 5: a rollout is in progress, which replaces pods and decides how level they are in the end",
                )
            ],
            id="level during a rollout",
        ),
        pytest.param({"request": None}, ended(LevelResult.MISSED, check(3)), [], id="without a request"),
        pytest.param(
            {"skipped": HoldOutcome.OBSERVED},
            ended(LevelResult.LEVEL, check(1)),
            [observed("the controller left 1/0, as level as Trimtab would have (zone)")],
            id="observed, and as level",
        ),
        pytest.param(
            {"skipped": HoldOutcome.OBSERVED},
            ended(LevelResult.MISSED, check(3)),
            [observed(f"the controller left 3/0; Trimtab would have left 2/2/1 (zone); {NOTHING}")],
            id="observed, and less level",
        ),
        pytest.param(
            {"skipped": HoldOutcome.OBSERVED, "expected": (ExpectedLevel("u", (), (leveling(), leveling())),)},
            ended(LevelResult.MISSED, check(1, key="host"), check(3)),
            [observed(f"the controller left 3/0; Trimtab would have left 2/2/1 (zone); {NOTHING}")],
            id="observed, and less level on the second constraint",
        ),
        pytest.param(
            {"skipped": HoldOutcome.OBSERVED, "expected": (ExpectedLevel("u", (), (leveling(), leveling())),)},
            ended(LevelResult.LEVEL, check(0, key="host"), check(1)),
            [observed("the controller left 0/0, as level as Trimtab would have (host)")],
            id="observed, and as level on both",
        ),
        pytest.param(
            {"skipped": HoldOutcome.OBSERVED, "expected": ()},
            ended(LevelResult.LEVEL),
            [observed("observed; there are no constraints to keep level")],
            id="observed, without constraints",
        ),
    ],
)
def test_the_end_of_a_scale_down_is_an_event_where_there_is_something_to_say(
    stage: Stage, fields: dict[str, Any], result: PlanResult, want: list[Event]
) -> None:
    """And its record is closed in any case."""
    made = plan(**fields)
    stage.reporter.answered(checked(), HoldResult(HoldOutcome.OBSERVED, plan=made), ())
    stage.reporter.ended(result, made)
    assert stage.events == want
    (record,) = stage.history.records()
    ending = "not-applied" if result.result is None else result.result.value
    assert (record.result, record.cause) == (ending, result.cause)


def test_costs_that_another_writer_replaces_are_an_event(stage: Stage) -> None:
    """A plan without a request has no workload to report it on."""
    stage.reporter.overwritten(plan(request=None), 2)
    assert stage.events == []
    stage.reporter.overwritten(plan(), 2)
    message = "9 → 5: another writer replaced the deletion costs of 2 pods during the scale-down"
    assert stage.events == [("Warning", "CostsOverwritten", message)]


@pytest.mark.parametrize(
    ("late", "failed", "listed"), [(2, 0, "2 not in time"), (0, 1, "1 failed"), (2, 1, "2 not in time, 1 failed")]
)
def test_costs_that_were_not_reverted_are_an_event(stage: Stage, late: int, failed: int, listed: str) -> None:
    """With how many, and why."""
    told = stage.reporter.not_reverted(checked().request, late=late, failed=failed)
    assert told == f"{late + failed} costs were not reverted ({listed}); the controller may follow them"
    assert stage.events == [("Warning", "CostsNotReverted", f"9 → 5: {told}")]


def test_without_a_recorder_only_the_texts_are_made() -> None:
    """As in a process that writes no events."""
    reporter = ScaleDownReporter(None, History(VirtualClock()))
    assert "too many scale requests" in reporter.skipped(checked().request, HoldOutcome.RATE_LIMITED)
