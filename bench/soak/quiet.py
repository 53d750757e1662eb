"""A quiet point: no fault is under way, everything recovers, and what must hold then is checked."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable

from bench.promise.comparison import JSON, is_active
from bench.promise.processes import ProcessError
from bench.promise.stage import PatienceError
from bench.promise.watching import PODS
from bench.promise.workloads import Workload
from bench.soak import decreases, judging
from bench.soak.arena import Arena, NoEffectError, deployment
from bench.soak.leaders import Term, overlaps
from bench.soak.players import CLONE_SETS, CLONES, EXEMPT, PLAIN, POLICIES, TOPOLOGIES, UNITED
from bench.soak.sampling import Sampler
from trimtab.api.annotations import SUBSET
from trimtab.kube.errors import ApiError

SIZE = 12
"""The size of each workload before the last decrease of a round."""
_PATIENCE = 90.0
_COSTS_SECONDS = 60.0
"""Within how many seconds costs are reverted: a replica leaves those of another alone for thirty."""
_POLL = 0.2


async def quiet_point(arena: Arena, sampler: Sampler, rng: random.Random) -> str:
    """Wait until everything has recovered, shrink each workload once, and check what must hold.

    Returns how long each part took.
    """
    parts = {
        "faults": _wait_tasks(arena),
        "recovery": _recover(arena),
        "growth": _grow(arena),
        "decreases": _shrink(arena, rng),
        "costs": _check_costs(arena),
        "counts": _check_counts(arena),
    }
    took = [f"{name} {await _timed(arena, name, part):.0f} s" for name, part in parts.items()]
    arena.check_limits()
    await sampler.sample()
    sampler.check_loops()
    sampler.check_durations()
    check_leaders(arena)
    _forget(arena)
    return ", ".join(took)


async def _timed(arena: Arena, name: str, part: Awaitable[None]) -> float:
    """Do a part, and check that it ends well; how many seconds it took."""
    began = time.monotonic()
    try:
        await part
    except (ApiError, ProcessError, PatienceError, NoEffectError, TimeoutError) as error:
        arena.ledger.check(judging.RECOVERS, holds=False, detail=f"{name}: {type(error).__name__}: {error}")
    else:
        arena.ledger.check(judging.RECOVERS, holds=True)
    return time.monotonic() - began


async def _wait_tasks(arena: Arena) -> None:
    while arena.tasks:
        await asyncio.wait(set(arena.tasks))


async def _recover(arena: Arena) -> None:
    await arena.lab.wait_ready()
    await arena.installation.wait_ready()
    async with asyncio.timeout(_PATIENCE):
        await arena.zones.repair()
        await arena.zones.remove_added()
        await arena.zones.wait_ready()
        await arena.client.delete_all(PODS, namespace=arena.strange, grace_period_seconds=0)
        for kind in (POLICIES, TOPOLOGIES, CLONE_SETS):
            for namespace in (arena.strange, EXEMPT):
                await arena.client.delete_all(kind, namespace=namespace)


async def _grow(arena: Arena) -> None:
    await asyncio.gather(*(decreases.resize(arena, name, SIZE) for name in (*PLAIN, UNITED)))
    await arena.client.resize(CLONE_SETS, CLONES, SIZE, namespace=arena.namespace)
    players = [*map(deployment, (*PLAIN, UNITED)), Workload(CLONE_SETS, CLONES)]
    await asyncio.gather(*(arena.stage.wait_ready(each, SIZE, patience=_PATIENCE) for each in players))
    await _wait_tasks(arena)


async def _shrink(arena: Arena, rng: random.Random) -> None:
    sizes = {name: rng.randint(1, SIZE - 1) for name in PLAIN}
    await asyncio.gather(*(decreases.resize(arena, name, size, is_calm=True) for name, size in sizes.items()))


async def _check_costs(arena: Arena) -> None:
    """Wait until no pod has the cost of a plan; those that stay are a breach."""
    began = time.monotonic()
    while (left := judging.costs_left(arena.pods())) and time.monotonic() - began < _COSTS_SECONDS:
        await asyncio.sleep(_POLL)
    detail = f"{len(left)} pods have the cost of a plan after {_COSTS_SECONDS:.0f} s, {', '.join(left[:3])} among them"
    arena.ledger.check(judging.NO_COSTS, not left, detail)


async def _check_counts(arena: Arena) -> None:
    """Wait until the UnitedTopology counts the pods as they are, and has no reservation left."""
    deadline = time.monotonic() + _PATIENCE
    while (problem := await _miscount(arena)) and time.monotonic() < deadline:
        await asyncio.sleep(_POLL)
    arena.ledger.check(judging.RECOVERS, not problem, problem)


async def _miscount(arena: Arena) -> str:
    try:
        tree = await arena.client.get(TOPOLOGIES, UNITED, namespace=arena.namespace)
    except ApiError as error:
        return str(error)
    status = tree.get("status", {})
    rows: list[JSON] = status.get("subsetStatuses") or []
    counted = {row["name"]: row.get("replicas", 0) for row in rows}
    pods = [pod for pod in arena.stage.pods.pods[UNITED].values() if is_active(pod)]
    real = Counter(pod["metadata"].get("annotations", {}).get(SUBSET, "") for pod in pods)
    if any(row.get("creating") or row.get("deleting") for row in rows) or status.get("otherRevisions"):
        return f"the UnitedTopology still has reservations or old revisions: {status}"
    return "" if counted == {name: real[name] for name in counted} else f"it counts {counted}, there are {dict(real)}"


def check_leaders(arena: Arena) -> None:
    """Check that no two processes led at the same time."""
    found: list[Term] = []
    for replica in arena.installation.replicas:
        for instance in replica.instances[-6:]:
            found += instance.terms(replica.name)
    pairs = overlaps(found)
    arena.ledger.check(judging.ONE_LEADER, not pairs, "; ".join(f"{one} and {other}" for one, other in pairs[:3]))


def _forget(arena: Arena) -> None:
    """Drop what our watches have recorded about the round."""
    for records in (arena.stage.pods.updates, arena.stage.pods.cost_writes, arena.stage.pods.readiness_losses):
        records.clear()
    arena.stage.events.seen.clear()
    ended = time.monotonic() - 300
    arena.history = {key: each for key, each in arena.history.items() if each["seen"] > ended}
