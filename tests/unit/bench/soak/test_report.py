"""What is recorded of a run, and the report about it."""

from __future__ import annotations

import json
from pathlib import Path

from bench.soak import judging
from bench.soak.kinds import KINDS
from bench.soak.ledger import Ledger
from bench.soak.options import read_options
from bench.soak.outages import Outages
from bench.soak.report import Report
from bench.soak.schedule import Step


def ledger(breaches: int = 0) -> Ledger:
    """The record of a run with a hundred steps."""
    made = Ledger()
    for number in range(100):
        made.record(Step(7, 0, number, "scale"), f"w{number % 4}", is_effective=number % 10 != 0)
    made.check(judging.LEVEL, holds=True)
    for number in range(breaches):
        made.check(judging.LIMITS, holds=False, detail=f"breach {number}")
        made.record(Step(7, 1, number, "evict"), "later")
    return made


def report(made: Ledger) -> Report:
    """The report of a run."""
    memory = {"webhooks-2": {"1 min": 90.0, "10 min": 95.4, "end": 96.0}}
    return Report(7, "the embedded API server", "make soak SEED=7", made, memory, {"pause-etcd": "etcd"})


def test_steps_without_effect_are_no_faults() -> None:
    made = ledger()
    assert made.faults == {"scale": 90}
    assert made.without_effect == {"scale": 10}


def test_the_first_failure_has_the_steps_before_it_and_none_after() -> None:
    first = ledger(breaches=2).first_failure()
    assert first is not None
    assert (first["invariant"], first["detail"]) == (judging.LIMITS, "breach 0")
    assert first["steps"][-1].endswith("0.99 scale: w3")
    assert not any("evict" in each for each in first["steps"])


def test_without_a_breach_there_is_no_first_failure() -> None:
    made = ledger()
    assert made.first_failure() is None
    assert "no invariant was broken" in report(made).lines()


def test_the_file_has_everything(tmp_path: Path) -> None:
    made = ledger(breaches=1)
    report(made).write(tmp_path / "soak.json")
    tree = json.loads((tmp_path / "soak.json").read_text())
    assert tree["seed"] == 7
    assert tree["faults"]["scale"] == 90
    assert tree["faults"]["drain"] == 0
    assert "pause-etcd" not in tree["faults"]
    assert tree["notApplicable"] == {"pause-etcd": "etcd"}
    assert tree["checks"][judging.LIMITS] == 1
    assert tree["memoryMiB"]["webhooks-2"]["10 min"] == 95.4
    assert tree["breaches"][0]["detail"] == "breach 0"
    assert len(tree["steps"]) == len(made.steps)


def test_the_table_has_every_kind_every_invariant_and_how_to_repeat_it() -> None:
    text = "\n".join(report(ledger(breaches=1)).lines())
    assert all(f"  {each.name} " in text for each in KINDS)
    assert "pause-etcd                       not applicable: there is no etcd" in text
    assert all(f"  {each} " in text for each in judging.INVARIANTS)
    assert "repeat it with: make soak SEED=7" in text
    assert "breach 0" in text
    assert "0.99 scale: w3" in text


def test_an_outage_covers_what_overlaps_it() -> None:
    outages = Outages(intervals=[(10.0, 20.0)])
    assert outages.overlap(5.0, 11.0)
    assert outages.overlap(12.0, 13.0)
    assert outages.overlap(19.0, 30.0)
    assert not outages.overlap(5.0, 10.0)
    assert not outages.overlap(20.0, 30.0)


def test_an_outage_that_goes_on_covers_now() -> None:
    outages = Outages()
    with outages.during():
        assert outages.is_now
        assert outages.overlap(0.0, float("inf"))
    (interval,) = outages.intervals
    assert interval[0] < interval[1]


def test_options_have_defaults() -> None:
    options = read_options(["--minutes", "5", "--seed", "3"])
    assert (options.minutes, options.seed, options.control_plane) == (5.0, 3, "")
    assert options.output == Path("soak.json")
