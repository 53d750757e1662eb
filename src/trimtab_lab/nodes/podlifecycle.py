"""The lifecycle of a pod as its kubelet knows it: what has happened, what happens next, and when. Pure.

```
            start-seconds            init-seconds each           ready-seconds: becomes ready
  CREATING ──────────────→ INITIALIZING ──────────→ RUNNING ──┐
      └──────── (without init containers) ────────────↑  │ ↑   │ …-after-seconds: the containers end
                                                      │  │ │   ↓
                                                      │  │ └─ BACKING_OFF   (the restart policy starts them again)
                                                      │  └──→ SUCCEEDED, FAILED   (it does not)
```

A lifecycle advances from one due moment to the next, not from sync to sync: its history is the same whether it is
checked once a second or once an hour. The exception is `known`: nothing happens before the kubelet knew of it. A pod
that has run for an hour and is then annotated to crash after five seconds crashes now, once; and a kubelet that was
away does not invent what it would have done.

The regular containers of a pod act as one: they start, crash and end together. Init containers run one after the
other; sidecars among them start in order and keep running.

Times are nanoseconds. A status keeps whole seconds, so a restored lifecycle is up to a second older than the one that
was written, and never younger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from trimtab.api import times
from trimtab.api.errors import InvalidError
from trimtab.kube.clocks import SECOND
from trimtab_lab.nodes import views
from trimtab_lab.nodes.scripts import Behaviour, Script
from trimtab_lab.nodes.views import ContainerStatus, Pod, PodStatus, Terminated

KILLED = 137
"""The exit code of a container that had to be killed."""


class Stage(Enum):
    """The stage of a pod in its lifecycle."""

    CREATING = auto()
    INITIALIZING = auto()
    RUNNING = auto()
    BACKING_OFF = auto()
    SUCCEEDED = auto()
    FAILED = auto()


FINAL_STAGES = frozenset((Stage.SUCCEEDED, Stage.FAILED))


@dataclass(frozen=True, slots=True)
class Termination:
    """How one run of the containers ended."""

    started: int
    finished: int
    code: int


@dataclass(frozen=True, slots=True)
class PodLifecycle:
    """What has happened to a pod so far."""

    accepted: int
    """When its kubelet accepted it."""
    since: int
    """When this stage began."""
    stage: Stage = Stage.CREATING
    known: int = 0
    sandbox: int = 0
    """When its sandbox was ready and the first container could start; 0 before that."""
    inits: int = 0
    """How many init containers have completed."""
    ready: bool = False
    restarts: int = 0
    last: Termination | None = None

    @property
    def is_finished(self) -> bool:
        """Whether nothing will happen any more."""
        return self.stage in FINAL_STAGES

    def no_earlier(self, moment: int) -> int:
        """The later of a moment and of when the kubelet knew of it."""
        return max(moment, self.known)


Step = tuple[int, PodLifecycle]
"""When something happens, and the lifecycle after it."""


def start(now: int) -> PodLifecycle:
    """The lifecycle of a pod that its kubelet sees for the first time."""
    return PodLifecycle(accepted=now, since=now, known=now)


def advance(life: PodLifecycle, script: Script, now: int) -> tuple[PodLifecycle, int | None]:
    """The lifecycle as of now, and when it changes next; None if it does not change by itself."""
    while (step := _STEPS[life.stage](life, script)) is not None:
        due, after = step
        if due > now:
            return life, due
        life = after
    return life, None


def _creating(life: PodLifecycle, script: Script) -> Step:
    at = life.no_earlier(life.accepted + _ns(script.start))
    stage = Stage.INITIALIZING if script.inits else Stage.RUNNING
    return at, replace(life, stage=stage, since=at, sandbox=at)


def _initializing(life: PodLifecycle, script: Script) -> Step:
    at = life.no_earlier(life.since + _ns(script.init))
    inits = life.inits + 1
    stage = Stage.INITIALIZING if inits < script.inits else Stage.RUNNING
    return at, replace(life, stage=stage, since=at, inits=inits)


def _running(life: PodLifecycle, script: Script) -> Step | None:
    steps: list[Step] = []
    hangs = script.behaviour is Behaviour.HANG
    if hangs and life.ready:
        steps.append((life.known, replace(life, ready=False)))
    if not hangs and not life.ready:
        steps.append((life.no_earlier(life.since + _ns(script.ready)), replace(life, ready=True)))
    seconds = script.run_seconds(life.restarts)
    if seconds is not None:
        at = life.no_earlier(life.since + _ns(seconds))
        code = script.exit_code if script.behaviour is Behaviour.CRASH else 0
        steps.append((at, _terminated(life, script, at, code)))
    return min(steps, key=lambda step: step[0], default=None)


def _backing_off(life: PodLifecycle, script: Script) -> Step:
    at = life.no_earlier(life.since + _ns(script.back_off_seconds(life.restarts)))
    return at, replace(life, stage=Stage.RUNNING, since=at, restarts=life.restarts + 1)


def _final(_life: PodLifecycle, _script: Script) -> None:
    return None


_STEPS: dict[Stage, Callable[[PodLifecycle, Script], Step | None]] = {
    Stage.CREATING: _creating,
    Stage.INITIALIZING: _initializing,
    Stage.RUNNING: _running,
    Stage.BACKING_OFF: _backing_off,
    Stage.SUCCEEDED: _final,
    Stage.FAILED: _final,
}


def _terminated(life: PodLifecycle, script: Script, at: int, code: int) -> PodLifecycle:
    stage = Stage.BACKING_OFF if script.restarts_after(code) else _outcome(code)
    return replace(life, stage=stage, since=at, ready=False, last=Termination(life.since, at, code))


def _outcome(code: int) -> Stage:
    return Stage.FAILED if code else Stage.SUCCEEDED


# Termination.


def deletion_time(pod: Pod, life: PodLifecycle, script: Script) -> int:
    """When a deleted pod is gone: when its containers have stopped, or at the end of its grace period."""
    asked_for = pod.metadata.deletion_timestamp
    if asked_for is None:
        raise ValueError("this pod is not being deleted")
    deadline = times.to_ns(asked_for)
    begun = deadline - (pod.metadata.deletion_grace_period_seconds or 0) * SECOND
    if life.stage is not Stage.RUNNING:
        return begun
    return min(deadline, begun + _ns(script.stop))


def stop(life: PodLifecycle, script: Script, at: int, grace: int) -> PodLifecycle:
    """The last state of a pod whose containers were stopped, or killed if they took too long."""
    if life.is_finished:
        return life
    if life.stage is not Stage.RUNNING:
        return replace(life, stage=Stage.FAILED, since=at, ready=False)
    code = KILLED if script.stop > grace else 0
    return replace(life, stage=_outcome(code), since=at, ready=False, last=Termination(life.since, at, code))


# Restoring from a status.


def restore(pod: Pod, now: int) -> PodLifecycle:
    """Restore the lifecycle from a pod's status; a new one if the status is empty."""
    status = pod.status
    if not status.start_time:
        return start(now)
    accepted = _parse_time(status.start_time, now)
    life = PodLifecycle(accepted=accepted, since=accepted, known=now)
    inits = _inits(pod)
    started = [at for at in map(_started, inits) if at]
    life = replace(life, inits=sum(_is_completed(each) for each in inits), sandbox=min(started, default=0))
    if not status.container_statuses:
        return _restore_initializing(life, pod, started)
    return _restore_containers(life, pod, status.container_statuses[0], started, now)


