"""What breaks an invariant."""

from __future__ import annotations

from typing import Any

import pytest

from bench.promise.measuring import Round
from bench.soak import judging
from bench.soak.judging import Failure, Histogram, Limit
from trimtab.api.annotations import RESERVATION, SCALE_PLAN, SUBSET
from trimtab.kube.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    Timeout,
    TooManyRequests,
    Unreachable,
)

REFUSED = 'admission webhook "scale.trimtab.dev" denied the request: no'
FOREIGN = 'admission webhook "quota.example.com" denied the request: no'


@pytest.mark.parametrize(
    ("error", "is_outage", "reason"),
    [
        pytest.param(Forbidden(REFUSED, status=403), False, Failure.BY_US, id="refused by our webhook"),
        pytest.param(Forbidden(REFUSED, status=403), True, Failure.BY_US, id="refused by our webhook in an outage"),
        pytest.param(Forbidden(FOREIGN, status=403), False, Failure.UNEXPLAINED, id="refused by another webhook"),
        pytest.param(NotFound("gone", status=404), False, Failure.RACE, id="the pod is gone already"),
        pytest.param(Conflict("changed", status=409), False, Failure.RACE, id="the object has changed"),
        pytest.param(Unreachable("refused"), True, Failure.OUTAGE, id="no connection in an outage"),
        pytest.param(Unreachable("refused"), False, Failure.UNEXPLAINED, id="no connection, and no outage"),
        pytest.param(Timeout("late", status=504), True, Failure.OUTAGE, id="no answer in an outage"),
        pytest.param(ServerError("space exceeded", status=500), True, Failure.OUTAGE, id="etcd is full"),
        pytest.param(ServerError("broken", status=500), False, Failure.UNEXPLAINED, id="an error without a cause"),
        pytest.param(TooManyRequests("later", status=429), True, Failure.OUTAGE, id="throttled after an outage"),
        pytest.param(TooManyRequests("later", status=429), False, Failure.UNEXPLAINED, id="throttled, and no outage"),
        pytest.param(
            TooManyRequests("storage is (re)initializing", status=429),
            False,
            Failure.OUTAGE,
            id="caches are not filled",
        ),
        pytest.param(BadRequest("what?", status=400), True, Failure.UNEXPLAINED, id="a bad request is no outage"),
    ],
)
def test_a_failed_request_is_our_fault_unless_it_is_explained(
    error: ApiError, is_outage: bool, reason: Failure
) -> None:
    assert judging.failure(error, is_outage=is_outage) is reason


def pod(name: str, revision: str = "r1", **annotations: str) -> dict[str, Any]:
    """A pod of a revision."""
    keys = {"subset": SUBSET, "reservation": RESERVATION, "plan": SCALE_PLAN}
    known = {keys[key]: value for key, value in annotations.items()}
    return {"metadata": {"name": name, "labels": {judging.HASH: revision}, "annotations": known}, "status": {}}


def subset_pods(count: int, subset: str = "own", revision: str = "r1") -> list[dict[str, Any]]:
    """Pods that were admitted to a subset."""
    return [pod(f"{revision}-{subset}-{n}", revision, subset=subset, reservation=f"x{n}") for n in range(count)]


def test_one_pod_too_many_exceeds_a_limit() -> None:
    assert judging.exceeded_limits(subset_pods(2), {"own": 2}) == []
    (text,) = judging.exceeded_limits(subset_pods(3), {"own": 2})
    assert text == "3 pods of revision r1 in own, which may have 2"


def test_limits_count_each_revision_and_subset_by_itself() -> None:
    pods = subset_pods(2) + subset_pods(2, revision="r2") + subset_pods(2, "shared") + subset_pods(9, "rest")
    assert judging.exceeded_limits(pods, {"own": 2, "shared": 2}) == []


