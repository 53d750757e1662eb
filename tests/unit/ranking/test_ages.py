"""The age ratio of victims: when it is observed, and when it exceeds what its proposal hopes for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ranking.crowds import NOW, NOW_NS, make, rows_of, view_of
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.ranking.ages import age_ratios
from trimtab.ranking.scales import binary_scale
from trimtab.ranking.victims import Options, cloneset_order, replicaset_order


def aged(name: str, seconds: float, *, ready: float | None = None, **fields: Any) -> Pod:
    """A pod alone on its node, created so many seconds ago and ready since, or since later."""
    since = NOW - timedelta(seconds=seconds if ready is None else ready)
    created = NOW - timedelta(seconds=seconds)
    usual: dict[str, Any] = {"uid": name, "node": name, "since": since, "created": created}
    return make(name, **usual | fields)


def ratios(pods: Sequence[Pod], victims: int, **options: Any) -> list[float]:
    """What would be observed if so many of these pods went."""
    view = view_of(pods)
    rows = rows_of(view, pods)
    return age_ratios(replicaset_order(view.pods, rows, rows, NOW_NS, Options(**options)), victims, NOW_NS)


def test_a_ratio_is_a_fraction() -> None:
    """Pods of one scale: the shuffle takes one that is half as old again as the youngest."""
    assert ratios([aged("a", 60), aged("b", 40)], 1) == [1.5]


def test_the_youngest_itself_has_a_ratio_of_one() -> None:
    """It goes by its age too."""
    assert ratios([aged("a", 60), aged("b", 10)], 1) == [1.0]


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param({"ready": 10}, {"ready": 50}, [2.0], id="6 the ready time"),
        pytest.param({"ready": 40}, {"ready": 60}, [2.0], id="6 the shuffle of a scale"),
        pytest.param({}, {"ready": 20}, [], id="9 nothing but the UID"),
        pytest.param({"cost": "-1"}, {}, [], id="4 the cost"),
        pytest.param({"restarts": 1}, {"ready": 20}, [], id="7 restarts"),
        pytest.param({"phase": "Unknown"}, {}, [], id="2 the phase"),
    ],
)
def test_only_what_age_decided_is_observed(first: dict[str, Any], second: dict[str, Any], want: list[float]) -> None:
    """A victim that goes for another reason than its age says nothing about ages."""
    pods = [aged("a", 40, **{"ready": 20} | first), aged("b", 40, **second), aged("c", 20, ready=20, cost="9")]
    assert ratios(pods, 1) == want


def test_8_a_creation_time_decides_where_ready_times_are_equal() -> None:
    """Criterion 8 is an age as well, and so is its shuffle."""
    assert ratios([aged("a", 90, ready=20), aged("b", 200, ready=20)], 1) == [1.0]
    assert ratios([aged("a", 60, ready=20), aged("b", 40, ready=20)], 1) == [1.5]


def test_what_is_not_ready_is_not_observed() -> None:
    """Neither as a victim, though its creation decides here, nor as the youngest."""
    sick = [make(name, uid=name, node="n", ready=False, created=NOW - timedelta(seconds=5)) for name in "uv"]
    pods = [*sick, aged("a", 60), aged("b", 40)]
    assert ratios(pods, 1) == []
    assert ratios(pods, 3) == [1.5]


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([], id="there are no pods"),
        pytest.param([aged("a", 60, ready=50, created=None), aged("b", 40, created=None)], id="no creation is known"),
        pytest.param([aged("a", 60), aged("b", 0)], id="the youngest was created just now"),
        pytest.param([aged("a", 60), aged("b", -5)], id="the youngest has yet to be created"),
    ],
)
def test_where_nothing_can_be_said(pods: list[Pod]) -> None:
    """No ratio is better than one that means nothing."""
    assert ratios(pods, min(1, len(pods))) == []


def test_a_victim_of_unknown_creation_is_passed_over() -> None:
    """Its ready time is known, its age is not."""
    pods = [aged("a", 0, ready=10, created=None), aged("b", 50), aged("c", 60), aged("d", 5000)]
    assert ratios(pods, 3) == [1.0, 1.2]


def test_nothing_is_observed_where_all_pods_go() -> None:
    """Nobody is left to be told apart from."""
    assert ratios([aged("a", 60), aged("b", 40)], 2) == []


def test_more_victims_than_pods_are_refused() -> None:
    """As an order refuses them."""
    with pytest.raises(InvalidError, match="3 of 2 pods cannot go"):
        ratios([aged("a", 60), aged("b", 40)], 3)


def test_a_clonesets_order_has_ratios_too() -> None:
    """Its times have no scale: the younger goes, and the ratio is what it is."""
    pods = [aged("a", 60), aged("b", 40), aged("c", 4000)]
    view = view_of(pods)
    rows = rows_of(view, pods)
    order = cloneset_order(view.pods, rows, rows.astype(float) * 0)
    assert age_ratios(order, 2, NOW_NS) == [1.0, 1.5]


# --- The objective: no value above 2 ------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 10_000_000), min_size=2, max_size=12), st.data())
@settings(deadline=None)
def test_victims_of_the_youngest_scale_stay_below_two(ages: list[int], data: st.DataObject) -> None:
    """Pods that differ in nothing but their age: as long as the youngest scale has enough, no ratio reaches 2."""
    youngest = binary_scale(min(ages) * 10**9)
    enough = sum(binary_scale(age * 10**9) == youngest for age in ages)
    victims = data.draw(st.integers(0, min(enough, len(ages) - 1)))
    found = ratios([aged(f"{number:02d}", age) for number, age in enumerate(ages)], victims)
    assert all(1 <= ratio < 2 for ratio in found)


@pytest.mark.parametrize(
    ("pods", "victims", "options", "want"),
    [
        pytest.param(
            [aged("a", 60), aged("b", 3600), aged("c", 86_400)], 2, {}, [1.0, 60.0],
            id="1 more go than the youngest scale has",
        ),
        pytest.param(
            [aged("a", 60, cost="1"), aged("b", 3600), aged("c", 86_400)], 1, {}, [60.0],
            id="2 a cost keeps the youngest",
        ),
        pytest.param(
            [aged("a", 60), aged("b", 3600, node="n"), aged("c", 86_400, node="n")], 1, {}, [60.0],
            id="2 the youngest is alone on its node",
        ),
        pytest.param(
            [aged("a", 60, ready=20), aged("b", 3600, ready=20, restarts=1), aged("c", 86_400, ready=20, restarts=1)],
            1, {}, [60.0],
            id="2 the youngest was never restarted",
        ),
        pytest.param(
            [aged("a", 86_400, ready=5), aged("b", 60, ready=50)], 1, {}, [1440.0],
            id="3 the oldest was not ready for a while",
        ),
        pytest.param([aged("a", 900), aged("b", 120)], 1, {"base": 10}, [7.5], id="4 a wider base"),
    ],
)  # fmt: skip
def test_when_the_ratio_exceeds_two(pods: list[Pod], victims: int, options: dict[str, Any], want: list[float]) -> None:
    """Each way in which the objective is missed, by the number that the module gives it."""
    assert ratios(pods, victims, **options) == want


def test_a_nanosecond_is_an_age() -> None:
    """However young the youngest is, as long as it was created before now."""
    view = view_of([aged("a", 0), aged("b", 60)])
    rows = rows_of(view, [aged("a", 0), aged("b", 60)])
    assert age_ratios(replicaset_order(view.pods, rows, rows, NOW_NS + 1), 1, NOW_NS + 1) == [1.0]
