"""Recorded answers of Kubernetes v1.36, and the tool that compares ours with them.

The sample in `tests/vectors` is asserted to the last bit, also where Kubernetes is known to misbehave; those cases
carry a tag, and following them is deliberate, for a scheduler that reads a quantity better than the API server places
pods where the rest of the cluster would not:

- `noDigitsParsesAsZero`: `m`, `Gi`, `-` and `.` are read as 0 although no number is there.
- `valueOverflow`, `milliOverflow`: a result beyond int64 becomes 0 or wraps around, instead of being capped or refused.
- `negativeRoundingQuirk`: a negative number of many digits is rounded towards zero, where others are rounded away.

Strategic merge patches have their own list of surprises (`trimtab.api.patches.strategic`); they carry no tags.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trimtab.testing import conform
from trimtab.testing.conform import comparison
from trimtab.testing.conform import selectors as selector_family
from trimtab.testing.conform.__main__ import main

VECTORS = Path(__file__).parents[2] / "vectors"


def recorded(family: str) -> list[dict[str, Any]]:
    """The sample of a family."""
    text = (VECTORS / f"{family}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


SELECTORS_QUANTITIES = recorded("selectors_quantities")


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in SELECTORS_QUANTITIES])
def test_selectors_and_quantities(case: dict[str, Any]) -> None:
    """Trimtab answers as Kubernetes did."""
    assert comparison.check("selectors_quantities", case) == []


def test_the_sample_is_a_fair_one() -> None:
    """Every kind of case is in the sample many times, and so is every tag that was recorded."""
    kinds = Counter(case["kind"] for case in SELECTORS_QUANTITIES)
    tags = Counter(tag for case in SELECTORS_QUANTITIES for tag in case.get("tags", ()))
    assert set(kinds) == set(selector_family.KINDS)
    assert min(kinds.values()) >= 20
    assert tags.keys() == {"noDigitsParsesAsZero", "valueOverflow", "milliOverflow"}


QUESTION = b'{"id": "q1", "kind": "percent", "input": {"intOrPercent": "50%", "total": 3, "roundUp": true}}'
REPLY = {"id": "q1", "actual": {"error": False, "value": 2}}


def test_cases_are_answered_in_order_and_bad_ones_do_not_stop_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Each case gets a line, in order: its answer, or what is wrong with it. Blank lines get none."""
    unreadable = [b"not JSON", b"[]", b"\xff", b'{"id": 7, "kind": "riddle", "input": {}}', b'{"id": 8}']
    assert main(["selectors_quantities"], lines=[QUESTION, b"\n", *unreadable, QUESTION]) == 0
    replies = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert replies[0] == replies[-1] == REPLY
    assert [(reply["id"], "error" in reply) for reply in replies[1:-1]] == [
        (None, True),
        (None, True),
        (None, True),
        (7, True),
        (8, True),
    ]


