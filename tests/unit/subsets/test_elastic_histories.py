"""Random histories of a workload on own, spot and rented nodes: by the rules of this package alone, on a model cluster.

A model controller creates and deletes pods, nodes come and go, spot nodes are interrupted, and time passes. After every
event: no limit is exceeded, no floor is given up by a decision of ours, and no pod leaves a subset to which pods
returned unless its nodes have gone since. In the end no entry is left.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec
import pytest

from tests.unit.subsets.test_returning import returning
from tests.unit.subsets.topologies import NOON, subset, with_status
from trimtab.api.unitedtopology import Subset, UnitedTopology, UnitedTopologyStatus
from trimtab.subsets.allocation import PodCreation, allocate
from trimtab.subsets.apportionment import floors, limits
from trimtab.subsets.members import Member
from trimtab.subsets.recount import Observation, Recount, recount
from trimtab.subsets.rescheduling import reschedule
from trimtab.subsets.returning import plan_returns
from trimtab.unitedtopology.levels import bands

EVENTS = 10_000
SEEDS = 20
CRITICAL = timedelta(seconds=30)
SHAPES: list[list[Subset]] = [
    [subset("own"), subset("rented")],
    [subset("own", minReplicas=2), subset("spot", "70%"), subset("rented")],
    [subset("spot", "60%"), subset("own", minReplicas=3), subset("rented", minReplicas=1)],
    [subset("own", 5, minReplicas=1), subset("spot", "50%", minReplicas=1), subset("rented")],
]


@dataclass
class ElasticCluster:
    """A workload, its UnitedTopology, and nodes with so many places for each subset."""

    rng: random.Random
    topology: UnitedTopology
    places: dict[str, int]
    size: int = 0
    revision: str = "r0"
    now: datetime = NOON
    pods: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, datetime] = field(default_factory=dict)
    """Pods without a node, and since when."""
    lost: set[str] = field(default_factory=set)
    """Subsets that lost nodes since pods returned to them."""
    arrived: set[str] = field(default_factory=set)
    """Pods that returned to an earlier subset."""
    last: Counter[str] = field(default_factory=Counter)
    """How many pods each subset had: one that is above its limit since the limit shrank does not grow."""
    moves: int = 0
    number: int = 0

    # The cluster.

    def free(self, name: str) -> int:
        """Places without a pod."""
        used = sum(pod.subset == name for pod in self.pods.values() if pod.name not in self.pending)
        return self.places[name] - used

    def create(self) -> None:
        """The controller creates a pod, the webhook allocates it, the scheduler binds it if there is a place."""
        self.number += 1
        names = [each.name for each in self.topology.spec.subsets]
        creation = PodCreation(f"of-{self.number}", self.revision, lambda index: self.free(names[index]) > 0)
        made = allocate(self.topology, [creation], now=self.now, replicas=self.size)
        self.topology = with_status(self.topology, made.status)
        choice = made.choices[creation.reservation]
        pod = Member(
            f"p-{self.number}",
            uid=f"u-{self.number}",
            revision=self.revision,
            subset=names[choice] if choice is not None else "",
            reservation=creation.reservation if choice is not None else "",
            created=self.now,
            ready=True,
        )
        if pod.subset and self.free(pod.subset) <= 0:
            self.pending[pod.name] = self.now
            pod = replace(pod, ready=False)
        self.pods[pod.name] = pod

    def delete(self, name: str) -> None:
        """A pod goes, whatever the reason."""
        del self.pods[name]
        self.pending.pop(name, None)

    def settle(self) -> None:
        """The controllers do what they have to do: count, fill up, bind."""
        self.count()
        while len(self.pods) < self.size:
            self.create()
        self.count()
        for name in list(self.pending):
            if self.free(self.pods[name].subset) > 0:
                del self.pending[name]
                self.pods[name] = replace(self.pods[name], ready=True)
        self.count()

    def count(self) -> None:
        """The UnitedTopology controller recounts."""
        observed = Observation(tuple(self.pods.values()), self.size, self.revision, "1")
        result = recount(self.topology, observed, now=self.now)
        assert isinstance(result, Recount)
        self.topology = with_status(self.topology, result.status)

    def victims(self, count: int, revision: str = "") -> list[str]:
        """The pods that a scale-down deletes: without a node first, then by tiers, then the youngest."""
        tiers = bands(self.topology, self.pods.values(), replicas=self.size, revision=self.revision)
        last = len(self.topology.spec.subsets)

        def key(name: str) -> tuple[bool, int, int]:
            return name not in self.pending, tiers[name].tier if name in tiers else -last, -int(name[2:])

        chosen = [name for name, pod in self.pods.items() if not revision or pod.revision == revision]
        return sorted(chosen, key=key)[:count]

    # Events.

    def scale(self) -> None:
        """Another size; a smaller one deletes by the subsets."""
        before = Counter(pod.subset for pod in self.pods.values() if pod.name not in self.pending)
        was_pending = bool(self.pending)
        self.size = self.rng.randrange(0, 16)
        for name in self.victims(len(self.pods) - self.size) if self.size < len(self.pods) else []:
            self.delete(name)
        self.settle()
        is_filled = True
        for at, floor in enumerate(floors(self.topology.spec.subsets, self.size)):
            name = self.topology.spec.subsets[at].name
            assert self.shares()[name] >= min(before[name], floor), f"the floor of {name} was given up"
            is_filled = is_filled and self.shares()[name] >= floor
        # Pods without a node go first, whatever their subset; and for a floor that is not filled, pods of another
        # subset stay above its limit: a scale-down only deletes.
        if not was_pending and is_filled:
            self.last.clear()

    def roll_out(self) -> None:
        """Pod after pod of a new revision, with a surge of one."""
        old, self.revision = self.revision, f"r{int(self.revision[1:]) + 1}"
        while any(pod.revision == old for pod in self.pods.values()):
            self.create()
            self.delete(self.victims(1, old)[0])
            self.settle()

    def lose_nodes(self) -> None:
        """A subset loses nodes with the pods on them."""
        name = self.rng.choice(sorted(self.places))
        self.places[name] = self.rng.randrange(0, self.places[name] + 1)
        self.lost.add(name)
        running = [pod.name for pod in self.pods.values() if pod.subset == name and pod.name not in self.pending]
        for gone in running[: max(0, len(running) - self.places[name])]:
            self.delete(gone)
        self.settle()

    def add_nodes(self) -> None:
        """A subset gets room."""
        name = self.rng.choice(sorted(self.places))
        self.places[name] += self.rng.randrange(1, 6)
        self.settle()

    def interrupt(self) -> None:
        """Some pods of one subset go, and their nodes stay."""
        name = self.rng.choice(sorted(self.places))
        for pod in [pod.name for pod in self.pods.values() if pod.subset == name][: self.rng.randrange(1, 4)]:
            self.delete(pod)
        self.settle()

    def wait(self) -> None:
        """Time passes: pods are rescheduled, and return."""
        self.now += timedelta(seconds=self.rng.choice([1, 10, 31, 61, 200]))
        self.settle()
        for name in [name for name, since in self.pending.items() if since + CRITICAL <= self.now]:
            status = reschedule(self.topology, self.pods[name], now=self.now) if name in self.pending else None
            if status is not None:
                left = self.pods[name].subset
                assert name not in self.arrived or left in self.lost, f"{name} left {left} again, without a cause"
                self.topology = with_status(self.topology, status)
                self.delete(name)
                self.settle()
        self.return_pods()

    def return_pods(self) -> None:
        """The controller evicts what is due, and everything settles."""
        names = [each.name for each in self.topology.spec.subsets]
        taken: Counter[str] = Counter()

        def has_room(index: int) -> bool:
            taken[names[index]] += 1
            return self.free(names[index]) >= taken[names[index]]

        at_rest = not self.pending and len(self.pods) == self.size
        at_rest = at_rest and all(pod.revision == self.revision for pod in self.pods.values())
        before, known = self.shares(), self.number
        found = plan_returns(
            self.topology, tuple(self.pods.values()), is_at_rest=at_rest, has_room=has_room, now=self.now
        )
        status = msgspec.structs.replace(self.topology.status, returns=found.returns, shortages=found.shortages)
        self.topology = with_status(self.topology, status)
        for moved in found.moves:
            assert self.shares()[moved.subset] > self.floor(moved.subset), "a floor was given up for a return"
            self.delete(moved.name)
        self.settle()
        if found.moves:
            self.moves += len(found.moves)
            self.arrived |= {f"p-{number}" for number in range(known + 1, self.number + 1)}
            self.lost.discard(found.target)
            assert self.shares()[found.target] == before[found.target] + len(found.moves)

    # Checks.

    def floor(self, name: str) -> int:
        """The floor of a subset at the present size."""
        least = floors(self.topology.spec.subsets, self.size)
        return least[[each.name for each in self.topology.spec.subsets].index(name)]

    def shares(self) -> Counter[str]:
        """How many pods of the newest revision each subset has."""
        return Counter(pod.subset for pod in self.pods.values() if pod.revision == self.revision)

    def check(self) -> None:
        """What holds after every event."""
        shares, status = self.shares(), self.topology.status
        for row, limit in zip(status.subset_statuses, limits(self.topology.spec.subsets, self.size), strict=True):
            most = 0 if limit is None else max(limit, self.last[row.name])
            assert limit is None or shares[row.name] <= most, f"{row.name} has more than {limit}"
            assert row.replicas == shares[row.name]
            assert row.missing_replicas == (-1 if limit is None else max(0, limit - shares[row.name]))
            assert not row.creating
        assert len(self.pods) == self.size
        self.last = shares


@pytest.mark.parametrize("seed", range(SEEDS))
def test_ten_thousand_events(seed: int) -> None:
    """In histories of five hundred each."""
    rng = random.Random(seed)
    shape = SHAPES[seed % len(SHAPES)]
    at_once: list[int | str] = [1, 2, "30%"]
    made = returning(*shape, max_pods=rng.choice(at_once))
    made = msgspec.structs.replace(made, status=UnitedTopologyStatus(observed_generation=1))
    cluster = ElasticCluster(rng, made, {each.name: rng.randrange(1, 8) for each in shape})
    cluster.places[shape[-1].name] += 20
    cluster.count()
    events = [cluster.scale, cluster.roll_out, cluster.lose_nodes, cluster.add_nodes, cluster.interrupt]
    for _ in range(EVENTS // SEEDS):
        rng.choice([*events, *[cluster.wait] * 5])()
        cluster.check()
    for name in cluster.places:
        cluster.places[name] = 50
    for _ in range(400):
        cluster.wait()
    cluster.check()
    status = cluster.topology.status
    assert (status.returns, status.shortages, status.other_revisions) == ((), (), ())
    assert not any(row.creating or row.deleting or row.missing_reschedule for row in status.subset_statuses)
    assert cluster.moves > 0
