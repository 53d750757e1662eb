"""A life as a status: what a kubelet writes, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.lab.nodes.objects import START, a_pod, at, moment
from trimtab.api import codec
from trimtab.api.patches import schema_for, strategic_merge
from trimtab_lab.nodes import podlifecycle, statuses
from trimtab_lab.nodes.podlifecycle import PodLifecycle, Stage, Termination
from trimtab_lab.nodes.scripts import Behaviour, Script
from trimtab_lab.nodes.statuses import PodAddresses
from trimtab_lab.nodes.views import Pod, PodStatus

PLACE = PodAddresses("172.16.0.1", "10.128.0.1")
RUNNING = PodLifecycle(accepted=START, since=at(2), stage=Stage.RUNNING, sandbox=at(2), ready=True)
CRASHED = PodLifecycle(
    accepted=START, since=at(9), stage=Stage.BACKING_OFF, sandbox=at(2), last=Termination(at(2), at(9), 3)
)
SCRIPT = Script(init=1.0)


def rendered(life: PodLifecycle, pod: Pod | None = None, script: Script = SCRIPT) -> dict[str, Any]:
    """The status of a pod with this life, as it is written."""
    status = statuses.render(pod or a_pod(), life, script, PLACE, at(10))
    tree: dict[str, Any] = codec.to_tree(status)
    return tree


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of each condition."""
    return {
        each["type"]: (each["status"], each.get("reason", ""), each.get("message", "")) for each in status["conditions"]
    }


def patched(pod: Pod, status: PodStatus) -> Pod:
    """The pod after the patch, as an API server applies it."""
    patch = codec.to_tree(statuses.patch(pod, status))
    tree = {"status": codec.to_tree(pod.status)}
    merged = strategic_merge(tree, {"status": (patch or {}).get("status", {})}, schema_for("v1", "Pod"))
    return Pod(metadata=pod.metadata, spec=pod.spec, status=codec.convert(merged["status"], PodStatus))


# Stages.


