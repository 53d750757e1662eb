"""Faults of the control plane: kills, pauses, restarts, and etcd at its quota."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from contextlib import suppress

from bench.soak.arena import Arena, NoEffectError
from bench.soak.etcd import EtcdError
from bench.soak.lab import API_SERVER, ETCD, KUBE_SCHEDULER, QUOTA_MIB, Lab

_PAUSE = (0.5, 4.0)
_FULL = (0.5, 2.5)
"""Seconds for which etcd stays full."""
_CLEAR_SECONDS = 60.0


async def kill_controller_manager(arena: Arena, _: random.Random) -> str:
    """Kill the controller manager; the lab restarts it."""
    return await _kill(arena.lab, arena.lab.controller_manager)


async def kill_kube_scheduler(arena: Arena, _: random.Random) -> str:
    """Kill kube-scheduler; the lab restarts it."""
    return await _kill(arena.lab, KUBE_SCHEDULER)


async def pause_api_server(arena: Arena, rng: random.Random) -> str:
    """Stop and continue the API server."""
    return await _pause(arena.lab, API_SERVER, rng.uniform(*_PAUSE))


async def pause_etcd(arena: Arena, rng: random.Random) -> str:
    """Stop and continue etcd."""
    return await _pause(arena.lab, ETCD, rng.uniform(*_PAUSE))


async def restart_api_server(arena: Arena, _: random.Random) -> str:
    """Kill the API server; the lab restarts it."""
    return await _restart(arena.lab, API_SERVER)


async def restart_etcd(arena: Arena, _: random.Random) -> str:
    """Kill etcd; the lab restarts it."""
    return await _restart(arena.lab, ETCD)


async def fill_etcd(arena: Arena, rng: random.Random) -> str:
    """Fill etcd's database until it refuses writes, and clear it."""
    async with arena.lab.control:
        etcd = arena.lab.etcd()
        with arena.lab.outages.during():
            try:
                written = await etcd.fill(2 * QUOTA_MIB)
                await asyncio.sleep(rng.uniform(*_FULL))
            except EtcdError as error:
                raise NoEffectError(str(error)) from error
            finally:
                await _clear(arena.lab)
            await arena.lab.wait_ready()
    return f"full after {written} MiB"


async def _clear(lab: Lab) -> None:
    deadline = time.monotonic() + _CLEAR_SECONDS
    while True:
        try:
            await lab.etcd().clear()
        except EtcdError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.5)
        else:
            return


async def _kill(lab: Lab, name: str) -> str:
    try:
        pid = lab.send(name, signal.SIGKILL)
    except (KeyError, ProcessLookupError) as error:
        raise NoEffectError(f"{name} is being restarted") from error
    await lab.wait_restarted(name, pid)
    return f"{name} (process {pid})"


async def _pause(lab: Lab, name: str, seconds: float) -> str:
    async with lab.control:
        with lab.outages.during():
            lab.send(name, signal.SIGSTOP)
            try:
                await asyncio.sleep(seconds)
            finally:
                with suppress(ProcessLookupError):
                    lab.send(name, signal.SIGCONT)
            await lab.wait_ready()
    return f"{name} for {seconds:.1f} s"


async def _restart(lab: Lab, name: str) -> str:
    async with lab.control:
        with lab.outages.during():
            killed = await _kill(lab, name)
            after = await lab.wait_ready()
    return f"{killed}, ready after {after:.1f} s"
