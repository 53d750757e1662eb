"""Recreating: old and new pods never run side by side."""

from __future__ import annotations

import pytest

from tests.unit.lab.workloads.objects import replicaset
from trimtab_lab.workloads.deployment import recreate
from trimtab_lab.workloads.deployment.replicasets import Limits, OwnedReplicaSets, Step

THREE = Limits(3, 0, 0)
OLD = replicaset("old", 3, image="app:0")
EMPTIED = replicaset("old", 0, replicas=1, image="app:0")
EMPTY = replicaset("old", 0, image="app:0")
NEW = replicaset("new", 3)


@pytest.mark.parametrize(
    ("owned", "old_pods", "want"),
    [
        pytest.param(OwnedReplicaSets(), False, Step(creation=3, settled=True), id="the first rollout"),
        pytest.param(OwnedReplicaSets(None, (OLD,)), True, Step(((OLD, 0),)), id="first the old ones go to zero"),
        pytest.param(OwnedReplicaSets(None, (EMPTIED,)), True, Step(), id="an old ReplicaSet still counts pods"),
        pytest.param(OwnedReplicaSets(None, (EMPTY,)), True, Step(), id="an old pod is still on its way out"),
        pytest.param(
            OwnedReplicaSets(None, (EMPTY,)), False, Step(creation=3, settled=True), id="now the new one is made"
        ),
        pytest.param(
            OwnedReplicaSets(replicaset("new", 0), (EMPTY,)),
            False,
            Step(((replicaset("new", 0), 3),), settled=True),
            id="or grown",
        ),
        pytest.param(OwnedReplicaSets(NEW, (EMPTY,)), False, Step(settled=True), id="done"),
        pytest.param(OwnedReplicaSets(NEW, (OLD,)), True, Step(((OLD, 0),)), id="an old one is resized by somebody"),
    ],
)
def test_a_step_is_taken(owned: OwnedReplicaSets, old_pods: bool, want: Step) -> None:
    """One thing at a time."""
    assert recreate.next_step(THREE, owned, old_pods=old_pods) == want
