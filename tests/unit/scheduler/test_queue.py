"""The queue: order, states and requeueing. Numbers are those of its rules."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND
from trimtab.kube.retries import Backoff
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.requeue import UNSUPPORTED
from trimtab.scheduler.queue import Queue
from trimtab.scheduler.queuedpods import QueuedPod, QueueState
from trimtab.snapshot.requests import compute
from trimtab.testing.builders import PodBuilder, node, pod

REFUSED = frozenset(("NodeResourcesFit",))
NODE_ADDED = Change(Subject.NODE, Action.ADD, None, node("a").build())
BACKOFF = Backoff(initial=1.0, cap=10.0)


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 1000 * SECOND

    def now(self) -> int:
        """The time of day."""
        return self.time

    def monotonic(self) -> int:
        """The same."""
        return self.time

    async def sleep(self, seconds: float) -> None:
        """The queue never waits."""
        raise AssertionError(seconds)

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.time += round(seconds * SECOND)


class Counts:
    """An observer that counts."""

    def __init__(self) -> None:
        self.incoming_pods: Counter[tuple[str, str]] = Counter()
        self.refused_pods: Counter[str] = Counter()

    def count_incoming(self, queue: str, event: str) -> None:
        """Count it."""
        self.incoming_pods[queue, event] += 1

    def count_refused(self, plugins: frozenset[str], profile: str, sign: int) -> None:
        """Count it."""
        assert profile == "trimtab"
        for plugin in plugins:
            self.refused_pods[plugin] += sign


class Stage:
    """A queue, its clock, and the pods that hints were evaluated for."""

    def __init__(self) -> None:
        self.clock = Hand()
        self.counts = Counts()
        self.helps = True
        self.evaluated: list[str] = []
        self.queue = Queue(self.clock, self.help, compute, backoff=BACKOFF, observer=self.counts)

    def help(self, pod: Pod, refused_by: frozenset[str], change: Change) -> bool:
        """The result of the hints."""
        assert refused_by
        assert change.label
        self.evaluated.append(pod.metadata.name)
        return self.helps

    def take(self) -> str:
        """The name of the next pod; empty if there is none."""
        queued = self.queue.take()
        return queued.pod.metadata.name if queued else ""

    def refuse(self, name: str, by: frozenset[str] = REFUSED) -> QueuedPod:
        """Add a pod of that name, and have it tried and refused."""
        self.queue.put(made(name).build())
        return self.refuse_next(name, by)

    def refuse_next(self, name: str, by: frozenset[str] = REFUSED) -> QueuedPod:
        """Have the next pod refused, which must be that one."""
        queued = self.queue.take()
        assert queued is not None
        assert queued.pod.metadata.name == name
        self.queue.record_refusal(queued, by)
        return queued

    def state(self, name: str) -> QueueState | None:
        """Where a pod is."""
        return next((w.state for w in self.queue if w.pod.metadata.name == name), None)


@pytest.fixture
def stage() -> Stage:
    """An empty queue."""
    return Stage()


def made(name: str, *, priority: int = 0) -> PodBuilder:
    """A pod of the profile trimtab."""
    return pod(name).labels(app="web").spec(schedulerName="trimtab", priority=priority)


def test_pods_are_taken_by_priority_then_by_time(stage: Stage) -> None:
    """Rule 1."""
    for name, priority in (("first", 0), ("second", 0), ("important", 10), ("unimportant", -5)):
        stage.queue.put(made(name, priority=priority).build())
        stage.clock.move(1)
    assert [stage.take() for _ in range(5)] == ["important", "first", "second", "unimportant", ""]


def test_a_pod_without_a_priority_has_priority_zero(stage: Stage) -> None:
    """Pods have no priority where no priority classes exist."""
    stage.queue.put(made("below", priority=-1).build())
    stage.queue.put(pod("none").spec(schedulerName="trimtab").build())
    assert [stage.take(), stage.take()] == ["none", "below"]


def test_a_pod_in_flight_is_not_taken_twice(stage: Stage) -> None:
    """An update does not make it active."""
    stage.queue.put(made("p").build())
    assert stage.take() == "p"
    stage.queue.put(made("p").labels(app="changed").build())
    assert stage.take() == ""
    assert stage.state("p") is QueueState.IN_FLIGHT


def test_a_refused_pod_waits_for_a_change_that_may_help(stage: Stage) -> None:
    """Rule 2: a change that cannot help leaves it unschedulable."""
    stage.refuse("p")
    assert stage.take() == ""
    stage.helps = False
    stage.queue.requeue_helped(NODE_ADDED)
    assert stage.state("p") is QueueState.UNSCHEDULABLE
    stage.helps = True
    stage.queue.requeue_helped(NODE_ADDED)
    assert stage.take() == "p"


def test_a_change_that_concerns_no_plugin_is_not_evaluated(stage: Stage) -> None:
    """Whether a pod fits does not depend on a namespace."""
    stage.refuse("p")
    stage.queue.requeue_helped(Change(Subject.NAMESPACE, Action.ADD, None, None))
    assert not stage.evaluated


def test_similar_pods_are_evaluated_once(stage: Stage) -> None:
    """A hundred pods of one template are evaluated once; a pod with other labels separately."""
    for number in range(100):
        stage.refuse(f"p{number}")
    stage.queue.put(made("other").labels(app="other").build())
    stage.refuse_next("other")
    stage.queue.requeue_helped(NODE_ADDED)
    assert stage.evaluated == ["p0", "other"]
    assert stage.queue.length(QueueState.UNSCHEDULABLE) == 0


def test_a_pod_is_unschedulable_for_five_minutes_at_most(stage: Stage) -> None:
    """Rule 2: `next_due` is the timeout, and the pod is flagged as flushed, for metrics."""
    queued = stage.refuse("p")
    assert stage.queue.next_due == stage.clock.time + 300 * SECOND
    stage.clock.move(299)
    assert stage.take() == ""
    stage.clock.move(1)
    assert stage.take() == "p"
    assert queued.flushed
    assert stage.counts.incoming_pods["active", "UnschedulableTimeout"] == 1


def test_an_update_does_not_prolong_the_five_minutes(stage: Stage) -> None:
    """Rule 2: the timeout depends on the refusal and not on later updates."""
    stage.refuse("early")
    stage.clock.move(10)
    stage.refuse("late")
    stage.queue.put(made("early").annotations(seen="yes").build())
    stage.clock.move(290)
    assert [stage.take(), stage.take()] == ["early", ""]


def test_back_off_doubles_and_ends_with_a_full_second(stage: Stage) -> None:
    """Rule 3: 1, 2, 4, 8 and then 10 seconds; seen with failures, which wait to the end."""
    stage.clock.move(0.4)
    stage.queue.put(made("p").build())
    waits = []
    for _ in range(6):
        queued = stage.queue.take()
        assert queued is not None
        started = stage.clock.time
        stage.queue.record_failure(queued)
        assert stage.take() == ""
        due = stage.queue.next_due
        assert due is not None
        assert due % SECOND == 0
        waits.append((due - started) // SECOND)
        stage.clock.time = due + 400_000_000
    assert waits == [1, 2, 4, 8, 10, 10]


def test_a_refused_pod_is_taken_early_if_no_pod_is_active(stage: Stage) -> None:
    """Rule 4: queued only serves the others."""
    stage.refuse("p")
    stage.queue.requeue_helped(NODE_ADDED)
    assert stage.state("p") is QueueState.BACKING_OFF
    stage.queue.put(made("fresh").build())
    assert [stage.take(), stage.take()] == ["fresh", "p"]
    assert stage.counts.incoming_pods["active", "PopFromBackoffQ"] == 1


def test_after_its_back_off_a_pod_competes_by_priority_again(stage: Stage) -> None:
    """Rule 3: an important pod does not wait behind those that never failed."""
    stage.queue.put(made("important", priority=10).build())
    stage.refuse_next("important")
    stage.queue.requeue_helped(NODE_ADDED)
    stage.queue.put(made("fresh").build())
    stage.clock.move(2)
    assert stage.take() == "important"


def test_a_pod_whose_back_off_is_over_is_active_at_once(stage: Stage) -> None:
    """The back-off also runs while the pod is unschedulable."""
    stage.refuse("p")
    stage.clock.move(5)
    stage.queue.requeue_helped(NODE_ADDED)
    assert stage.state("p") is QueueState.ACTIVE


def test_a_failed_pod_waits_for_the_end_of_its_back_off(stage: Stage) -> None:
    """Rule 4: and a refusal after it starts counting from refusals again."""
    stage.queue.put(made("p").build())
    queued = stage.queue.take()
    assert queued is not None
    stage.queue.record_failure(queued)
    assert stage.state("p") is QueueState.BACKING_OFF
    assert stage.take() == ""
    stage.clock.move(2)
    assert stage.take() == "p"
    stage.queue.record_refusal(queued, REFUSED)
    assert (queued.failures, queued.refusals, queued.attempts) == (0, 1, 2)


def test_only_its_own_change_requeues_an_unsupported_pod(stage: Stage) -> None:
    """Rule 5: neither time nor nodes help it."""
    stage.refuse("p", frozenset((UNSUPPORTED,)))
    assert stage.queue.next_due is None
    stage.clock.move(1000)
    assert stage.take() == ""
    stage.queue.put(made("p").labels(app="changed").build())
    assert stage.take() == "p"


def test_a_gated_pod_waits_until_its_last_gate_is_gone(stage: Stage) -> None:
    """No change of the cluster opens a gate, and no time does."""
    stage.queue.put(made("p").spec(schedulingGates=[{"name": "a"}, {"name": "b"}]).build())
    stage.queue.requeue_helped(NODE_ADDED)
    stage.clock.move(1000)
    assert stage.take() == ""
    assert stage.queue.length(QueueState.GATED) == 1
    stage.queue.put(made("p").spec(schedulingGates=[{"name": "a"}]).build())
    assert stage.take() == ""
    stage.queue.put(made("p").build())
    assert stage.take() == "p"


def test_the_latest_version_of_a_pod_is_taken(stage: Stage) -> None:
    """An update while it is active, or backing off, replaces it."""
    stage.queue.put(made("p").build())
    stage.queue.put(made("p").labels(app="new").build())
    queued = stage.queue.take()
    assert queued is not None
    assert queued.pod.metadata.labels == {"app": "new"}
    stage.queue.record_failure(queued)
    stage.queue.put(made("p").labels(app="newer").build())
    stage.clock.move(2)
    again = stage.queue.take()
    assert again is queued
    assert again.pod.metadata.labels == {"app": "newer"}


@pytest.mark.parametrize(
    ("after", "tried"),
    [
        pytest.param(made("p").labels(app="new"), True, id="its labels changed"),
        pytest.param(made("p").tolerates("x"), True, id="it tolerates more"),
        pytest.param(made("p").condition("PodScheduled", "False"), False, id="only its status changed"),
        pytest.param(made("p").annotations(a="b"), False, id="only an annotation changed"),
    ],
)
def test_a_refused_pod_is_requeued_if_its_own_change_may_help(stage: Stage, after: PodBuilder, tried: bool) -> None:
    """What we write into its status ourselves must not start it anew."""
    stage.refuse("p")
    stage.queue.put(after.build())
    assert (stage.take() == "p") is tried


@pytest.mark.parametrize(
    "where",
    [QueueState.ACTIVE, QueueState.BACKING_OFF, QueueState.UNSCHEDULABLE, QueueState.GATED, QueueState.IN_FLIGHT],
)
def test_a_pod_can_be_dropped_in_every_state(stage: Stage, where: QueueState) -> None:
    """It is never taken, and no count includes it."""
    queued = moved_to(stage, where)
    stage.queue.drop(queued.uid)
    stage.queue.record_refusal(queued, REFUSED)
    stage.queue.record_failure(queued)
    stage.queue.requeue_helped(NODE_ADDED)
    stage.clock.move(1000)
    assert stage.take() == ""
    assert len(stage.queue) == 0
    assert {place: stage.queue.length(place) for place in QueueState} == dict.fromkeys(QueueState, 0)
    assert not +stage.counts.refused_pods


def moved_to(stage: Stage, where: QueueState) -> QueuedPod:
    """A pod that is there."""
    gates = [{"name": "g"}] if where is QueueState.GATED else []
    stage.queue.put(made("p").spec(schedulingGates=gates).build())
    if where not in (QueueState.ACTIVE, QueueState.GATED):
        queued = stage.queue.take()
        assert queued is not None
        if where is QueueState.BACKING_OFF:
            stage.queue.record_failure(queued)
        elif where is QueueState.UNSCHEDULABLE:
            stage.queue.record_refusal(queued, REFUSED)
    (found,) = stage.queue
    assert found.state is where
    return found


def test_a_pod_of_the_same_name_with_another_uid_is_another_pod(stage: Stage) -> None:
    """What becomes of the first, in flight, is nothing to the second."""
    stage.queue.put(made("p").build())
    first = stage.queue.take()
    assert first is not None
    stage.queue.drop(first.uid)
    stage.queue.put(made("p").uid("another").build())
    stage.queue.record_failure(first)
    second = stage.queue.take()
    assert second is not None
    assert second.uid == "another"
    assert second.attempts == 1


def test_the_first_activation_is_recorded(stage: Stage) -> None:
    """From then on people wait for it: not while it was gated, and not only since the last attempt."""
    stage.queue.put(made("p").spec(schedulingGates=[{"name": "g"}]).build())
    stage.clock.move(60)
    stage.queue.put(made("p").build())
    opened = stage.clock.time
    stage.clock.move(5)
    queued = stage.refuse_next("p")
    stage.queue.requeue_helped(NODE_ADDED)
    assert queued.first_active == opened


def test_incoming_pods_are_counted_as_in_kube_scheduler(stage: Stage) -> None:
    """The names of queues and events are on dashboards."""
    stage.refuse("p")
    stage.queue.requeue_helped(NODE_ADDED)
    stage.clock.move(2)
    stage.refuse_next("p")
    assert stage.counts.incoming_pods == {
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 2,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
    }
    assert stage.counts.refused_pods == {"NodeResourcesFit": 1}


def test_on_ready_is_called_when_a_pod_can_be_taken(stage: Stage) -> None:
    """The service waits for this call and does not poll."""
    calls: list[int] = []
    stage.queue.on_ready = lambda: calls.append(1)
    stage.queue.put(made("p").build())
    assert len(calls) == 1
    stage.refuse_next("p")
    assert len(calls) == 1
    stage.queue.requeue_helped(NODE_ADDED)
    assert len(calls) == 2


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32))
def test_no_pod_is_forgotten_or_taken_twice(seed: int) -> None:
    """Whatever happens in whatever order, every pod is in exactly one place, and in the end everybody was tried."""
    rng = random.Random(seed)
    stage = Stage()
    alive: dict[str, Pod] = {}
    flying: dict[str, QueuedPod] = {}
    for step in range(120):
        stage.helps = rng.random() < 0.7
        _act(rng, stage, alive, flying, step)
        assert {queued.uid for queued in stage.queue} == set(alive)
        lengths = Counter(queued.state for queued in stage.queue)
        assert all(stage.queue.length(place) == lengths[place] for place in QueueState)
        assert {uid for uid, queued in flying.items() if queued.state is QueueState.IN_FLIGHT} == set(flying)
        assert len(stage.queue) == len(alive)
    _check_none_left(stage, alive, flying)


def _act(rng: random.Random, stage: Stage, alive: dict[str, Pod], flying: dict[str, QueuedPod], step: int) -> None:
    match rng.randrange(8):
        case 0:
            gates = [{"name": "g"}] if rng.random() < 0.2 else []
            new = made(f"p{step}", priority=rng.randrange(3)).spec(schedulingGates=gates).build()
            alive[new.metadata.uid] = new
            stage.queue.put(new)
        case 1 if alive:
            uid = rng.choice(list(alive))
            changed = made(alive[uid].metadata.name).labels(version=str(rng.randrange(3)))
            alive[uid] = changed.build()
            stage.queue.put(alive[uid])
        case 2 if alive and rng.random() < 0.5:
            uid = rng.choice(list(alive))
            del alive[uid]
            flying.pop(uid, None)
            stage.queue.drop(uid)
        case 3:
            stage.queue.requeue_helped(NODE_ADDED)
        case 4:
            stage.clock.move(rng.choice((0.3, 1, 20, 400)))
        case 5 | 6:
            taken = stage.queue.take()
            if taken is not None:
                assert taken.uid not in flying
                assert taken.pod is alive[taken.uid]
                flying[taken.uid] = taken
        case 7 if flying:
            landed = flying.pop(rng.choice(list(flying)))
            stage.queue.record_failure(landed) if rng.random() < 0.3 else stage.queue.record_refusal(landed, REFUSED)


def _check_none_left(stage: Stage, alive: dict[str, Pod], flying: dict[str, QueuedPod]) -> None:
    """Given time and no gates, everybody is taken."""
    for landed in flying.values():
        stage.queue.record_refusal(landed, REFUSED)
    for uid, waiting_pod in alive.items():
        if waiting_pod.spec.scheduling_gates:
            alive[uid] = made(waiting_pod.metadata.name).build()
            stage.queue.put(alive[uid])
    stage.clock.move(400)
    taken = set()
    while (queued := stage.queue.take()) is not None:
        taken.add(queued.uid)
    assert taken == set(alive)
