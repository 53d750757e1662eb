"""What the pods of a ReplicaSet amount to."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from tests.unit.lab.workloads.objects import replicaset
from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.api.times import parse_ns
from trimtab.lab.workloads import conditions
from trimtab.lab.workloads.replicaset import replicas
from trimtab.testing.builders import PodBuilder, pod

NOON = parse_ns("2026-01-01T12:00:00Z")


def ready(name: str = "p", since: str | None = "2026-01-01T11:59:00Z") -> PodBuilder:
    """A pod that has been ready for a minute, unless told otherwise."""
    return pod(name).on("a").labels({"app": "web", "pod-template-hash": "web"}).ready(since)


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
    """An API server would have said so."""
    made = replicaset("web", 3)
    assert replicas.wanted(msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, replicas=None))) == 1


@given(st.integers(0, 5000))
@settings(deadline=None)
def test_batches_double(count: int) -> None:
    """All are made in the end, each full batch twice the one before, only the last may be smaller."""
    sizes = list(replicas.batches(count))
    assert sum(sizes) == count
    assert sizes[:-1] == [2**n for n in range(len(sizes) - 1)]
    assert not sizes or 1 <= sizes[-1] <= 2 ** (len(sizes) - 1)


@pytest.mark.parametrize(
    ("candidate", "patience", "want"),
    [
        pytest.param(ready(), 0, True, id="ready is enough where no patience is asked for"),
        pytest.param(ready(), 60, True, id="ready for exactly as long as asked"),
        pytest.param(ready(), 61, False, id="not ready for long enough"),
        pytest.param(ready(since=None), 0, True, id="ready since nobody knows when"),
        pytest.param(ready(since=None), 1, False, id="nobody knows since when, and it matters"),
        pytest.param(pod("p").on("a").not_ready("2026-01-01T11:00:00Z"), 0, False, id="not ready"),
        pytest.param(pod("p").on("a"), 0, False, id="nobody has said that it is ready"),
    ],
)
def test_a_pod_is_available(candidate: PodBuilder, patience: int, want: bool) -> None:
    """Ready, and for long enough."""
    assert replicas.is_available(candidate.build(), patience, NOON) is want


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([], None, id="no pods"),
        pytest.param([ready(since="2026-01-01T11:00:00Z")], None, id="all are available already"),
        pytest.param([ready()], 30.0, id="one becomes available in half a minute"),
        pytest.param([ready(), ready("q", "2026-01-01T11:58:45Z")], 15.0, id="the next of two"),
        pytest.param([ready(since=None)], None, id="nobody knows since when"),
    ],
)
def test_the_next_pod_becomes_available(pods: list[PodBuilder], want: float | None) -> None:
    """Time alone makes a pod available: somebody has to look then."""
    assert replicas.next_available([p.build() for p in pods], 90, NOON) == want


@pytest.mark.parametrize(
    ("seconds", "since", "want"),
    [
        pytest.param(0, "2026-01-01T11:59:00Z", None, id="no patience, nothing to wait for"),
        pytest.param(90, "2026-01-01T11:59:00Z", 30.0, id="until the next pod is available"),
        pytest.param(90, "2026-01-01T11:00:00Z", None, id="all that are ready are available"),
        pytest.param(90, None, 90.0, id="nobody knows since when: look again all the same"),
    ],
)
def test_it_is_looked_at_again(seconds: int, since: str | None, want: float | None) -> None:
    """A ReplicaSet with pods that are ready and not available yet must not be forgotten."""
    owner, pods = patient(seconds), [ready(since=since).build()]
    status = replicas.status(owner, pods, 0, None, NOON)
    assert replicas.recheck_in(owner, status, pods, NOON) == want


def test_the_status_counts_what_is_there() -> None:
    """Ready, available and fully labelled are told apart."""
    pods = [
        ready("available", "2026-01-01T11:00:00Z").build(),
        ready("ready").build(),
        pod("pending").labels(app="web").build(),
    ]
    status = replicas.status(patient(90), pods, 2, None, NOON)
    assert replicas.status_tree(status) == {
        "replicas": 3,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "terminatingReplicas": 2,
        "observedGeneration": 1,
        "conditions": [],
    }


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
def test_a_failure_is_told(
    known: tuple[Any, ...], pods: int, failure: str | None, want: tuple[str, str] | None
) -> None:
    """What went wrong with making or deleting pods stands in a condition until it goes right."""
    active: list[Pod] = [pod(f"p{n}").build() for n in range(pods)]
    status = replicas.status(replicaset("web", 3, conditions=known), active, 0, failure, NOON)
    found = conditions.find(status.conditions, "ReplicaFailure")
    assert (None if found is None else (found.reason, found.message)) == want
