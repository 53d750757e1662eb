"""All turns of a comparison, in an order that treats the schedulers alike, and what they show."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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

    def rate(self, contender: str, constraints: str) -> float:
        """The median rate, in pods a second."""
        return statistics.median(turn.rate for turn in self.of(contender, constraints))

    def lines(self) -> Iterator[str]:
        """One line for each scheduler and kind of constraints."""
        for contender, constraints in dict.fromkeys((turn.contender, turn.constraints) for turn in self.turns):
            turns = self.of(contender, constraints)
            rates = " ".join(f"{turn.rate:.0f}" for turn in turns)
            yield f"{constraints:5} {contender:15} {rates:24} pods/s   CPU ms a pod: {_cpu(turns)}"


def compare(folder: Path, *, rounds: int, pods: int, kinds: Sequence[str] = tuple(CONSTRAINTS)) -> Comparison:
    """Run a control plane from a folder with binaries, and let both schedulers take turns on it."""
    with tempfile.TemporaryDirectory() as state:
        return asyncio.run(_compare(folder.absolute(), Path(state), rounds, pods, kinds))


async def _compare(folder: Path, state: Path, rounds: int, pods: int, kinds: Sequence[str]) -> Comparison:
    async with controlplane.running(folder, state) as plane:
        course = Course(plane, await Address.read(plane.kubeconfig))
        await asyncio.to_thread(course.prepare)
        comparison = Comparison(plane.summary)
        for contender, constraints in _order(rounds, kinds):
            is_limit = contender == LIMIT
            taken = (course.bind_only, pods) if is_limit else (course.take, contender, constraints, pods)
            turn = await asyncio.to_thread(*taken)
            print(f"  {constraints:5} {contender:15} {turn.rate:6.1f} pods/s  CPU ms a pod: {_cpu([turn])}", flush=True)
            comparison.turns.append(turn)
        return comparison


def _order(rounds: int, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The turns: the schedulers alternate, and the first of a round is the second of the next."""
    for number in range(rounds):
        yield LIMIT, "none"
        contenders = tuple(CONTENDERS) if number % 2 == 0 else tuple(reversed(CONTENDERS))
        for constraints in kinds:
            for contender in contenders:
                yield contender, constraints


def _cpu(turns: Iterable[Turn]) -> str:
    by_process: dict[str, list[float]] = {}
    for turn in turns:
        for name, seconds in turn.cpu.items():
            by_process.setdefault(name, []).append(seconds / turn.pods * 1e3)
    return ", ".join(f"{name} {statistics.median(values):.2f}" for name, values in by_process.items())


def medians(comparison: Comparison, kinds: Iterable[str]) -> Mapping[str, float]:
    """How many times kube-scheduler's rate Trimtab's is, by kind of constraints."""
    return {kind: comparison.rate("trimtab", kind) / comparison.rate("kube-scheduler", kind) for kind in kinds}
