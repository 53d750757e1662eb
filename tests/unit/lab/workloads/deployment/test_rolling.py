"""Rolling updates, step by step and to the end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.unit.lab.workloads.objects import replicaset
from trimtab.api.apps import ReplicaSet
from trimtab_lab.workloads.deployment import rolling
from trimtab_lab.workloads.deployment.replicasets import Limits, OwnedReplicaSets, Step, age_key

TEN = Limits(10, surge=3, unavailable=2)


def old(name: str, size: int, available: int | None = None) -> ReplicaSet:
    """An old ReplicaSet; names sort by age."""
    return replicaset(name, size, available=available, image="app:0")


def new(size: int, available: int | None = None) -> ReplicaSet:
    """The new one."""
    return replicaset("new", size, available=available)


def steps(move: Step) -> dict[str, int]:
    """The sizes that a step sets, by name."""
    return {each.metadata.name: size for each, size in move.sizes}


@pytest.mark.parametrize(
    ("limits", "owned", "creation", "want"),
    [
        pytest.param(TEN, OwnedReplicaSets(), 10, {}, id="nothing is there: all at once"),
        pytest.param(
            TEN, OwnedReplicaSets(None, (old("a", 10),)), 3, {"a": 8}, id="the surge is made, and what may go goes"
        ),
        pytest.param(TEN, OwnedReplicaSets(None, (old("a", 13),)), 0, {"a": 8}, id="no room for a new pod yet"),
        pytest.param(
            Limits(3, 1, 0),
            OwnedReplicaSets(None, (old("a", 3),)),
            1,
            {},
            id="nothing may be unavailable: first the new",
        ),
        pytest.param(
            Limits(3, 0, 1), OwnedReplicaSets(None, (old("a", 3),)), 0, {"a": 2}, id="no surge: first the old"
        ),
        pytest.param(Limits(0, 1, 0), OwnedReplicaSets(None, (old("a", 0),)), 0, {}, id="nothing is wanted"),
    ],
)
def test_a_rollout_begins(limits: Limits, owned: OwnedReplicaSets, creation: int, want: dict[str, int]) -> None:
    """The new ReplicaSet is created as large as it may be, and old ones shrink in the same step."""
    found = rolling.next_step(limits, owned)
    assert (found.creation, steps(found)) == (creation, want)


@pytest.mark.parametrize(
    ("limits", "owned", "want"),
    [
        pytest.param(
            TEN, OwnedReplicaSets(new(3), (old("a", 8),)), {"new": 5}, id="the new one grows by what there is room for"
        ),
        pytest.param(TEN, OwnedReplicaSets(new(9), (old("a", 2),)), {"new": 10}, id="and never beyond what is wanted"),
        pytest.param(TEN, OwnedReplicaSets(new(12), ()), {"new": 10}, id="a new one that is too large shrinks"),
        pytest.param(
            TEN, OwnedReplicaSets(new(5, 3), (old("a", 8),)), {"a": 5}, id="old ones shrink by what is available beyond"
        ),
        pytest.param(TEN, OwnedReplicaSets(new(5, 0), (old("a", 8),)), {}, id="no new pod is available: old ones stay"),
        pytest.param(
            TEN, OwnedReplicaSets(new(5, 0), (old("a", 8, 7),)), {}, id="an old pod failed, and nothing can be spared"
        ),
        pytest.param(
            Limits(10, 3, 2),
            OwnedReplicaSets(new(8, 7), (old("a", 5, 0),)),
            {"a": 1},
            id="those not available go first",
        ),
        pytest.param(
            TEN,
            OwnedReplicaSets(new(3, 3), (old("a", 4, 2), old("b", 6, 6))),
            {"a": 0, "b": 5},
            id="the oldest gives most",
        ),
        pytest.param(
            TEN, OwnedReplicaSets(new(3, 3), (old("a", 5, 8), old("b", 5))), {}, id="a report that is out of date"
        ),
        pytest.param(
            TEN,
            OwnedReplicaSets(new(3, 3), (old("a", 3, 1), old("b", 7, 9))),
            {"a": 1},
            id="what was looked at before it is still done",
        ),
        pytest.param(TEN, OwnedReplicaSets(new(10), (old("a", 0),)), {}, id="done"),
    ],
)
def test_a_rollout_goes_on(limits: Limits, owned: OwnedReplicaSets, want: dict[str, int]) -> None:
    """One step either grows the new ReplicaSet or shrinks old ones."""
    found = rolling.next_step(limits, owned)
    assert found.creation is None
    assert steps(found) == want
    assert found.settled is (not want)


# To the end.


@dataclass(slots=True)
class Pods:
    """The pods of a simulated ReplicaSet, and what it has reported of them."""

    size: int
    pending: int = 0
    available: int = 0
    reported_available: int = 0
    reported: int = 0

    def reconcile(self) -> None:
        """Make what is missing, delete what is too many: not available ones first, as ReplicaSets do."""
        self.pending += max(0, self.size - self.pending - self.available)
        surplus = max(0, self.pending + self.available - self.size)
        first = min(surplus, self.pending)
        self.pending -= first
        self.available -= surplus - first

    def report(self) -> None:
        """Tell the Deployment."""
        self.reported_available, self.reported = self.available, self.pending + self.available

    def view(self, name: str) -> ReplicaSet:
        """What the Deployment sees."""
        image = "app:1" if name == "new" else "app:0"
        return replicaset(name, self.size, available=self.reported_available, replicas=self.reported, image=image)


@dataclass(slots=True)
class Rollout:
    """A Deployment with simulated ReplicaSets, each acting, reporting and starting pods when chance has it."""

    limits: Limits
    sets: dict[str, Pods] = field(default_factory=dict)

    def owned(self) -> OwnedReplicaSets:
        views = {name: pods.view(name) for name, pods in self.sets.items()}
        ordered = sorted((view for name, view in views.items() if name != "new"), key=age_key)
        return OwnedReplicaSets(views.get("new"), tuple(ordered))

    def step(self) -> bool:
        """The Deployment's turn; whether it did anything."""
        move = rolling.next_step(self.limits, self.owned())
        if move.creation is not None:
            self.sets["new"] = Pods(move.creation)
        for each, size in move.sizes:
            self.sets[each.metadata.name].size = size
        return not move.settled

    def act(self, rng: random.Random) -> None:
        """Somebody else's turn."""
        name = rng.choice(sorted(self.sets))
        pods = self.sets[name]
        what = rng.randrange(3)
        if what == 0:
            pods.reconcile()
        elif what == 1:
            pods.report()
        elif pods.pending:
            started = rng.randint(1, pods.pending)
            pods.pending -= started
            pods.available += started

    @property
    def wanted(self) -> int:
        return sum(pods.size for pods in self.sets.values())

    @property
    def available(self) -> int:
        return sum(pods.available for pods in self.sets.values())

    @property
    def complete(self) -> bool:
        return all(
            pods.size == pods.available == (self.limits.desired if name == "new" else 0)
            for name, pods in self.sets.items()
        )


