"""Several opinions made into one: caps, weights, sums, explanations, and policies that cannot be used."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ranking.groups import aged, view_of
from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import ScaleDownPolicy, StrategySpec
from trimtab.ranking.combination import Combination, Combined, Part, combine, problems
from trimtab.ranking.strategies import STRATEGIES, Factory, Ranks, StrategyError, View
from trimtab.snapshot.columns import IntColumn
from trimtab.testing.builders import cluster

NAN = math.nan
GROUP = cluster("z1: a", "z2: x").with_pods(*(aged(name, 1, minute=at).on("a") for at, name in enumerate("pqr")))


@dataclass(frozen=True)
class Given:
    """A strategy that says what it was told to say."""

    says: Any
    name: str = "Given"
    recompute: bool = False
    one_at_a_time: bool = False

    def rank(self, _rows: IntColumn, _view: View) -> Ranks:
        """What it was told."""
        if isinstance(self.says, Exception):
            raise self.says
        found: Ranks = self.says
        return found


def saying(**says: Any) -> Mapping[str, Factory]:
    """A registry of strategies that say what they are told."""

    def made(name: str) -> Factory:
        return lambda _: Given(says[name], name)

    return {name: made(name) for name in says}


def spec(name: str, **fields: Any) -> StrategySpec:
    """One strategy of a policy, made in Python: nothing has been checked."""
    return StrategySpec(name=name, **fields)


def total(combined: Combined) -> dict[str, float]:
    """The totals by pod name."""
    names = [key.partition("/")[2] for key in combined.members]
    return dict(zip(names, combined.total.tolist(), strict=True))


def test_ranks_are_capped_weighted_and_added() -> None:
    """Each part can be read off, and the total is their sum."""
    registry = saying(Age=[1, 5, 30], Taints=[2, 0, 1])
    view = view_of(GROUP, "p", "q", "r")
    combined = combine([spec("Age", weight=3, threshold=10), spec("Taints", weight=20, threshold=1)], view, registry)
    assert total(combined) == {"p": 23, "q": 15, "r": 50}
    assert combined.explain(int(view.rows[2])) == (Part("Age", 30, 10, 3, 30), Part("Taints", 1, 1, 20, 20))
    assert combined.explain(int(view.rows[0])) == (Part("Age", 1, 1, 3, 3), Part("Taints", 2, 1, 20, 20))


def test_one_strategy_needs_no_threshold() -> None:
    """There is nobody whom it could drown."""
    combined = combine([spec("Age", weight=2)], view_of(GROUP), saying(Age=[1, 500, 3e9]))
    assert combined.total.tolist() == [2, 1000, 6e9]


def test_ranks_beyond_all_measure_are_cut_off() -> None:
    """Somebody's strategy may say infinity; the sum must stay a number."""
    combined = combine([spec("Age", weight=1000)], view_of(GROUP), saying(Age=[math.inf, -1e308, 7]))
    assert combined.total.tolist() == [1e18, -1e18, 7000]


def test_without_strategies_everybody_is_equal() -> None:
    """The order is then left to others."""
    combined = combine([], view_of(GROUP))
    assert combined.total.tolist() == [0, 0, 0]
    assert combined.explain(int(combined.rows[0])) == ()
    assert not combined.unranked.any()


def test_a_threshold_holds_below_zero_as_well() -> None:
    """Otherwise a strategy that ranks below zero would drown the others after all."""
    combined = combine([spec("Age", threshold=10)], view_of(GROUP), saying(Age=[-3, -1000, 1000]))
    assert combined.total.tolist() == [-3, -10, 10]


def test_who_is_unranked_and_by_whom() -> None:
    """A total with a part missing is no total; the parts that are known are shown."""
    registry = saying(Age=[1, NAN, NAN], Usage=[NAN, NAN, 2])
    view = view_of(GROUP, "p", "q", "r")
    combined = combine([spec("Age", threshold=9), spec("Usage", threshold=9)], view, registry)
    assert combined.unranked.tolist() == [True, True, True]
    assert combined.unranked_by() == {
        "default/p": ("Usage",),
        "default/q": ("Age", "Usage"),
        "default/r": ("Age",),
    }
    assert combined.explain(int(view.rows[0])) == (Part("Age", 1, 1, 1, 1), Part("Usage", None, None, 1, None))


