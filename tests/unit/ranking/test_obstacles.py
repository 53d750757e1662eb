"""What prevents a level result; `test_plan` has the obstacles that plans find."""

from __future__ import annotations

from trimtab.api.nodes import ZONE
from trimtab.ranking.obstacles import Obstacle


def test_an_obstacle_is_shown_with_the_key_of_its_constraint() -> None:
    """One that concerns the whole plan has none."""
    assert str(Obstacle("c (0) had fewer than 2 pods before", ZONE)) == f"{ZONE}: c (0) had fewer than 2 pods before"
    assert str(Obstacle("ranks are ignored")) == "ranks are ignored"
