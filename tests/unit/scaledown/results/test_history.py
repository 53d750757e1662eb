"""The records of a process: what they hold when a request is answered, and when it has ended."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from trimtab.api.apps import Deployment
from trimtab.api.meta import ObjectMeta
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.kube.clocks import SECOND
from trimtab.kube.processes import FIELDS
from trimtab.ranking.levelings import Leveling
from trimtab.scaledown.intent.requests import CheckedRequest, HoldResult, ScaleDownRequest, TimeBudget
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.policy.effective import EffectivePolicy
from trimtab.scaledown.results.history import History, ScaleDownRecord, sentence, summary_tree
from trimtab.scaledown.results.levels import LevelCheck
from trimtab.testing.clocks import START, VirtualClock

POLICY = EffectivePolicy(ScaleDownPolicySpec(mode="Enforce"), "shop/web", "web", "p1")
DEFAULT = EffectivePolicy(ScaleDownPolicySpec(mode="Observe"), "", "everyone")


def leveling(domains: int = 3) -> Leveling:
    """A constraint whose pods were 4, 4 and 1 in each zone, of which the plan keeps 2, 2 and 1."""
    names = tuple(f"z{number:03}" for number in range(domains))
    rest = (1,) * (domains - 3)
    return Leveling("zone", names, (4, 4, 1, *rest), (2, 2, 1, *rest), (3, 2, 0, *rest), (1, 3), stock_is_certain=False)


def checked(policy: EffectivePolicy = POLICY, *, started: int = START, after: int = 5) -> CheckedRequest:
    """A request to shrink a Deployment from nine pods to five."""
    request = ScaleDownRequest("Deployment", "shop", "web", "u1", 9, after, user="jo")
    workload = Deployment(metadata=ObjectMeta(name="web", namespace="shop", generation=7, resource_version="42"))
    return CheckedRequest(request, workload, policy, TimeBudget(VirtualClock(START), started, 2.0))


PLANNED = HoldResult(HoldOutcome.PLANNED, ("kept 2/2/1",), costs_written=4)


def check(*counts: int, skew: int = 1) -> LevelCheck:
    """What is left of the constraint."""
    return LevelCheck("zone", 1, 1, skew, counts)


def test_an_answered_request_is_recorded_with_everything_that_was_decided() -> None:
    """And without a result, as the controller has not acted yet."""
    history = History(VirtualClock())
    decision = history.open(checked(started=START - SECOND * 5 // 4), PLANNED, [leveling()], ["web-1", "web-2"])
    (record,) = history.records()
    assert record.tree() == {
        "id": decision,
        "time": "2026-01-01T00:00:00Z",
        "mode": "Enforce",
        "kind": "Deployment",
        "namespace": "shop",
        "name": "web",
        "uid": "u1",
        "policy": "shop/web",
        "policyUid": "p1",
        "user": "jo",
        "from": 9,
        "to": 5,
        "generation": 7,
        "resourceVersion": "42",
        "outcome": "planned",
        "warnings": ["kept 2/2/1"],
        "heldMilliseconds": 1250,
        "costsWritten": 4,
        "victims": ["web-1", "web-2"],
        "distributions": [
            {
                "topologyKey": "zone",
                "domains": ["z000", "z001", "z002"],
                "before": [4, 4, 1],
                "planned": [2, 2, 1],
                "stock": [3, 2, 0],
                "skewBefore": 3,
                "skewPlanned": 1,
                "skewStock": 3,
            }
        ],
    }


def test_a_default_policy_is_named_without_a_namespace() -> None:
    """It is no object, and has no UID."""
    history = History(VirtualClock())
    history.open(checked(DEFAULT), HoldResult(HoldOutcome.OBSERVED), [], [])
    (record,) = history.records()
    assert (record.policy, record.policy_uid, record.mode, record.outcome) == ("everyone", "", "Observe", "observed")


def test_two_records_of_one_moment_have_different_identities() -> None:
    """The latest comes first; only so many are kept."""
    history = History(VirtualClock(), size=3)
    made = [history.open(checked(), PLANNED, [], []) for _ in range(5)]
    assert len(set(made)) == 5
    assert [record.id for record in history.records()] == [made[4], made[3], made[2]]
    assert len(history) == 3
    history.close(made[0], "level")
    assert [record.result for record in history.records()] == ["", "", ""], "it was forgotten"


async def test_the_end_is_recorded_logged_and_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    """With what is left of every constraint, when the controller has acted."""
    ended: list[ScaleDownRecord] = []
    clock = VirtualClock()
    history = History(clock, on_close=ended.append)
    decision = history.open(checked(), PLANNED, [leveling(), leveling()], [])
    await clock.advance(61)
    with caplog.at_level(logging.INFO, logger="trimtab"):
        history.close(decision, "missed", "lag", [check(3, 1, 1, skew=2), check(2, 2, 1)])
    (record,) = history.records()
    assert ended == [record]
    assert (record.result, record.cause, record.ended) == ("missed", "lag", "2026-01-01T00:01:01Z")
    assert [(each.left, each.skew_left) for each in record.distributions] == [((3, 1, 1), 2), ((2, 2, 1), 1)]
    (logged,) = caplog.records
    assert logged.message == (
        "shop/Deployment/web: 9 → 5 planned; zone: left 3/1/1, planned 2/2/1, stock may leave 3/2/0; "
        "zone: left 2/2/1, planned 2/2/1, stock may leave 3/2/0; missed (lag)"
    )
    fields: dict[str, Any] = getattr(logged, FIELDS)
    assert fields["scaleDown"]["id"] == decision


def test_a_request_that_was_not_applied_leaves_nothing_to_compare() -> None:
    """There are no checks: the distributions stay as planned."""
    history = History(VirtualClock())
    decision = history.open(checked(), PLANNED, [leveling()], [])
    history.close(decision, "not-applied")
    (record,) = history.records()
    assert [each.skew_left for each in record.distributions] == [None]
    assert sentence(record) == "shop/Deployment/web: 9 → 5 planned; not-applied"


@pytest.mark.parametrize(("domains", "listed"), [(100, 100), (101, 0)])
def test_distributions_over_very_many_domains_are_left_out(domains: int, listed: int) -> None:
    """Their skews are kept."""
    history = History(VirtualClock())
    decision = history.open(checked(), PLANNED, [leveling(domains)], [f"web-{n}" for n in range(501)])
    history.close(decision, "level", checks=[check(*[1] * domains)])
    (record,) = history.records()
    (found,) = record.distributions
    counts = (found.domains, found.before, found.planned, found.stock, found.left)
    assert {len(each) for each in counts} == {listed}
    assert (found.skew_before, found.skew_planned, found.skew_stock, found.skew_left) == (3, 1, 3, 1)
    assert len(record.victims) == 500
    assert ("; zone; level" in sentence(record)) is (not listed)


def test_a_policys_status_lists_the_first_constraint() -> None:
    """Of a record without constraints only the sizes and the outcome."""
    history = History(VirtualClock())
    decision = history.open(checked(), PLANNED, [leveling(), leveling(101)], [])
    history.close(decision, "level", "", [check(2, 2, 1), check(*[1] * 101)])
    bare = history.open(checked(), PLANNED, [], [])
    latest, first = history.records()
    common = {"time": "2026-01-01T00:00:00Z", "workload": "Deployment/web", "from": 9, "to": 5, "outcome": "planned"}
    counts = {"left": "2/2/1", "planned": "2/2/1", "stock": "3/2/0"}
    assert summary_tree(first) == {**common, "result": "level", "cause": "", **counts}
    assert latest.id == bare
    assert summary_tree(latest) == {**common, "result": "", "cause": "", "left": "", "planned": "", "stock": ""}
