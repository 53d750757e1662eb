"""The mutation runner: which changes it makes, and that it makes them in a process of their own."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

import pytest

from tools.mutants import modules, report
from tools.mutants.coverage import Coverage
from tools.mutants.memory import CoverageCache, History
from tools.mutants.operators import Identity, Mutant, mutants
from tools.mutants.processes import forked, limit
from tools.mutants.recording import ExecutedLines, recording, traced
from tools.mutants.replacement import apply, prepare
from tools.mutants.report import Outcome, Result
from tools.mutants.run import ROOT, sample
from trimtab.subsets.apportionment import webster

APPORTIONMENT = "src/trimtab/subsets/apportionment.py"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("return a < b", {"return a <= b", "return a > b"}, id="comparisons"),
        pytest.param("return a and not b", {"return a or not b", "return a and b"}, id="logic"),
        pytest.param("return a + 1", {"return a - 1", "return a + 2", "return a + 0", "return None"}, id="numbers"),
        pytest.param("return min(a, b)", {"return max(a, b)", "return None"}, id="the least and the greatest"),
        pytest.param("return sorted(a)", {"return sorted(a, reverse=True)", "return None"}, id="an order"),
        pytest.param("return [x for x in a if x]", {"return [x for x in a]", "return None"}, id="a filter"),
        pytest.param("a.b = 1", {"pass", "a.b = 2", "a.b = 0"}, id="a statement"),
        pytest.param("if a:\n  return", {"if not a:", "pass"}, id="a condition"),
        pytest.param("log.info('%d', a + 1)", set[str](), id="nothing in a log line"),
        pytest.param("if a > b:\n  log.info('%d', a)", set[str](), id="nor when it is written"),
        pytest.param("raise ValueError(f'{a + 1}')", {"pass"}, id="nothing in a message"),
    ],
)
def test_each_rule_changes_one_thing(text: str, want: set[str], tmp_path: Path) -> None:
    """Of one statement."""
    body = text.replace("\n", "\n    ")
    (tmp_path / "m.py").write_text(f"def f(a, b):\n    {body}\n")
    assert {each.after for each in mutants("m.py", tmp_path)} == want


def webster_returning_none() -> Mutant:
    """A mutant that every test of `webster` detects."""
    found = [each for each in mutants(APPORTIONMENT, ROOT) if each.function == "webster"]
    (mutant,) = [each for each in found if (each.before, each.after) == ("return assigned", "return None")]
    return mutant


def test_a_mutant_lives_in_a_process_of_its_own() -> None:
    """This one, and its files, stay as they are."""
    before, mutant = (ROOT / APPORTIONMENT).read_bytes(), webster_returning_none()

    def work() -> object:
        apply(mutant)
        return webster([50, 50], 7) or "nothing"

    assert forked(work) == "nothing"
    assert webster([50, 50], 7) == [4, 3]
    assert (ROOT / APPORTIONMENT).read_bytes() == before


def test_functions_are_found_again_when_a_test_imports_a_module() -> None:
    """The runner freezes all objects before it forks, and the search must not leave those out."""
    mutant = webster_returning_none()

    def work() -> object:
        prepare([APPORTIONMENT])
        sys.modules["imported_by_a_test"] = ModuleType("imported_by_a_test")
        apply(mutant)
        return webster([50, 50], 7) or "nothing"

    assert forked(work) == "nothing"


def test_a_process_that_does_not_end_is_told_from_one_that_fails() -> None:
    """A signal ends the first; the second is a fault of the runner."""

    def hang() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        while True:
            pass

    def fail() -> None:
        raise ValueError

    assert forked(hang) is None
    with pytest.raises(RuntimeError, match="the forked process failed"):
        forked(fail)


def test_a_process_that_waits_for_ever_is_ended() -> None:
    """It uses no processor time, and would not come to the limit of that."""

    def wait() -> None:
        limit(60.0, idle=0.01)
        threading.Event().wait()

    assert forked(wait) is None


def test_the_same_seed_chooses_the_same_mutants() -> None:
    """And another one others; each group has its share from the start."""
    first, again, other = (
        [mutant.identity for _, mutant in sample(seed, ["kube/queues", "subsets"])] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other)
    groups = Counter(group for group, _ in list(sample(1, ["kube/queues", "subsets"]))[:100])
    assert groups["subsets"] > groups["kube/queues"] > 5


def test_the_tests_that_execute_a_change_are_found() -> None:
    """The fastest first, and no more than there is time for."""
    mutant = mutants(APPORTIONMENT, ROOT)[5]
    lines = {APPORTIONMENT: {mutant.line}}
    coverage = Coverage(
        {"slow": lines, "fast": lines, "slower": lines, "elsewhere": {"other.py": {mutant.line}}},
        {"slow": 3.0, "fast": 1.0, "slower": 30.0, "elsewhere": 0.1},
    )
    assert coverage.tests(mutant, 10.0) == ["fast", "slow"]
    assert coverage.tests(mutant, 10.0, {"slow": 1}) == ["slow", "fast"], "what has detected others comes first"
    assert coverage.tests(mutant, 0.5) == ["fast"]


def test_every_file_of_tests_has_its_turn() -> None:
    """A long file does not use up the time of all others."""
    mutant = mutants(APPORTIONMENT, ROOT)[5]
    files = ("apportionment", "other", "third")
    names = [f"tests/test_{file}.py::test_{number}" for file in files for number in range(6)]
    lines = {APPORTIONMENT: {mutant.line}}
    coverage = Coverage(dict.fromkeys(names, lines), {name: 1.0 + names.index(name) / 100 for name in names})
    found = [name.removeprefix("tests/test_")[:5] for name in coverage.tests(mutant, 8.5)]
    assert found == ["appor"] * 4 + ["other", "third"] + ["appor"] * 2


@pytest.mark.parametrize("record", [recording, traced], ids=["as this Python can", "by tracing"])
def test_executed_lines_are_recorded_once_for_each_test(record: Callable[..., AbstractContextManager[None]]) -> None:
    """Also where an earlier test has executed them, and only those of the files in question."""
    text, first = inspect.getsourcelines(webster)
    numbers = {line.strip(): number for number, line in enumerate(text, first)}

    def lines() -> set[int]:
        executed = ExecutedLines([APPORTIONMENT])
        with record(executed):
            webster([50, 50], 7)
        return executed.lines[APPORTIONMENT]

    found = forked(lambda: (lines(), lines()))
    assert found is not None
    assert found[0] == found[1]
    assert {numbers["whole = sum(parts)"], numbers["return assigned"]} < found[0]
    assert numbers["return [0] * len(parts)"] not in found[0]


def test_coverage_is_recorded_again_for_what_has_changed(tmp_path: Path) -> None:
    """A file of tests, a helper that it imports, or a file that its tests execute; and other tests than before."""
    files = {"tests/test_a.py": "from tests.helpers import x", "tests/helpers.py": "", "core.py": "", "other.py": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    recorded: list[str] = []

    def record() -> Coverage:
        recorded.append("")
        return Coverage({"tests/test_a.py::t": {"core.py": {1}}}, {"tests/test_a.py::t": 1.0})

    def known(*tests: str) -> int:
        CoverageCache(tmp_path).get(tmp_path / "tests/test_a.py", tests or ["tests/test_a.py::t"], record)
        return len(recorded)

    assert [known(), known()] == [1, 1]
    (tmp_path / "other.py").write_text("changed")
    assert known() == 1
    for count, name in enumerate(("tests/test_a.py", "tests/helpers.py", "core.py"), 2):
        (tmp_path / name).write_text(f"{files[name]}\n")
        assert [known(), known()] == [count, count]
    assert known("tests/test_a.py::another") == 5


def test_runs_remember_which_test_detected_which_mutant(tmp_path: Path) -> None:
    """So that the next one tries it first on mutants of the same function, and knows which have survived."""
    first, second, third = (Identity("a.py", "f", "x", after) for after in "123")
    history = History(tmp_path)
    history.add(first, "tests::t")
    history.add(second, "")
    history.save()
    again = History(tmp_path)
    assert [again.survived(each) for each in (first, second, third)] == [False, True, False]
    assert dict(again.detections(third)) == {"tests::t": 1}
    assert dict(again.detections(Identity("a.py", "g", "x", "1"))) == {}
    again.add(second, "tests::t")
    assert not again.survived(second)
    assert dict(again.detections(third)) == {"tests::t": 2}


def test_the_score_leaves_out_equivalent_mutants() -> None:
    """And those that cannot be tried; one whose test does not end is detected."""
    mutant = mutants(APPORTIONMENT, ROOT)[0]
    results = [Result.DETECTED, Result.LATE, Result.DETECTED, Result.SURVIVED, Result.EQUIVALENT, Result.NOT_APPLIED]
    outcomes = [Outcome("subsets", mutant, each) for each in results]
    assert report.score(report.total(outcomes)) == 75.0
    assert [line.split() for line in report.lines(outcomes, modules.CORE)][1:] == [
        ["subsets", "5", "3", "1", "1", "75.0%"],
        ["all", "5", "3", "1", "1", "75.0%"],
    ]


def test_every_mutant_that_is_listed_as_equivalent_exists_and_has_a_reason() -> None:
    """What has changed since is removed from the list."""
    listed = report.equivalent()
    files = {each.path for each in listed}
    known = {each.identity for path in files for each in mutants(path, ROOT)}
    assert [each for each in listed if each not in known] == []
    assert [each for each, reason in listed.items() if len(reason) < 20] == []
