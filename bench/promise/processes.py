"""Processes that a scenario starts and ends: simulated nodes, and Trimtab."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

_STOP_SECONDS = 10.0


class ProcessError(RuntimeError):
    """A process ended that should not have."""


@asynccontextmanager
async def running(
    name: str, arguments: Sequence[str], logs: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python -m trimtab ARGUMENTS` for as long as the context lasts; its output is added to LOGS/NAME.log."""
    with (logs / f"{name}.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "trimtab", *arguments),
            stdout=log,
            stderr=log,
            env={**os.environ, **(environment or {})},
        )
        try:
            yield process
        finally:
            await _stop(process)


async def output_of(arguments: Sequence[str]) -> bytes:
    """What `python -m trimtab ARGUMENTS` prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "trimtab", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode != 0:
        raise ProcessError(f"trimtab {' '.join(arguments)}: {errors.decode().strip()}")
    return output


def shifted_clock(offset: str, preload: str) -> dict[str, str]:
    """The environment of a process whose wall clock is ahead or behind; its monotonic clock stays as it is.

    libfaketime's fix for waits on the monotonic clock would make them last too long: Python's threads wait for one
    another in that way, and the event loop would be late by seconds.
    """
    if not offset:
        return {}
    unfaked = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0"}
    return {"LD_PRELOAD": preload, "FAKETIME": offset, **unfaked}


def free_port() -> int:
    """A port of the loopback address that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
