"""The status of a Deployment and its conditions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lab.workloads.objects import deployment, replicaset
from trimtab.api.apps import Deployment, DeploymentCondition
from trimtab.api.times import parse_ns
from trimtab.kube import conditions
from trimtab_lab.workloads.deployment import progress
from trimtab_lab.workloads.deployment.replicasets import OwnedReplicaSets, classify, limits_of

NOON = parse_ns("2026-01-01T12:00:00Z")
BEFORE = "2026-01-01T11:50:00Z"
"""Ten minutes ago: just when a deadline of 600 seconds would not have passed yet."""


def progressing(reason: str, status: str = "True", updated: str = BEFORE) -> dict[str, Any]:
    """A Progressing condition."""
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "lastUpdateTime": updated,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def with_progress(owner: Deployment, owned: OwnedReplicaSets, now: int = NOON) -> DeploymentCondition | None:
    """The Progressing condition after a reconcile."""
    known = owner.status.conditions
    status = progress.count_status(owner, limits_of(owner), owned, known, now)
    return conditions.find(progress.with_progress(owner, owned, known, status, now).conditions, "Progressing")


def a_status(replicas: int, updated: int, available: int, *found: dict[str, Any]) -> dict[str, Any]:
    """The status of before."""
    return {
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": available,
        "availableReplicas": available,
        "conditions": list(found),
    }


CREATED = progressing("NewReplicaSetCreated")


@pytest.mark.parametrize(
    ("status", "owned", "want"),
    [
        pytest.param(
            a_status(0, 0, 0, CREATED), OwnedReplicaSets(replicaset("web", 3)), "NewReplicaSetAvailable", id="complete"
        ),
        pytest.param(
            a_status(0, 0, 0, CREATED),
            OwnedReplicaSets(replicaset("web", 3, available=0)),
            "ReplicaSetUpdated",
            id="pods came",
        ),
        pytest.param(
            a_status(3, 3, 1, CREATED),
            OwnedReplicaSets(replicaset("web", 3, available=2)),
            "ReplicaSetUpdated",
            id="one is available",
        ),
        pytest.param(
            a_status(3, 3, 2, CREATED),
            OwnedReplicaSets(replicaset("web", 3, available=2)),
            "NewReplicaSetCreated",
            id="no news",
        ),
        pytest.param(
            a_status(3, 3, 2, progressing("ReplicaSetUpdated", updated="2026-01-01T11:49:59Z")),
            OwnedReplicaSets(replicaset("web", 3, available=2)),
            "ProgressDeadlineExceeded",
            id="no news for too long",
        ),
        pytest.param(
            a_status(3, 3, 2, progressing("ProgressDeadlineExceeded", "False", "2026-01-01T11:59:59Z")),
            OwnedReplicaSets(replicaset("web", 3, available=2)),
            "ProgressDeadlineExceeded",
            id="what has exceeded its deadline has exceeded it",
        ),
        pytest.param(
            a_status(3, 3, 2, progressing("ProgressDeadlineExceeded", "False")),
            OwnedReplicaSets(replicaset("web", 3)),
            "NewReplicaSetAvailable",
            id="late, but complete",
        ),
        pytest.param(
            a_status(3, 3, 3, progressing("NewReplicaSetAvailable", updated="2026-01-01T00:00:00Z")),
            OwnedReplicaSets(replicaset("web", 3, available=1)),
            "NewReplicaSetAvailable",
            id="pods that fail after a rollout are not its business",
        ),
        pytest.param(
            a_status(3, 3, 3, progressing("NewReplicaSetAvailable", updated="2026-01-01T00:00:00Z")),
            OwnedReplicaSets(replicaset("web", 1, available=0), (replicaset("old", 3, image="app:0"),)),
            "NewReplicaSetAvailable",
            id="a rollout that has just begun has not exceeded the last one's deadline",
        ),
        pytest.param(a_status(0, 0, 0), OwnedReplicaSets(None), None, id="nothing has happened yet"),
    ],
)
def test_progress_is_evaluated(status: dict[str, Any], owned: OwnedReplicaSets, want: str | None) -> None:
    """The reasons that kubectl rollout status and people look for."""
    found = with_progress(deployment(3, status=status), owned)
    assert (None if found is None else found.reason) == want


def test_every_progress_counts() -> None:
    """The same reason again moves the time that the deadline counts from, and not that of the transition."""
    owner = deployment(3, status=a_status(3, 3, 1, progressing("ReplicaSetUpdated")))
    found = with_progress(owner, OwnedReplicaSets(replicaset("web", 3, available=2)))
    assert found is not None
    assert found.last_update_time == conditions.moment(NOON)
    assert found.last_transition_time == conditions.moment(parse_ns("2026-01-01T00:00:00Z"))
    assert found.message == 'ReplicaSet "web" is progressing.'


@pytest.mark.parametrize("deadline", [None, 2**31 - 1])
def test_without_a_deadline_progress_is_not_evaluated(deadline: int | None) -> None:
    """An earlier condition is removed."""
    owner = deployment(3, deadline=deadline, status=a_status(3, 3, 1, CREATED))
    assert with_progress(owner, OwnedReplicaSets(replicaset("web", 3))) is None


@pytest.mark.parametrize(
    ("reason", "paused", "want"),
    [
        pytest.param("ReplicaSetUpdated", True, "DeploymentPaused", id="paused"),
        pytest.param("DeploymentPaused", True, "DeploymentPaused", id="still paused"),
        pytest.param("DeploymentPaused", False, "DeploymentResumed", id="resumed"),
        pytest.param("ReplicaSetUpdated", False, "ReplicaSetUpdated", id="never paused"),
        pytest.param("ProgressDeadlineExceeded", True, "ProgressDeadlineExceeded", id="too late for a pause"),
    ],
)
def test_a_pause_is_recorded(reason: str, paused: bool, want: str) -> None:
    """The deadline counts from the end of a pause."""
    owner = deployment(3, paused=paused, status=a_status(3, 3, 1, progressing(reason)))
    found = conditions.find(progress.with_pause(owner, owner.status.conditions, NOON), "Progressing")
    assert found is not None
    assert found.reason == want
    assert (found.last_update_time == conditions.moment(NOON)) is (reason != want)


def test_an_unreported_replicaset_is_found() -> None:
    """As where a Deployment adopts one; and only the first time."""
    owner = deployment(3)
    once = progress.with_found(owner, (), "web", NOON)
    assert [each.message for each in once] == ['Found new replica set "web"']
    assert progress.with_found(owner, once, "web", NOON) == once


@pytest.mark.parametrize(
    ("status", "deadline", "want"),
    [
        pytest.param(a_status(3, 3, 2, CREATED), 600, 1.0, id="the deadline is now: a second late"),
        pytest.param(a_status(3, 3, 2, CREATED), 660, 61.0, id="in a minute"),
        pytest.param(a_status(3, 3, 2, CREATED), None, None, id="no deadline"),
        pytest.param(a_status(3, 3, 2), 600, None, id="nothing was ever said"),
        pytest.param(a_status(3, 3, 3, CREATED), 600, None, id="complete"),
        pytest.param(a_status(3, 3, 2, progressing("ProgressDeadlineExceeded")), 600, None, id="exceeded already"),
    ],
)
def test_the_deployment_is_requeued_for_its_deadline(
    status: dict[str, Any], deadline: int | None, want: float | None
) -> None:
    """It is exceeded by the passing of time alone."""
    owner = deployment(3, deadline=deadline, status={**status, "observedGeneration": 1})
    assert progress.recheck_in(owner, owner.status, NOON) == want


def test_the_status_adds_up() -> None:
    """Numbers of all ReplicaSets; what is not available is counted from the sizes that are set."""
    sets = [replicaset("new", 2, available=1), replicaset("old", 3, available=2, replicas=4, image="app:0")]
    owner = deployment(4, status={"collisionCount": 2})
    found = progress.count_status(owner, limits_of(owner), classify(owner, sets), (), NOON)
    tree = progress.status_tree(found)
    said = tree.pop("conditions")
    assert tree == {
        "observedGeneration": 1,
        "replicas": 6,
        "updatedReplicas": 2,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "unavailableReplicas": 2,
        "terminatingReplicas": None,
        "collisionCount": 2,
    }
    assert [(each["type"], each["status"], each["reason"]) for each in said] == [
        ("Available", "True", "MinimumReplicasAvailable")
    ]


@pytest.mark.parametrize(
    ("available", "want"),
    [
        pytest.param(3, ("True", "MinimumReplicasAvailable"), id="four less one is three"),
        pytest.param(2, ("False", "MinimumReplicasUnavailable"), id="two are too few"),
    ],
)
def test_availability_is_reported(available: int, want: tuple[str, str]) -> None:
    """By the fewest that must be available."""
    owner = deployment(4)
    status = progress.count_status(
        owner, limits_of(owner), OwnedReplicaSets(replicaset("web", 4, available=available)), (), NOON
    )
    found = conditions.find(status.conditions, "Available")
    assert found is not None
    assert (found.status, found.reason) == want


def test_a_replicaset_s_failure_is_the_deployment_s() -> None:
    """The new one's before an old one's, and gone when it is gone."""

    def failure(message: str) -> dict[str, Any]:
        return {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}

    owner = deployment(3)
    broken = OwnedReplicaSets(
        replicaset("new", 1, conditions=(failure("new"),)),
        (replicaset("old", 1, image="app:0", conditions=(failure("old"),)),),
    )
    status = progress.count_status(owner, limits_of(owner), broken, (), NOON)
    told = progress.with_progress(owner, broken, (), status, NOON).conditions
    found = conditions.find(told, "ReplicaFailure")
    assert found is not None
    assert found.message == "new"
    mended = OwnedReplicaSets(replicaset("new", 1))
    assert (
        conditions.find(progress.with_progress(owner, mended, told, status, NOON).conditions, "ReplicaFailure") is None
    )


def test_a_failed_creation_is_reported() -> None:
    """Everything else stays as it was, for nothing has been done."""
    owner = deployment(3, status=a_status(3, 3, 1, CREATED))
    failed = progress.failure_status(owner, "no quota", NOON)
    found = conditions.find(failed.conditions, "Progressing")
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", "ReplicaSetCreateError", "no quota")
    assert progress.failure_status(deployment(3, deadline=None), "no quota", NOON) == deployment(3).status


def test_collisions_are_counted() -> None:
    """The next hash depends on them."""
    assert progress.collision_status(deployment()).collision_count == 1
    assert progress.collision_status(deployment(status={"collisionCount": 1})).collision_count == 2
