"""Faults of Trimtab's own processes: kills, other clocks, connections that are cut."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from bench.promise.processes import ProcessError
from bench.soak import judging
from bench.soak.arena import Arena, NoEffectError
from bench.soak.installation import LEASE, leader
from bench.soak.outages import Outages
from bench.soak.replicas import COMPONENTS, CONTROLLERS, SCHEDULER, WEBHOOKS, Replica
from trimtab.kube.errors import ApiError

SHIFTS = (-240.0, -90.0, -7.0, 7.0, 90.0, 3600.0)
"""Seconds. A clock that is further behind would not trust the lab's certificates, which are a few minutes old."""
_LEADER_SECONDS = 2 * LEASE["leaseSeconds"]
_CUT_OFF_SECONDS = LEASE["leaseSeconds"] + 3.0


async def kill_webhooks(arena: Arena, _: random.Random) -> str:
    """Kill a webhooks replica."""
    return await _replace(arena, arena.installation.first(WEBHOOKS))


async def kill_controllers(arena: Arena, _: random.Random) -> str:
    """Kill a controllers replica."""
    return await _replace(arena, arena.installation.first(CONTROLLERS))


async def kill_scheduler(arena: Arena, _: random.Random) -> str:
    """Kill a replica of Trimtab's scheduler."""
    return await _replace(arena, arena.installation.first(SCHEDULER))


async def shift_clock(arena: Arena, rng: random.Random) -> str:
    """Restart a replica with another time of day."""
    replica, shift = arena.installation.first(rng.choice(COMPONENTS)), rng.choice(SHIFTS)
    return await _replace(arena, replica, shift)


async def cut_watches(arena: Arena, rng: random.Random) -> str:
    """Cut all connections of a replica to the API server."""
    replica = rng.choice(arena.installation.replicas)
    return f"{replica.name}: {replica.proxy.cut()} connections"


async def cut_off_leader(arena: Arena, _: random.Random) -> str:
    """Let the leader of the controllers reach no API server until another has its lease."""
    replica = await _leader(arena)
    replica.proxy.is_open = False
    try:
        replica.proxy.cut()
        await asyncio.sleep(_CUT_OFF_SECONDS)
    finally:
        replica.proxy.is_open = True
    return f"{replica.name} for {_CUT_OFF_SECONDS:.0f} s"


async def _leader(arena: Arena) -> Replica:
    """The leader; after a kill, the next one."""
    for _ in range(_LEADER_SECONDS):
        with suppress(ApiError):
            if (replica := await leader(arena.client, arena.installation)) is not None:
                return replica
        await asyncio.sleep(1.0)
    raise NoEffectError(f"there is no leader for {_LEADER_SECONDS} s")


async def _replace(arena: Arena, replica: Replica, shift: float = 0.0) -> str:
    """Kill a replica once it is ready, and start it again as a kubelet would."""
    outage = arena.webhook_outages if replica.component == WEBHOOKS else Outages()
    async with replica.changing:
        pid = replica.current.process.pid
        with outage.during():
            await replica.kill()
        try:
            await replica.restart(shift, arena.preload)
        except ProcessError as error:
            arena.ledger.check(judging.RECOVERS, holds=False, detail=str(error))
    return f"{replica.name} (process {pid})" + (f", clock {shift:+g} s" if shift else "")
