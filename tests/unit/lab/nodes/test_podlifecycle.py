"""The lifecycle of a pod: what happens when, however often it is checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.lab.nodes.objects import START, a_pod, at, moment
from trimtab.kube.clocks import SECOND
from trimtab_lab.nodes import podlifecycle, statuses
from trimtab_lab.nodes.podlifecycle import KILLED, PodLifecycle, Stage, Termination
from trimtab_lab.nodes.scripts import Behaviour, Script
from trimtab_lab.nodes.statuses import PodAddresses
from trimtab_lab.nodes.views import Pod

CRASH, COMPLETE, HANG = Behaviour.CRASH, Behaviour.COMPLETE, Behaviour.HANG
PLACE = PodAddresses("172.16.0.1", "10.128.0.1")

Event = tuple[float, Stage, bool, int]
"""When something happened, in seconds, and the stage, readiness and restarts after it."""


def history(script: Script, until: float) -> list[Event]:
    """Everything that happens to a pod in that time, by following the due times of `advance`."""
    life, events = podlifecycle.start(START), []
    due: int | None = START
    while due is not None and due <= at(until):
        life, due_next = podlifecycle.advance(life, script, due)
        events.append(((due - START) / SECOND, life.stage, life.ready, life.restarts))
        due = due_next
    return events


C, INIT, R, B, OK, BAD = (
    Stage.CREATING,
    Stage.INITIALIZING,
    Stage.RUNNING,
    Stage.BACKING_OFF,
    Stage.SUCCEEDED,
    Stage.FAILED,
)


@pytest.mark.parametrize(
    ("script", "until", "want"),
    [
        pytest.param(
            Script(start=2.0),
            100,
            [(0, C, False, 0), (2, R, True, 0)],
            id="a pod starts and is ready at once",
        ),
        pytest.param(
            Script(start=2.0, ready=3.0),
            100,
            [(0, C, False, 0), (2, R, False, 0), (5, R, True, 0)],
            id="it may take a while to be ready",
        ),
        pytest.param(
            Script(start=2.0, behaviour=HANG),
            100,
            [(0, C, False, 0), (2, R, False, 0)],
            id="one that hangs is never ready",
        ),
        pytest.param(
            Script(start=1.0, init=0.5, inits=2),
            100,
            [(0, C, False, 0), (1, INIT, False, 0), (1.5, INIT, False, 0), (2, R, True, 0)],
            id="init containers come first, one after the other",
        ),
        pytest.param(
            Script(start=1.0, behaviour=CRASH, ends_after=5.0),
            60,
            [
                (0, C, False, 0),
                (1, R, True, 0),
                (6, B, False, 0),
                (7, R, True, 1),
                (12, B, False, 1),
                (22, R, True, 2),
                (27, B, False, 2),
                (47, R, True, 3),
                (52, B, False, 3),
            ],
            id="a crash is followed by a wait that grows",
        ),
        pytest.param(
            Script(start=1.0, ready=9.0, behaviour=CRASH, ends_after=5.0),
            8,
            [(0, C, False, 0), (1, R, False, 0), (6, B, False, 0), (7, R, False, 1)],
            id="one that crashes first is never ready",
        ),
        pytest.param(
            Script(start=1.0, behaviour=CRASH, ends_after=5.0, crashes=1),
            100,
            [(0, C, False, 0), (1, R, True, 0), (6, B, False, 0), (7, R, True, 1)],
            id="after so many crashes it runs on",
        ),
        pytest.param(
            Script(start=1.0, behaviour=CRASH, ends_after=5.0, restart_policy="Never"),
            100,
            [(0, C, False, 0), (1, R, True, 0), (6, BAD, False, 0)],
            id="a crash without restart is a failure",
        ),
        pytest.param(
            Script(start=1.0, behaviour=COMPLETE, ends_after=5.0, restart_policy="OnFailure"),
            100,
            [(0, C, False, 0), (1, R, True, 0), (6, OK, False, 0)],
            id="a good end without restart is a success",
        ),
        pytest.param(
            Script(start=1.0, behaviour=COMPLETE, ends_after=5.0),
            8,
            [(0, C, False, 0), (1, R, True, 0), (6, B, False, 0), (7, R, True, 1)],
            id="with restarts, a good end is as good as a bad one",
        ),
    ],
)
def test_the_history_of_a_pod(script: Script, until: float, want: list[Event]) -> None:
    """What happens to a pod, and when."""
    assert history(script, until) == want


times_in_seconds = st.floats(0, 30, allow_nan=False).map(lambda seconds: round(seconds, 3))
any_script = st.builds(
    Script,
    behaviour=st.sampled_from(Behaviour),
    start=times_in_seconds,
    init=times_in_seconds,
    ready=times_in_seconds,
    ends_after=st.none() | times_in_seconds,
    crashes=st.none() | st.integers(0, 3),
    exit_code=st.integers(0, 255),
    back_off=st.floats(0.1, 20),
    inits=st.integers(0, 3),
    restart_policy=st.sampled_from(["Always", "OnFailure", "Never"]),
)


@given(script=any_script, looks=st.lists(st.integers(0, 300), max_size=8), end=st.integers(300, 400))
@settings(deadline=None)
def test_the_history_does_not_depend_on_when_it_is_checked(script: Script, looks: list[int], end: int) -> None:
    """Looked at often or once, it comes to the same."""
    life = podlifecycle.start(START)
    for sync in sorted(looks):
        life, _ = podlifecycle.advance(life, script, at(sync))
    life, due = podlifecycle.advance(life, script, at(end))
    assert (life, due) == podlifecycle.advance(podlifecycle.start(START), script, at(end))
    assert due is None or due > at(end)


@given(script=any_script, end=st.integers(0, 400))
@settings(deadline=None)
def test_nothing_changes_before_the_next_due_time(script: Script, end: int) -> None:
    """A moment before it is due, everything is unchanged."""
    life, due = podlifecycle.advance(podlifecycle.start(START), script, at(end))
    if due is None:
        assert podlifecycle.advance(life, script, at(10**6)) == (life, None)
    else:
        assert podlifecycle.advance(life, script, due - 1) == (life, due)
        assert podlifecycle.advance(life, script, due)[0] != life


# Changes of mind.


def test_a_running_pod_annotated_to_crash_crashes_once() -> None:
    """An annotation has no effect on the past."""
    life, _ = podlifecycle.advance(podlifecycle.start(START), Script(start=1.0), at(3600))
    crash = Script(start=1.0, behaviour=CRASH, ends_after=5.0)
    life, due = podlifecycle.advance(replace(life, known=at(3600)), crash, at(3600))
    assert (life.stage, life.restarts, due) == (Stage.BACKING_OFF, 0, at(3601))
    assert life.last == Termination(at(1), at(3600), 1)


def test_a_ready_pod_annotated_to_hang_becomes_unready() -> None:
    """And ready again when it is annotated to run."""
    life, _ = podlifecycle.advance(podlifecycle.start(START), Script(start=1.0), at(60))
    hung, due = podlifecycle.advance(replace(life, known=at(60)), Script(start=1.0, behaviour=HANG), at(60))
    assert (hung.stage, hung.ready, due) == (Stage.RUNNING, False, None)
    again, _ = podlifecycle.advance(replace(hung, known=at(70)), Script(start=1.0), at(70))
    assert again.ready


# Deletion.


def deleted_pod(*, grace: int, requested: float = 100) -> Pod:
    """A pod that has been deleted."""
    marks = {"deletionTimestamp": moment(requested + grace), "deletionGracePeriodSeconds": grace}
    return a_pod(metadata=marks)


RUNNING = PodLifecycle(accepted=START, since=at(1), stage=Stage.RUNNING, sandbox=at(1), ready=True)


@pytest.mark.parametrize(
    ("grace", "life", "stop", "want"),
    [
        pytest.param(30, RUNNING, 2.5, 102.5, id="when its containers have stopped"),
        pytest.param(30, RUNNING, 60.0, 130, id="when its grace period is over"),
        pytest.param(0, RUNNING, 5.0, 100, id="at once, without grace"),
        pytest.param(30, podlifecycle.start(START), 5.0, 100, id="at once, before anything runs"),
        pytest.param(30, replace(RUNNING, stage=Stage.FAILED), 5.0, 100, id="at once, after everything has ended"),
        pytest.param(30, replace(RUNNING, stage=Stage.BACKING_OFF), 5.0, 100, id="at once, between two runs"),
    ],
)
def test_a_deleted_pod_leaves(grace: int, life: PodLifecycle, stop: float, want: float) -> None:
    """The moment when a deleted pod is gone."""
    assert podlifecycle.deletion_time(deleted_pod(grace=grace), life, Script(stop=stop)) == at(want)


def test_a_pod_that_is_not_deleted_has_no_deletion_time() -> None:
    """To ask when it does is a mistake."""
    with pytest.raises(ValueError, match="not being deleted"):
        podlifecycle.deletion_time(a_pod(), RUNNING, Script())


@pytest.mark.parametrize(
    ("life", "stop", "stage", "code"),
    [
        pytest.param(RUNNING, 2.0, Stage.SUCCEEDED, 0, id="containers that stop in time end well"),
        pytest.param(RUNNING, 60.0, Stage.FAILED, KILLED, id="those that do not are killed"),
        pytest.param(podlifecycle.start(START), 2.0, Stage.FAILED, None, id="what never ran has failed"),
        pytest.param(replace(RUNNING, stage=Stage.SUCCEEDED), 2.0, Stage.SUCCEEDED, None, id="what has ended stays"),
    ],
)
def test_how_a_stopped_pod_ends(life: PodLifecycle, stop: float, stage: Stage, code: int | None) -> None:
    """The last state of a pod."""
    ended = podlifecycle.stop(life, Script(stop=stop), at(130), 30)
    assert (ended.stage, ended.ready) == (stage, life.ready if life.is_finished else False)
    assert (ended.last.code if ended.last else None) == code


# Reading it back.


def written(pod: Pod, life: PodLifecycle, script: Script, now: int) -> Pod:
    """The pod with the status that its life would be written as."""
    return Pod(metadata=pod.metadata, spec=pod.spec, status=statuses.render(pod, life, script, PLACE, now))


@given(script=any_script, end=st.integers(0, 200), later=st.integers(0, 50))
@settings(deadline=None)
def test_a_lifecycle_can_be_restored(script: Script, end: int, later: int) -> None:
    """A kubelet that lost its memory knows from the status where the pod stands, to the second, and writes the same."""
    inits = [f"init-{number}" for number in range(script.inits)]
    pod = a_pod(inits=(*inits[:1], "+sidecar", *inits[1:]), restartPolicy=script.restart_policy)
    life, _ = podlifecycle.advance(podlifecycle.start(START), script, at(end))
    values = written(pod, life, script, at(end))
    recalled = podlifecycle.restore(values, at(end + later))
    assert (recalled.stage, recalled.ready, recalled.restarts) == (life.stage, life.ready, life.restarts)
    assert (recalled.accepted, recalled.inits) == (life.accepted, life.inits)
    if life.stage not in (Stage.SUCCEEDED, Stage.FAILED):
        assert 0 <= life.since - recalled.since < SECOND
    again = statuses.render(values, recalled, script, PLACE, at(end + later))
    assert statuses.patch(values, again) is None


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, PodLifecycle(accepted=at(9), since=at(9), known=at(9)), id="nothing written: a new life"),
        pytest.param(
            {"phase": "Running", "containerStatuses": []},
            PodLifecycle(accepted=at(9), since=at(9), known=at(9)),
            id="written by somebody else, without a start: a new life",
        ),
        pytest.param(
            {"phase": "Pending", "startTime": moment(3)},
            PodLifecycle(accepted=at(3), since=at(3), known=at(9)),
            id="accepted, and no more",
        ),
        pytest.param(
            {"phase": "Failed", "startTime": moment(3)},
            PodLifecycle(accepted=at(3), since=at(3), stage=Stage.FAILED, known=at(9), sandbox=at(3)),
            id="failed before anything ran",
        ),
        pytest.param(
            {
                "phase": "Running",
                "startTime": moment(3),
                "containerStatuses": [
                    {
                        "name": "main",
                        "restartCount": 2,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {
                            "terminated": {"exitCode": 5, "startedAt": moment(4), "finishedAt": moment(6)},
                        },
                    }
                ],
            },
            PodLifecycle(
                accepted=at(3),
                since=at(6),
                stage=Stage.BACKING_OFF,
                known=at(9),
                sandbox=at(4),
                restarts=2,
                last=Termination(at(4), at(6), 5),
            ),
            id="between two runs",
        ),
        pytest.param(
            {
                "phase": "Running",
                "startTime": moment(3),
                "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "yesterday"}}}],
            },
            PodLifecycle(accepted=at(3), since=at(9), stage=Stage.RUNNING, known=at(9), sandbox=at(9)),
            id="a time that cannot be read counts from now",
        ),
    ],
)
def test_what_a_status_tells(status: dict[str, Any], want: PodLifecycle) -> None:
    """From nothing at all to something strange."""
    assert podlifecycle.restore(a_pod(status=status), at(9)) == want
