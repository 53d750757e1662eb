"""Random histories: whatever happens to pods, webhooks and the controller, and in whatever order they hear of it.

Where `test_interleavings` visits every state of small cases, this goes far in large ones: several subsets with numbers
and percentages, revisions, sizes that change, pods that fail, replicas that die between a reservation and its pod, pods
that were let go, views that lag, jump (lost events) and repeat themselves (doubled ones), names that are used again,
and time that passes.

`TestHistories` lets hypothesis choose, and makes what it finds small. `walk` chooses by weights, so that requests meet
one another all the time, and goes through far more of them: each rule of `trimtab.subsets` that is broken is noticed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from tests.unit.subsets.topologies import at, subset, topology, with_status
from trimtab.api.unitedtopology import UnitedTopology, UnitedTopologyStatus
from trimtab.subsets.allocation import (
    Allocation,
    PodCreation,
    PodDeletion,
    allocate,
    announce,
    announced_deletions,
    needs_size,
    revert_deletions,
    withdraw,
)
from trimtab.subsets.apportionment import limits
from trimtab.subsets.members import Member
from trimtab.subsets.recount import DELETION_LIMIT, Observation, Recount, Stale, recount
from trimtab.subsets.statuses import Table, pod_and_reservation

PATIENCE = 60.0
"""Seconds after which an API server ends a request."""
PICK = st.integers(0, 1_000)
STEPS = st.sampled_from([0, 1, 2, 3, 4, 4])
"""How many of its four steps a request takes before something else happens."""
LIMITS = st.lists(st.sampled_from([0, 1, 2, 3, "20%", "34%", "50%", "100%", None]), min_size=1, max_size=4)


@dataclass(frozen=True)
class Request:
    """A creation, deletion or eviction on its way through a webhook."""

    verb: str
    pod: str
    revision: str
    reservation: str = ""
    read: UnitedTopology | None = None
    version: int = -1
    """The version of the status that was read."""
    facts: frozenset[str] | None = None
    size: int | None = None
    """The workload's size as it was read, where there are percentages."""
    hinted: bool = False
    """Whether the webhook has seen a pod end, and so recounts from an uncached list if a subset is full."""
    live: tuple[int, int] = (0, 0)
    """What it would see if it did: the view of the pods, and the workload's size."""
    answered_at: float | None = None
    choice: str | None = None