def test_one_strategy_can_be_used_twice() -> None:
    """With other settings it is another opinion: level zones first, then level hosts."""
    host = {"topologyKey": "kubernetes.io/hostname"}
    policy = [spec("Balance", weight=100, threshold=100), spec("Balance", threshold=100, args=host)]
    group = cluster("z1: a b").with_pods(aged("p", 1).on("a"), aged("q", 2).on("b"), aged("r", 3).on("a"))
    assert total(combine(policy, view_of(group))) == {"p": 101, "q": 201, "r": 302}


def test_fractions_that_are_equal_tie() -> None:
    """Adding them in floating point must not make one pod go before another."""
    registry = saying(One=[0.1, 0.3, 0.3], Two=[0.2, 0.0, 0.0])
    combined = combine([spec("One", threshold=1), spec("Two", threshold=1)], view_of(GROUP), registry)
    assert len(set(combined.total.tolist())) == 1


def test_a_row_that_was_not_ranked_cannot_be_explained() -> None:
    """Asking for it is a mistake of the caller, and is told so."""
    with pytest.raises(LookupError, match="row 99 is not one of those"):
        combine([], view_of(GROUP)).explain(99)


@pytest.mark.parametrize(
    ("policy", "recompute", "one_at_a_time"),
    [
        pytest.param(["Balance"], False, False, id="one that stays right"),
        pytest.param(["Balance", "Taints"], False, False, id="two that stay right"),
        pytest.param(["Balance", "AntiAffinity"], True, True, id="one that does not is enough"),
        pytest.param(["Scheduled"], True, True, id="one whose scores depend on the other pods"),
        pytest.param([], False, False, id="none"),
    ],
)
def test_what_a_policy_needs(policy: list[str], recompute: bool, one_at_a_time: bool) -> None:
    """It needs what any of its strategies needs."""
    made = Combination.of([spec(name, threshold=5) for name in policy])
    combined = made.rank(view_of(GROUP))
    assert (made.recompute, made.one_at_a_time) == (recompute, one_at_a_time)
    assert (combined.recompute, combined.one_at_a_time) == (recompute, one_at_a_time)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        pytest.param(
            [spec("Balance", threshold=3), spec("Foo", threshold=3)],
            'spec.strategies[1].name: "Foo" is not a strategy; known are AntiAffinity, Balance, Idle, Oldest, ',
            id="a strategy that does not exist",
        ),
        pytest.param([spec("")], 'spec.strategies[0].name: "": expected `str` of length >= 1', id="no name"),
        pytest.param([spec(None)], "spec.strategies[0]", id="nothing for a name"),  # type: ignore[arg-type]
        pytest.param([spec("Balance", weight=0)], "spec.strategies[0].weight: 0: expected `int` >= 1", id="weight 0"),
        pytest.param([spec("Balance", weight=-1)], "spec.strategies[0].weight: -1: expected `int` >= 1", id="negative"),
        pytest.param([spec("Balance", weight=1001)], "spec.strategies[0].weight: 1001: expected `int` <=", id="heavy"),
        pytest.param([spec("Balance", weight=2.5)], "spec.strategies[0].weight: 2.5: expected `int`", id="a half"),
        pytest.param([spec("Balance", weight="2")], 'spec.strategies[0].weight: "2": expected `int`', id="a text"),
        pytest.param([spec("Balance", weight=None)], "spec.strategies[0].weight: must be a number", id="no weight"),
        pytest.param([spec("Balance", weight=True)], "spec.strategies[0].weight: expected `int`", id="a truth"),
        pytest.param([spec("Balance", threshold=0)], "spec.strategies[0].threshold: 0: expected", id="threshold 0"),
        pytest.param([spec("Balance", threshold=10**7)], "spec.strategies[0].threshold: 10000000: expected", id="high"),
        pytest.param([spec("Balance", threshold=NAN)], "spec.strategies[0].threshold", id="a threshold that is none"),
        pytest.param([spec("Balance", args=None)], "spec.strategies[0].args: must be settings by name", id="no args"),
        pytest.param(
            [spec("Taints", threshold=1), spec("Balance", threshold=1, args={"key": "zone"})],
            "spec.strategies[1].args.key: is not a setting of Balance",
            id="a setting that does not exist",
        ),
        pytest.param(
            [spec("Balance", threshold=1), spec("Taints")],
            "spec.strategies[1].threshold: is required with several strategies",
            id="several without thresholds",
        ),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused(policy: list[StrategySpec], says: str) -> None:
    """The error names the field, also of a policy that no codec has seen."""
    with pytest.raises(InvalidError, match=f"^{re.escape(says)}"):
        combine(policy, view_of(GROUP))


