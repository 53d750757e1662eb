"""Hard constraints together: exchanges of a victim and a survivor, against all of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.nodes import ZONE
from trimtab.ranking import satisfaction
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.satisfaction import excess, satisfy
from trimtab.ranking.spreads import Spread, resolve
from trimtab.ranking.workloads import Workload
from trimtab.snapshot.columns import IntColumn
from trimtab.testing.builders import cluster

NODES = ("a1", "a2", "b1", "b2", "c1", "c2")
TYPES = dict(zip(NODES, "xyxyxx", strict=True))


def spreads(hosts: list[str], skews: tuple[int, int] = (1, 1)) -> tuple[Spread, ...]:
    """Two hard constraints on pods of these nodes: zones, and types of node."""
    made = cluster("a: a1 a2", "b: b1 b2", "c: c1 c2").running(*hosts)
    for name, kind in TYPES.items():
        made.node(name).labels(type=kind)
    snapshot = made.snapshot()
    constraints = [
        Constraint(ZONE, hard=True, max_skew=skews[0]),
        Constraint("type", hard=True, max_skew=skews[1]),
    ]
    return resolve(constraints, snapshot, Workload.of_all(snapshot).rows)


def gone(order: IntColumn, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which pods are gone when the first of an order are."""
    found = np.zeros(len(order), dtype=np.bool_)
    found[order[:count]] = True
    return found


@given(
    hosts=st.lists(st.sampled_from(NODES), min_size=3, max_size=9),
    skews=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    data=st.data(),
)
def test_no_exchange_of_one_tier_is_better_than_what_was_found(
    hosts: list[str], skews: tuple[int, int], data: st.DataObject
) -> None:
    """Exchanges never add to the excess, and end where none lowers it; the order within each side stays."""
    hard = spreads(hosts, skews)
    count = data.draw(st.integers(1, len(hosts) - 1))
    order = np.array(data.draw(st.permutations(range(len(hosts)))), dtype=np.int64)
    tiers = np.zeros(len(hosts), dtype=np.int64)
    found = satisfy(order, count, tiers, hard)
    assert sorted(found.tolist()) == sorted(order.tolist())
    left = excess(gone(found, count), hard)
    assert left <= excess(gone(order, count), hard)
    for stays, goes in product(found[:count].tolist(), found[count:].tolist()):
        changed = gone(found, count)
        changed[stays], changed[goes] = False, True
        assert excess(changed, hard) >= left
    places = {place: at for at, place in enumerate(order.tolist())}
    for side in (found[:count], found[count:]):
        assert [places[each] for each in side.tolist()] == sorted(places[each] for each in side.tolist())


@pytest.mark.parametrize("count", [0, 4])
def test_without_a_choice_the_order_stays(count: int) -> None:
    """None goes, or all do."""
    order = np.array([2, 0, 3, 1], dtype=np.int64)
    tiers = np.zeros(4, dtype=np.int64)
    assert satisfy(order, count, tiers, spreads(["a1", "a1", "b1", "c1"])).tolist() == [2, 0, 3, 1]


def test_pods_of_another_tier_are_not_exchanged() -> None:
    """What comes before the plan is never traded for a constraint."""
    hard = spreads(["a1", "a1", "a1", "b1", "c1"])
    order = np.array([4, 3, 0, 1, 2], dtype=np.int64)
    same, earlier = np.zeros(5, dtype=np.int64), np.array([1, 1, 1, 0, 0], dtype=np.int64)
    assert satisfy(order, 2, earlier, hard).tolist() == order.tolist()
    assert set(satisfy(order, 2, same, hard)[:2].tolist()) <= {0, 1, 2}


def test_pods_of_the_tier_of_the_last_victim_are_exchanged() -> None:
    """The victim of the tier before stays one."""
    hard = spreads(["a1", "a1", "a1", "b1", "c1"])
    tiers = np.array([1, 1, 1, 1, 0], dtype=np.int64)
    assert satisfy(np.array([4, 3, 0, 1, 2], dtype=np.int64), 2, tiers, hard).tolist() == [4, 0, 3, 1, 2]


UNEVEN = ["a1", "a1", "a1", "b1", "b1", "c1"]
"""Three pods in zone a, two in b, one in c; their nodes are of one type."""
BOTH_OF_B = np.array([3, 4, 0, 1, 2, 5], dtype=np.int64)
"""An order in which those of zone b go first."""


@pytest.mark.parametrize(
    ("most", "want"),
    [
        pytest.param(2, [3, 0, 4, 1, 2, 5], id="as many combinations of domains as are compared"),
        pytest.param(1, BOTH_OF_B.tolist(), id="more than that: nothing is exchanged"),
    ],
)
def test_the_last_victim_stays_and_the_first_survivor_of_a_domain_goes(
    most: int, want: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One exchange is enough; the victims are in one domain, the survivors in two."""
    monkeypatch.setattr(satisfaction, "_MOST_CELLS", most)
    assert satisfy(BOTH_OF_B, 2, np.zeros(6, dtype=np.int64), spreads(UNEVEN)).tolist() == want


def test_a_single_hard_constraint_has_none_to_compete_with() -> None:
    """The order is the best for constraints as they are listed, and stays."""
    (zones, _) = spreads(UNEVEN)
    assert excess(gone(BOTH_OF_B, 2), [zones]) > 0
    assert satisfy(BOTH_OF_B, 2, np.zeros(6, dtype=np.int64), [zones]).tolist() == BOTH_OF_B.tolist()
