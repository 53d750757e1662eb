"""The supervisor: the foundation of a lab starts in order, and what goes wrong is explained."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from trimtab.kube.clocks import cancel
from trimtab_lab import supervisor
from trimtab_lab.supervisor import API_SERVER, LabError, ProcessSpec, Supervisor

SHELL = ("/bin/sh", "-c")


def process(name: str, script: str, *, ready: bool = True) -> ProcessSpec:
    """A process that is a script."""
    return ProcessSpec(name, (script,), SHELL, lambda: ready)


async def test_a_foundation_that_does_not_start_is_explained(tmp_path: Path) -> None:
    """With the end of its log; what comes after it is not started."""
    specs = [process("etcd", "echo unknown flag >&2; exit 1", ready=False), process(API_SERVER, "touch started")]
    made = Supervisor(tmp_path, supervisor.find_free_port(), specs)
    with pytest.raises(LabError, match=r"etcd did not start; see .*etcd\.log, which ends with:\nunknown flag"):
        await made.run()
    assert not (tmp_path / "logs" / f"{API_SERVER}.log").exists()
    assert supervisor.read_state(tmp_path) is None


async def test_the_lab_ends_with_any_process_of_its_foundation(tmp_path: Path) -> None:
    """Everything else is stopped, and the error names the process."""
    specs = [process("etcd", "sleep 1"), process(API_SERVER, "exec sleep 60"), process("nodes", "exec sleep 60")]
    made = Supervisor(tmp_path, supervisor.find_free_port(), specs, control_plane="Kubernetes 1.2.3")
    states: list[supervisor.LabState | None] = []
    made.on_ready = lambda: states.append(supervisor.read_state(tmp_path))
    with pytest.raises(LabError, match="etcd exited, which ends the lab"):
        await made.run()
    (state,) = states
    assert state is not None
    assert state.control_plane == "Kubernetes 1.2.3"
    assert not any(supervisor.is_alive(pid) for pid in state.processes.values())


async def test_a_foundation_that_keeps_its_data_is_restarted(tmp_path: Path) -> None:
    """Its processes and the others go on; the state has the new process."""
    specs = [process("etcd", "exec sleep 60"), process(API_SERVER, "exec sleep 60"), process("nodes", "exec sleep 60")]
    made = Supervisor(tmp_path, supervisor.find_free_port(), specs, restarts_foundation=True)
    ready = asyncio.Event()
    made.on_ready = ready.set
    running = asyncio.create_task(made.run())
    try:
        await asyncio.wait([running, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        before = supervisor.read_state(tmp_path)
        assert before is not None
        os.kill(before.processes["etcd"], signal.SIGKILL)
        after = before
        while after.processes["etcd"] == before.processes["etcd"]:
            await asyncio.sleep(0.05)
            after = supervisor.read_state(tmp_path) or before
        assert not running.done()
        assert {**before.processes, "etcd": 0} == {**after.processes, "etcd": 0}
        assert supervisor.is_alive(after.processes["etcd"])
    finally:
        await cancel(running)
