"""What one reconcile of a Deployment does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lab.workloads.objects import deployment, replicaset
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.times import parse_ns
from trimtab.kube import conditions
from trimtab_lab.workloads.deployment import plan as plans
from trimtab_lab.workloads.deployment.plan import Plan
from trimtab_lab.workloads.deployment.revisions import DESIRED_REPLICAS, HISTORY, MAX_REPLICAS, REVISION

NOON = parse_ns("2026-01-01T12:00:00Z")
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
COMPLETE = {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "readyReplicas": 3, "observedGeneration": 1}


def planned(owner: Deployment, *sets: ReplicaSet, old_pods: tuple[str, ...] = ()) -> Plan:
    """The plan at noon."""
    return plans.plan(owner, sets, old_pods=old_pods, now=NOON)


def writes(plan: Plan) -> dict[str, Any]:
    """What is written to existing ReplicaSets, by name: what stands beside the version."""
    patches = {change.replicaset.metadata.name: change.patch for change in plan.changes}
    return {name: patch["metadata"]["annotations"] | patch["spec"] for name, patch in patches.items()}


def current(size: int = 3, **more: Any) -> ReplicaSet:
    """The new ReplicaSet as its Deployment of three wants it."""
    known: dict[str, Any] = {"revision": 1, "desired": 3, "most": 4}
    return replicaset("web", size, **known | more)


def old(size: int, **more: Any) -> ReplicaSet:
    """An old ReplicaSet."""
    known: dict[str, Any] = {"revision": 1, "desired": 3, "most": 4, "image": "app:0"}
    return replicaset("old", size, **known | more)


def test_the_first_replicaset_is_made() -> None:
    """It has everything: hash, selector, owner, annotations; and the Deployment gets its revision."""
    found = planned(deployment(3, minReadySeconds=5, metadata={"annotations": {"team": "a"}}))
    assert found.creation is not None
    assert (found.creation.name, found.creation.replicas, found.revision) == ("web-9rqrrw74hb", 3, "1")
    body = found.creation.body
    labels = {"app": "web", "pod-template-hash": "9rqrrw74hb"}
    assert body["metadata"]["labels"] == body["spec"]["template"]["metadata"]["labels"] == labels
    assert body["spec"]["selector"] == {"matchLabels": labels}
    assert body["spec"]["minReadySeconds"] == 5
    assert body["metadata"]["annotations"] == {"team": "a", REVISION: "1", DESIRED_REPLICAS: "3", MAX_REPLICAS: "4"}
    assert [owner["kind"] for owner in body["metadata"]["ownerReferences"]] == ["Deployment"]
    said = conditions.find(found.status.conditions, "Progressing")
    assert said is not None
    assert (said.reason, said.message) == ("NewReplicaSetCreated", 'Created new replica set "web-9rqrrw74hb"')
    assert found.recheck_in == 601.0


@pytest.mark.parametrize(
    ("owner", "sets", "want"),
    [
        pytest.param(deployment(3), (current(),), {}, id="everything is as it should be"),
        pytest.param(
            deployment(3, metadata={"annotations": {"team": "a"}}),
            (current(),),
            {"web": {"team": "a"}},
            id="annotations",
        ),
        pytest.param(
            deployment(3, minReadySeconds=5), (current(),), {"web": {"minReadySeconds": 5}}, id="patience is passed on"
        ),
        pytest.param(
            deployment(3),
            (current(revision=1), old(0, revision=2)),
            {"web": {REVISION: "3", HISTORY: "1"}},
            id="rolled back: the revision is the highest again",
        ),
        pytest.param(
            deployment(5),
            (current(),),
            {"web": {"replicas": 5, DESIRED_REPLICAS: "5", MAX_REPLICAS: "7"}},
            id="scaled: size and annotations",
        ),
        pytest.param(
            deployment(3),
            (current(desired=5),),
            {"web": {DESIRED_REPLICAS: "3"}},
            id="somebody else has resized it: the annotation is set right",
        ),
        pytest.param(
            deployment(3, image="app:2"),
            (replicaset("new", 1, image="app:2", revision=2, desired=3, most=4), old(3)),
            {"old": {"replicas": 2}},
            id="rolling: one is available beyond the fewest",
        ),
        pytest.param(
            deployment(3, strategy="Recreate"),
            (current(revision=2, desired=5, most=5), old(2, desired=5, most=5)),
            {"old": {"replicas": 0, DESIRED_REPLICAS: "3", MAX_REPLICAS: "3"}},
            id="recreating and scaled at once: the strategy goes on",
        ),
        pytest.param(
            deployment(6, paused=True, image="app:2"),
            (current(2), old(2)),
            {
                "web": {"replicas": 4, DESIRED_REPLICAS: "6", MAX_REPLICAS: "8"},
                "old": {"replicas": 4, DESIRED_REPLICAS: "6", MAX_REPLICAS: "8"},
            },
            id="paused: scaled in proportion, no rollout",
        ),
        pytest.param(deployment(5, metadata=GOING), (current(),), {}, id="going: nothing is scaled"),
        pytest.param(
            deployment(5, metadata={**GOING, "annotations": {"team": "a"}}),
            (current(),),
            {"web": {"team": "a"}},
            id="going: annotations are still passed on",
        ),
    ],
)
def test_replicasets_are_changed(owner: Deployment, sets: tuple[ReplicaSet, ...], want: dict[str, Any]) -> None:
    """One write for each that is not as it should be, and none for the others."""
    found = planned(owner, *sets)
    assert found.creation is None
    assert writes(found) == want


def test_a_change_holds_for_what_was_read() -> None:
    """A concurrent write is not overwritten."""
    (change,) = planned(deployment(5), current()).changes
    assert change.patch["metadata"]["resourceVersion"] == "7"


def test_a_paused_deployment_makes_no_replicaset() -> None:
    """Its condition is paused, and it waits."""
    found = planned(deployment(3, paused=True))
    assert found.creation is None
    assert found.revision is None
    said = conditions.find(found.status.conditions, "Progressing")
    assert said is not None
    assert said.reason == "DeploymentPaused"
    assert found.recheck_in is None


def test_what_is_reported_counts_what_is_being_set() -> None:
    """The status after a step is of the sizes after it."""
    found = planned(deployment(5), current())
    assert (found.status.replicas, found.status.unavailable_replicas) == (3, 2)


@pytest.mark.parametrize(
    ("owner", "sets", "want"),
    [
        pytest.param(
            deployment(3, history=0, status=COMPLETE), (current(), old(0)), ["old"], id="the rollout is complete"
        ),
        pytest.param(deployment(3, history=0), (current(), old(0)), [], id="it is not known to be complete"),
        pytest.param(deployment(3, history=0, paused=True), (current(), old(0)), ["old"], id="a pause gives time"),
        pytest.param(
            deployment(3, history=0, paused=True, metadata=GOING),
            (current(), old(0)),
            [],
            id="but not to one that is going",
        ),
        pytest.param(
            deployment(3, history=0, status=COMPLETE, image="app:2"), (current(),), [], id="another rollout begins"
        ),
    ],
)
def test_old_revisions_are_forgotten(owner: Deployment, sets: tuple[ReplicaSet, ...], want: list[str]) -> None:
    """Only when there is nothing else to do."""
    assert [each.metadata.name for each in planned(owner, *sets).expired] == want


def test_old_pods_hold_up_a_recreation() -> None:
    """Pods of the new ReplicaSet do not count, those of an old one do, whatever the sizes."""
    owner, gone = deployment(3, strategy="Recreate", image="app:2"), old(0)
    assert planned(owner, gone, old_pods=(gone.metadata.uid,)).creation is None
    assert planned(owner, gone).creation is not None
    started = replicaset("new", 1, image="app:2", revision=2)
    assert writes(planned(owner, gone, started, old_pods=(started.metadata.uid,)))["new"]["replicas"] == 3


def test_nothing_is_reported_twice() -> None:
    """A status that is as it should be is not written, nor is a revision."""
    owner = deployment(3)
    found = planned(owner, current())
    patch = plans.status_patch(owner, found.status, found.revision)
    assert patch is not None
    assert patch["metadata"] == {"resourceVersion": "5", "annotations": {REVISION: "1"}}
    settled = deployment(3, metadata={"annotations": {REVISION: "1"}}, status=patch["status"])
    again = planned(settled, current())
    assert plans.status_patch(settled, again.status, again.revision) is None