def test_an_answer_does_not_depend_on_what_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A family is shown the question only: expected and debug never reach it."""
    monkeypatch.setattr(conform, "FAMILIES", {"mirror": lambda case: case})
    question = {"id": 1, "family": "mirror", "input": {}}
    assert conform.answer("mirror", {**question, "expected": {"x": 1}, "debug": {}}) == question


def test_an_unknown_family_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The program ends with status 2 and says which families there are."""
    with pytest.raises(SystemExit) as caught:
        main(["riddles"])
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert all(family in told for family in conform.FAMILIES)


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever asks for help gets a command that works."""
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "| python -m trimtab.testing.conform selectors_quantities" in capsys.readouterr().out


def test_every_family_has_a_rule() -> None:
    """What can be answered can be compared."""
    assert set(conform.FAMILIES) <= set(comparison.RULES)


RANKS = {"a": 1, "b": 1, "c": 1}
SORTED = {"ranks": RANKS, "groups": [["a"], ["b", "c"]], "hasTies": True, "strictWeakOrder": True}
UNSORTABLE = {**SORTED, "strictWeakOrder": False}
TO_DELETE = {**SORTED, "deleted": ["a", "b"], "mustDelete": ["a"], "mayDelete": ["b", "c"], "mayDeleteCount": 1}
ANY_TWO = {**TO_DELETE, "strictWeakOrder": False}
ABC = {"ranks": RANKS, "order": ["a", "b", "c"]}

RANKING = {"deterministic": True, "ranks": {"a": 1.5, "b": 0}, "groups": [["a"], ["b"]]}
RANKED = {"ranks": {"a": 1.5, "b": 0}, "order": ["a", "b"]}
KRUISE = {"sameNode": RANKING, "spread": RANKING}
BY_CHANCE = {"sameNode": RANKING, "spread": {**RANKING, "deterministic": False}}

REFUSAL = {"filters": {"Fit": {"nodes": {"n": {"code": "Unschedulable", "reasons": ["a", "b"]}}}}}
REFUSAL_TURNED = {"filters": {"Fit": {"nodes": {"n": {"code": "Unschedulable", "reasons": ["b", "a"]}}}}}
SUCCESS = {"filters": {"Fit": {"nodes": {"n": {"code": "Success"}}}}}
SUCCESS_WITHOUT_REASONS = {"filters": {"Fit": {"nodes": {"n": {"code": "Success", "reasons": []}}}}}

SCORES = {"scores": {"n": {"raw": 3, "normalized": 100}}}


@pytest.mark.parametrize(
    ("family", "expected", "actual"),
    [
        pytest.param("topology_spread", SCORES, SCORES, id="the same"),
        pytest.param("selectors_quantities", {"error": True, "errorText": "x"}, {"error": True}, id="error texts"),
        pytest.param("active_pods_sort", SORTED, ABC, id="an order"),
        pytest.param("active_pods_sort", SORTED, {**ABC, "order": ["a", "c", "b"]}, id="ties in any order"),
        pytest.param("active_pods_sort", UNSORTABLE, {"ranks": RANKS, "order": ["c"]}, id="no order without one"),
        pytest.param("active_pods_sort", TO_DELETE, {**ABC, "deleted": ["c", "a"]}, id="either of a tie may go"),
        pytest.param("active_pods_sort", ANY_TWO, {"ranks": RANKS, "deleted": ["b", "c"]}, id="any two may go"),
        pytest.param("kruise_rank", KRUISE, {"sameNode": RANKED, "spread": RANKED}, id="two rankings"),
        pytest.param(
            "kruise_rank",
            KRUISE,
            {"sameNode": RANKED, "spread": {**RANKED, "ranks": {"a": 1.5 + 1e-10, "b": 0.0}}},
            id="a rank that is off by next to nothing",
        ),
        pytest.param("kruise_rank", BY_CHANCE, {"sameNode": RANKED}, id="a ranking by chance"),
        pytest.param("scheduler_plugins", REFUSAL, REFUSAL_TURNED, id="reasons in another order"),
        pytest.param("scheduler_plugins", SUCCESS, SUCCESS_WITHOUT_REASONS, id="an empty list of reasons"),
    ],
)
def test_what_counts_as_right(family: str, expected: dict[str, Any], actual: dict[str, Any]) -> None:
    """An answer is right where it departs only in what Kubernetes leaves open."""
    assert comparison.differences(family, expected, actual) == []


@pytest.mark.parametrize(
    ("family", "expected", "actual", "want"),
    [
        pytest.param(
            "topology_spread",
            SCORES,
            {"scores": {"n": {"raw": 4, "normalized": 100}}},
            ["scores.n.raw: expected 3, got 4"],
            id="another number",
        ),
        pytest.param(
            "topology_spread",
            SCORES,
            {"scores": {"m": {}}},
            ["scores.m: {} was not expected", "scores.n: expected {'raw': 3, 'normalized': 100}, but it is missing"],
            id="another node",
        ),
        pytest.param(
            "selectors_quantities",
            {"error": True},
            {"error": 1},
            ["error: expected True, got 1"],
            id="true is not 1",
        ),
        pytest.param(
            "selectors_quantities",
            {"result": [1, 2]},
            {"result": [2, 1]},
            ["result[0]: expected 1, got 2", "result[1]: expected 2, got 1"],
            id="the order of a list",
        ),
        pytest.param(
            "active_pods_sort",
            SORTED,
            {**ABC, "order": ["b", "a", "c"]},
            ["order: a must come before b"],
            id="a later group first",
        ),
        pytest.param(
            "active_pods_sort",
            SORTED,
            {**ABC, "order": ["a", "b"]},
            ["order: expected every pod of ['a', 'b', 'c'] once, got ['a', 'b']"],
            id="a pod is missing",
        ),
        pytest.param(
            "active_pods_sort",
            UNSORTABLE,
            {"ranks": {**RANKS, "a": 2}},
            ["ranks.a: expected 1, got 2"],
            id="ranks do not depend on the order",
        ),
        pytest.param(
            "active_pods_sort",
            TO_DELETE,
            {**ABC, "deleted": ["b", "c"]},
            ["deleted: ['a'] must go", "deleted: expected 1 of ['b', 'c'], got ['b', 'c']"],
            id="the wrong pods go",
        ),
        pytest.param(
            "active_pods_sort",
            TO_DELETE,
            {**ABC, "deleted": ["a", "b", "d"]},
            ["deleted: ['d'] must stay"],
            id="one pod too many goes",
        ),
        pytest.param(
            "active_pods_sort",
            TO_DELETE,
            {**ABC, "deleted": ["a", "a"]},
            ["deleted: expected distinct names, got ['a', 'a']"],
            id="a pod goes twice",
        ),
        pytest.param(
            "active_pods_sort",
            ANY_TWO,
            {"ranks": RANKS, "deleted": ["a"]},
            ["number deleted: expected 2, got 1"],
            id="too few go",
        ),
        pytest.param(
            "kruise_rank",
            BY_CHANCE,
            {"sameNode": {**RANKED, "ranks": {"a": 1.6, "b": 0}}},
            ["sameNode.ranks.a: expected 1.5, got 1.6"],
            id="another rank",
        ),
        pytest.param(
            "scheduler_plugins",
            REFUSAL,
            SUCCESS,
            [
                "filters.Fit.nodes.n.code: expected 'Unschedulable', got 'Success'",
                "filters.Fit.nodes.n.reasons: expected ['a', 'b'], but it is missing",
            ],
            id="another verdict",
        ),
    ],
)
def test_what_counts_as_wrong(family: str, expected: dict[str, Any], actual: dict[str, Any], want: list[str]) -> None:
    """Each departure is told in a sentence that starts with its path."""
    assert comparison.differences(family, expected, actual) == want
