"""Scale-downs in the status of their policy: counts that add up, and the last ten."""

from __future__ import annotations

from trimtab.api import codec
from trimtab.api.scaledown import ScaleDownPolicyStatus
from trimtab.scaledown.intent.plan_reports import RECENT, status_patch
from trimtab.scaledown.results.history import Distribution, ScaleDownRecord

ZONES = Distribution(topology_key="zone", planned=(4, 4, 4), stock=(6, 6, 0), left=(6, 6, 0))


def ended(number: int, outcome: str = "planned", result: str = "level") -> ScaleDownRecord:
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
        policy_uid="p",
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