def test_a_pod_that_is_being_created() -> None:
    """Accepted, with the node's address and none of its own."""
    status = rendered(podlifecycle.start(START))
    assert (status["phase"], status["startTime"]) == ("Pending", moment(0))
    assert (status["hostIP"], status.get("podIP")) == ("172.16.0.1", None)
    (main,) = status["containerStatuses"]
    assert main["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert main["started"] is False
    unready = ("False", "ContainersNotReady", "containers with unready status: [main]")
    assert conditions(status) == {
        "PodReadyToStartContainers": ("False", "", ""),
        "Initialized": ("True", "", ""),
        "Ready": unready,
        "ContainersReady": unready,
    }


def test_a_pod_that_runs() -> None:
    """Ready, with an address, and containers that have started."""
    status = rendered(RUNNING, a_pod(containers=("web", "main")))
    assert (status["phase"], status["podIP"], status["podIPs"]) == ("Running", "10.128.0.1", [{"ip": "10.128.0.1"}])
    assert [each["name"] for each in status["containerStatuses"]] == ["main", "web"], "in the order of their names"
    for container in status["containerStatuses"]:
        assert (container["ready"], container["started"]) == (True, True)
        assert container["state"] == {"running": {"startedAt": moment(2)}}
    assert {stands for stands, _, _ in conditions(status).values()} == {"True"}
    assert status["observedGeneration"] == 1


def test_a_pod_that_crashed_for_the_first_time() -> None:
    """Its containers have ended and are about to run again: no back-off yet."""
    status = rendered(CRASHED)
    (main,) = status["containerStatuses"]
    assert status["phase"] == "Running"
    assert main["state"]["terminated"]["exitCode"] == 3
    assert main["state"]["terminated"]["reason"] == "Error"
    assert (main["state"]["terminated"]["startedAt"], main["state"]["terminated"]["finishedAt"]) == (
        moment(2),
        moment(9),
    )
    assert conditions(status)["Ready"][0] == "False"
    assert conditions(status)["Initialized"][0] == "True"


def test_a_pod_that_crashed_again() -> None:
    """It waits, for a time that is shown, and keeps its last state."""
    status = rendered(replace(CRASHED, restarts=4))
    (main,) = status["containerStatuses"]
    waiting = main["state"]["waiting"]
    assert waiting["reason"] == "CrashLoopBackOff"
    assert waiting["message"] == "back-off 1m20s restarting failed container=main pod=p_default(u)"
    assert main["lastState"]["terminated"]["exitCode"] == 3
    assert main["restartCount"] == 4


def test_a_pod_that_was_restarted() -> None:
    """It runs in a new container, and shows the state of the previous one."""
    first = rendered(RUNNING)["containerStatuses"][0]
    second = rendered(replace(RUNNING, restarts=1, last=Termination(at(0), at(1), 3)))["containerStatuses"][0]
    assert second["restartCount"] == 1
    assert second["containerID"] != first["containerID"]
    assert second["lastState"]["terminated"]["containerID"] == first["containerID"]


@pytest.mark.parametrize(
    ("stage", "code", "phase", "reason"),
    [
        pytest.param(Stage.SUCCEEDED, 0, "Succeeded", "PodCompleted", id="well"),
        pytest.param(Stage.FAILED, 3, "Failed", "PodFailed", id="badly"),
    ],
)
def test_a_pod_that_has_ended(stage: Stage, code: int, phase: str, reason: str) -> None:
    """Its phase and conditions show how."""
    status = rendered(replace(CRASHED, stage=stage, last=Termination(at(2), at(9), code)))
    assert status["phase"] == phase
    assert conditions(status)["Ready"] == ("False", reason, "")
    assert conditions(status)["ContainersReady"] == ("False", reason, "")
    assert conditions(status)["PodReadyToStartContainers"][0] == "False"
    assert status["containerStatuses"][0]["state"]["terminated"].get("exitCode", 0) == code


# Init containers and sidecars.


def init_states(life: PodLifecycle) -> list[str]:
    """How the init containers `one`, the sidecar `side` and `two` stand."""
    pod = a_pod(inits=("one", "+side", "two"))
    status = rendered(life, pod, replace(SCRIPT, inits=2))
    return [next(iter(each["state"])) for each in status["initContainerStatuses"]]


@pytest.mark.parametrize(
    ("life", "want"),
    [
        pytest.param(podlifecycle.start(START), ["waiting", "waiting", "waiting"], id="all wait at first"),
        pytest.param(
            replace(RUNNING, stage=Stage.INITIALIZING), ["running", "waiting", "waiting"], id="the first one runs"
        ),
        pytest.param(
            replace(RUNNING, stage=Stage.INITIALIZING, inits=1),
            ["terminated", "running", "running"],
            id="the sidecar runs beside the second",
        ),
        pytest.param(replace(RUNNING, inits=2), ["terminated", "running", "terminated"], id="the sidecar goes on"),
        pytest.param(
            replace(CRASHED, stage=Stage.SUCCEEDED, inits=2),
            ["terminated", "terminated", "terminated"],
            id="the sidecar ends with the pod",
        ),
    ],
)
def test_init_containers_take_turns(life: PodLifecycle, want: list[str]) -> None:
    """One after the other, but for sidecars, which go on."""
    assert init_states(life) == want


def test_an_initializing_pod_names_its_incomplete_containers() -> None:
    """The containers that are not through are named, as a kubelet names them."""
    pod = a_pod(inits=("one", "+side", "two"))
    life = replace(RUNNING, stage=Stage.INITIALIZING, inits=1, ready=False)
    status = rendered(life, pod, replace(SCRIPT, inits=2))
    assert status["phase"] == "Pending"
    assert conditions(status)["Initialized"] == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [two]",
    )
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_a_sidecar_counts_for_readiness() -> None:
    """A pod whose sidecar is not there is not ready."""
    status = rendered(podlifecycle.start(START), a_pod(inits=("+side",)))
    assert conditions(status)["ContainersReady"][2] == "containers with unready status: [side main]"


# Conditions of other components.


