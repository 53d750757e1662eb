"""Faults of nodes: drains, zones that join, zones that fail."""

from __future__ import annotations

import asyncio
import random
import time

from bench.promise.processes import ProcessError
from bench.promise.stage import ZONES
from bench.soak.arena import Arena, NoEffectError
from bench.soak.lab import NODE_GRACE_SECONDS
from trimtab.kube.errors import ApiError
from trimtab_lab.nodes import operations

_DRAIN_SECONDS = 20.0
_REST_SECONDS = 4.0
"""How long a drained node is not used."""
_SHORT_FAILURE = (2.0, 8.0)
_NOTICED = {True: NODE_GRACE_SECONDS + 12.0, False: 62.0}
"""After how many seconds a control plane, real or the lab's own, has noticed a failure and evicted pods."""
_NOTICED_SHARE = 0.25
MOST_ADDED = 2


async def drain(arena: Arena, rng: random.Random) -> str:
    """Drain a node, and use it again later."""
    node = rng.choice(sorted(name for name, zone in arena.stage.zones.items() if zone in ZONES))
    arena.touch()
    began = time.monotonic()
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            await operations.drain(arena.client, [node])
        arena.touch()
        await asyncio.sleep(_REST_SECONDS)
        await operations.uncordon(arena.client, [node])
    except (ApiError, TimeoutError) as error:
        if isinstance(error, ApiError):
            await _judge(arena, f"drain {node}", error)
        raise NoEffectError(f"{node}: {error}") from error
    finally:
        arena.touch()
    return f"{node} in {time.monotonic() - began:.1f} s"


async def add_zone(arena: Arena, _: random.Random) -> str:
    """Let another zone join."""
    if len(arena.zones.added) >= MOST_ADDED:
        raise NoEffectError("enough zones have joined")
    try:
        arena.touch()
        name = await arena.zones.join()
        arena.touch()
    except (ApiError, ProcessError) as error:
        raise NoEffectError(str(error)) from error
    return name


async def fail_zone(arena: Arena, rng: random.Random) -> str:
    """Let the nodes of a zone fail: shortly, or until the control plane has noticed and evicted their pods."""
    zone = rng.choice(ZONES)
    seconds = _NOTICED[arena.lab.is_real] if rng.random() < _NOTICED_SHARE else rng.uniform(*_SHORT_FAILURE)
    async with arena.zones.failing:
        nodes = [name for name, where in arena.stage.zones.items() if where == zone]
        arena.touch()
        try:
            await operations.fail(arena.client, nodes)
            for _ in range(round(seconds)):
                arena.touch()
                await asyncio.sleep(seconds / round(seconds))
            await operations.recover(arena.client, nodes)
        except ApiError as error:
            raise NoEffectError(str(error)) from error
        finally:
            arena.touch()
    return f"{zone} for {seconds:.0f} s"


async def _judge(arena: Arena, what: str, error: ApiError) -> None:
    async def fail() -> None:
        raise error

    await arena.request(what, fail())
