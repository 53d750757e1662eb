"""The story of KEP-2185, on the orders alone: a third domain joins, and shrinking takes it away again, or not.

2N pods stand in two domains, each alone on its node. A third domain is added and the workload grows to 3N: all N
newcomers go there. It shrinks back to 2N, grows (the emptiest domains are filled first) and shrinks once more.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from tests.unit.ranking.crowds import NOW, make, rows_of, view_of
from trimtab.api.pods import Pod
from trimtab.api.times import to_ns
from trimtab.ranking.victims import STOCK, Options, replicaset_order

DOMAINS = "xyz"
NEW = "z"

SOON = (timedelta(days=1), timedelta(minutes=1), timedelta(minutes=3))
"""The workload grows after a day, shrinks a minute after that, and next time three minutes after it grew: newcomers are
of a younger scale than the others."""
LATE = (timedelta(minutes=1), timedelta(seconds=100_000), timedelta(seconds=1_000_000))
"""It grows at once and shrinks about a day later, next time about twelve: all pods are of one scale."""


@dataclass
class Story:
    """A workload of 2N or 3N pods, and the seed that its UIDs come from."""

    size: int
    seed: int
    options: Options = STOCK
    pods: list[Pod] = field(default_factory=list)
    made: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def start(self, at: datetime) -> None:
        """2N pods in the first two domains."""
        for domain in DOMAINS[:2] * self.size:
            self.add(domain, at)

    def grow(self, at: datetime) -> None:
        """Up to 3N, each newcomer in the domain that has the fewest."""
        while len(self.pods) < 3 * self.size:
            counts = self.counts()
            self.add(min(DOMAINS, key=counts.__getitem__), at)

    def shrink(self, at: datetime) -> None:
        """Down to 2N."""
        view = view_of(self.pods)
        rows = rows_of(view, self.pods)
        order = replicaset_order(view.pods, rows, rows, to_ns(at), self.options)
        kept = [view.pods.objects[row] for row in order.rows[self.size :].tolist()]
        self.pods = [pod for pod in kept if pod is not None]

    def add(self, domain: str, at: datetime) -> None:
        """A pod on a node of its own, ready when it is made."""
        self.made += 1
        name, uid = f"{domain}-{self.made}", f"{self.rng.getrandbits(64):016x}"
        self.pods.append(make(name, uid=uid, node=name, since=at, created=at))

    def counts(self) -> Counter[str]:
        """How many pods each domain has."""
        return Counter(pod.metadata.name[0] for pod in self.pods)

    def play(self, waits: tuple[timedelta, timedelta, timedelta]) -> list[Counter[str]]:
        """Twice up and down; what each domain has after each time down."""
        clock = NOW
        self.start(clock)
        clock += waits[0]
        seen = []
        for wait in waits[1:]:
            self.grow(clock)
            clock += wait
            self.shrink(clock)
            seen.append(self.counts())
            clock += timedelta(minutes=1)
        return seen


SIZES = range(1, 51)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("waits", [pytest.param(SOON, id="soon"), pytest.param(LATE, id="late")])
def test_without_logarithmic_ages_the_new_domain_is_emptied(
    size: int, waits: tuple[timedelta, timedelta, timedelta]
) -> None:
    """The youngest go, and those are all in the new domain: every time, however long one waits."""
    after = Story(size, seed=size, options=Options(logarithmic=False)).play(waits)
    assert after == [Counter(x=size, y=size), Counter(x=size, y=size)]


@pytest.mark.parametrize("size", SIZES)
def test_with_them_it_is_emptied_too_while_the_newcomers_are_of_a_younger_scale(size: int) -> None:
    """Logarithmic ages do not help a workload that shrinks soon after it grew."""
    assert Story(size, seed=size).play(SOON) == [Counter(x=size, y=size), Counter(x=size, y=size)]


@pytest.mark.parametrize("size", SIZES)
def test_with_ages_of_one_scale_chance_decides(size: int) -> None:
    """Any N of 3N go: what is left adds up, and no domain gains."""
    for counts in Story(size, seed=size).play(LATE):
        assert counts.total() == 2 * size
        assert max(counts.values()) <= size


@pytest.mark.slow
def test_the_new_domain_keeps_about_two_thirds() -> None:
    """Over 1,000 seeds, N = 10: 6.67 pods on average (a hypergeometric distribution), and hardly ever fewer than 3."""
    kept: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    for seed in range(1000):
        for tally, counts in zip(kept, Story(10, seed).play(LATE), strict=True):
            tally[counts[NEW]] += 1
    for tally in kept:
        mean = sum(number * times for number, times in tally.items()) / 1000
        spread = sum((number - mean) ** 2 * times for number, times in tally.items()) / 1000
        assert mean == pytest.approx(20 / 3, abs=0.12)  # three standard errors
        assert spread == pytest.approx(10 * (1 / 3) * (2 / 3) * (20 / 29), rel=0.15)
        assert min(tally) >= 2
        assert sum(times for number, times in tally.items() if 5 <= number <= 8) > 850
