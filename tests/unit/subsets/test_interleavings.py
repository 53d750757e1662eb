"""Every interleaving of two webhooks and a controller, each with a view as old as it likes.

The model below is a cluster reduced to what matters: one UnitedTopology, its pods with their history, and requests
under way. Whoever decides calls the functions that the product calls. A step is anything that can happen next:

- A webhook's request goes on: it reads the status; reads pods live; writes conditionally (and starts anew after a
  conflict); and the API server stores, refuses or loses what was asked for. Anything may happen between any two of
  these.
- A controller counts, from *any* earlier state of the pods: caches that lag, and a new leader whose cache lags behind
  the old one's. It may believe that the time for a deletion is over; that the time for a creation is over only if no
  creation is under way, for an API server ends them all.
- A terminating pod disappears.

All states that can be reached are visited. In none of them has a subset more pods than it may; and from each state in
which all requests have ended, a controller that sees everything brings the status to a plain count, with no entry left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

import pytest

from tests.unit.subsets.topologies import REVISION, at, subset, topology, with_status
from trimtab.api import codec
from trimtab.api.unitedtopology import Subset, UnitedTopologyStatus
from trimtab.subsets.allocation import PodCreation, PodDeletion, allocate, announce, revert_deletions
from trimtab.subsets.members import Member
from trimtab.subsets.recount import Observation, Stale, recount
from trimtab.subsets.statuses import pod_and_reservation

SOON, AFTER_DELETION, AFTER_CREATION = at(0), at(2), at(100)


class Life(Enum):
    """What is known of a pod in the store."""

    ACTIVE = "active"
    TERMINATING = "terminating"
    GONE = "gone"


class Phase(Enum):
    """How far a request has come."""

    START = 0
    READ = 1
    """The status was read, in its current version or in an older one."""
    LOOKED = 2
    """Pods were read uncached after that."""
    WRITTEN = 3
    """The webhook has answered; the API server has the word."""
    DONE = 4


@dataclass(frozen=True)
class Stored:
    """A pod in the store."""

    name: str
    subset: str
    life: Life = Life.ACTIVE
    version: int = 0


@dataclass(frozen=True)
class Request:
    """A request on its way through a webhook."""

    verb: str
    """`create`, `delete`, `evict` (which a disruption budget may refuse) or `take back`, the webhook's later check."""
    pod: str
    waits_for: str = ""
    """The pod whose end it is the answer to: a replacement."""
    phase: Phase = Phase.START
    fresh: bool = True
    """Whether the status that it read is still the current one."""
    facts: frozenset[str] = frozenset()
    choice: str | None = None


Pods = tuple[Stored, ...]


@dataclass(frozen=True)
class State:
    """Everything. `history` has the pods after each change, the last one is how they are."""

    status: bytes
    history: tuple[Pods, ...]
    requests: tuple[Request, ...]
    view: int = 0
    """The last recount of the controller, where its cache never goes back."""

    @property
    def pods(self) -> Pods:
        return self.history[-1]

    def find(self, name: str) -> Stored | None:
        return next((pod for pod in self.pods if pod.name == name), None)