def _restore_containers(
    life: PodLifecycle, pod: Pod, main: ContainerStatus, started: list[int], now: int
) -> PodLifecycle:
    """Restore from the first container, which stands for all of them."""
    state = main.state
    life = replace(life, restarts=main.restart_count, last=_end(state.terminated or main.last_state.terminated, now))
    if pod.finished:
        return _restore_finished(life, pod.status)
    if state.running is not None:
        since = _parse_time(state.running.started_at, now)
        return replace(life, stage=Stage.RUNNING, since=since, sandbox=life.sandbox or since, ready=main.ready)
    if life.last is not None:
        since = life.last.finished
        return replace(life, stage=Stage.BACKING_OFF, since=since, sandbox=life.sandbox or life.last.started)
    return _restore_initializing(life, pod, started)


def _restore_initializing(life: PodLifecycle, pod: Pod, started: list[int]) -> PodLifecycle:
    """Restore a pod none of whose regular containers has run."""
    if pod.finished:
        return _restore_finished(life, pod.status)
    if not started:
        return life
    return replace(life, stage=Stage.INITIALIZING, since=max(started))


def _restore_finished(life: PodLifecycle, status: PodStatus) -> PodLifecycle:
    stage = Stage.SUCCEEDED if status.phase == views.SUCCEEDED else Stage.FAILED
    since = life.last.finished if life.last else life.accepted
    return replace(life, stage=stage, since=since, sandbox=life.sandbox or since)


def _inits(pod: Pod) -> list[ContainerStatus]:
    """The statuses of the init containers that must end, without sidecars."""
    regular = {each.name for each in pod.spec.init_containers if not each.sidecar}
    return [each for each in pod.status.init_container_statuses if each.name in regular]


def _is_completed(status: ContainerStatus) -> bool:
    return status.state.terminated is not None and status.state.terminated.exit_code == 0


def _started(status: ContainerStatus) -> int:
    state = status.state
    text = state.running.started_at if state.running else state.terminated.started_at if state.terminated else ""
    return _parse_time(text, 0)


def _end(terminated: Terminated | None, now: int) -> Termination | None:
    if terminated is None:
        return None
    finished = _parse_time(terminated.finished_at, now)
    return Termination(_parse_time(terminated.started_at, finished), finished, terminated.exit_code)


def _parse_time(text: str, otherwise: int) -> int:
    try:
        return times.parse_ns(text)
    except InvalidError:
        return otherwise


def _ns(seconds: float) -> int:
    return round(seconds * SECOND)
