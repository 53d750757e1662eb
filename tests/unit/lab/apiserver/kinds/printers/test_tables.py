"""Tables; the columns and rows of every kind are compared with recordings in `test_recordings`."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api import times
from trimtab_lab.apiserver.kinds.printers import tables
from trimtab_lab.apiserver.kinds.printers.cells import human_duration, translate_age
from trimtab_lab.apiserver.kinds.printers.custom import custom_layout

Tree = dict[str, Any]

NOW = times.parse_ns("2024-01-01T01:00:00Z")
SECOND = 10**9


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(-5, "<invalid>", id="the future"),
        pytest.param(-1, "0s", id="almost now"),
        pytest.param(0, "0s", id="now"),
        pytest.param(119, "119s", id="seconds"),
        pytest.param(120, "2m", id="two minutes"),
        pytest.param(599, "9m59s", id="minutes and seconds"),
        pytest.param(600, "10m", id="minutes"),
        pytest.param(3 * 3600 - 1, "179m", id="many minutes"),
        pytest.param(3 * 3600, "3h", id="hours"),
        pytest.param(3 * 3600 + 61, "3h1m", id="hours and minutes"),
        pytest.param(8 * 3600, "8h", id="a working day"),
        pytest.param(47 * 3600, "47h", id="many hours"),
        pytest.param(48 * 3600, "2d", id="days"),
        pytest.param(50 * 3600, "2d2h", id="days and hours"),
        pytest.param(8 * 86400, "8d", id="a week"),
        pytest.param(729 * 86400, "729d", id="many days"),
        pytest.param(730 * 86400, "2y", id="years"),
        pytest.param(740 * 86400, "2y10d", id="years and days"),
        pytest.param(8 * 365 * 86400 + 86400, "8y", id="many years"),
    ],
)
def test_a_duration_is_printed_in_one_or_two_units(seconds: int, text: str) -> None:
    """The longer, the coarser."""
    assert human_duration(seconds * SECOND) == text


def test_an_unknown_age_is_printed_as_such() -> None:
    """A missing or invalid time."""
    assert translate_age(None, NOW) == "<unknown>"
    assert translate_age("yesterday", NOW) == "<invalid>"


def pod(status: Tree, **spec: Any) -> Tree:
    """A pod of one container with this status."""
    metadata = {"name": "p", "creationTimestamp": "2024-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}, "status": status}


def container(restarts: int = 0, ready: bool = False, **state: Tree) -> Tree:
    """The status of a container."""
    return {"name": "c", "restartCount": restarts, "ready": ready, "state": state}


RUNNING: Tree = {"startedAt": "2024-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("tree", "cells"),
    [
        pytest.param(pod({"phase": "Pending"}), ["0/1", "Pending", "0"], id="waiting for a node"),
        pytest.param(
            pod({"phase": "Running", "containerStatuses": [container(ready=True, running=RUNNING)]}),
            ["1/1", "Running", "0"],
            id="running",
        ),
        pytest.param(
            pod({"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ImagePullBackOff"})]}),
            ["0/1", "ImagePullBackOff", "0"],
            id="waiting for an image",
        ),
        pytest.param(
            pod({"phase": "Failed", "reason": "Evicted"}), ["0/1", "Evicted", "0"], id="a reason of the pod itself"
        ),
        pytest.param(
            pod({"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 2})]}),
            ["0/1", "ExitCode:2", "0"],
            id="ended without a word",
        ),
        pytest.param(
            pod({"phase": "Failed", "containerStatuses": [container(terminated={"signal": 9, "exitCode": 137})]}),
            ["0/1", "Signal:9", "0"],
            id="killed",
        ),
        pytest.param(
            pod({"phase": "Succeeded", "containerStatuses": [container(terminated={"reason": "Completed"})]}),
            ["0/1", "Completed", "0"],
            id="done",
        ),
        pytest.param(
            pod(
                {
                    "phase": "Running",
                    "containerStatuses": [
                        container(ready=True, running=RUNNING),
                        container(terminated={"reason": "Completed", "exitCode": 0}),
                    ],
                }
            ),
            ["1/1", "NotReady", "0"],
            id="one of two is done",
        ),
        pytest.param(
            pod(
                {
                    "phase": "Running",
                    "containerStatuses": [
                        {
                            **container(3, ready=True, running=RUNNING),
                            "lastState": {"terminated": {"finishedAt": "2024-01-01T00:30:00Z"}},
                        }
                    ],
                }
            ),
            ["1/1", "Running", "3 (30m ago)"],
            id="restarted",
        ),
        pytest.param(
            pod(
                {"phase": "Pending", "initContainerStatuses": [container(running=RUNNING)]},
                initContainers=[{"name": "c"}, {"name": "d"}],
            ),
            ["0/1", "Init:0/2", "0"],
            id="initializing",
        ),
        pytest.param(
            pod(
                {"phase": "Pending", "initContainerStatuses": [container(2, terminated={"exitCode": 1})]},
                initContainers=[{"name": "c"}],
            ),
            ["0/1", "Init:ExitCode:1", "2"],
            id="initializing failed",
        ),
        pytest.param(
            pod(
                {"phase": "Pending", "initContainerStatuses": [container(waiting={"reason": "CrashLoopBackOff"})]},
                initContainers=[{"name": "c"}],
            ),
            ["0/1", "Init:CrashLoopBackOff", "0"],
            id="initializing fails again and again",
        ),
        pytest.param(
            pod(
                {
                    "phase": "Running",
                    "initContainerStatuses": [{**container(1, ready=True, running=RUNNING), "started": True}],
                    "containerStatuses": [container(ready=True, running=RUNNING)],
                },
                initContainers=[{"name": "c", "restartPolicy": "Always"}],
            ),
            ["2/2", "Running", "1"],
            id="a container that stays beside",
        ),
        pytest.param(
            pod({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            ["0/1", "SchedulingGated", "0"],
            id="held by a gate",
        ),
    ],
)
def test_a_pod_row_shows_its_state(tree: Tree, cells: list[Any]) -> None:
    """Ready, status and restarts, from the statuses of its containers."""
    assert tables.row("v1 Pod", tree, NOW)[1:4] == cells


@pytest.mark.parametrize(
    ("phase", "reason", "shown"),
    [
        pytest.param("Running", "", "Terminating", id="one that runs"),
        pytest.param("Running", "NodeLost", "Unknown", id="one on a lost node"),
        pytest.param("Succeeded", "", "Succeeded", id="one that is done"),
    ],
)
def test_a_deleted_pod_is_terminating(phase: str, reason: str, shown: str) -> None:
    """Unless it had ended before."""
    tree = pod({"phase": phase, "reason": reason})
    tree["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    assert tables.row("v1 Pod", tree, NOW)[2] == shown


def test_readiness_gates_are_counted() -> None:
    """Those whose condition is true, of all; the first condition of a type is used."""
    conditions = [{"type": "a", "status": "True"}, {"type": "a", "status": "False"}, {"type": "b", "status": "False"}]
    gates = [{"conditionType": name} for name in "abc"]
    assert tables.row("v1 Pod", pod({"conditions": conditions}, readinessGates=gates), NOW)[-1] == "1/3"


@pytest.mark.parametrize(
    ("spec", "status", "shown"),
    [
        pytest.param({"type": "LoadBalancer"}, {}, "<pending>", id="not yet balanced"),
        pytest.param(
            {"type": "LoadBalancer", "externalIPs": ["192.0.2.9"]},
            {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}, {"hostname": "h"}]}},
            "192.0.2.2,h,192.0.2.9",
            id="balanced",
        ),
        pytest.param({"type": "NodePort", "externalIPs": ["192.0.2.9"]}, {}, "192.0.2.9", id="on the nodes"),
    ],
)
def test_a_service_shows_its_external_address(spec: Tree, status: Tree, shown: str) -> None:
    """By its type."""
    assert tables.row("v1 Service", {"metadata": {}, "spec": spec, "status": status}, NOW)[3] == shown


@pytest.mark.parametrize(
    ("type_", "value", "cell"),
    [
        pytest.param("string", "text", "text", id="text"),
        pytest.param("string", 5, "5", id="a number as text"),
        pytest.param("string", {"b": [1], "a": 2}, '{"a":2,"b":[1]}', id="an object as text"),
        pytest.param("string", None, "<no value>", id="null as text"),
        pytest.param("integer", 5, 5, id="a number"),
        pytest.param("integer", 5.7, 5, id="a fraction as a whole number"),
        pytest.param("integer", "5", None, id="text is no number"),
        pytest.param("integer", True, None, id="a boolean is no number"),
        pytest.param("number", 5, 5.0, id="a whole number as a fraction"),
        pytest.param("boolean", True, True, id="a boolean"),
        pytest.param("boolean", "true", None, id="text is no boolean"),
        pytest.param("date", "2024-01-01T00:00:00Z", "60m", id="a date"),
        pytest.param("date", "never", "<invalid>", id="no date"),
    ],
)
def test_a_custom_cell_has_the_type_of_its_column(type_: str, value: Any, cell: Any) -> None:
    """A value of another type is not shown."""
    layout = custom_layout([{"name": "X", "type": type_, "jsonPath": ".spec.x"}])
    assert layout.cells({"metadata": {"name": "n"}, "spec": {"x": value}}, NOW) == ["n", cell]
    assert layout.cells({"metadata": {"name": "n"}, "spec": {}}, NOW) == ["n", None]


def test_a_custom_kind_without_columns_shows_its_age() -> None:
    """The default column."""
    layout = custom_layout([])
    assert [column["name"] for column in layout.columns] == ["Name", "Age"]
    tree = {"metadata": {"name": "n", "creationTimestamp": "2024-01-01T00:00:00Z"}}
    assert layout.cells(tree, NOW) == ["n", "60m"]


def test_every_row_has_a_cell_for_every_column() -> None:
    """Even for an almost empty object."""
    for kind, layout in tables._LAYOUTS.items():  # noqa: SLF001 – all of them, whatever they are
        tree: Tree = {"metadata": {"name": "n"}, "spec": {}, "status": {}, "roleRef": {}}
        assert len(layout.cells(tree, NOW)) == len(layout.columns), kind
