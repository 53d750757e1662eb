"""Faults that users cause: sizes, templates, evictions."""

from __future__ import annotations

import random

from bench.promise.comparison import is_active
from bench.promise.watching import APP
from bench.promise.workloads import DEPLOYMENTS
from bench.soak import decreases
from bench.soak.arena import Arena, pick
from bench.soak.players import CLONE_SETS, CLONES, PLAIN, UNITED

SIZES = (1, 16)


async def scale(arena: Arena, rng: random.Random) -> str:
    """Give a workload a random size."""
    name, size = rng.choice((*PLAIN, UNITED, CLONES)), rng.randint(*SIZES)
    if name != CLONES:
        return await decreases.resize(arena, name, size)
    call = arena.client.resize(CLONE_SETS, CLONES, size, namespace=arena.namespace)
    await arena.request(f"scale {CLONES} to {size}", call)
    return f"{CLONES} → {size}"


async def roll_out(arena: Arena, rng: random.Random) -> str:
    """Change the template of a workload."""
    name, version = rng.choice((*PLAIN, UNITED)), rng.randrange(1_000_000)
    arena.touch(name)
    patch = {"spec": {"template": {"metadata": {"annotations": {"soak.trimtab.dev/version": str(version)}}}}}
    await arena.request(f"roll {name} out", arena.client.patch(DEPLOYMENTS, name, patch, namespace=arena.namespace))
    return f"{name} version {version}"


async def evict(arena: Arena, rng: random.Random) -> str:
    """Evict a pod."""
    pod = pick(rng, [each for each in arena.pods() if is_active(each)])["metadata"]
    arena.touch(pod["labels"][APP])
    call = arena.client.evict(pod["name"], namespace=arena.namespace, uid=pod["uid"])
    await arena.request(f"evict {pod['name']}", call)
    return str(pod["name"])
