"""What prevents a level result; `test_plan` has the obstacles that plans find."""

from __future__ import annotations

from trimtab.api.nodes import ZONE
from trimtab.ranking.combination import Part
from trimtab.ranking.levelings import Leveling
from trimtab.ranking.obstacles import Obstacle, obstacles
from trimtab.ranking.sequences import Victim


def test_an_obstacle_is_shown_with_the_key_of_its_constraint() -> None:
    """One that concerns the whole plan has none."""
    assert str(Obstacle("c (0) had fewer than 2 pods before", ZONE)) == f"{ZONE}: c (0) had fewer than 2 pods before"
    assert str(Obstacle("ranks are ignored")) == "ranks are ignored"


def test_strategies_are_an_obstacle_only_to_a_plan_that_removes_pods_by_them() -> None:
    """Where no pod goes, the workload was not level before."""
    uneven = Leveling(ZONE, ("a", "b"), (3, 1), (3, 1), (3, 1), (2, 2), stock_is_certain=True)
    by_rank = Victim("default/p", None, None, "it ranks higher", parts=(Part("Idle", 1.0, 1.0, 1, 1.0),))
    told = Obstacle("the policy's strategies come before the balance", ZONE)
    assert told in obstacles([uneven], [by_rank], {})
    assert told not in obstacles([uneven], [], {})


def test_without_domains_nothing_is_uneven() -> None:
    """No node has the topology key."""
    assert list(obstacles([Leveling(ZONE, (), (), (), (), (0, 0), stock_is_certain=True)], [], {})) == []