class History(RuleBasedStateMachine):
    """One UnitedTopology, its pods, two webhooks' worth of requests, and a controller."""

    @initialize(most=LIMITS, size=st.integers(0, 12))
    def begin(self, most: list[int | str | None], size: int) -> None:
        self.subsets = tuple(subset(f"s{index}", limit) for index, limit in enumerate(most))
        self.topology = topology(*self.subsets)
        self.version = 0
        self.pods: dict[str, Member] = {}
        self.views: list[dict[str, Member]] = [{}]
        self.size, self.sizes = size, [size]
        self.revision = 1
        self.requests: list[Request] = []
        self.names = 0
        self.gone: list[str] = []
        """Names that pods have had."""
        self.going: set[tuple[str, datetime]] = set()
        """Announcements of which some webhook knows that they came true."""
        self.seconds = 0.0
        self.count(PICK_LATEST, 0)

    # What people and other controllers do.

    @rule(steps=STEPS, hinted=st.booleans())
    def create(self, steps: int, hinted: bool) -> None:
        self._create(f"p{self.names + 1}", steps, hinted)

    @rule(which=PICK, steps=STEPS)
    def create_again(self, which: int, steps: int) -> None:
        """A CloneSet may give a new pod the name of one that is gone."""
        if self.gone:
            self._create(self.gone[which % len(self.gone)], steps, hinted=False)

    def _create(self, name: str, steps: int, hinted: bool) -> None:
        self.names += 1
        self._begin(Request("create", name, str(self.revision), f"r{self.names}", hinted=hinted), steps)

    @rule(which=PICK, verb=st.sampled_from(["delete", "evict"]), steps=STEPS)
    def ask_to_go(self, which: int, verb: str, steps: int) -> None:
        pod = self._some_pod(which)
        if pod is not None:
            self._begin(Request(verb, pod.name, pod.revision), steps)

    def _begin(self, request: Request, steps: int) -> None:
        """A request arrives, and takes some of its steps at once."""
        self.requests.append(request)
        for _ in range(min(steps, 4)):
            self.proceed(len(self.requests) - 1, refused=request.verb == "evict")

    @rule(which=PICK)
    def fail(self, which: int) -> None:
        pod = self._some_pod(which)
        if pod is not None:
            self._store(replace(pod, active=False))

    @rule(which=PICK)
    def vanish(self, which: int) -> None:
        ended = [pod for pod in self.pods.values() if not pod.active]
        if ended:
            gone = ended[which % len(ended)]
            self.gone.append(gone.name)
            self.pods = {name: pod for name, pod in self.pods.items() if name != gone.name}
            self.views.append(self.pods)

    @rule(which=PICK)
    def let_go(self, which: int) -> None:
        """A pod for which no webhook was called runs where a subset's rules are met."""
        self.names += 1
        chosen = self.subsets[which % len(self.subsets)].name
        self._store(Member(f"p{self.names}", revision=str(self.revision), subset=chosen, is_matched=True))

    @rule(size=st.integers(0, 12))
    def scale(self, size: int) -> None:
        self.size = size
        self.sizes.append(size)

    @rule()
    def roll_out(self) -> None:
        self.revision += 1

    @rule(seconds=st.sampled_from([0.1, 1.0, 2.0, 30.0, 80.0]))
    def wait(self, seconds: float) -> None:
        """Time passes; an API server ends what has taken too long."""
        self.seconds += seconds
        late = [
            each
            for each in self.requests
            if each.answered_at is not None and each.answered_at < self.seconds - PATIENCE
        ]
        for each in late:
            self.requests.remove(each)

    # Webhooks.

    @precondition(lambda self: self.requests)
    @rule(which=PICK, refused=st.booleans())
    def proceed(self, which: int, refused: bool) -> None:
        """A request takes its next step."""
        index = which % len(self.requests)
        request = self.requests[index]
        if request.read is None:
            self.requests[index] = replace(request, read=self.topology, version=self.version)
        elif request.facts is None:
            size = self.size if needs_size(self.topology) else None
            live = (len(self.views) - 1, self.size)
            self.requests[index] = replace(request, facts=self._look(request), size=size, live=live)
        elif request.answered_at is None:
            self.requests[index] = self._write(request)
        else:
            del self.requests[index]
            self._serve(request, refused=refused)

    @precondition(lambda self: self.requests)
    @rule(which=PICK)
    def die(self, which: int) -> None:
        """The client or the webhook has ended: the request has no effect."""
        del self.requests[which % len(self.requests)]

    @precondition(lambda self: self.requests)
    @rule(which=PICK)
    def run_out_of_time(self, which: int) -> None:
        """A pod whose admission took too long is admitted without a reservation, which is withdrawn."""
        request = self.requests[which % len(self.requests)]
        if request.verb == "create" and request.pod not in self.pods:
            self.requests.remove(request)
            self._put(withdraw(self.topology, [request.reservation]))
            self._store(Member(request.pod, revision=request.revision, subset=self.subsets[0].name, is_matched=True))

    @rule(which=PICK)
    def look_again(self, which: int) -> None:
        """A webhook's later check of a pod whose deletion was announced."""
        names = list(announced_deletions(self.topology))
        if names:
            name = names[which % len(names)]
            pod = self.pods.get(name)
            if pod is not None and pod.active:
                self._put(revert_deletions(self.topology, [name]))

    def _look(self, request: Request) -> frozenset[str]:
        if request.verb != "create":
            return frozenset(pod.name for pod in [self.pods.get(request.pod)] if pod is not None and pod.active)
        assert request.read is not None
        entries = announced_deletions(request.read)
        self.going |= {entry for entry in entries.items() if self._is_going(entry[0])}
        return frozenset(name for name, since in entries.items() if (name, since) in self.going)

    def _is_going(self, name: str) -> bool:
        return name not in self.pods or not self.pods[name].active

    def _write(self, request: Request) -> Request:
        if request.version != self.version:
            return replace(request, read=None, facts=None)
        assert request.facts is not None
        if request.verb == "create":
            return self._reserve(request)
        pod = self.pods.get(request.pod)
        if request.facts and pod is not None and (pod.reservation or not pod.is_matched):
            deletion = PodDeletion(pod.name, pod.revision, pod.subset, pod.reservation)
            self._put(announce(self.topology, [deletion], now=self._now()))
        return replace(request, answered_at=self.seconds)

    def _reserve(self, request: Request) -> Request:
        creation = PodCreation(request.reservation, request.revision)
        made = self._allocate(request, creation)
        index = made.choices[creation.reservation]
        chosen = None if index is None else self.subsets[index].name
        if index is not None:
            limit = limits(self.subsets, self._size(request))[index]
            held = self._held(request.revision, self.subsets[index].name)
            assert limit is None or held < limit, f"{chosen} has {held} of {limit}"
        self._put(made.status)
        return replace(request, answered_at=self.seconds, choice=chosen)

    def _allocate(self, request: Request, creation: PodCreation) -> Allocation:
        """As a round does it: with the size that was read, where that matters; then, where a deletion was in doubt, by
        the result of an uncached read; then, if a subset is full and a pod was seen to end, after a recount."""
        assert request.facts is not None
        of, now, size = self.topology, self._now(), request.size
        made = allocate(of, [creation], now=now, replicas=size)
        confirmed = request.facts & made.uncertainty.deleting.keys()
        if confirmed:
            made = allocate(of, [creation], now=now, confirmed=confirmed, replicas=size)
        if request.hinted and made.uncertainty.full:
            made = allocate(self._counted_live(request), [creation], now=now, confirmed=request.facts, replicas=size)
        return made

    def _counted_live(self, request: Request) -> UnitedTopology:
        view, size = request.live
        observed = Observation(list(self.views[view].values()), size, self.topology.status.revision, str(view))
        made = recount(self.topology, observed, now=self._now())
        assert isinstance(made, Recount), "an uncached read is never stale"
        return with_status(self.topology, made.status)

    def _size(self, request: Request) -> int:
        """The size that percentages refer to: the workload's when it was read, whatever was counted."""
        return self.topology.status.replicas if request.size is None else request.size

    def _held(self, revision: str, name: str) -> int:
        """Pods that hold a reservation or are counted, and those that are about to be created."""
        there = sum(pod.active and bool(pod.reservation) for pod in self._of(revision, name))
        coming = [each for each in self.requests if (each.revision, each.choice) == (revision, name)]
        return there + len(coming)

    def _serve(self, request: Request, *, refused: bool) -> None:
        pod = self.pods.get(request.pod)
        if request.verb == "create":
            chosen = request.choice or ""
            reservation = request.reservation if chosen else ""
            if pod is None:
                self._store(Member(request.pod, revision=request.revision, subset=chosen, reservation=reservation))
        elif pod is not None and not (request.verb == "evict" and refused):
            self._store(replace(pod, active=False))

    # The controller.

    @rule(lag=st.sampled_from([0, 0, 1, 2, 5]), old_size=st.sampled_from([0, 0, 1]))
    def count(self, lag: int, old_size: int) -> None:
        """Count from a view, and with a size, that may be old; twice is as good as once."""
        view = max(0, len(self.views) - 1 - lag)
        size = self.sizes[max(0, len(self.sizes) - 1 - old_size)]
        for _ in range(2):
            made = self._recount(view, size)
            if isinstance(made, Recount):
                self._put(made.status)

    def _recount(self, view: int, size: int) -> Recount | Stale:
        members = list(self.views[view].values())
        observed = Observation(members, size, str(self.revision), str(view))
        before = self._counted_before()
        made = recount(before, observed, now=self._now())
        if isinstance(made, Recount) and made.overdue:
            absent = self._absent(frozenset(made.overdue))
            made = recount(before, replace(observed, absent=absent), now=self._now())
        return made

    def _counted_before(self) -> UnitedTopology:
        """What a count starts from."""
        return self.topology

    def _absent(self, overdue: frozenset[str]) -> frozenset[str]:
        """The pods that an uncached read does not find."""
        present = {pod.reservation for pod in self.pods.values()}
        return frozenset(key for key in overdue if pod_and_reservation(key)[1] not in present)

    # The store.

    def _store(self, pod: Member) -> None:
        self.pods = {**self.pods, pod.name: replace(pod, version=str(len(self.views)))}
        self.views.append(self.pods)

    def _put(self, status: UnitedTopologyStatus) -> None:
        if status != self.topology.status:
            self.topology = with_status(self.topology, status)
            self.version += 1
            self.seconds += 0.001  # no two entries are of one moment

    def _some_pod(self, which: int) -> Member | None:
        active = [pod for pod in self.pods.values() if pod.active]
        return active[which % len(active)] if active else None

    def _of(self, revision: str, name: str) -> list[Member]:
        return [pod for pod in self.pods.values() if (pod.revision, pod.subset) == (revision, name)]

    def _now(self) -> datetime:
        return at(self.seconds)

    # What must hold.

    @invariant()
    def entries_are_never_negative_and_unlimited_is_told(self) -> None:
        """`missingReplicas` is -1 exactly where there is no maximum."""
        if hasattr(self, "topology"):
            for row, each in zip(self.topology.status.subset_statuses, self.subsets, strict=False):
                assert (row.missing_replicas == -1) == (each.max_replicas is None)

    def teardown(self) -> None:
        """When all is quiet, the status is a plain count, and no entry is left."""
        if not hasattr(self, "topology"):
            return
        self.requests.clear()
        for _ in range(3):
            self.wait(80.0)
            self.count(PICK_LATEST, 0)
        active = Counter((pod.revision, pod.subset) for pod in self.pods.values() if pod.active)
        allowed = dict(zip((each.name for each in self.subsets), limits(self.subsets, self.size), strict=True))
        for revision, row in Table(self.topology).all():
            limit = allowed[row.name]
            frozen = row.frozen()
            assert row.replicas == active.pop((revision, row.name), 0)
            assert frozen.missing_replicas == (-1 if limit is None else max(0, limit - row.replicas))
            assert not row.creating, f"a reservation stays for ever: {row}"
            assert not row.deleting, f"an announcement stays for ever: {row}"
        assert {name for (_, name) in active if name} == set(), "pods of some revision are not counted"