def test_limits_leave_out_pods_that_end_or_came_without_a_reservation() -> None:
    ending = subset_pods(3)
    ending[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert judging.exceeded_limits(ending, {"own": 2}) == []
    ending[1]["status"]["phase"] = "Failed"
    unreserved = [pod(f"late-{n}", subset="own") for n in range(3)]
    assert judging.exceeded_limits([*ending, *unreserved], {"own": 2}) == []


def test_costs_of_plans_that_are_left_are_named() -> None:
    gone = pod("b", plan="{}")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert judging.costs_left([pod("a"), gone, pod("d", plan="{}"), pod("c", plan="{}")]) == ["c", "d"]


def decrease(**fields: Any) -> Round:
    """A decrease that ended with an empty zone."""
    layout: dict[str, Any] = {"before": {"a": 4, "b": 4}, "best": {"a": 2, "b": 2}, "after": {"a": 4, "b": 0}}
    return Round(workload="web", kind="Deployment", target=4, pods=[], **{**layout, **fields})


@pytest.mark.parametrize(
    ("fields", "records", "said"),
    [
        pytest.param({}, [], "", id="nothing"),
        pytest.param({"warnings": ["kept 2/2; stock would leave 4/0"]}, [], "", id="a promise explains no miss"),
        pytest.param({"warnings": ["did not plan this"]}, [], "did not plan this", id="a warning"),
        pytest.param({"events": ["ScaleDownPlanned: kept 2/2"]}, [], "", id="an event that promises"),
        pytest.param({"events": ["ScaleDownMissed: 4/0"]}, [], "ScaleDownMissed: 4/0", id="an event that explains"),
        pytest.param({}, [{"outcome": "planned", "result": "level"}], "", id="a record that all is well"),
        pytest.param(
            {},
            [{"outcome": "planned", "result": "missed", "cause": "lag"}],
            "history: planned, missed lag",
            id="a record",
        ),
        pytest.param(
            {"became_unready": 2}, [], "2 pods became unready, which go first whatever they cost", id="unready pods"
        ),
    ],
)
def test_only_what_says_why_explains_a_decrease(
    fields: dict[str, Any], records: list[dict[str, Any]], said: str
) -> None:
    assert decrease().is_unlevel
    assert judging.explanation(decrease(**fields), records) == said


LIMIT = Limit(most=2.5, usual=0.25, share=0.01, enough=5000)


def taken(above_usual: int, above_most: int, count: int = 10_000, limit: Limit = LIMIT) -> Histogram:
    """A histogram of so many observations."""
    bounds = {limit.usual: count - above_usual, limit.most: count - above_most, float("inf"): count}
    return Histogram({bound: float(value) for bound, value in bounds.items()})


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        pytest.param(taken(0, 0), "", id="never above the usual"),
        pytest.param(taken(100, 0), "", id="above it in one of a hundred"),
        pytest.param(taken(101, 0), "above 0.25 s 101 times of 10000", id="more often"),
        pytest.param(taken(1, 1), "above 2.5 s 1 times", id="once above the most"),
        pytest.param(taken(9, 0, count=20), "", id="too young to say"),
        pytest.param(Histogram({}), "", id="nothing measured"),
    ],
)
def test_a_limit_is_for_the_longest_and_for_a_share(found: Histogram, problem: str) -> None:
    assert LIMIT.breach(found) == problem


@pytest.mark.parametrize(
    ("limit", "most", "usual"),
    [
        pytest.param(judging.LAG_LIMIT, 2.5, 100, id="lag of an event loop"),
        pytest.param(judging.WORK_LIMIT, 0.25, 10, id="work of an event loop"),
        pytest.param(judging.ANSWER_LIMIT, 2.25, 100, id="an answer"),
    ],
)
def test_what_the_limits_allow(limit: Limit, most: float, usual: int) -> None:
    """Of ten thousand observations."""
    assert limit.most == most
    assert not limit.breach(taken(usual, 0, limit=limit))
    assert limit.breach(taken(usual + 1, 0, limit=limit))


def test_histograms_of_processes_add_up() -> None:
    total = taken(1, 0) + taken(2, 1)
    assert (total.count, total.above(LIMIT.usual), total.above(LIMIT.most)) == (20_000, 3, 1)


def test_what_no_bucket_counts_is_not_judged_by_mistake() -> None:
    with pytest.raises(KeyError):
        taken(1, 1).above(1.0)


def test_a_request_over_its_budget_is_noticed() -> None:
    assert not judging.over_budget(2200)
    assert judging.over_budget(2300)


def samples(sizes: dict[float, float], step: float = 3.0, until: float = 3600.0) -> list[tuple[float, float]]:
    """Samples of a process whose size changes at these moments."""
    times = [n * step for n in range(int(until / step) + 1)]
    return [(at, next(size for since, size in sorted(sizes.items(), reverse=True) if at >= since)) for at in times]


def test_growth_compares_the_end_with_the_time_after_the_warm_up() -> None:
    assert judging.growth(samples({0: 50, 200: 90, 3000: 100})) == (90, 100)
    assert judging.is_flat(90, 100)
    leaking = judging.growth(samples({0: 50, 200: 90, 3000: 150}))
    assert leaking is not None
    assert not judging.is_flat(*leaking)


def test_growth_of_a_young_process_is_not_judged() -> None:
    assert judging.growth(samples({0: 50}, until=judging.WARM_UP)) is None
    assert judging.growth([]) is None


def test_a_single_peak_is_no_growth() -> None:
    peaked = [(at, 500.0 if at == 3600 else 90.0) for at, _ in samples({0: 90})]
    assert judging.growth(peaked) == (90, 90)
