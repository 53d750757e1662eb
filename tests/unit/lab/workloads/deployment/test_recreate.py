"""Recreating: old and new pods never run side by side."""

from __future__ import annotations

import pytest

from tests.unit.lab.workloads.objects import replicaset
from trimtab_lab.workloads.deployment import recreate
from trimtab_lab.workloads.deployment.fleets import Fleet, Limits, Move

THREE = Limits(3, 0, 0)
OLD = replicaset("old", 3, image="app:0")
EMPTIED = replicaset("old", 0, replicas=1, image="app:0")
EMPTY = replicaset("old", 0, image="app:0")
NEW = replicaset("new", 3)


@pytest.mark.parametrize(
    ("fleet", "old_pods", "want"),
    [
        pytest.param(Fleet(), False, Move(birth=3, settled=True), id="the first rollout"),
        pytest.param(Fleet(None, (OLD,)), True, Move(((OLD, 0),)), id="first the old ones go to zero"),
        pytest.param(Fleet(None, (EMPTIED,)), True, Move(), id="an old ReplicaSet still counts pods"),
        pytest.param(Fleet(None, (EMPTY,)), True, Move(), id="an old pod is still on its way out"),
        pytest.param(Fleet(None, (EMPTY,)), False, Move(birth=3, settled=True), id="now the new one is made"),
        pytest.param(
            Fleet(replicaset("new", 0), (EMPTY,)),
            False,
            Move(((replicaset("new", 0), 3),), settled=True),
            id="or grown",
        ),
        pytest.param(Fleet(NEW, (EMPTY,)), False, Move(settled=True), id="done"),
        pytest.param(Fleet(NEW, (OLD,)), True, Move(((OLD, 0),)), id="an old one is resized by somebody"),
    ],
)
def test_a_step_is_taken(fleet: Fleet, old_pods: bool, want: Move) -> None:
    """One thing at a time."""
    assert recreate.move(THREE, fleet, old_pods=old_pods) == want
