"""All turns of a comparison, in an order that treats the schedulers alike, and what they show."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.binding import controlplane
from bench.binding.cluster import CONSTRAINTS
from bench.binding.contenders import KUBE_SCHEDULER, TRIMTAB
from bench.binding.turns import LIMIT, Course, Turn
from bench.binding.wire import Address


@dataclass(frozen=True, slots=True)
class Comparison:
    """The turns of one run."""

    control_plane: str
    existing: int
    """Pods of the workload that have a node before the first turn."""
    turns: list[Turn] = field(default_factory=list)

    def of(self, contender: str, constraints: str) -> list[Turn]:
        """The turns of one scheduler with one kind of constraints."""
        return [turn for turn in self.turns if (turn.contender, turn.constraints) == (contender, constraints)]

    def tree(self) -> Mapping[str, Any]:
        """The results as JSON: for each scheduler and kind of constraints the rates, CPU and memory."""
        pairs = dict.fromkeys((turn.contender, turn.constraints) for turn in self.turns)
        rows = [_row(contender, constraints, self.of(contender, constraints)) for contender, constraints in pairs]
        pods = max(turn.pods for turn in self.turns)
        return {
            "controlPlane": self.control_plane,
            "existing pods": self.existing,
            "pods of a turn": pods,
            "rows": rows,
        }


def _row(contender: str, constraints: str, turns: Sequence[Turn]) -> Mapping[str, Any]:
    return {
        "contender": contender,
        "constraints": constraints,
        "pods a second": [round(turn.rate, 1) for turn in turns],
        **(_events(turns) if turns[0].event_seconds else {}),
        "CPU ms a pod": _ms_a_pod(turns, lambda turn: turn.cpu),
        "peak MiB": round(max(turn.peak_mib for turn in turns)),
        **({"parts ms a pod": _ms_a_pod(turns, lambda turn: turn.parts)} if turns[0].parts else {}),
    }


def _events(turns: Sequence[Turn]) -> Mapping[str, Any]:
    """What counts until the events of the bound pods are written, too."""
    return {
        "CPU ms a pod with events": _ms_a_pod(turns, lambda turn: turn.event_cpu),
        "with events a second": [round(turn.event_rate, 1) for turn in turns],
        "without an event": [turn.pods - turn.events for turn in turns],
    }


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: turns of each contender with each kind of constraints, pods of a turn, and before it."""

    rounds: int
    pods: int
    existing: int = 0
    kinds: Sequence[str] = tuple(CONSTRAINTS)
    contenders: Sequence[str] = (LIMIT, TRIMTAB, KUBE_SCHEDULER)


def compare(folder: Path, extent: Extent) -> Comparison:
    """Run a control plane from a folder with binaries, and let the contenders take turns on it."""
    with tempfile.TemporaryDirectory() as state:
        return asyncio.run(_compare(folder.absolute(), Path(state), extent))


async def _compare(folder: Path, state: Path, extent: Extent) -> Comparison:
    async with controlplane.running(folder, state) as plane:
        course = Course(plane, await Address.read(plane.kubeconfig))
        await asyncio.to_thread(course.prepare, extent.existing)
        comparison = Comparison(plane.summary.partition(" from ")[0], extent.existing)
        for contender, constraints in _order(extent):
            bind = course.bind_only if contender == LIMIT else partial(course.take, contender)
            turn = await asyncio.to_thread(bind, constraints, extent.pods)
            print(
                f"  {constraints:5} {contender:15} {turn.rate:6.1f} pods/s, {turn.event_rate:6.1f} with events",
                flush=True,
            )
            comparison.turns.append(turn)
        return comparison


def _order(extent: Extent) -> Iterator[tuple[str, str]]:
    """The turns: the contenders alternate, and the first of a round is the last of the next."""
    for number in range(extent.rounds):
        contenders = extent.contenders[:: 1 if number % 2 == 0 else -1]
        for constraints in extent.kinds:
            for contender in contenders:
                yield contender, constraints


def _ms_a_pod(turns: Sequence[Turn], seconds: Callable[[Turn], Mapping[str, float]]) -> Mapping[str, float]:
    """The median CPU time of each process or part, in milliseconds a pod."""
    names = seconds(turns[0])
    return {
        name: round(statistics.median(seconds(turn)[name] / turn.pods * 1e3 for turn in turns), 2) for name in names
    }
