"""Trimtab's processes: two replicas of each component, each behind a proxy of its own.

The first replica of each component is killed again and again. The second one lives as long as the run, so that its
memory can be judged; its connections are cut, and it loses its lease, like those of the first.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import aiohttp

from bench.promise.processes import ProcessError, free_port, shifted_clock
from bench.soak.leaders import Term, terms
from bench.soak.proxies import Proxy

WEBHOOKS, CONTROLLERS, SCHEDULER = "webhooks", "controllers", "scheduler"
COMPONENTS = (WEBHOOKS, CONTROLLERS, SCHEDULER)
READY_SECONDS = 90.0
_RESTART_DELAY = 0.5
_POLL = 0.2
_LOST = "could not renew the lease"
_TIMEOUT = aiohttp.ClientTimeout(total=3.0)


@dataclass
class Instance:
    """One process of a replica. Times of day are in seconds since 1970."""

    process: asyncio.subprocess.Process
    log: Path
    shift: float
    started: float = field(default_factory=time.time)
    died: float | None = None
    """When we killed it."""

    def terms(self, name: str) -> list[Term]:
        """The times for which it led."""
        lines = (line for line in self.log.read_text(errors="replace").splitlines() if line.startswith("{"))
        parsed = [json.loads(line) for line in lines if line.endswith("}")]
        return terms(f"{name} ({self.process.pid})", parsed, self.shift, self.died or time.time())


@dataclass
class Replica:
    """A component of Trimtab that runs once more."""

    component: str
    number: int
    folder: Path
    api_server: Callable[[], int]
    proxy: Proxy = field(init=False)
    serving: int = field(default_factory=free_port)
    webhook_port: int = field(default_factory=free_port)
    instances: list[Instance] = field(default_factory=list)
    http: aiohttp.ClientSession | None = None
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.proxy = Proxy(lambda: [self.api_server()])

    @property
    def name(self) -> str:
        """Its name in reports."""
        return f"{self.component}-{self.number}"

    @property
    def kubeconfig(self) -> Path:
        """Its kubeconfig, which names its proxy."""
        return self.folder / f"{self.name}.kubeconfig"

    @property
    def configuration(self) -> Path:
        """Its configuration file."""
        return self.folder / f"{self.name}.json"

    @property
    def current(self) -> Instance:
        """The process that runs, or ran last."""
        return self.instances[-1]

    @property
    def identity(self) -> str:
        """How it signs a lease."""
        return f"_{self.current.process.pid}"

    @property
    def has_ended_by_itself(self) -> bool:
        """Whether its process has ended although nobody killed it."""
        return self.current.died is None and self.current.process.returncode is not None

    @property
    def has_ended_as_it_must(self) -> bool:
        """Whether its process has ended by itself because it lost its lease, as a scheduler must."""
        is_scheduler = self.component == SCHEDULER and self.has_ended_by_itself
        return is_scheduler and _LOST in self.current.log.read_text(errors="replace")[-500:]

    async def start(self, shift: float = 0.0, preload: str = "") -> None:
        """Start a process, with a wall clock that is so many seconds ahead."""
        log = self.folder / f"{self.name}.{len(self.instances) + 1}.log"
        program = (sys.executable, "-m", "trimtab", "run", "--config", str(self.configuration), "--log-format", "json")
        options = ("--kubeconfig", str(self.kubeconfig), "--component", self.component, "--port", str(self.serving))
        with log.open("ab") as output:
            process = await self._execute(
                (*program, *options), output, shifted_clock(f"{shift:+g}s" if shift else "", preload)
            )
        self.instances.append(Instance(process, log, shift))

    async def kill(self) -> None:
        """Kill the process in the middle of whatever it does."""
        instance = self.current
        instance.died = time.time()
        if instance.process.returncode is None:
            instance.process.kill()
        await instance.process.wait()

    async def restart(self, shift: float = 0.0, preload: str = "") -> None:
        """Start a process where one has ended, as a kubelet would, and wait until it is ready."""
        deadline = time.monotonic() + READY_SECONDS
        is_ready = False
        while not is_ready:
            await asyncio.sleep(_RESTART_DELAY)
            await self.start(shift, preload)
            is_ready = await self._becomes_ready(deadline)

    async def wait_ready(self, patience: float = READY_SECONDS) -> None:
        """Wait until it says that it is ready. A process that has lost its lease is restarted meanwhile."""
        deadline = time.monotonic() + patience
        while not await self._becomes_ready(deadline):
            await asyncio.sleep(_POLL)

    async def _becomes_ready(self, deadline: float) -> bool:
        """Whether the process says in time that it is ready; false if it has ended as it must."""
        while await self.get("/readyz") is None:
            if time.monotonic() > deadline:
                said = await self.get("/readyz", is_any=True)
                raise ProcessError(f"{self.name} is not ready in time: {said or 'no answer'}")
            if self.has_ended_as_it_must:
                return False
            if self.has_ended_by_itself:
                raise ProcessError(f"{self.name} has ended; see {self.current.log}")
            await asyncio.sleep(_POLL)
        return True

    async def get(self, path: str, *, is_any: bool = False) -> str | None:
        """A page that it serves; None if it does not answer, or, unless `is_any`, not with 200."""
        try:
            if self.http is None:
                self.http = aiohttp.ClientSession(timeout=_TIMEOUT)
            async with self.http.get(f"http://127.0.0.1:{self.serving}{path}") as answer:
                text = await answer.text()
                return text if is_any or answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError):
            return None

    async def stop(self) -> int | None:
        """Stop it as a kubelet would, and close what belongs to it; its exit code, None if it had been killed."""
        code: int | None = None
        if self.instances and self.current.process.returncode is None:
            self.current.process.terminate()
            code = await asyncio.wait_for(self.current.process.wait(), 30)
            self.current.died = time.time()
        await self.proxy.close()
        if self.http is not None:
            await self.http.close()
        return code

    async def _execute(
        self, command: tuple[str, ...], output: IO[bytes], environment: Mapping[str, str]
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C goes to the run
        )
