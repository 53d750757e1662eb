"""Which faults come in which order, drawn from the seed: the same seed gives the same steps."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.soak.kinds import LONGEST, Kind


@dataclass(frozen=True, slots=True)
class Step:
    """One fault of a run: its round, its number in the round, and its kind."""

    seed: int
    round: int
    number: int
    kind: str

    @property
    def name(self) -> str:
        """How reports name it: `3.17 kill-webhooks`."""
        return f"{self.round}.{self.number} {self.kind}"

    def random(self) -> random.Random:
        """The random numbers of this step; they do not depend on what happened before."""
        return random.Random(f"{self.seed}/{self.round}/{self.number}")


def steps(seed: int, round_number: int, kinds: Sequence[Kind]) -> list[Step]:
    """The steps of a round, in their order."""
    rng = random.Random(f"{seed}/{round_number}")
    drawn = sorted((_place(rng, kind), kind.name) for kind in kinds for _ in range(kind.per_round))
    return [Step(seed, round_number, number, name) for number, (_, name) in enumerate(drawn)]


def moments(count: int, seconds: float) -> Iterator[float]:
    """When each of so many steps begins, in seconds since the round began."""
    return (seconds * number / count for number in range(count))


def _place(rng: random.Random, kind: Kind) -> float:
    """Where in the round a step comes, from 0 to 1."""
    return rng.random() * (LONGEST if kind.is_early else 1.0)
