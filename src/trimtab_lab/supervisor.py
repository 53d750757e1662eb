"""The supervisor of a lab: one process that starts the others, restarts them, and stops them.

The processes up to the API server are the foundation of a lab: the embedded API server, which keeps everything in
memory, or etcd and kube-apiserver. When one of them exits, the supervisor stops, unless it was asked to restart them
too: etcd keeps its data on disk. Every other process may exit at any moment: it is restarted and reads what it needs
from the API server.

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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

API_SERVER = "apiserver"
EMBEDDED = "the embedded API server"

TRIMTAB = (sys.executable, "-m", "trimtab")

_READY_TIMEOUT = 60.0
_STOP_TIMEOUT = 10.0
_RESTART_DELAY = 0.5
_POLL_SECONDS = 0.05


class LabError(click.ClickException):
    """A lab that cannot be started or stopped, with what to do about it."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process of a lab: its name, and the command line that starts it."""

    name: str
    arguments: tuple[str, ...]
    program: tuple[str, ...] = TRIMTAB
    is_ready: Callable[[], bool] | None = None
    """Whether the process serves; the next process of the foundation is started then."""
    ports: tuple[int, ...] = ()
    """The ports on which the process listens; they must be free."""


@dataclass(frozen=True, slots=True)
class LabState:
    """The content of state.json."""

    pid: int
    port: int
    processes: dict[str, int]
    control_plane: str = EMBEDDED
    """Which control plane it is, for people."""
    metrics_url: str = ""
    """Where the lab's workload controllers serve their metrics, if they run."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    """The feature gates of the lab's workload controllers, if they run."""
    dashboard_url: str = ""
    """Where the dashboard is served, if it is."""

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
    control_plane: str = EMBEDDED
    metrics_url: str = ""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    dashboard_url: str = ""
    prepare: Callable[[], None] = lambda: None
    """Writes the files that the processes need, before the first of them is started."""
    restarts_foundation: bool = False
    """Whether a process of the foundation that exits is restarted; its objects must be on disk."""
    _running: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of this lab."""
        return self.folder / "kubeconfig"

    async def run(self) -> None:
        """Start all processes, API server first, and restart them until cancelled or until the API server exits."""
        self._prepare()
        try:
            await self._prepare_cluster()
            for spec in self._others:
                await self._start(spec)
            self.on_ready()
            await self._watch()
        finally:
            await self._stop()
            (self.folder / "state.json").unlink(missing_ok=True)

    @property
    def _foundation(self) -> Sequence[ProcessSpec]:
        return self.processes[: [spec.name for spec in self.processes].index(API_SERVER) + 1]

    @property
    def _others(self) -> Sequence[ProcessSpec]:
        return self.processes[len(self._foundation) :]

    def _prepare(self) -> None:
        state = read_state(self.folder)
        if state is not None and state.is_running:
            raise LabError(
                f"a lab is running in {self.folder} already (process {state.pid}, port {state.port}); "
                "use it, or stop it with 'trimtab lab down'"
            )
        if state is not None:
            self.report(f"the last lab in {self.folder} was not stopped properly; starting a new one")
            _kill_orphans(state, self.folder)
        self._check_ports()
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        self.prepare()

    def _check_ports(self) -> None:
        for spec in self.processes:
            for port in filter(is_port_in_use, spec.ports):
                option = "--dashboard-port" if spec.name == "dashboard" else "--metrics-port"
                option = "--port" if port == self.port else option
                choice = f"choose another port with {option}"
                choice = "change --extra-arg" if spec.program != TRIMTAB and port != self.port else choice
                raise LabError(f"port {port} of {_title(spec)} is in use by another program; stop it, or {choice}")

    async def _start(self, spec: ProcessSpec) -> None:
        log = (self.folder / "logs" / f"{spec.name}.log").open("ab")
        with log:
            self._running[spec.name] = await asyncio.create_subprocess_exec(
                *spec.program,
                *spec.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C goes to the supervisor, which stops its processes in order
            )
        self._write_state()

    async def _prepare_cluster(self) -> None:
        """Start the foundation, and create the first objects once the API server is ready."""
        ready = asyncio.ensure_future(self._start_foundation())
        try:
            await (ready if self.provision is None else self.provision(self.kubeconfig, ready))
        finally:
            ready.cancel()

    async def _start_foundation(self) -> None:
        for spec in self._foundation:
            await self._start(spec)
            await self._until_ready(spec)

    async def _until_ready(self, spec: ProcessSpec) -> None:
        check = spec.is_ready or (lambda: is_ready(self.port))
        deadline = time.monotonic() + _READY_TIMEOUT
        while not await asyncio.to_thread(check):
            process = self._running[spec.name]
            if process.returncode is not None:
                raise LabError(f"{_title(spec)} did not start; {self._last_lines(spec)}")
            if time.monotonic() > deadline:
                raise LabError(f"{_title(spec)} is not ready after {_READY_TIMEOUT:.0f} s; {self._last_lines(spec)}")
            await asyncio.sleep(_POLL_SECONDS)

    def _last_lines(self, spec: ProcessSpec) -> str:
        path = self.folder / "logs" / f"{spec.name}.log"
        lines = path.read_text(errors="replace").splitlines()[-3:]
        return "\n".join([f"see {path}, which ends with:" if lines else f"see {path}", *lines])

    async def _watch(self) -> None:
        """Restart processes that exit; the lab ends with those of the foundation, unless they are restarted too."""
        if self.restarts_foundation:
            await asyncio.gather(*(self._restart(spec) for spec in self.processes))
        async with asyncio.TaskGroup() as group:
            restarters = [group.create_task(self._restart(spec)) for spec in self._others]
            waiters = [group.create_task(self._exited(spec)) for spec in self._foundation]
            done, _ = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
            for task in (*restarters, *waiters):
                task.cancel()
        first = done.pop().result()
        raise LabError(f"{_title(first)} exited, which ends the lab; see {self.folder}/logs/{first.name}.log")

    async def _exited(self, spec: ProcessSpec) -> ProcessSpec:
        await self._running[spec.name].wait()
        return spec

    async def _restart(self, spec: ProcessSpec) -> None:
        while True:
            code = await self._running[spec.name].wait()
            log = self.folder / "logs" / f"{spec.name}.log"
            self.report(f"{spec.name} exited ({_exit_text(code)}), see {log}; restarting it")
            await asyncio.sleep(_RESTART_DELAY)
            await self._start(spec)

    async def _stop(self) -> None:
        """Stop the processes in the reverse order of their start, those of the foundation one after the other."""
        foundation = [spec.name for spec in self._foundation]
        await asyncio.gather(*(_end(self._running[name]) for name in self._running if name not in foundation))
        for name in reversed(foundation):
            if name in self._running:
                await _end(self._running[name])

    def _write_state(self) -> None:
        processes = {name: process.pid for name, process in self._running.items()}
        state = {
            "pid": os.getpid(),
            "port": self.port,
            "processes": processes,
            "controlPlane": self.control_plane,
            "metricsUrl": self.metrics_url,
            "featureGates": dict(self.feature_gates),
            "dashboardUrl": self.dashboard_url,
        }
        temporary = self.folder / "state.json.new"
        temporary.write_text(json.dumps(state))
        temporary.replace(self.folder / "state.json")


def read_state(folder: Path) -> LabState | None:
    """Read the state of the lab in a folder, if there is one."""
    try:
        tree: dict[str, Any] = json.loads((folder / "state.json").read_text())
        processes = {str(name): int(pid) for name, pid in tree["processes"].items()}
        return LabState(
            int(tree["pid"]),
            int(tree["port"]),
            processes,
            str(tree.get("controlPlane", EMBEDDED)),
            str(tree.get("metricsUrl", "")),
            {str(name): bool(value) for name, value in tree.get("featureGates", {}).items()},
            str(tree.get("dashboardUrl", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def stop(folder: Path, *, within: float = 4 * _STOP_TIMEOUT) -> bool:
    """Stop the lab in a folder and wait until it has stopped; false if none is running."""
    state = read_state(folder)
    if state is None or not state.is_running:
        if state is not None:
            _kill_orphans(state, folder)
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
    return answers(f"https://127.0.0.1:{port}/readyz", context)


def answers(url: str, context: ssl.SSLContext) -> bool:
    """Whether a server on this machine answers 200; a proxy of the environment is not asked."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask a process to stop, and kill it if it does not."""
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_TIMEOUT)
    except TimeoutError:
        process.kill()
        await process.wait()


def _kill_orphans(state: LabState, folder: Path) -> None:
    """Kill processes that still run although their supervisor was killed."""
    for pid in state.processes.values():
        if is_alive(pid) and _is_ours(pid, folder):
            os.kill(pid, signal.SIGKILL)


def _is_ours(pid: int, folder: Path) -> bool:
    """Whether a process is one of this lab's: process ids are reused. Real binaries have the folder in their flags."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"trimtab" in command or os.fsencode(folder.absolute()) in command


def _looks_like_a_lab(folder: Path) -> bool:
    names = {path.name for path in folder.iterdir()}
    return not names or bool(names & {"state.json", "kubeconfig", "logs"})


def _title(spec: ProcessSpec) -> str:
    return "the API server" if spec.name == API_SERVER else spec.name


def _exit_text(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
