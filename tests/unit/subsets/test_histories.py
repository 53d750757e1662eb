"""Random histories: whatever happens to pods, webhooks and the controller, and in whatever order they hear of it.

Where `test_interleavings` visits every state of small cases, this goes far in large ones: several subsets with numbers
and percentages, revisions, sizes that change, pods that fail, replicas that die between a reservation and its pod, pods
that were let go, views that lag, jump (lost events) and repeat themselves (doubled ones), and time that passes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.subsets.topologies import at, subset, topology, with_status
from trimtab.api.unitedtopology import UnitedTopology, UnitedTopologyStatus
from trimtab.subsets.allocation import (
    Allocation,
    Applicant,
    Leaving,
    allocate,
    announce,
    has_percentages,
    take_back,
    withdraw,
)
from trimtab.subsets.apportionment import limits
from trimtab.subsets.members import Member
from trimtab.subsets.recount import Observed, Recount, recount
from trimtab.subsets.statuses import Table

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
    read: UnitedTopology | None = None
    version: int = -1
    """The version of the status that was read."""
    facts: frozenset[str] | None = None
    size: int | None = None
    """The workload's size as it was read, where there are percentages."""
    hinted: bool = False
    """Whether the webhook has seen some pod end, and so counts live if a subset is full."""
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
        self.seconds = 0.0
        self.count(PICK_LATEST, 0)

    # What people and other controllers do.

    @rule(steps=STEPS, hinted=st.booleans())
    def create(self, steps: int, hinted: bool) -> None:
        self.names += 1
        self._begin(Request("create", f"p{self.names}", str(self.revision), hinted=hinted), steps)

    @rule(which=PICK, verb=st.sampled_from(["delete", "evict"]), steps=STEPS)
    def ask_to_go(self, which: int, verb: str, steps: int) -> None:
        pod = self._some_pod(which)
        if pod is not None:
            self._begin(Request(verb, pod.name, pod.revision), steps)

    def _begin(self, request: Request, steps: int) -> None:
        """A request comes, and takes some of its steps at once."""
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
            self.pods = {name: pod for name, pod in self.pods.items() if name != gone.name}
            self.views.append(self.pods)

    @rule(which=PICK)
    def let_go(self, which: int) -> None:
        """A pod that no webhook was asked about runs where a subset's rules are met."""
        self.names += 1
        chosen = self.subsets[which % len(self.subsets)].name
        self._store(Member(f"p{self.names}", revision=str(self.revision), subset=chosen, matched=True))

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
            size = self.size if has_percentages(self.topology) else None
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
        """Whoever made the request, or the webhook, is gone: nothing will come of it."""
        del self.requests[which % len(self.requests)]

    @precondition(lambda self: self.requests)
    @rule(which=PICK)
    def run_out_of_time(self, which: int) -> None:
        """A pod whose admission took too long goes on without a place, which is withdrawn."""
        request = self.requests[which % len(self.requests)]
        if request.verb == "create":
            self.requests.remove(request)
            self._put(withdraw(self.topology, [f"of-{request.pod}"]))
            self._store(Member(request.pod, revision=request.revision, subset=self.subsets[0].name, matched=True))

    @rule(which=PICK)
    def look_again(self, which: int) -> None:
        """A webhook's second look at a pod whose deletion was announced."""
        announced = [name for _, row in Table(self.topology).all() for name in row.deleting]
        if announced:
            name = announced[which % len(announced)]
            pod = self.pods.get(name)
            if pod is not None and pod.active:
                self._put(take_back(self.topology, [name]))

    def _look(self, request: Request) -> frozenset[str]:
        if request.verb != "create":
            return frozenset(pod.name for pod in [self.pods.get(request.pod)] if pod is not None and pod.active)
        assert request.read is not None
        announced = {name for _, row in Table(request.read).all() for name in row.deleting}
        return frozenset(name for name in announced if name not in self.pods or not self.pods[name].active)

    def _write(self, request: Request) -> Request:
        if request.version != self.version:
            return replace(request, read=None, facts=None)
        assert request.facts is not None
        if request.verb == "create":
            return self._reserve(request)
        pod = self.pods.get(request.pod)
        if request.facts and pod is not None and (pod.reservation or not pod.matched):
            leaving = Leaving(pod.name, pod.revision, pod.subset, pod.reservation)
            self._put(announce(self.topology, [leaving], now=self._now()))
        return replace(request, answered_at=self.seconds)

    def _reserve(self, request: Request) -> Request:
        applicant = Applicant(f"of-{request.pod}", request.revision)
        made = self._allocate(request, applicant)
        index = made.choices[applicant.reservation]
        chosen = None if index is None else self.subsets[index].name
        if index is not None:
            limit = limits(self.subsets, self._size(request))[index]
            held = self._held(request.revision, self.subsets[index].name)
            assert limit is None or held < limit, f"{chosen} has {held} of {limit}"
        self._put(made.status)
        return replace(request, answered_at=self.seconds, choice=chosen)

    def _allocate(self, request: Request, applicant: Applicant) -> Allocation:
        """As a round does it: with the size that was read, where that matters; then, where a deletion was in doubt, by
        what a live read said of it; then, where a subset is full and some pod was seen to end, after a live count."""
        assert request.facts is not None
        of, now, size = self.topology, self._now(), request.size
        made = allocate(of, [applicant], now=now, replicas=size)
        confirmed = request.facts & made.doubts.leaving.keys()
        if confirmed:
            made = allocate(of, [applicant], now=now, confirmed=confirmed, replicas=size)
        if request.hinted and made.doubts.full:
            made = allocate(self._counted_live(request), [applicant], now=now, confirmed=request.facts, replicas=size)
        return made

    def _counted_live(self, request: Request) -> UnitedTopology:
        view, size = request.live
        observed = Observed(list(self.views[view].values()), size, self.topology.status.revision, str(view))
        made = recount(self.topology, observed, now=self._now())
        assert isinstance(made, Recount), "what is read live is never too old"
        return with_status(self.topology, made.status)

    def _size(self, request: Request) -> int:
        """What percentages are of: the workload's size when it was looked at, whatever was counted."""
        return self.topology.status.replicas if request.size is None else request.size

    def _held(self, revision: str, name: str) -> int:
        """Pods that were given a place and have it still, and those that are about to come."""
        there = sum(pod.active and bool(pod.reservation) for pod in self._of(revision, name))
        coming = [each for each in self.requests if (each.revision, each.choice) == (revision, name)]
        return there + len(coming)

    def _serve(self, request: Request, *, refused: bool) -> None:
        pod = self.pods.get(request.pod)
        if request.verb == "create":
            chosen = request.choice or ""
            reservation = f"of-{request.pod}" if chosen else ""
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

    def _recount(self, view: int, size: int) -> object:
        members = list(self.views[view].values())
        observed = Observed(members, size, str(self.revision), str(view))
        made = recount(self.topology, observed, now=self._now())
        if isinstance(made, Recount) and made.overdue:
            present = {key for pod in self.pods.values() for key in (pod.name, pod.reservation)}
            absent = frozenset(made.overdue) - present
            made = recount(self.topology, replace(observed, absent=absent), now=self._now())
        return made

    # The store.

    def _store(self, pod: Member) -> None:
        self.pods = {**self.pods, pod.name: replace(pod, version=str(len(self.views)))}
        self.views.append(self.pods)

    def _put(self, status: UnitedTopologyStatus) -> None:
        if status != self.topology.status:
            self.topology = with_status(self.topology, status)
            self.version += 1

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
