"""etcd and kube-apiserver, started as the lab starts them, without the lab's nodes and controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from trimtab.kube.clocks import cancel
from trimtab_lab import supervisor
from trimtab_lab.controlplane import binaries
from trimtab_lab.controlplane.binaries import Binaries
from trimtab_lab.controlplane.commands import Customization
from trimtab_lab.controlplane.versions import API_SERVER, ETCD, SCHEDULER
from trimtab_lab.definition import ControlPlane, LabOptions, supervisor_for

_WITHOUT_AUDIT = {API_SERVER: ("--audit-log-path=",)}
"""The lab's audit log would be part of every request."""


@dataclass(frozen=True, slots=True)
class RunningControlPlane:
    """A control plane that runs: its kubeconfigs, its process ids, and kube-scheduler, which does not run yet."""

    state: Path
    kube_scheduler: Path
    summary: str

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.state / "kubeconfig"

    def pids(self) -> dict[str, int]:
        """The process ids of etcd and the API server."""
        found = supervisor.read_state(self.state)
        return {} if found is None else found.processes


@asynccontextmanager
async def running(folder: Path, state: Path) -> AsyncIterator[RunningControlPlane]:
    """Run etcd and kube-apiserver of a folder, in a state folder, for as long as the context lasts."""
    found = binaries.find(folder)
    kept = {name: found.versions[name] for name in (ETCD, API_SERVER)}
    plane = ControlPlane(Binaries(folder, kept), Customization(extra=_WITHOUT_AUDIT))
    options = LabOptions(state, supervisor.find_free_port(), components=(), control_plane=plane)
    lab = supervisor_for(options)
    lab.processes = lab.processes[: len(kept)]
    is_up = asyncio.Event()
    lab.on_ready = is_up.set
    state.mkdir(parents=True, exist_ok=True)
    task = asyncio.ensure_future(lab.run())
    waiting = asyncio.ensure_future(is_up.wait())
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield RunningControlPlane(state, folder / SCHEDULER, found.summary)
    finally:
        await cancel(waiting, task)
