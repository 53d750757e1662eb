"""Costs that make a controller follow a plan: tried on any workload."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST, SCALE_PLAN, SUBSET_COST, PlanAnnotation
from trimtab.api.nodes import ZONE
from trimtab.ranking import plan
from trimtab.ranking.certainty import Window
from trimtab.ranking.costs import INT32_MAX, Band, Level, Side
from trimtab.ranking.delivery import Delivery, deliver
from trimtab.ranking.plan import Plan, Workload
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.victims import replicaset_order
from trimtab.ranking.workloads import pod_keys
from trimtab.scaledown import plan_costs
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import PodBuilder, cluster, pod

NOW = 1_767_229_200 * 10**9
HOUR = "2026-01-01T00:00:00Z"
NODES = ("a1", "a2", "b1", "b2", "c1")
LATER = ("b1", "c1")
"""Nodes whose pods were restarted more often: the controller takes them first, though their zones are the emptiest."""


def world(*pods: PodBuilder) -> Snapshot:
    """These pods on nodes of three zones."""
    return cluster("a: a1 a2 a3 a4", "b: b1 b2", "c: c1").with_pods(*pods).snapshot()


def ready(name: str, node: str) -> PodBuilder:
    """A pod that runs and is ready."""
    made = pod(name).on(node).phase("Running").ready(HOUR).created(HOUR).owned_by("web")
    return made.restarts(9) if node in LATER else made


def of(snapshot: Snapshot) -> Workload:
    """All pods as one workload, kept level over zones."""
    return Workload.of_all(snapshot, constraints=[Constraint(ZONE)])


def assigned(made: Plan, workload: Workload, snapshot: Snapshot) -> Delivery | None:
    """The costs that make a plan certain by themselves."""
    pods = [found for key in pod_keys(snapshot, workload.rows) if (found := snapshot.pod(key)) is not None]
    costs = {each.key: plan_costs.pod_cost(each) for each in pods}
    return deliver(made, workload, snapshot, costs=costs, window=Window(NOW, NOW), rely=False, now=NOW)


def delivered(snapshot: Snapshot, replicas: int) -> Delivery | None:
    """The costs for a plan of so many."""
    workload = of(snapshot)
    base = {
        each.key: cost.base
        for key in pod_keys(snapshot, workload.rows)
        if (each := snapshot.pod(key)) is not None and (cost := plan_costs.pod_cost(each)).own is not None
    }
    workload = replace(workload, base_costs=base)
    return assigned(plan(workload, snapshot, replicas=replicas, now=NOW), workload, snapshot)


def test_victims_are_written_first_one_first() -> None:
    """The first victim has the lowest cost."""
    snapshot = world(*(ready(f"p{n}", node) for n, node in enumerate(["a1", "a2", "a3", "a4", "b1", "c1"])))
    found = delivered(snapshot, 4)
    assert found is not None
    assert found.side is Side.VICTIMS
    assert [cost for _, cost in found.costs] == [-6, -5], "up from minus the number of pods"


def test_survivors_are_written_last_one_first() -> None:
    """Wherever writing stops, those who would stay longest are safe."""
    snapshot = world(*(ready(f"p{n}", node) for n, node in enumerate(["a1", "a2", "a3", "a4", "b1", "c1"])))
    found = delivered(snapshot, 2)
    assert found is not None
    assert found.side is Side.SURVIVORS
    assert [cost for _, cost in found.costs] == [2, 1]


def test_a_foreign_cost_of_zero_is_not_overwritten() -> None:
    """The victim cannot be written, so the survivors are, although they are more."""
    snapshot = world(
        ready("p0", "a1").cost(0), ready("p1", "a2").cost(0), ready("p2", "b1"), ready("p3", "c1").restarts(9)
    )
    found = delivered(snapshot, 3)
    assert found is not None
    assert found.side is Side.SURVIVORS
    assert {key for key, _ in found.costs} == {"default/p2", "default/p3"}


def test_costs_stay_inside_the_bands_of_subsets() -> None:
    """A subset's cost is Trimtab's own: ours moves a step from its middle, never into another band."""
    low, high = Band(Level.REDUNDANT, 0, 2), Band(Level.GUARANTEED, 1, 2)
    pods = []
    for number, node in enumerate(["a1", "a2", "a3", "b1", "c1", "a4"]):
        band = low if number == 5 else high
        text = str(band.centre)
        pods.append(ready(f"p{number}", node).cost(text).annotations({SUBSET_COST: text}))
    found = delivered(world(*pods), 4)
    assert found is not None
    costs = dict(found.costs)
    assert all(cost in (low if key == "default/p5" else high) for key, cost in costs.items())
    assert any(abs(cost - high.centre) <= len(pods) for cost in costs.values())


@pytest.mark.parametrize(
    ("moved", "replicas", "side", "want"),
    [
        pytest.param(7, 4, Side.VICTIMS, [-6, -5], id="survivors above zero: victims go below it"),
        pytest.param(-7, 4, Side.VICTIMS, [-13, -12], id="survivors below zero: victims go below them"),
        pytest.param(7, 2, Side.SURVIVORS, [9, 8], id="victims above zero: survivors go above them"),
        pytest.param(-7, 2, Side.SURVIVORS, [2, 1], id="victims below zero: survivors go above it"),
    ],
)
def test_new_costs_go_beyond_those_of_an_earlier_plan(moved: int, replicas: int, side: Side, want: list[int]) -> None:
    """Whatever an earlier plan left on the other side, the fewest new costs decide."""
    pods = []
    for number, node in enumerate(["a1", "a2", "a3", "a4", "b1", "c1"]):
        mark = PlanAnnotation(plan="x", workload="ReplicaSet/web", uid="u", generation=1, to=3, at=0, cost=moved)
        note = codec.encode(mark).decode()
        pods.append(ready(f"p{number}", node).cost(moved).annotations({SCALE_PLAN: note}))
    snapshot = world(*pods)
    found = delivered(snapshot, replicas)
    assert found is not None
    assert (found.side, [cost for _, cost in found.costs]) == (side, want)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(NODES), st.sampled_from([None, None, None, 0, 5, -5, INT32_MAX, -INT32_MAX])),
        min_size=2,
        max_size=14,
    ),
    st.data(),
)
def test_with_the_assigned_costs_the_controller_chooses_the_victims(
    drawn: list[tuple[str, int | None]], data: st.DataObject
) -> None:
    """With the costs in place, a ReplicaSet's own order takes the victims of the plan; others' costs stay."""
    pods = [
        ready(f"p{number}", node) if cost is None else ready(f"p{number}", node).cost(cost)
        for number, (node, cost) in enumerate(drawn)
    ]
    snapshot = world(*pods)
    replicas = data.draw(st.integers(1, len(pods) - 1))
    made = plan(of(snapshot), snapshot, replicas=replicas, now=NOW)
    found = assigned(made, of(snapshot), snapshot)
    if found is None:
        return
    theirs = {f"default/p{number}" for number, (_, cost) in enumerate(drawn) if cost is not None}
    assert theirs.isdisjoint(dict(found.costs))
    assert all(-INT32_MAX <= cost <= INT32_MAX for _, cost in found.costs)
    for key, cost in found.costs:
        number = int(key.removeprefix("default/p"))
        snapshot.put(pods[number].annotations({DELETION_COST: str(cost)}).build())
    rows = of(snapshot).rows
    order = replicaset_order(snapshot.pods, rows, rows, NOW)
    names = snapshot.pods.rows.names
    assert {names[row] for row in order.rows[: len(made.victims)].tolist()} == set(made.keys)


def test_costs_that_are_in_place_are_not_written_again() -> None:
    """A repeat costs nothing."""
    snapshot = world(*(ready(f"p{n}", node) for n, node in enumerate(["a1", "a2", "b1", "c1"])))
    found = delivered(snapshot, 3)
    assert found is not None
    ((key, cost),) = found.costs
    note = f'{{"plan":"x","workload":"ReplicaSet/web","uid":"u","generation":1,"to":3,"at":0,"cost":{cost}}}'
    name = key.removeprefix("default/")
    snapshot.put(ready(name, "a1").cost(cost).annotations({SCALE_PLAN: note}).build())
    assert plan_costs.missing_costs(found, snapshot) == ()
