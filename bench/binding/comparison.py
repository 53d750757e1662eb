"""All turns of a comparison, in an order that treats the schedulers alike, and what they show."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.binding import controlplane
from bench.binding.cluster import CONSTRAINTS
from bench.binding.contenders import CONTENDERS
from bench.binding.turns import LIMIT, Course, Turn
from bench.binding.wire import Address


@dataclass(frozen=True, slots=True)
class Comparison:
    """The turns of one run."""

    control_plane: str
    turns: list[Turn] = field(default_factory=list)

    def of(self, contender: str, constraints: str) -> list[Turn]:
        """The turns of one scheduler with one kind of constraints."""
        return [turn for turn in self.turns if (turn.contender, turn.constraints) == (contender, constraints)]

    def tree(self) -> Mapping[str, Any]:
        """The results as JSON: for each scheduler and kind of constraints the rates, CPU and memory."""
        pairs = dict.fromkeys((turn.contender, turn.constraints) for turn in self.turns)
        rows = [_row(contender, constraints, self.of(contender, constraints)) for contender, constraints in pairs]
        return {"controlPlane": self.control_plane, "rows": rows}


def _row(contender: str, constraints: str, turns: Sequence[Turn]) -> Mapping[str, Any]:
    return {
        "contender": contender,
        "constraints": constraints,
        "pods a second": [round(turn.rate, 1) for turn in turns],
        "CPU ms a pod": {name: round(value, 2) for name, value in _cpu(turns).items()},
        "peak MiB": round(max(turn.peak_mib for turn in turns)),
    }


def compare(folder: Path, *, rounds: int, pods: int, kinds: Sequence[str] = tuple(CONSTRAINTS)) -> Comparison:
    """Run a control plane from a folder with binaries, and let both schedulers take turns on it."""
    with tempfile.TemporaryDirectory() as state:
        return asyncio.run(_compare(folder.absolute(), Path(state), rounds, pods, kinds))


async def _compare(folder: Path, state: Path, rounds: int, pods: int, kinds: Sequence[str]) -> Comparison:
    async with controlplane.running(folder, state) as plane:
        course = Course(plane, await Address.read(plane.kubeconfig))
        await asyncio.to_thread(course.prepare)
        comparison = Comparison(plane.summary.partition(" from ")[0])
        for contender, constraints in _order(rounds, kinds):
            is_limit = contender == LIMIT
            taken = (course.bind_only, pods) if is_limit else (course.take, contender, constraints, pods)
            turn = await asyncio.to_thread(*taken)
            print(f"  {constraints:5} {contender:15} {turn.rate:6.1f} pods/s", flush=True)
            comparison.turns.append(turn)
        return comparison


def _order(rounds: int, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The turns: the schedulers alternate, and the first of a round is the second of the next."""
    for number in range(rounds):
        yield LIMIT, "none"
        contenders = tuple(CONTENDERS)[:: 1 if number % 2 == 0 else -1]
        for constraints in kinds:
            for contender in contenders:
                yield contender, constraints


def _cpu(turns: Sequence[Turn]) -> Mapping[str, float]:
    """The median CPU time of each process, in milliseconds a pod."""
    names = turns[0].cpu
    return {name: statistics.median(turn.cpu[name] / turn.pods * 1e3 for turn in turns) for name in names}
