"""The status that a kubelet writes for a lifecycle, and the patch from the observed status to it. Pure.

Reasons and messages are those of a kubelet. The conditions PodReadyToStartContainers, Initialized, Ready and
ContainersReady are written; PodScheduled and all other conditions belong to other components and stay as they are. A
condition keeps its last transition time while its status does not change, and the status of a container that has ended
is not written again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from trimtab.api import times
from trimtab.api.documents import JSON
from trimtab.kube.clocks import SECOND
from trimtab_lab.nodes import views
from trimtab_lab.nodes.podlifecycle import PodLifecycle, Stage, Termination
from trimtab_lab.nodes.scripts import Script
from trimtab_lab.nodes.views import (
    FALSE,
    TRUE,
    Address,
    Container,
    ContainerState,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
    Running,
    Terminated,
    Waiting,
)

PHASES: dict[Stage, str] = {
    Stage.CREATING: views.PENDING,
    Stage.INITIALIZING: views.PENDING,
    Stage.RUNNING: views.RUNNING,
    Stage.BACKING_OFF: views.RUNNING,
    Stage.SUCCEEDED: views.SUCCEEDED,
    Stage.FAILED: views.FAILED,
}

_FIELDS = {
    field: name
    for field, name in zip(PodStatus.__struct_fields__, PodStatus.__struct_encode_fields__, strict=True)
    if field != "conditions"
}
"""The fields of a status except the conditions, with their JSON names."""

_STARTED = frozenset((Stage.RUNNING, Stage.BACKING_OFF, Stage.SUCCEEDED, Stage.FAILED))


@dataclass(frozen=True, slots=True)
class PodAddresses:
    """The addresses of a pod and of its node."""

    host_ip: str
    pod_ip: str


def render(pod: Pod, life: PodLifecycle, script: Script, place: PodAddresses, now: int) -> PodStatus:
    """The status of a pod with this lifecycle, without what other components write into it."""
    inits = _init_statuses(pod, life, script)
    mains = tuple(sorted(_main_statuses(pod, life, script), key=lambda each: each.name))
    pod_ip = (pod.status.pod_ip or place.pod_ip) if life.sandbox else ""
    return PodStatus(
        phase=PHASES[life.stage],
        conditions=_conditions(pod, life, inits, mains, now),
        host_ip=place.host_ip,
        host_ips=(Address(ip=place.host_ip),),
        pod_ip=pod_ip,
        pod_ips=(Address(ip=pod_ip),) if pod_ip else (),
        start_time=pod.status.start_time or times.format_time(life.accepted),
        init_container_statuses=inits,
        container_statuses=mains,
        observed_generation=pod.metadata.generation,
    )


def patch(pod: Pod, wanted: PodStatus) -> JSON | None:
    """The strategic merge patch from the observed to the wanted status; None if they are equal."""
    changed: JSON = {}
    for field, name in _FIELDS.items():
        value = getattr(wanted, field)
        if getattr(pod.status, field) != value:
            changed[name] = msgspec.to_builtins(value) if value else None
    conditions = _condition_changes(pod.status, wanted)
    if conditions:
        changed["conditions"] = conditions
    return {"metadata": {"uid": pod.metadata.uid}, "status": changed} if changed else None


# Containers.


def _main_statuses(pod: Pod, life: PodLifecycle, script: Script) -> list[ContainerStatus]:
    return [_main_status(pod, container, life, script) for container in pod.spec.containers]


def _main_status(pod: Pod, container: Container, life: PodLifecycle, script: Script) -> ContainerStatus:
    identity = _identity(pod, container, life.restarts)
    runs = life.stage is Stage.RUNNING
    shown, before = _states(pod, container, life, script)
    return ContainerStatus(
        name=container.name,
        image=container.image,
        image_id=container.image if life.stage in _STARTED else "",
        container_id=identity if life.stage in _STARTED and (runs or life.last) else "",
        ready=runs and life.ready,
        started=runs,
        restart_count=life.restarts,
        state=shown,
        last_state=before,
    )


def _states(
    pod: Pod, container: Container, life: PodLifecycle, script: Script
) -> tuple[ContainerState, ContainerState]:
    """The current and the previous state of a regular container."""
    none = ContainerState()
    if life.stage is Stage.RUNNING:
        before = _ended(pod, container, life.last, life.restarts - 1) if life.last else none
        return ContainerState(running=Running(started_at=times.format_time(life.since))), before
    if life.last is None:
        return ContainerState(waiting=_waiting(pod)), none
    ended = _ended(pod, container, life.last, life.restarts)
    if life.stage is Stage.BACKING_OFF and life.restarts:
        return ContainerState(waiting=_back_off(pod, container, script.back_off_seconds(life.restarts))), ended
    return ended, none


def _waiting(pod: Pod) -> Waiting:
    return Waiting(reason="PodInitializing" if pod.spec.init_containers else "ContainerCreating")


def _back_off(pod: Pod, container: Container, seconds: float) -> Waiting:
    metadata = pod.metadata
    name = f"{metadata.name}_{metadata.namespace}({metadata.uid})"
    message = f"back-off {_duration(seconds)} restarting failed container={container.name} pod={name}"
    return Waiting(reason="CrashLoopBackOff", message=message)


def _ended(pod: Pod, container: Container, end: Termination, restarts: int) -> ContainerState:
    return ContainerState(
        terminated=Terminated(
            exit_code=end.code,
            reason="Error" if end.code else "Completed",
            started_at=times.format_time(end.started),
            finished_at=times.format_time(end.finished),
            container_id=_identity(pod, container, restarts),
        )
    )


def _init_statuses(pod: Pod, life: PodLifecycle, script: Script) -> tuple[ContainerStatus, ...]:
    """The statuses of init containers, which run one after the other; those that have ended stay as written."""
    if not pod.spec.init_containers:
        return ()
    written = {each.name: each for each in pod.status.init_container_statuses}
    statuses: list[ContainerStatus] = []
    turn = 0
    for container in pod.spec.init_containers:
        old = written.get(container.name)
        statuses.append(_init_status(pod, container, life, script, turn, old))
        turn += not container.sidecar
    return tuple(statuses)


def _init_status(
    pod: Pod, container: Container, life: PodLifecycle, script: Script, turn: int, old: ContainerStatus | None
) -> ContainerStatus:
    """The status of the init container that runs after this many others."""
    if old is not None and old.state.terminated is not None:
        return old
    started = life.sandbox + round(turn * script.init * SECOND)
    state = _init_state(pod, container, life, turn, started, started + round(script.init * SECOND))
    runs, through = state.running is not None, state.terminated is not None
    if old is not None and old.state.running is not None and runs:
        state = old.state
    ran = runs or through
    return ContainerStatus(
        name=container.name,
        image=container.image,
        image_id=container.image if ran else "",
        container_id=_identity(pod, container, 0) if ran else "",
        ready=runs if container.sidecar else through and not _failed(state),
        started=runs if container.sidecar or not through else False,
        state=state,
    )


def _init_state(
    pod: Pod, container: Container, life: PodLifecycle, turn: int, started: int, finished: int
) -> ContainerState:
    if not life.sandbox or life.inits < turn or (life.stage is Stage.CREATING):
        return ContainerState(waiting=Waiting(reason="PodInitializing"))
    if container.sidecar:
        if life.is_finished:
            return _ended(pod, container, Termination(started, life.since, 0), 0)
        return ContainerState(running=Running(started_at=times.format_time(started)))
    if life.inits > turn:
        return _ended(pod, container, Termination(started, finished, 0), 0)
    if life.is_finished:
        return _ended(pod, container, Termination(started, life.since, 1), 0)
    return ContainerState(running=Running(started_at=times.format_time(life.since)))


def _failed(state: ContainerState) -> bool:
    return state.terminated is not None and state.terminated.exit_code != 0


# Conditions.


def _conditions(
    pod: Pod, life: PodLifecycle, inits: Sequence[ContainerStatus], mains: Sequence[ContainerStatus], now: int
) -> tuple[PodCondition, ...]:
    containers_ready = _containers_ready(pod, life, inits, mains)
    values = {
        "PodReadyToStartContainers": (TRUE if life.sandbox and not life.is_finished else FALSE, "", ""),
        "Initialized": _initialized(pod, life, inits),
        "Ready": _ready(pod, containers_ready),
        "ContainersReady": containers_ready,
    }
    return tuple(_condition(pod, kind, value, now) for kind, value in values.items())


ConditionValue = tuple[str, str, str]
"""A condition's status, reason and message."""