class World:
    """The rules of the model for one UnitedTopology."""

    def __init__(self, subsets: tuple[Subset, ...], *, orderly: bool = False) -> None:
        self.empty = topology(*subsets)
        self.limits = {each.name: each.max_replicas for each in subsets}
        self.orderly = orderly
        """Whether there is one controller whose cache never goes back, and for which no time limit is ever over."""
        self._statuses: dict[bytes, UnitedTopologyStatus] = {}
        self._counts: dict[Hashable, bytes | None] = {}

    # The beginning.

    def start(self, present: Pods, requests: tuple[Request, ...]) -> State:
        """These pods are there and counted, these requests are about to come."""
        state = State(codec.encode(self.empty.status), (present,), requests)
        counted = self.count(state, 0, SOON)
        assert counted is not None
        return counted

    # What can happen next.

    def steps(self, state: State) -> Iterator[State]:
        """Every state that may follow."""
        for index, request in enumerate(state.requests):
            for following, changed in self.proceed(state, request):
                requests = [*following.requests]
                requests[index] = changed
                yield replace(following, requests=tuple(requests))
        yield from self.counts(state)
        for pod in state.pods:
            if pod.life is Life.TERMINATING:
                yield self.stored(state, replace(pod, life=Life.GONE))

    def proceed(self, state: State, request: Request) -> Iterator[tuple[State, Request]]:
        """The ways in which one request may go on."""
        match request.phase:
            case Phase.START if self.due(state, request):
                yield state, replace(request, phase=Phase.READ, fresh=True)
            case Phase.READ:
                yield state, replace(request, phase=Phase.LOOKED, facts=self.look(state, request))
            case Phase.LOOKED:
                yield self.write(state, request)
            case Phase.WRITTEN:
                done = replace(request, phase=Phase.DONE, facts=frozenset())
                yield from ((following, done) for following in self.served(state, request))
            case _:
                return

    def due(self, state: State, request: Request) -> bool:
        """A replacement is created only after its predecessor is seen terminating."""
        if request.waits_for:
            pod = state.find(request.waits_for)
            return pod is None or pod.life is not Life.ACTIVE
        return request.verb == "create" or state.find(request.pod) is not None

    def look(self, state: State, request: Request) -> frozenset[str]:
        """The uncached reads: which announced pods are terminating, or whether the pod exists."""
        if request.verb == "create":
            announced = {name for row in self.status(state).subset_statuses for name in row.deleting}
            found = {name: state.find(name) for name in announced}
            return frozenset(name for name, pod in found.items() if pod is None or pod.life is not Life.ACTIVE)
        pod = state.find(request.pod)
        return frozenset([request.pod] if pod is not None and pod.life is Life.ACTIVE else [])

    def write(self, state: State, request: Request) -> tuple[State, Request]:
        """The conditional write: after a conflict everything begins anew, with a status read then."""
        if not request.fresh:
            return state, replace(request, phase=Phase.START, facts=frozenset())
        status, choice = self.decide(state, request)
        done = replace(request, phase=Phase.WRITTEN, choice=choice, facts=frozenset())
        return self.written(state, codec.encode(status)), done

    def decide(self, state: State, request: Request) -> tuple[UnitedTopologyStatus, str | None]:
        now = with_status(self.empty, self.status(state))
        if request.verb == "create":
            creation = PodCreation(f"of-{request.pod}", REVISION)
            made = allocate(now, [creation], now=SOON, confirmed=request.facts, replicas=now.status.replicas)
            index = made.choices[creation.reservation]
            return made.status, None if index is None else now.spec.subsets[index].name
        if not request.facts:
            return now.status, None
        if request.verb == "take back":
            return revert_deletions(now, request.facts), None
        pod = state.find(request.pod)
        assert pod is not None
        deletion = PodDeletion(pod.name, REVISION, pod.subset, f"of-{pod.name}")
        return announce(now, [deletion], now=SOON), None

    def served(self, state: State, request: Request) -> Iterator[State]:
        """What the API server makes of it in the end."""
        if request.verb != "delete":
            yield state  # the replica died, the budget refused, or there is nothing more to do
        pod = state.find(request.pod)
        if request.verb == "create" and request.choice is not None:
            yield self.stored(state, Stored(request.pod, request.choice))
        elif request.verb in ("delete", "evict") and pod is not None and pod.life is Life.ACTIVE:
            yield self.stored(state, replace(pod, life=Life.TERMINATING))
        elif request.verb == "delete":
            yield state

    # The controller.

    def counts(self, state: State) -> Iterator[State]:
        """Recounts from any earlier state of the pods, at any possible time."""
        creating = any(request.verb == "create" and request.phase is Phase.WRITTEN for request in state.requests)
        moments = [SOON] if self.orderly else [SOON, AFTER_DELETION] + ([] if creating else [AFTER_CREATION])
        for view in range(state.view, len(state.history)):
            for now in moments:
                following = self.count(state, view, now)
                if following is not None and following.status != state.status:
                    yield replace(following, view=view if self.orderly else 0)

    def count(self, state: State, view: int, now: datetime) -> State | None:
        """The state after a count; None if the cache is refused as too old."""
        case = (state.status, state.history[view], view, self.absent(state), now)
        if case not in self._counts:
            self._counts[case] = self.recounted(state, view, now)
        text = self._counts[case]
        return None if text is None else self.written(state, text)

    def recounted(self, state: State, view: int, now: datetime) -> bytes | None:
        """The status after a count, by the product's own function."""
        current = with_status(self.empty, self.status(state))
        members = [
            Member(pod.name, revision=REVISION, subset=pod.subset, reservation=f"of-{pod.name}",
                   active=pod.life is Life.ACTIVE, version=str(pod.version))
            for pod in state.history[view] if pod.life is not Life.GONE
        ]  # fmt: skip
        made = recount(current, Observation(members, 10, REVISION, str(view), self.absent(state)), now=now)
        return None if isinstance(made, Stale) else codec.encode(made.status)

    def absent(self, state: State) -> frozenset[str]:
        """The pods that an uncached read does not find."""
        present = {f"of-{pod.name}" for pod in state.pods if pod.life is not Life.GONE}
        entries = {key for row in self.status(state).subset_statuses for key in row.creating}
        return frozenset(key for key in entries if pod_and_reservation(key)[1] not in present)

    # The store.

    def status(self, state: State) -> UnitedTopologyStatus:
        if state.status not in self._statuses:
            self._statuses[state.status] = codec.decode(state.status, UnitedTopologyStatus)
        return self._statuses[state.status]

    def written(self, state: State, text: bytes) -> State:
        """The status is stored; those who have read the one before conflict now."""
        if text == state.status:
            return state
        requests = tuple(replace(request, fresh=False) if request.phase in (Phase.READ, Phase.LOOKED) else request
                         for request in state.requests)  # fmt: skip
        return replace(state, status=text, requests=requests)

    def stored(self, state: State, pod: Stored) -> State:
        """A pod is stored in a new version."""
        changed = replace(pod, version=len(state.history))
        others = tuple(other for other in state.pods if other.name != pod.name)
        return replace(state, history=(*state.history, (*others, changed)))

    # What must hold.

    def check(self, state: State) -> None:
        """No subset has more active pods than it may."""
        active = Counter(pod.subset for pod in state.pods if pod.life is Life.ACTIVE)
        for name, most in self.limits.items():
            assert most is None or active[name] <= int(most), f"{name} has {active[name]} of {most}: {state}"

    def check_end(self, state: State) -> None:
        """A controller that sees everything ends with a plain count."""
        view = len(state.history) - 1
        for _ in range(3):
            state = self.count(state, view, AFTER_CREATION) or state
        active = Counter(pod.subset for pod in state.pods if pod.life is Life.ACTIVE)
        for row in self.status(state).subset_statuses:
            most = self.limits[row.name]
            assert row.replicas == active[row.name]
            assert row.missing_replicas == (-1 if most is None else int(most) - active[row.name])
            assert not row.creating, f"a reservation is left: {row}"
            assert not row.deleting, f"an announcement is left: {row}"


