"""Golden results: what they hold, and how a difference reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.lab.scenarios.outcomes import distribution, history, outcome, record
from trimtab_lab.scenarios import results
from trimtab_lab.scenarios.runner import ALL, Outcome, StepRecord
from trimtab_lab.scenarios.steps import Compare

FILLED = record(1, "fill", zone_a=10, zone_b=10, zone_c=10)
SHRUNK = record(2, "shrink", zone_a=10, zone_b=10, zone_c=0)


def test_a_golden_result_reads_like_a_table() -> None:
    """A step a paragraph, a key a line."""
    assert results.dump(results.golden(outcome(FILLED, SHRUNK))) == (
        "story: small\n"
        "steps:\n"
        "- step: fill\n"
        "  pods: 30\n"
        "  zone: {zone-a: 10, zone-b: 10, zone-c: 10}\n"
        "  skew: {zone: 0}\n"
        "- step: shrink\n"
        "  pods: 20\n"
        "  zone: {zone-a: 10, zone-b: 10, zone-c: 0}\n"
        "  skew: {zone: 10}\n"
    )


@pytest.mark.parametrize(
    ("compare", "want"),
    [
        pytest.param(Compare.LEVELS, {"step": "fill", "pods": 3, "zone": [2, 1], "skew": {"zone": 1}}, id="levels"),
        pytest.param(Compare.CHANCE, {"step": "fill", "outcome": "by chance"}, id="chance"),
    ],
)
def test_what_chance_decides_is_left_out(compare: Compare, want: dict[str, Any]) -> None:
    """By the step's `compare`."""
    tree = results.golden(outcome(replace(record(1, "fill", zone_a=1, zone_b=2), compare=compare)))
    assert tree["steps"] == [want]


def test_workloads_stand_beside_one_another() -> None:
    """Where there are several, each has its own lines."""
    both = StepRecord(1, "fill", 0.0, 1.0, {ALL: distribution(zone_a=2), "web": distribution(zone_a=1)})
    (step,) = results.golden(outcome(both))["steps"]
    assert step["pods"] == 2
    assert step["of web"] == {"pods": 1, "zone": {"zone-a": 1}, "skew": {"zone": 0}}


def changed(*records: StepRecord) -> list[str]:
    """How an outcome differs from the golden result of filling and shrinking, as it is after a file was read."""
    old = yaml.safe_load(results.dump(results.golden(outcome(FILLED, SHRUNK))))
    return results.differences(old, results.golden(outcome(*records)))


@pytest.mark.parametrize(
    ("records", "says"),
    [
        pytest.param([FILLED, SHRUNK], [], id="nothing has changed"),
        pytest.param(
            [FILLED, record(2, "shrink", zone_a=7, zone_b=7, zone_c=6)],
            [
                "step 2 (shrink): zone: zone-a was 10, is 7",
                "step 2 (shrink): zone: zone-b was 10, is 7",
                "step 2 (shrink): zone: zone-c was 0, is 6",
                "step 2 (shrink): skew: zone was 10, is 1",
            ],
            id="pods are elsewhere",
        ),
        pytest.param(
            [FILLED, record(2, "shrink", zone_a=10, zone_b=10)],
            ["step 2 (shrink): zone: zone-c was 0, is absent", "step 2 (shrink): skew: zone was 10, is 0"],
            id="a domain is not there",
        ),
        pytest.param([FILLED], ["step (shrink) is gone"], id="a step less"),
        pytest.param([FILLED, SHRUNK, record(3, "again", zone_a=1)], ["step (again) is new"], id="a step more"),
        pytest.param(
            [FILLED, replace(SHRUNK, title="scale down")],
            ["step 2 (scale down): its title was shrink, is scale down"],
            id="another title",
        ),
        pytest.param(
            [FILLED, replace(SHRUNK, compare=Compare.LEVELS)],
            ["step 2 (shrink): zone was {'zone-a': 10, 'zone-b': 10, 'zone-c': 0}, is 10/10/0"],
            id="compared in another way",
        ),
    ],
)
def test_differences_are_reported_in_sentences(records: list[StepRecord], says: list[str]) -> None:
    """A reviewer reads which step, which zone, how many before and now."""
    assert changed(*records) == says


def test_a_golden_result_is_written_and_held(tmp_path: Path) -> None:
    """First there is none, then it is written, then it holds, then it does not."""
    seen = outcome(FILLED, SHRUNK)
    assert "there is no golden result" in results.check(seen, tmp_path)[0]
    assert results.check(seen, tmp_path, rewrite=True) == []
    assert results.check(seen, tmp_path) == []
    other = outcome(FILLED, record(2, "shrink", zone_a=9, zone_b=10, zone_c=1))
    assert results.check(other, tmp_path)[0] == "step 2 (shrink): zone: zone-a was 10, is 9"


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        pytest.param(
            outcome(replace(FILLED, failures=("zone-a has 9",))), "step 1 (fill): zone-a has 9", id="a surprise"
        ),
        pytest.param(replace(outcome(FILLED, SHRUNK), records=(FILLED,)), "the story did not complete", id="cut short"),
        pytest.param(
            outcome(replace(FILLED, distributions={}, failures=("not within 5 s",))),
            "step 1 (fill): not within 5 s",
            id="overdue",
        ),
    ],
)
def test_a_story_that_failed_is_never_golden(seen: Outcome, says: str, tmp_path: Path) -> None:
    """Not even when it is to be written."""
    assert results.check(seen, tmp_path, rewrite=True) == [says]
    assert list(tmp_path.iterdir()) == []


def test_a_report_has_everything_and_is_json() -> None:
    """For programs: times, counts, every change of every pod."""
    timeline = history(("p", "zone-a", "starting"), ("p", "zone-a", "ready"))
    tree = json.loads(json.dumps(results.report(outcome(FILLED, timeline=timeline))))
    assert tree["steps"][0]["standings"]["all"]["domains"] == {"zone": {"zone-a": 10, "zone-b": 10, "zone-c": 10}}
    assert [change["state"] for change in tree["timeline"]["pods"]] == ["starting", "ready"]
    assert tree["complete"] is True