@pytest.mark.parametrize(
    ("held", "want"),
    [
        pytest.param(
            [],
            (
                "False",
                "ReadinessGatesNotReady",
                'corresponding condition of pod readiness gate "example.com/up" does not exist.',
            ),
            id="the condition is not there",
        ),
        pytest.param(
            [{"type": "example.com/up", "status": "False"}],
            (
                "False",
                "ReadinessGatesNotReady",
                'the status of pod readiness gate "example.com/up" is not "True", but False',
            ),
            id="the condition is false",
        ),
        pytest.param([{"type": "example.com/up", "status": "True"}], ("True", "", ""), id="the condition holds"),
    ],
)
def test_readiness_gates_have_a_say(held: list[dict[str, str]], want: tuple[str, str, str]) -> None:
    """Containers that are ready are not enough."""
    pod = a_pod(status={"conditions": held}, readinessGates=[{"conditionType": "example.com/up"}])
    status = rendered(RUNNING, pod)
    assert conditions(status)["Ready"] == want
    assert conditions(status)["ContainersReady"] == ("True", "", "")


# Patches.


def test_a_patch_has_only_changed_fields() -> None:
    """From being created to running: the phase, the containers, the address, and the conditions that turn."""
    pod = a_pod(status={"conditions": [{"type": "PodScheduled", "status": "True"}]})
    created = patched(pod, statuses.render(pod, podlifecycle.start(START), SCRIPT, PLACE, at(0)))
    patch = statuses.patch(created, statuses.render(created, RUNNING, SCRIPT, PLACE, at(2)))
    assert patch is not None
    assert patch["metadata"] == {"uid": "u"}
    assert set(patch["status"]) == {"phase", "podIP", "podIPs", "containerStatuses", "conditions"}
    changed = {each["type"]: each for each in patch["status"]["conditions"]}
    assert set(changed) == {"PodReadyToStartContainers", "Ready", "ContainersReady"}
    assert changed["Ready"] == {
        "type": "Ready",
        "status": "True",
        "reason": None,
        "message": None,
        "lastTransitionTime": moment(2),
        "observedGeneration": 1,
    }


def test_no_patch_for_an_equal_status() -> None:
    """After the patch there is nothing to patch, at any time; conditions of other components are still there."""
    pod = a_pod(status={"conditions": [{"type": "PodScheduled", "status": "True"}]})
    pod = patched(pod, statuses.render(pod, RUNNING, SCRIPT, PLACE, at(2)))
    assert statuses.patch(pod, statuses.render(pod, RUNNING, SCRIPT, PLACE, at(999))) is None
    assert pod.status.condition("PodScheduled") is not None


def test_a_condition_keeps_its_time_until_it_turns() -> None:
    """Another reason is not another time."""
    pod = a_pod()
    pod = patched(pod, statuses.render(pod, RUNNING, SCRIPT, PLACE, at(2)))
    pod = patched(pod, statuses.render(pod, CRASHED, SCRIPT, PLACE, at(9)))
    ended = replace(CRASHED, stage=Stage.FAILED)
    pod = patched(pod, statuses.render(pod, ended, SCRIPT, PLACE, at(20)))
    ready = pod.status.condition("Ready")
    assert ready is not None
    assert (ready.reason, ready.last_transition_time) == ("PodFailed", moment(9))


def test_a_condition_that_another_component_changed_is_restored() -> None:
    """A pod that was marked as not ready while its node was away is marked as ready again."""
    pod = a_pod()
    pod = patched(pod, statuses.render(pod, RUNNING, SCRIPT, PLACE, at(2)))
    marked = [{"type": "Ready", "status": "False", "lastTransitionTime": moment(5)}]
    tree = {**codec.to_tree(pod.status), "conditions": marked}
    pod = Pod(metadata=pod.metadata, spec=pod.spec, status=codec.convert(tree, PodStatus))
    patch = statuses.patch(pod, statuses.render(pod, RUNNING, SCRIPT, PLACE, at(9)))
    assert patch is not None
    assert "Ready" in {each["type"] for each in patch["status"]["conditions"]}


def test_the_address_that_a_pod_has_stays() -> None:
    """Whatever address would be given to it now."""
    pod = a_pod(status={"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]})
    assert rendered(RUNNING, pod)["podIP"] == "10.1.2.3"


def test_a_hanging_pod_is_running_and_not_ready() -> None:
    """It is up, and not ready."""
    status = rendered(replace(RUNNING, ready=False), script=replace(SCRIPT, behaviour=Behaviour.HANG))
    assert status["phase"] == "Running"
    assert status["containerStatuses"][0]["started"] is True
    assert conditions(status)["Ready"][1] == "ContainersNotReady"