def explore(world: World, start: State) -> set[State]:
    """All states that can be reached; each is checked."""
    seen = {start}
    waiting = [start]
    while waiting:
        state = waiting.pop()
        world.check(state)
        if all(request.phase is Phase.DONE for request in state.requests):
            world.check_end(state)
        for following in world.steps(state):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return seen


ONE = (subset("a", 1), subset("b"))
TWO = (subset("a", 2), subset("b", 1))
P, Q = Stored("p", "a"), Stored("q", "a")


@pytest.mark.parametrize(
    ("subsets", "present", "requests"),
    [
        pytest.param(ONE, (), (Request("create", "x"), Request("create", "y")), id="two pods for the capacity of one"),
        pytest.param(
            ONE,
            (P,),
            (Request("evict", "p"), Request("create", "x")),
            id="an eviction that may be refused, and a new pod",
        ),
        pytest.param(
            ONE,
            (P,),
            (Request("delete", "p"), Request("delete", "p"), Request("create", "x")),
            id="one pod deleted twice, and a new pod",
        ),
        pytest.param(
            ONE,
            (P,),
            (Request("evict", "p"), Request("take back", "p"), Request("create", "x")),
            id="a reverted eviction, and a new pod",
        ),
        pytest.param(
            ONE,
            (),
            (Request("create", "x"), Request("delete", "x"), Request("create", "y")),
            id="a pod deleted before anybody counts it, and a new pod",
        ),
        pytest.param(
            TWO,
            (P, Q),
            (Request("delete", "p"), Request("evict", "q"), Request("create", "x")),
            id="one deleted, one evicted, and a new pod",
        ),
        pytest.param(
            TWO,
            (P,),
            (Request("delete", "p"), Request("create", "x"), Request("create", "y")),
            id="one deleted, and two new pods",
        ),
    ],
)
def test_no_interleaving_exceeds_a_limit(
    subsets: tuple[Subset, ...], present: Pods, requests: tuple[Request, ...]
) -> None:
    """In every state that can be reached each subset keeps its limit, and every end is a plain count."""
    world = World(subsets)
    assert len(explore(world, world.start(present, requests))) > 50