def _condition(pod: Pod, kind: str, value: ConditionValue, now: int) -> PodCondition:
    old = pod.status.condition(kind)
    status, reason, message = value
    kept = old is not None and old.status == status and old.last_transition_time
    return PodCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=kept or times.format_time(now),
        observed_generation=pod.metadata.generation,
    )


def _initialized(pod: Pod, life: PodLifecycle, inits: Sequence[ContainerStatus]) -> ConditionValue:
    if life.stage is Stage.SUCCEEDED:
        return TRUE, "PodCompleted", ""
    if not inits or life.stage in (Stage.RUNNING, Stage.BACKING_OFF) or life.last is not None:
        return TRUE, "", ""
    sidecars = {each.name for each in pod.spec.init_containers if each.sidecar}
    missing = [each.name for each in inits if not (each.started if each.name in sidecars else each.ready)]
    return FALSE, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(missing)}]"


def _containers_ready(
    pod: Pod, life: PodLifecycle, inits: Sequence[ContainerStatus], mains: Sequence[ContainerStatus]
) -> ConditionValue:
    if life.stage is Stage.SUCCEEDED:
        return FALSE, "PodCompleted", ""
    if life.stage is Stage.FAILED:
        return FALSE, "PodFailed", ""
    ready = {each.name for each in (*inits, *mains) if each.ready}
    counted = [each.name for each in pod.spec.init_containers if each.sidecar]
    counted += [each.name for each in pod.spec.containers]
    missing = [name for name in counted if name not in ready]
    if missing:
        return FALSE, "ContainersNotReady", f"containers with unready status: [{' '.join(missing)}]"
    return TRUE, "", ""