PICK_LATEST = 0

TestHistories = History.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


WALKS, LENGTH = 300, 60
_FEW: list[int | str | None] = [1, 1, 2, 2, 3, "34%", "50%", None]
_STEPS = [0, 1, 2, 3, 4, 4]


def some(history: History, name: str, rng: random.Random) -> None:
    """Something that happens to one of many."""
    getattr(history, name)(rng.randrange(1_000))


def requests_proceed(history: History, rng: random.Random) -> None:
    """A request takes some further steps."""
    which = rng.randrange(1_000)
    for _ in range(rng.choice([1, 3])):
        if history.requests:
            history.proceed(which, refused=rng.random() < 0.5)


def pods_come(history: History, rng: random.Random) -> None:
    """A pod, or two at once."""
    steps = rng.choice(_STEPS)
    for _ in range(rng.choice([1, 2])):
        history.create(steps, hinted=rng.random() < 0.3)


def pod_goes(history: History, rng: random.Random) -> None:
    """Two ask for it, and the second of them may be slow."""
    which, verb, steps = rng.randrange(1_000), rng.choice(["delete", "evict"]), rng.choice(_STEPS)
    history.ask_to_go(which, verb, steps)
    history.ask_to_go(which, verb, rng.choice([0, steps]))


def request_ends(history: History, name: str, rng: random.Random) -> None:
    """A request has no effect, if there is one."""
    if history.requests:
        some(history, name, rng)