def test_settings_of_ones_own_strategy_are_settings_by_name() -> None:
    """Its factory need not check that."""
    with pytest.raises(InvalidError, match=r"^spec\.strategies\[0\]\.args: must be settings by name"):
        combine([spec("Own", args=["zone"])], view_of(GROUP), saying(Own=[1, 2, 3]))


def test_all_that_is_wrong_is_listed() -> None:
    """Whoever wrote the policy need not correct it one error at a time."""
    wrong = [spec("Foo", threshold=1), spec("Balance", threshold=1, weight=0), spec("Taints")]
    paths = ["spec.strategies[0].name", "spec.strategies[1].weight", "spec.strategies[2].threshold"]
    assert [error.path for error in problems(wrong)] == paths


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
USED_OR_REFUSED = ("ranks", "spec.strategies[")
ARGS = ["topologyKey", "effects", "unitSeconds", "busyAt", "annotation", "order", "default"]


def complaint(use: Callable[[], Combined]) -> str:
    """The path of what is wrong with a policy, or that it gave ranks."""
    try:
        use()
    except InvalidError as error:
        return error.path
    return "ranks"


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from([*STRATEGIES, "Foo"])},
            optional={
                "weight": JSON | st.just(1),
                "threshold": JSON | st.just(9),
                "args": st.dictionaries(st.sampled_from(ARGS), JSON, max_size=2) | JSON,
            },
        ),
        max_size=3,
    )
)
def test_any_policy_is_used_or_refused(strategies: list[dict[str, Any]]) -> None:
    """Whatever somebody writes, there are ranks or an error with a path and nothing else, with the codec or without."""
    view = view_of(GROUP)
    in_python = [spec(**fields) for fields in strategies]
    assert complaint(lambda: combine(in_python, view)).startswith(USED_OR_REFUSED)
    written = {"spec": {"strategies": strategies}}
    found = complaint(lambda: combine(codec.convert(written, ScaleDownPolicy).spec.strategies, view))
    assert found.startswith(USED_OR_REFUSED)


@pytest.mark.parametrize(
    ("says", "reads"),
    [
        pytest.param([1, 2], 'strategy "Bad" gave ranks of shape (2,) for 3 pods', id="too few ranks"),
        pytest.param([[1, 2, 3]], 'strategy "Bad" gave ranks of shape (1, 3) for 3 pods', id="too deep"),
        pytest.param(["x", 1, 2], 'strategy "Bad" failed: ValueError', id="no numbers"),
        pytest.param(KeyError("zone"), "strategy \"Bad\" failed: KeyError('zone')", id="an error of its own"),
    ],
)
def test_a_strategy_that_does_not_work_is_named(says: Any, reads: str) -> None:
    """Somebody else wrote it; whoever runs it must see which one it was."""
    with pytest.raises(StrategyError, match=f"^{re.escape(reads)}"):
        combine([spec("Bad")], view_of(GROUP), saying(Bad=says))


def test_a_factory_that_fails_is_named() -> None:
    """Unless it says InvalidError, the fault is the strategy's and not the policy's."""

    def broken(_: Mapping[str, Any]) -> Given:
        raise RuntimeError("no licence")

    with pytest.raises(StrategyError, match=r'strategy "Bad" cannot be made: RuntimeError\(.no licence.\)'):
        Combination.of([spec("Bad")], {"Bad": broken})


@settings(deadline=None)
@given(
    raws=st.lists(st.floats(-1e9, 1e9) | st.just(NAN), min_size=3, max_size=3),
    other=st.floats(-1e9, 1e9),
    threshold=st.integers(1, 1_000_000),
    weight=st.integers(1, 1000),
)
def test_a_capped_rank_depends_on_its_own_raw_rank_alone(
    raws: list[float], other: float, threshold: int, weight: int
) -> None:
    """So a rank that changes, comes or goes moves no other, and none exceeds what its strategy may weigh."""
    policy, view = [spec("Any", threshold=threshold, weight=weight)], view_of(GROUP)
    before = combine(policy, view, saying(Any=raws)).opinions[0]
    after = combine(policy, view, saying(Any=[other, *raws[1:]])).opinions[0]
    np.testing.assert_array_equal(before.capped[1:], after.capped[1:])
    assert np.nanmax(np.abs(after.weighted)) <= threshold * weight
