"""A cluster in a box: one process that starts the others, keeps them running, and ends them.

The API server keeps everything in memory, so a box lives as long as its API server: when that ends, the box ends. Any
other part may die at any moment; it is started again, and finds what it needs on the API server.

    .lab/box.json       who runs this box, and the processes of its parts
    .lab/kubeconfig     for kubectl
    .lab/logs/NAME.log  what each part says
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

_READY_WITHIN = 30.0
_END_WITHIN = 10.0
_RESTART_PAUSE = 0.5
_LOOK_EVERY = 0.05


class BoxError(click.ClickException):
    """A box that cannot be started or ended, with what to do about it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A process of the box: what it is called, and the arguments of `python -m trimtab` that start it."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State:
    """What a box has written down about itself."""

    pid: int
    port: int
    parts: dict[str, int]

    @property
    def alive(self) -> bool:
        """Whether the process that runs the box is there."""
        return is_alive(self.pid)


@dataclass(slots=True)
class Box:
    """The processes of one lab, and the folder that they keep their state in."""

    folder: Path
    port: int
    parts: Sequence[Part]
    say: Callable[[str], None] = lambda _: None
    on_ready: Callable[[], None] = lambda: None
    provision: Callable[[Path, Awaitable[None]], Awaitable[None]] | None = None
    """Puts into the cluster, with that kubeconfig and once it is ready, what it is to have from the start."""
    _running: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        """For kubectl, and for the other parts."""
        return self.folder / "kubeconfig"

    async def run(self) -> None:
        """Start everything, API server first, and keep it running until cancelled or the API server ends."""
        self._prepare()
        try:
            first, *others = self.parts
            await self._start(first)
            await self._prepare_cluster(first)
            for part in others:
                await self._start(part)
            self.on_ready()
            await self._watch(first, others)
        finally:
            await self._end()
            (self.folder / "box.json").unlink(missing_ok=True)

    def _prepare(self) -> None:
        state = read_state(self.folder)
        if state is not None and state.alive:
            raise BoxError(
                f"a lab is running in {self.folder} already (process {state.pid}, port {state.port}); "
                "use it, or end it with 'trimtab lab down'"
            )
        if state is not None:
            self.say(f"the last lab in {self.folder} did not end cleanly; starting anew")
            _end_orphans(state)
        if port_taken(self.port):
            raise BoxError(f"port {self.port} is in use by another program; end that, or choose another with --port")
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)

    async def _start(self, part: Part) -> None:
        log = (self.folder / "logs" / f"{part.name}.log").open("ab")
        with log:
            self._running[part.name] = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "trimtab",
                *part.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the box, which ends its parts in order
            )
        self._write_state()

    async def _prepare_cluster(self, part: Part) -> None:
        """Wait for the API server, and create what the cluster is to have from the start."""
        ready = asyncio.ensure_future(self._until_ready(part))
        try:
            await (ready if self.provision is None else self.provision(self.kubeconfig, ready))
        finally:
            ready.cancel()

    async def _until_ready(self, part: Part) -> None:
        deadline = time.monotonic() + _READY_WITHIN
        while not is_ready(self.port):
            process = self._running[part.name]
            if process.returncode is not None or time.monotonic() > deadline:
                raise BoxError(f"the API server did not start; {self.folder}/logs/{part.name}.log says why")
            await asyncio.sleep(_LOOK_EVERY)

    async def _watch(self, first: Part, others: Sequence[Part]) -> None:
        """Start again what dies, but for the API server: with it everything is gone."""
        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(self._keep(part)) for part in others]
            await self._running[first.name].wait()
            for keeper in keepers:
                keeper.cancel()
        raise BoxError(f"the API server ended, and with it the lab; {self.folder}/logs/{first.name}.log says why")

    async def _keep(self, part: Part) -> None:
        while True:
            code = await self._running[part.name].wait()
            self.say(f"{part.name} ended ({_how(code)}); starting it again")
            await asyncio.sleep(_RESTART_PAUSE)
            await self._start(part)

    async def _end(self) -> None:
        """End the parts in the reverse order of their start."""
        for name in reversed(list(self._running)):
            process = self._running[name]
            if process.returncode is None:
                process.terminate()
        for process in self._running.values():
            try:
                await asyncio.wait_for(process.wait(), _END_WITHIN)
            except TimeoutError:
                process.kill()
                await process.wait()

    def _write_state(self) -> None:
        parts = {name: process.pid for name, process in self._running.items()}
        text = json.dumps({"pid": os.getpid(), "port": self.port, "parts": parts})
        temporary = self.folder / "box.json.new"
        temporary.write_text(text)
        temporary.replace(self.folder / "box.json")


def read_state(folder: Path) -> State | None:
    """What the box in a folder has written down, if there is one."""
    try:
        tree: dict[str, Any] = json.loads((folder / "box.json").read_text())
        return State(int(tree["pid"]), int(tree["port"]), {str(k): int(v) for k, v in tree["parts"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def end(folder: Path, *, within: float = 2 * _END_WITHIN) -> bool:
    """End the box in a folder, and wait until it is gone; false if there was none."""
    state = read_state(folder)
    if state is None or not state.alive:
        if state is not None:
            _end_orphans(state)
            (folder / "box.json").unlink(missing_ok=True)
        return False
    os.kill(state.pid, signal.SIGTERM)
    deadline = time.monotonic() + within
    while is_alive(state.pid):
        if time.monotonic() > deadline:
            raise BoxError(f"process {state.pid} does not end; look at {folder}/logs, or end it with 'kill -9'")
        time.sleep(_LOOK_EVERY)
    return True


def reset(folder: Path) -> None:
    """Remove everything that a box has left in a folder. Raises BoxError while it runs."""
    state = read_state(folder)
    if state is not None and state.alive:
        raise BoxError(f"a lab is running in {folder} (process {state.pid}); end it first with 'trimtab lab down'")
    if folder.exists() and not _looks_like_a_lab(folder):
        raise BoxError(f"{folder} does not look like a lab's folder; nothing was removed")
    shutil.rmtree(folder, ignore_errors=True)


def is_alive(pid: int) -> bool:
    """Whether a process of that number runs (one that has ended and was not waited for does not)."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return True


def port_taken(port: int) -> bool:
    """Whether somebody listens on that port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_ready(port: int) -> bool:
    """Whether the API server on that port says that it is ready. Anybody may ask, so nobody is authenticated."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the authorities of the machine, which take long to read
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", timeout=1, context=context) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _end_orphans(state: State) -> None:
    """Parts whose box was killed go on by themselves; nobody would end them."""
    for pid in state.parts.values():
        if is_alive(pid) and _is_ours(pid):
            os.kill(pid, signal.SIGKILL)


def _is_ours(pid: int) -> bool:
    """Numbers of processes are used again: only what was started as a part is ended."""
    try:
        return b"trimtab" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _looks_like_a_lab(folder: Path) -> bool:
    names = {path.name for path in folder.iterdir()}
    return not names or bool(names & {"box.json", "kubeconfig", "logs"})


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
