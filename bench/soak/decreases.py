"""Scale requests, and what becomes of decreases: each ends level, or something says why not."""

from __future__ import annotations

import asyncio
import time

from bench.promise.measuring import Measurement, Round
from bench.soak import judging
from bench.soak.arena import Arena, deployment
from bench.soak.players import UNITED

_PATIENCE = 60.0
_EXPLAINED_WITHIN = 20.0
"""Seconds after the end of a scale-down within which a result that is not level must be explained."""


async def resize(arena: Arena, name: str, size: int, *, is_calm: bool = False) -> str:
    """Set the size of a Deployment; a decrease is watched and judged. With `is_calm`, wait for its end."""
    before = arena.sizes.get(name, 0)
    workload = deployment(name)
    arena.touch(name)
    measurement = Measurement(arena.stage, workload, size)
    began = time.monotonic()
    warnings = await arena.request(f"scale {name} to {size}", arena.stage.scale(workload, size))
    result = measurement.round
    result.warnings, result.requested_at, result.request_seconds = warnings, began, time.monotonic() - began
    if not arena.lab.outages.overlap(began, time.monotonic()):
        arena.seconds.append(result.request_seconds)
    if size < before:
        watching = _judge(arena, measurement, is_calm=is_calm)
        if is_calm:
            await watching
        else:
            arena.start(watching)
    return f"{name} {before} → {size}"


async def _judge(arena: Arena, measurement: Measurement, *, is_calm: bool) -> None:
    result = measurement.round
    answered = result.requested_at + result.request_seconds
    await measurement.finish(_PATIENCE)
    if not is_calm and (reason := _disturbance(arena, result, answered)):
        arena.ledger.note(f"decreases not judged: {reason}")
        return
    if result.error:
        arena.ledger.check(judging.RECOVERS, holds=False, detail=result.line())
        return
    arena.ledger.note("decreases judged at quiet points" if is_calm else "decreases judged among faults")
    said = await _explanation(arena, result) if result.is_unlevel else ""
    if said:
        arena.ledger.note("decreases not level, and explained")
    arena.ledger.check(judging.LEVEL, not result.is_unlevel or bool(said), result.line())


def _disturbance(arena: Arena, result: Round, answered: float) -> str:
    """What else may have decided what is left; empty if nothing."""
    if result.workload == UNITED:
        return "subsets decide, not levels"
    if result.after.keys() - result.before.keys():
        return "a zone joined meanwhile"
    if arena.was_touched(result.workload, answered):
        return "another fault changed the pods"
    if arena.webhook_outages.overlap(result.requested_at, answered):
        return "a webhooks replica was killed meanwhile"
    if arena.lab.outages.overlap(result.requested_at, answered):
        return "the API server was down meanwhile"
    return f"not complete after {_PATIENCE:.0f} s" if result.error else ""


async def _explanation(arena: Arena, result: Round) -> str:
    """What says why a result is not level; events and the history come a moment later."""
    deadline = time.monotonic() + _EXPLAINED_WITHIN
    while True:
        result.events = [
            f"{event.reason}: {event.message}"
            for event in arena.stage.events.seen
            if event.app == result.workload and event.at >= result.requested_at
        ]
        said = judging.explanation(result, arena.records(result.workload, result.requested_at))
        if said or time.monotonic() > deadline:
            return said
        await asyncio.sleep(0.5)