MOVES: Mapping[Callable[[History, random.Random], None], int] = {
    requests_proceed: 32,
    pods_come: 16,
    lambda history, rng: history.count(rng.choice([0, 0, 1, 1, 2, 3]), rng.choice([0, 0, 1])): 16,
    pod_goes: 12,
    lambda history, rng: history.create_again(rng.randrange(1_000), rng.choice(_STEPS)): 10,
    lambda history, rng: some(history, "vanish", rng): 10,
    lambda history, rng: history.wait(rng.choice([0.1, 1.0, 2.0, 80.0])): 8,
    lambda history, rng: some(history, "look_again", rng): 2,
    lambda history, rng: some(history, "fail", rng): 2,
    lambda history, rng: some(history, "let_go", rng): 1,
    lambda history, rng: request_ends(history, "die", rng): 1,
    lambda history, rng: request_ends(history, "run_out_of_time", rng): 1,
    lambda history, rng: history.scale(rng.randint(0, 6)): 1,
    lambda history, _: history.roll_out(): 1,
}
"""What happens in a walk, and how often."""


def walks(kind: type[History]) -> None:
    """Many histories; the number of one that fails is printed."""
    for seed in range(WALKS):
        try:
            walk(kind(), random.Random(seed))
        except AssertionError as error:
            error.add_note(f"in walk {seed}")
            raise