def _ready(pod: Pod, containers_ready: ConditionValue) -> ConditionValue:
    """The Ready condition: ready containers, and all readiness gates."""
    if containers_ready[0] != TRUE:
        return containers_ready
    missing: list[str] = []
    for gate in pod.spec.readiness_gates:
        kind = gate.condition_type
        held = pod.status.condition(kind)
        if held is None:
            missing.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif held.status != TRUE:
            missing.append(f'the status of pod readiness gate "{kind}" is not "True", but {held.status}')
    return (FALSE, "ReadinessGatesNotReady", ", ".join(missing)) if missing else containers_ready


def _condition_changes(have: PodStatus, want: PodStatus) -> list[JSON]:
    """The conditions that differ. A field that a condition should not have is removed with a null."""
    changes: list[JSON] = []
    for condition in want.conditions:
        old = have.condition(condition.type)
        if old == condition:
            continue
        tree: JSON = msgspec.to_builtins(condition)
        if old is not None:
            tree |= {name: None for name in msgspec.to_builtins(old) if name not in tree}
        changes.append(tree)
    return changes


def _identity(pod: Pod, container: Container, restarts: int) -> str:
    """The id of a container in its runtime: another one after each restart."""
    text = f"{pod.metadata.uid}/{container.name}/{restarts}"
    return f"lab://{hashlib.sha256(text.encode()).hexdigest()}"


def _duration(seconds: float) -> str:
    """A duration as Go prints it: 10s, 1m20s."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"
