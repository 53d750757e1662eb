"""The strategies of a policy that states none: they keep the pods level, by the constraints of their template."""

from __future__ import annotations

import pytest

from tests.unit.ranking.groups import aged, view_of
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.scaledown import ScaleDownPolicySpec, StrategySpec
from trimtab.ranking.combination import combine
from trimtab.ranking.rankers import Constraint
from trimtab.scaledown.policy.groups import strategies_for
from trimtab.testing.builders import cluster

NAMES = ("a0", "b1", "c2", "d3", "d4")
PODS = [aged(name, 1, minute=at).on(name[0]) for at, name in enumerate(NAMES)]


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        pytest.param([ZONE], "c2", id="zones"),
        pytest.param([HOSTNAME], "d4", id="nodes"),
        pytest.param([ZONE, HOSTNAME], "c2", id="zones before nodes"),
        pytest.param([HOSTNAME, ZONE], "d4", id="nodes before zones"),
    ],
)
def test_the_first_constraint_is_kept_level_before_the_second(keys: list[str], first: str) -> None:
    """One zone has three pods on three nodes, and the other two on one node."""
    view = view_of(cluster("z1: a b c", "z2: d").with_pods(*PODS), *NAMES)
    combined = combine(strategies_for(ScaleDownPolicySpec(), map(Constraint, keys)), view)
    ranked = dict(zip(NAMES, combined.total.tolist(), strict=True))
    assert max(NAMES, key=ranked.__getitem__) == first


def test_stated_strategies_are_not_replaced() -> None:
    """Whatever the constraints."""
    stated = (StrategySpec(name="Oldest"),)
    assert strategies_for(ScaleDownPolicySpec(strategies=stated), [Constraint(ZONE)]) == stated
