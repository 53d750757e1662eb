"""The lab of a run, as a user starts it, and signals to its processes."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.promise.processes import ProcessError
from bench.soak.etcd import Etcd
from bench.soak.outages import Outages
from trimtab_lab import supervisor

API_SERVER, ETCD, KUBE_SCHEDULER = supervisor.API_SERVER, "etcd", "kube-scheduler"
QUOTA_MIB = 96
"""etcd's quota: small, so that it is reached within a second or two."""
NODE_GRACE_SECONDS = 24
"""After how many seconds without heartbeats kube-controller-manager calls a node lost."""
_NO_NODES = "name: node-controllers\n"
_UP_SECONDS = 120.0
_READY_SECONDS = 90.0


@dataclass
class Lab:
    """A running lab."""

    state: Path
    is_real: bool
    description: str
    outages: Outages = field(default_factory=Outages)
    control: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a fault of the API server or of etcd: one at a time."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.state / "kubeconfig"

    @property
    def port(self) -> int:
        """The API server's port."""
        return self._read().port

    @property
    def controller_manager(self) -> str:
        """The process that runs the workload controllers."""
        return "kube-controller-manager" if self.is_real else "workloads"

    def processes(self) -> dict[str, int]:
        """The process ids, by name."""
        return self._read().processes

    def send(self, name: str, number: signal.Signals) -> int:
        """Send a signal to a process of the lab; its process id."""
        pid = self.processes()[name]
        os.kill(pid, number)
        return pid

    async def wait_ready(self) -> float:
        """Wait until the API server is ready; after how many seconds it was."""
        began = time.monotonic()
        while not await asyncio.to_thread(supervisor.is_ready, self.port):
            if time.monotonic() - began > _READY_SECONDS:
                raise ProcessError(f"the API server is not ready after {_READY_SECONDS:.0f} s")
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    async def wait_restarted(self, name: str, pid: int) -> None:
        """Wait until the lab has started a process anew."""
        began = time.monotonic()
        while self.processes().get(name, pid) == pid:
            if time.monotonic() - began > _READY_SECONDS:
                raise ProcessError(f"the lab has not restarted {name}")
            await asyncio.sleep(0.05)

    def etcd(self) -> Etcd:
        """etcd's own API."""
        command = Path(f"/proc/{self.processes()[ETCD]}/cmdline").read_bytes().decode().split("\0")
        url = next(each.partition("=")[2] for each in command if each.startswith("--listen-client-urls="))
        pki = self.state / "pki"
        context = ssl.create_default_context(cafile=pki / "ca.crt")
        context.load_cert_chain(pki / "etcd.crt", pki / "etcd.key")
        return Etcd(url, context)

    def _read(self) -> supervisor.LabState:
        state = supervisor.read_state(self.state)
        if state is None:
            raise ProcessError(f"the lab has ended; see {self.state}/logs")
        return state


@asynccontextmanager
async def running(state: Path, binaries: str) -> AsyncIterator[Lab]:
    """`trimtab lab up` without Trimtab, embedded or on real binaries, for as long as the context lasts."""
    state.mkdir(parents=True, exist_ok=True)
    (state / "shape.yaml").write_text(_NO_NODES)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "trimtab", "lab", "up", *_options(state, binaries)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C goes to the run, which stops the lab in the end
    )
    draining: asyncio.Task[None] | None = None
    try:
        await asyncio.wait_for(_wait_up(process), _UP_SECONDS)
        draining = asyncio.create_task(_drain(process, state / "lab.log"))
        found = supervisor.read_state(state)
        if found is None:
            raise ProcessError(f"the lab did not start; see {state}")
        yield Lab(state, bool(binaries), found.control_plane)
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        await process.wait()
        if draining is not None:
            await draining


def _options(state: Path, binaries: str) -> Sequence[str]:
    port = str(supervisor.find_free_port())
    common = ("--state", str(state), "--shape", str(state / "shape.yaml"), "--port", port, "--no-product")
    if not binaries:
        return common
    extra = (
        f"etcd=--quota-backend-bytes={QUOTA_MIB << 20}",
        f"kube-controller-manager=--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
        "kube-apiserver=--event-ttl=5m",
    )
    arguments = [part for each in extra for part in ("--extra-arg", each)]
    return (*common, "--control-plane", binaries, "--restart-control-plane", *arguments)


async def _wait_up(process: asyncio.subprocess.Process) -> None:
    lines: list[str] = []
    assert process.stdout is not None  # noqa: S101 - a pipe, by the call above
    async for line in process.stdout:
        lines.append(line.decode())
        if "lab is up" in lines[-1]:
            return
    raise ProcessError("the lab did not start: " + "".join(lines[-5:]))


async def _drain(process: asyncio.subprocess.Process, path: Path) -> None:
    assert process.stdout is not None  # noqa: S101 - as above
    with path.open("ab") as log:
        async for line in process.stdout:
            log.write(line)
            log.flush()
