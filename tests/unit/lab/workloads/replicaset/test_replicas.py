"""What the pods of a ReplicaSet amount to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.lab.workloads.objects import replicaset
from trimtab.api.apps import ReplicaSet
from trimtab.api.times import parse_ns
from trimtab.kube import conditions
from trimtab_lab.workloads.replicaset import replicas
from trimtab_lab.workloads.replicaset.podcounts import PodCounts

NOON = parse_ns("2026-01-01T12:00:00Z")


def patient(seconds: int, size: int = 3) -> ReplicaSet:
    """A ReplicaSet with that minReadySeconds."""
    made = replicaset("web", size)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, min_ready_seconds=seconds))


@pytest.mark.parametrize(
    ("active", "size", "want"),
    [
        pytest.param(3, 3, 0, id="as many as wanted"),
        pytest.param(1, 3, -2, id="two are missing"),
        pytest.param(5, 3, 2, id="two too many"),
        pytest.param(0, 1000, -500, id="no more than a burst is made at once"),
        pytest.param(1000, 0, 500, id="no more than a burst is deleted at once"),
    ],
)
def test_a_surplus_is_counted(active: int, size: int, want: int) -> None:
    """Positive is too many, negative too few."""
    assert replicas.surplus(replicaset("web", size), active, burst=500) == want


def test_no_number_means_one_pod() -> None:
    """An API server would refuse it."""
    made = replicaset("web", 3)
    unset = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, replicas=None))
    assert unset.desired_replicas == 1


NOBODY = PodCounts(active=0, ready=0, available=0, fully_labeled=0, terminating=0, next_available=None)


@pytest.mark.parametrize(
    ("seconds", "counts", "want"),
    [
        pytest.param(0, replace(NOBODY, ready=2, available=2), None, id="no patience, nothing to wait for"),
        pytest.param(90, replace(NOBODY, ready=2, next_available=30.0), 30.0, id="until the next pod is available"),
        pytest.param(90, replace(NOBODY, ready=2, available=2), None, id="all that are ready are available"),
        pytest.param(90, replace(NOBODY, ready=2), 90.0, id="nobody knows since when: look again all the same"),
    ],
)
def test_it_is_requeued(seconds: int, counts: PodCounts, want: float | None) -> None:
    """A ReplicaSet with pods that are ready and not available yet must be requeued."""
    assert replicas.recheck_in(patient(seconds), counts) == want


def test_the_status_tells_what_was_counted() -> None:
    """Ready, available and fully labelled are separate; terminating only where the kind has the field."""
    counts = PodCounts(active=3, ready=2, available=1, fully_labeled=2, terminating=4, next_available=None)
    tree = {
        "replicas": 3,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "observedGeneration": 1,
        "conditions": [],
    }
    owner = replicaset("web", 3)
    assert replicas.status_tree(replicas.status(owner, counts, None, NOON)) == tree | {"terminatingReplicas": 4}
    assert replicas.status_tree(replicas.status(owner, counts, None, NOON, counts_terminating=False)) == tree


def test_the_labels_of_the_template_are_looked_for() -> None:
    """A pod that has them all, and perhaps more, is fully labelled."""
    labels = replicas.template_labels(replicaset("web", 3))
    assert labels.matches({"app": "web", "pod-template-hash": "web", "more": "yes"})
    assert not labels.matches({"app": "web"})


FAILED: dict[str, Any] = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "before"}


@pytest.mark.parametrize(
    ("known", "pods", "failure", "want"),
    [
        pytest.param((), 0, None, None, id="nothing failed"),
        pytest.param((), 0, "quota", ("FailedCreate", "quota"), id="pods could not be made"),
        pytest.param((), 5, "no", ("FailedDelete", "no"), id="pods could not be deleted"),
        pytest.param((FAILED,), 0, "quota", ("FailedCreate", "before"), id="the first failure stays"),
        pytest.param((FAILED,), 0, None, None, id="it works again"),
    ],
)
def test_a_failure_is_reported(
    known: tuple[Any, ...], pods: int, failure: str | None, want: tuple[str, str] | None
) -> None:
    """What went wrong with making or deleting pods stands in a condition until it goes right."""
    counts = replace(NOBODY, active=pods)
    status = replicas.status(replicaset("web", 3, conditions=known), counts, failure, NOON)
    found = conditions.find(status.conditions, "ReplicaFailure")
    assert (None if found is None else (found.reason, found.message)) == want
