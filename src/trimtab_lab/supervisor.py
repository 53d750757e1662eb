"""The supervisor of a lab: one process that starts the others, restarts them, and stops them.

The API server keeps everything in memory, so when it exits, the supervisor stops. Every other process may exit at any
moment: it is restarted and reads what it needs from the API server.

    .lab/state.json     the process ids of the supervisor and of its processes
    .lab/kubeconfig     for kubectl
    .lab/logs/NAME.log  the output of each process
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

API_SERVER = "apiserver"

_READY_TIMEOUT = 30.0
_STOP_TIMEOUT = 10.0
_RESTART_DELAY = 0.5
_POLL_SECONDS = 0.05


class LabError(click.ClickException):
    """A lab that cannot be started or stopped, with what to do about it."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process of a lab: its name, and the arguments of `python -m trimtab` that start it."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabState:
    """The content of state.json."""

    pid: int
    port: int
    processes: dict[str, int]

    @property
    def is_running(self) -> bool:
        """Whether the supervisor's process exists."""
        return is_alive(self.pid)


@dataclass(slots=True)
class Supervisor:
    """Runs the processes of one lab, which keep their state in one folder."""

    folder: Path
    port: int
    processes: Sequence[ProcessSpec]
    report: Callable[[str], None] = lambda _: None
    on_ready: Callable[[], None] = lambda: None
    provision: Callable[[Path, Awaitable[None]], Awaitable[None]] | None = None
    """Creates the first objects of the cluster, given its kubeconfig and a future that is done once it is ready."""
    _running: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of this lab."""
        return self.folder / "kubeconfig"

    async def run(self) -> None:
        """Start all processes, API server first, and restart them until cancelled or until the API server exits."""
        self._prepare()
        try:
            first, *others = self.processes
            await self._start(first)
            await self._prepare_cluster(first)
            for spec in others:
                await self._start(spec)
            self.on_ready()
            await self._watch(first, others)
        finally:
            await self._stop()
            (self.folder / "state.json").unlink(missing_ok=True)

    def _prepare(self) -> None:
        state = read_state(self.folder)
        if state is not None and state.is_running:
            raise LabError(
                f"a lab is running in {self.folder} already (process {state.pid}, port {state.port}); "
                "use it, or stop it with 'trimtab lab down'"
            )
        if state is not None:
            self.report(f"the last lab in {self.folder} was not stopped properly; starting a new one")
            _kill_orphans(state)
        if is_port_in_use(self.port):
            raise LabError(
                f"port {self.port} is in use by another program; stop it, or choose another port with --port"
            )
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)

    async def _start(self, spec: ProcessSpec) -> None:
        log = (self.folder / "logs" / f"{spec.name}.log").open("ab")
        with log:
            self._running[spec.name] = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "trimtab",
                *spec.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C goes to the supervisor, which stops its processes in order
            )
        self._write_state()

    async def _prepare_cluster(self, spec: ProcessSpec) -> None:
        """Wait for the API server and create the first objects."""
        ready = asyncio.ensure_future(self._until_ready(spec))
        try:
            await (ready if self.provision is None else self.provision(self.kubeconfig, ready))
        finally:
            ready.cancel()

    async def _until_ready(self, spec: ProcessSpec) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT
        while not is_ready(self.port):
            process = self._running[spec.name]
            if process.returncode is not None or time.monotonic() > deadline:
                raise LabError(f"the API server did not start; see {self.folder}/logs/{spec.name}.log")
            await asyncio.sleep(_POLL_SECONDS)

    async def _watch(self, first: ProcessSpec, others: Sequence[ProcessSpec]) -> None:
        """Restart processes that exit, except the API server: all objects are lost with it."""
        async with asyncio.TaskGroup() as group:
            restarters = [group.create_task(self._restart(spec)) for spec in others]
            await self._running[first.name].wait()
            for restarter in restarters:
                restarter.cancel()
        raise LabError(f"the API server exited, which ends the lab; see {self.folder}/logs/{first.name}.log")

    async def _restart(self, spec: ProcessSpec) -> None:
        while True:
            code = await self._running[spec.name].wait()
            self.report(f"{spec.name} exited ({_exit_text(code)}); restarting it")
            await asyncio.sleep(_RESTART_DELAY)
            await self._start(spec)

    async def _stop(self) -> None:
        """Stop the processes in the reverse order of their start."""
        for name in reversed(list(self._running)):
            process = self._running[name]
            if process.returncode is None:
                process.terminate()
        for process in self._running.values():
            try:
                await asyncio.wait_for(process.wait(), _STOP_TIMEOUT)
            except TimeoutError:
                process.kill()
                await process.wait()

    def _write_state(self) -> None:
        processes = {name: process.pid for name, process in self._running.items()}
        text = json.dumps({"pid": os.getpid(), "port": self.port, "processes": processes})
        temporary = self.folder / "state.json.new"
        temporary.write_text(text)
        temporary.replace(self.folder / "state.json")


def read_state(folder: Path) -> LabState | None:
    """Read the state of the lab in a folder, if there is one."""
    try:
        tree: dict[str, Any] = json.loads((folder / "state.json").read_text())
        return LabState(int(tree["pid"]), int(tree["port"]), {str(k): int(v) for k, v in tree["processes"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def stop(folder: Path, *, within: float = 2 * _STOP_TIMEOUT) -> bool:
    """Stop the lab in a folder and wait until it has stopped; false if none is running."""
    state = read_state(folder)
    if state is None or not state.is_running:
        if state is not None:
            _kill_orphans(state)
            (folder / "state.json").unlink(missing_ok=True)
        return False
    os.kill(state.pid, signal.SIGTERM)
    deadline = time.monotonic() + within
    while is_alive(state.pid):
        if time.monotonic() > deadline:
            raise LabError(f"process {state.pid} does not stop; see {folder}/logs, or stop it with 'kill -9'")
        time.sleep(_POLL_SECONDS)
    return True


def reset(folder: Path) -> None:
    """Remove everything that a lab has left in a folder. Raises LabError while it runs."""
    state = read_state(folder)
    if state is not None and state.is_running:
        raise LabError(f"a lab is running in {folder} (process {state.pid}); stop it first with 'trimtab lab down'")
    if folder.exists() and not _looks_like_a_lab(folder):
        raise LabError(f"{folder} does not look like a lab's folder; nothing was removed")
    shutil.rmtree(folder, ignore_errors=True)


def is_alive(pid: int) -> bool:
    """Whether a process with this id runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return True


def is_port_in_use(port: int) -> bool:
    """Whether a program listens on this port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def find_free_port() -> int:
    """Find a port of this machine that no program listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_ready(port: int) -> bool:
    """Whether the API server on this port reports that it is ready. /readyz needs no credentials."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the CA bundle of the machine, which is slow to load
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", timeout=1, context=context) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _kill_orphans(state: LabState) -> None:
    """Kill processes that still run although their supervisor was killed."""
    for pid in state.processes.values():
        if is_alive(pid) and _is_ours(pid):
            os.kill(pid, signal.SIGKILL)


def _is_ours(pid: int) -> bool:
    """Whether a process is one of ours: process ids are reused."""
    try:
        return b"trimtab" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _looks_like_a_lab(folder: Path) -> bool:
    names = {path.name for path in folder.iterdir()}
    return not names or bool(names & {"state.json", "kubeconfig", "logs"})


def _exit_text(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