def test_a_successor_always_gets_the_capacity_of_its_predecessor() -> None:
    """Whatever the controller has seen, a pod that replaces a deleted one goes to the same subset."""
    world = World(ONE, orderly=True)
    requests = (Request("delete", "p"), Request("create", "x", waits_for="p"))
    states = explore(world, world.start((P,), requests))
    chosen = {state.requests[1].choice for state in states if state.requests[1].phase is Phase.WRITTEN}
    assert chosen == {"a"}


class Careless(World):
    """A webhook for which every announced deletion frees capacity, without reading the pod."""

    def look(self, state: State, request: Request) -> frozenset[str]:
        if request.verb == "create":
            return frozenset(name for row in self.status(state).subset_statuses for name in row.deleting)
        return super().look(state, request)


class Hasty(World):
    """A deletion webhook that believes the review and does not read the pod again."""

    def look(self, state: State, request: Request) -> frozenset[str]:
        return frozenset([request.pod]) if request.verb == "delete" else super().look(state, request)


class Backward(World):
    """A controller that counts from a cache older than the one before it had."""

    def recounted(self, state: State, view: int, now: datetime) -> bytes | None:
        unguarded = codec.to_tree(self.status(state)) | {"countedVersion": "0"}
        text = codec.encode(codec.convert(unguarded, UnitedTopologyStatus))
        return super().recounted(replace(state, status=text), view, now)


@pytest.mark.parametrize(
    ("kind", "present", "requests"),
    [
        pytest.param(
            Careless, (P,), (Request("evict", "p"), Request("create", "x")), id="rule 3: unconfirmed deletions"
        ),
        pytest.param(
            Hasty,
            (P,),
            (Request("delete", "p"), Request("delete", "p"), Request("create", "x", "p"), Request("create", "y", "p")),
            id="rule 2: deletions of pods that are not counted",
        ),
        pytest.param(Backward, (), (Request("create", "x"), Request("create", "y")), id="rule 5: caches that go back"),
    ],
)
def test_each_rule_is_needed(kind: type[World], present: Pods, requests: tuple[Request, ...]) -> None:
    """Without it the exploration finds a subset with too many pods: the model would notice."""
    world = kind(ONE)
    with pytest.raises(AssertionError, match="has 2 of 1"):
        explore(world, world.start(present, requests))
