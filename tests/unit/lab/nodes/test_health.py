"""What node controllers decide: unknown nodes, taints, and when pods are evicted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lab.nodes.objects import START, at, moment
from trimtab.api import codec
from trimtab.api.pods import Toleration
from trimtab_lab.nodes import health
from trimtab_lab.nodes.health import ZoneState
from trimtab_lab.nodes.settings import NodeLifecycleSettings
from trimtab_lab.nodes.views import Node, Taint

SETTINGS = NodeLifecycleSettings()
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def a_node(*, taints: list[dict[str, Any]] | None = None, unschedulable: bool = False, **conditions: str) -> Node:
    """A node with these conditions."""
    return codec.convert(
        {
            "metadata": {"name": "n"},
            "spec": {"taints": taints or [], "unschedulable": unschedulable},
            "status": {"conditions": [{"type": kind, "status": status} for kind, status in conditions.items()]},
        },
        Node,
    )


def brief(taints: tuple[Taint, ...]) -> set[str]:
    """Taints as `key:effect`, without what all keys begin with."""
    return {f"{taint.key.removeprefix('node.kubernetes.io/')}:{taint.effect}" for taint in taints}


def taint(key: str, effect: str) -> dict[str, str]:
    """A taint as it is written."""
    return {"key": key, "effect": effect}


def test_a_node_without_heartbeats_is_unknown() -> None:
    """All reported conditions turn Unknown, missing ones too; those that are Unknown stay as they were."""
    changes = health.unknown_conditions(a_node(Ready="True", MemoryPressure="False", DiskPressure="Unknown"), at(5))
    assert {each.type: (each.status, each.reason) for each in changes} == {
        "Ready": ("Unknown", "NodeStatusUnknown"),
        "MemoryPressure": ("Unknown", "NodeStatusUnknown"),
        "PIDPressure": ("Unknown", "NodeStatusNeverUpdated"),
    }
    assert {each.last_transition_time for each in changes} == {moment(5)}


@pytest.mark.parametrize(
    ("node", "evicts", "want"),
    [
        pytest.param(a_node(Ready="True"), True, set(), id="a healthy node has none"),
        pytest.param(a_node(), True, set(), id="nor has one that has not said anything"),
        pytest.param(a_node(Ready="False"), False, {"not-ready:NoSchedule"}, id="not ready, not no_execute_taints yet"),
        pytest.param(
            a_node(Ready="False"),
            True,
            {"not-ready:NoSchedule", "not-ready:NoExecute"},
            id="not ready, no_execute_taints",
        ),
        pytest.param(
            a_node(Ready="Unknown"), True, {"unreachable:NoSchedule", "unreachable:NoExecute"}, id="unreachable"
        ),
        pytest.param(
            a_node(Ready="True", MemoryPressure="True", PIDPressure="True"),
            True,
            {"memory-pressure:NoSchedule", "pid-pressure:NoSchedule"},
            id="under pressure",
        ),
        pytest.param(a_node(Ready="True", unschedulable=True), True, {"unschedulable:NoSchedule"}, id="cordoned"),
        pytest.param(
            a_node(Ready="True", taints=[taint(NOT_READY, "NoSchedule"), taint(UNREACHABLE, "NoExecute")]),
            True,
            set(),
            id="what is over is taken off",
        ),
        pytest.param(
            a_node(Ready="Unknown", taints=[taint(NOT_READY, "NoSchedule"), taint(NOT_READY, "NoExecute")]),
            True,
            {"unreachable:NoSchedule", "unreachable:NoExecute"},
            id="one replaces the other",
        ),
        pytest.param(
            a_node(Ready="Unknown", taints=[taint(UNREACHABLE, "NoExecute")]),
            False,
            {"unreachable:NoSchedule"},
            id="where nothing is evicted, no taint says so",
        ),
        pytest.param(
            a_node(Ready="True", taints=[taint("mine", "NoExecute"), taint(NOT_READY, "PreferNoSchedule")]),
            True,
            {"mine:NoExecute", "not-ready:PreferNoSchedule"},
            id="what is not ours stays",
        ),
    ],
)
def test_the_taints_of_a_node(node: Node, evicts: bool, want: set[str]) -> None:
    """What its conditions call for, and what others gave it."""
    assert brief(health.taints(node, evicts=evicts, now=START)) == want


def test_a_taint_keeps_its_time() -> None:
    """Tolerations count from it."""
    held = {**taint(UNREACHABLE, "NoExecute"), "timeAdded": moment(3)}
    taints = health.taints(a_node(Ready="Unknown", taints=[held]), evicts=True, now=at(9))
    assert {each.effect: each.time_added for each in taints} == {"NoExecute": moment(3), "NoSchedule": moment(9)}


@pytest.mark.parametrize(
    ("ready", "total", "state", "rate"),
    [
        pytest.param(10, 10, ZoneState.NORMAL, 0.1, id="all ready"),
        pytest.param(5, 10, ZoneState.NORMAL, 0.1, id="half of them"),
        pytest.param(4, 10, ZoneState.PARTIAL_DISRUPTION, 0.0, id="most of a small zone are down: nobody is evicted"),
        pytest.param(20, 60, ZoneState.PARTIAL_DISRUPTION, 0.01, id="most of a large zone are down: slowly"),
        pytest.param(1, 3, ZoneState.NORMAL, 0.1, id="two of three are too few to tell"),
        pytest.param(0, 3, ZoneState.FULL_DISRUPTION, 0.1, id="none is ready: the zone is lost, and evicted from"),
        pytest.param(0, 0, ZoneState.NORMAL, 0.1, id="no nodes"),
    ],
)
def test_how_fast_a_zone_is_evicted_from(ready: int, total: int, state: ZoneState, rate: float) -> None:
    """It depends on how much of the zone is down."""
    assert health.zone_state(ready, total, SETTINGS) is state
    assert health.eviction_rate_of(state, total, SETTINGS) == rate


def test_everything_down_is_a_cluster_that_is_cut_off() -> None:
    """One zone that is not down is enough to believe what is seen."""
    assert health.is_all_disrupted([ZoneState.FULL_DISRUPTION, ZoneState.FULL_DISRUPTION])
    assert not health.is_all_disrupted([ZoneState.FULL_DISRUPTION, ZoneState.PARTIAL_DISRUPTION])


UNREACHABLE_SINCE = {Taint(key=UNREACHABLE, effect="NoExecute"): at(100)}


def tolerating(key: str, seconds: int | None = None) -> Toleration:
    """A toleration of a NoExecute taint."""
    return Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=seconds)


@pytest.mark.parametrize(
    ("tolerations", "taints", "arrived", "want"),
    [
        pytest.param([], {}, 0, None, id="no taint, no reason to leave"),
        pytest.param([], UNREACHABLE_SINCE, 0, 100, id="what is not tolerated drives out at once"),
        pytest.param([tolerating(UNREACHABLE)], UNREACHABLE_SINCE, 0, None, id="tolerated for ever"),
        pytest.param([tolerating(UNREACHABLE, 300)], UNREACHABLE_SINCE, 0, 400, id="tolerated for a while"),
        pytest.param([tolerating(UNREACHABLE, 300)], UNREACHABLE_SINCE, 250, 550, id="counted from its arrival"),
        pytest.param([tolerating(UNREACHABLE, -5)], UNREACHABLE_SINCE, 0, 100, id="less than no patience is none"),
        pytest.param(
            [tolerating(UNREACHABLE, 300), tolerating("x", 60)],
            {**UNREACHABLE_SINCE, Taint(key="x", effect="NoExecute"): at(130)},
            0,
            160,
            id="the shortest patience counts, from the first taint",
        ),
        pytest.param(
            [tolerating(UNREACHABLE, 300)],
            {**UNREACHABLE_SINCE, Taint(key="x", effect="NoExecute"): at(130)},
            0,
            100,
            id="one taint that is not tolerated is enough",
        ),
        pytest.param(
            [tolerating(UNREACHABLE), tolerating(UNREACHABLE, 5)],
            UNREACHABLE_SINCE,
            0,
            None,
            id="the first match counts",
        ),
    ],
)
def test_when_a_pod_leaves(
    tolerations: list[Toleration], taints: dict[Taint, int], arrived: float, want: float | None
) -> None:
    """At once, when its toleration ends, or never."""
    assert health.eviction_time(tolerations, taints, at(arrived)) == (None if want is None else at(want))
