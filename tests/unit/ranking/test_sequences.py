"""The order in which a plan removes pods, where ranks are computed anew after each removal, and where they hold."""

from __future__ import annotations

import pytest

from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.scaledown import StrategySpec
from trimtab.api.times import parse_ns
from trimtab.ranking import Constraint, Plan, Policy, Workload, plan
from trimtab.ranking.contenders import Criterion
from trimtab.testing.builders import cluster, pod

NOW = parse_ns("2026-01-10T00:00:00Z")


def planned(count: int, *names: str, constraints: tuple[Constraint, ...] = (), unready: str = "") -> Plan:
    """The plan to remove some of four pods on two hosts, which avoid pods on their host; one may be unready."""
    pods = [
        pod(f"p{n}").uid(f"{n}").on(host).labels(app="web").created("2026-01-01T00:00:00Z").avoids("host")
        for n, host in enumerate(("a1", "a1", "b1", "b1"))
    ]
    for n, each in enumerate(pods):
        each.not_ready() if f"p{n}" == unready else each.ready()
    view = cluster("a: a1", "b: b1").with_pods(*pods).snapshot()
    policy = Policy.of([StrategySpec(name=name, threshold=10) for name in names])
    return plan(Workload.of_all(view, constraints=constraints), view, policy, replicas=4 - count, now=NOW)


def test_ranks_are_computed_anew_after_the_first_removal() -> None:
    """All four rank alike; once one has gone, the other one on its host is in no pod's way."""
    found = planned(2, "AntiAffinity")
    assert found.keys == ("default/p0", "default/p2")
    assert [[(part.strategy, part.raw) for part in victim.parts] for victim in found.victims] == [
        [("AntiAffinity", 2.0)],
        [("AntiAffinity", 2.0)],
    ]


def test_what_decided_about_a_victim_is_what_distinguishes_it_from_the_first_pod_that_stays() -> None:
    """With ranks that are computed anew, too."""
    found = planned(2, "AntiAffinity", unready="p3")
    assert [(victim.key, victim.criterion) for victim in found.victims] == [
        ("default/p3", Criterion.READY),
        ("default/p0", Criterion.UID),
    ]


def test_all_pods_can_go_one_after_the_other() -> None:
    """The last one has none to be compared with."""
    found = planned(4, "AntiAffinity")
    assert found.keys == ("default/p0", "default/p2", "default/p1", "default/p3")
    assert {victim.because for victim in found.victims} == {"all pods go"}


@pytest.mark.parametrize(
    ("count", "name", "guaranteed"),
    [
        pytest.param(1, "AntiAffinity", 2, id="one step by ranks that hold for one"),
        pytest.param(2, "AntiAffinity", 1, id="two steps by such ranks"),
        pytest.param(2, "Oldest", 2, id="two steps by ranks that hold for all"),
    ],
)
def test_all_constraints_are_level_unless_ranks_change_in_between(count: int, name: str, guaranteed: int) -> None:
    """As far as the ranks leave a choice."""
    found = planned(count, name, constraints=(Constraint(ZONE), Constraint(HOSTNAME)))
    assert found.guaranteed == guaranteed


@pytest.mark.parametrize(
    ("size", "names"),
    [
        pytest.param(3, "default/p0 (by Idle), default/p1 (by Idle), default/p2 (by Idle)", id="three are named"),
        pytest.param(
            5, "default/p0 (by Idle), default/p1 (by Idle), default/p2 (by Idle) and 2 more", id="others are counted"
        ),
    ],
)
def test_pods_without_a_rank_are_named(size: int, names: str) -> None:
    """They are why the policy's strategies do not count."""
    view = cluster("a: a1").with_pods(*(pod(f"p{n}").on("a1").ready() for n in range(size))).snapshot()
    found = plan(Workload.of_all(view), view, Policy.of([StrategySpec(name="Idle")]), replicas=1, now=NOW)
    assert [str(each) for each in found.obstacles] == [f"ranks are ignored: {names} had none"]