def walk(history: History, rng: random.Random) -> None:
    """A random history: little capacity, and many concurrent requests."""
    history.begin(most=rng.choices(_FEW, k=rng.choice([1, 1, 2])), size=rng.randint(1, 6))
    for happens in rng.choices(list(MOVES), list(MOVES.values()), k=LENGTH):
        happens(history, rng)
    history.teardown()


def test_no_history_exceeds_a_limit() -> None:
    """In every random history no subset exceeds its limit, and the end is a plain count."""
    walks(History)


class Trusting(History):
    """A controller that lets overdue reservations go without looking for their pods."""

    def _absent(self, overdue: frozenset[str]) -> frozenset[str]:
        return overdue


class Forgetful(History):
    """A controller that lets reservations go whose pods it has not seen."""

    def _recount(self, view: int, size: int) -> Recount | Stale:
        made = super()._recount(view, size)
        if isinstance(made, Stale):
            return made
        counted = with_status(self.topology, made.status)
        return replace(made, status=withdraw(counted, [key for _, row in Table(counted).all() for key in row.creating]))


class Hasty(History):
    """A deletion webhook that believes the review and does not read the pod again."""

    def _look(self, request: Request) -> frozenset[str]:
        return super()._look(request) if request.verb == "create" else frozenset([request.pod])


class Careless(History):
    """A creation webhook for which every announced deletion frees capacity."""

    def _is_going(self, name: str) -> bool:
        del name
        return True


class Slow(History):
    """A controller that forgets a deletion later than it stops counting the pod."""

    def _recount(self, view: int, size: int) -> Recount | Stale:
        made = super()._recount(view, size)
        if isinstance(made, Stale):
            return made
        old = [
            PodDeletion(name, revision, row.name)
            for revision, row in Table(self.topology).all()
            for name, since in row.deleting.items()
            if self._now() < since + DELETION_LIMIT
        ]
        return replace(made, status=announce(with_status(self.topology, made.status), old, now=self._now()))


class Backward(History):
    """A controller that counts from a cache older than the one before it had."""

    def _counted_before(self) -> UnitedTopology:
        return with_status(self.topology, structs.replace(self.topology.status, counted_version=""))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Trusting, id="rule 1: reservations removed without an uncached read"),
        pytest.param(Forgetful, id="rule 1: reservations removed before their pods are seen"),
        pytest.param(Hasty, id="rule 2: deletions of pods that are not counted"),
        pytest.param(Careless, id="rule 3: unconfirmed deletions"),
        pytest.param(Slow, id="rule 4: deletions that outlive the count"),
        pytest.param(Backward, id="rule 5: caches that go back"),
    ],
)
def test_histories_detect_each_broken_rule(kind: type[History]) -> None:
    """Without it some walk finds a subset with too many pods."""
    with pytest.raises(AssertionError, match=r"s\d has \d of \d"):
        walks(kind)