def settled_sets(sizes: list[int]) -> dict[str, Pods]:
    """Old ReplicaSets with all their pods available, and reported."""
    return {f"old-{n}": Pods(size, 0, size, size, size) for n, size in enumerate(sizes)}


@given(
    st.integers(1, 30),
    st.integers(0, 10),
    st.integers(0, 10),
    st.lists(st.integers(0, 10), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
@settings(deadline=None, max_examples=60)
def test_a_rollout_keeps_its_limits_and_ends(
    desired: int, surge: int, unavailable: int, weights: list[int], seed: int
) -> None:
    """Never more pods than desired and surge, never fewer available than desired less unavailable; and it completes.

    However the Deployment's steps interleave with its ReplicaSets acting and reporting, and pods starting.
    """
    rng = random.Random(seed)
    limits = Limits(desired, surge, min(unavailable, desired) if surge or unavailable else 1)
    shares = [desired * weight // max(1, sum(weights)) for weight in weights]
    shares[0] += desired - sum(shares)
    rollout = Rollout(limits, settled_sets(shares))
    for _ in range(4000):
        if rng.random() < 0.3:
            rollout.step()
        else:
            rollout.act(rng)
        assert rollout.wanted <= limits.max_pods
        assert rollout.available >= limits.min_available
        if rollout.complete and "new" in rollout.sets:
            break
    assert rollout.complete
    for pods in rollout.sets.values():
        pods.report()
    assert not rollout.step()
