"""The scheduler's state: decisions on the live snapshot, and the end of assumptions."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from trimtab.api import codec
from trimtab.api.core import Namespace
from trimtab.api.core import Service as KubeService
from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND
from trimtab.placement.decisions import Decision
from trimtab.scheduler.configuration import read
from trimtab.scheduler.queuedpods import QueueState
from trimtab.scheduler.state import Attempt, SchedulerState
from trimtab.testing.builders import NodeBuilder, PodBuilder, node, pod
from trimtab.testing.clocks import VirtualClock


def new_state(*things: NodeBuilder | PodBuilder, namespaces: frozenset[str] = frozenset()) -> SchedulerState:
    """A state that has seen these nodes and pods."""
    configuration = read()
    state = SchedulerState(
        configuration.profiles,
        VirtualClock(),
        random.Random(1),
        backoff=configuration.backoff,
        namespaces=namespaces,
    )
    for thing in things:
        if isinstance(thing, NodeBuilder):
            state.node_updated(None, thing.build())
        else:
            state.pod_updated(None, thing.build())
    return state


def waiting(name: str) -> PodBuilder:
    """A pod of the profile trimtab."""
    return pod(name).labels(app="web").requests(cpu="1").spec(schedulerName="trimtab")


def attempt(state: SchedulerState) -> Attempt:
    """The next attempt, which must be there."""
    made = state.attempt()
    assert made is not None
    return made


def used(state: SchedulerState, name: str) -> int:
    """How many pods count on a node."""
    row = state.snapshot.nodes.rows.index[name]
    return int(state.snapshot.nodes.pods[row])


def test_pods_that_are_listed_together_are_handled_as_one_by_one() -> None:
    """Those with a node, those that wait, those of others, finished ones, and one whose binding is on its way."""
    listed = [
        pod("placed").on("a").labels(app="web").requests(cpu="1"),
        pod("done").on("a").phase("Succeeded"),
        waiting("new"),
        pod("of-another"),
        waiting("assumed").on("b"),
    ]
    together, one_by_one = (new_state(node("a"), node("b"), waiting("assumed")) for _ in range(2))
    for state in (together, one_by_one):
        attempt(state)
    together.pods_added([each.build() for each in listed])
    for each in listed:
        one_by_one.pod_updated(None, each.build())
    assert together.assumed == one_by_one.assumed == {}
    assert [each.pod.metadata.name for each in together.queued_pods()] == ["new"]
    for state in (together, one_by_one):
        assert [(name, used(state, name)) for name in ("a", "b")] == [("a", 1), ("b", 1)]
        assert len(list(state.queued_pods())) == 1


def test_a_listed_pod_requeues_the_pods_that_it_helps() -> None:
    """As one that is reported by itself."""
    follower = waiting("follower").affinity(
        {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "leader"}}}
                ]
            }
        }
    )
    state = new_state(node("a"), follower)
    assert attempt(state).node == ""
    assert state.queue.has_unschedulable
    state.pods_added([pod("leader").on("a").labels(app="leader").build()])
    assert not state.queue.has_unschedulable


def test_a_pod_counts_on_its_node_from_the_decision_on() -> None:
    """The next pod sees it there, long before the API server does."""
    state = new_state(
        node("a").allocatable(pods="1"), node("b").allocatable(pods="1"), waiting("p"), waiting("q"), waiting("r")
    )
    assert {attempt(state).node, attempt(state).node} == {"a", "b"}
    last = attempt(state)
    assert (last.node, last.message) == ("", "0/2 nodes are available: 2 Too many pods.")
    assert state.attempt() is None


def test_pods_of_other_schedulers_are_ignored() -> None:
    """Neither pods of other schedulers, nor terminating or finished ones."""
    state = new_state(
        node("a"),
        pod("theirs").spec(schedulerName="default-scheduler"),
        waiting("leaving").terminating(),
        waiting("done").phase("Succeeded"),
    )
    assert state.attempt() is None
    assert not list(state.queued_pods())


def test_an_unsupported_pod_is_not_placed() -> None:
    """It is reported, and unschedulable until it changes."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    state = new_state(node("a"), waiting("p").spec(volumes=[volume]))
    made = attempt(state)
    assert made.message.startswith("not supported by Trimtab, leave it to kube-scheduler")
    assert not made.failed
    state.node_updated(None, node("b").build())
    assert state.attempt() is None


def test_without_nodes_a_pod_waits_for_the_first_one() -> None:
    """The sentence is kube-scheduler's."""
    state = new_state(waiting("p"))
    assert attempt(state).message == "no nodes available to schedule pods"
    state.node_updated(None, node("a").build())
    assert attempt(state).node == "a"


def test_an_exception_in_a_decision_is_a_failed_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One pod that breaks something does not stop the others; it is tried again."""

    def broken(*_: object) -> Decision:
        raise ZeroDivisionError("oh")

    state = new_state(node("a"), waiting("p"))
    monkeypatch.setattr("trimtab.scheduler.state.place", broken)
    made = attempt(state)
    assert (made.failed, made.message) == (True, "ZeroDivisionError: oh")
    assert "scheduling pod default/p failed" in caplog.text
    assert next(state.queued_pods()).state is QueueState.BACKING_OFF


def test_an_invalid_pod_is_a_failed_attempt() -> None:
    """An API server refuses such pods; if one is there nevertheless, its path is named."""
    broken = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    selector = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}
    state = new_state(node("a"), waiting("p").spec(topologySpreadConstraints=[{**broken, "labelSelector": selector}]))
    made = attempt(state)
    assert made.failed
    assert "spec.topologySpreadConstraints[0].labelSelector" in made.message


# --- what becomes of an assumption -----------------------------------------------------------------------------------


def test_the_watch_confirms_an_assumption() -> None:
    """The observed pod counts once, whether the response to the binding is handled before or after it."""
    for answered_first in (True, False):
        state = new_state(node("a"), waiting("p"))
        made = attempt(state)
        if answered_first:
            state.mark_bound(made)
        state.pod_updated(made.pod, waiting("p").on("a").build())
        state.mark_bound(made)
        assert used(state, "a") == 1
        assert not state.assumed
        assert not list(state.queued_pods())
        assert state.is_placed(made)


def test_a_pod_observed_on_another_node_replaces_the_assumption() -> None:
    """Another scheduler bound it: our node is free again, and the pods that it may help are requeued."""
    state = new_state(node("a").allocatable(pods="1"), waiting("p"), waiting("q"))
    made = attempt(state)
    assert attempt(state).node == ""
    state.node_updated(None, node("b").cordoned().build())
    state.pod_updated(made.pod, waiting("p").on("b").build())
    assert (used(state, "a"), used(state, "b")) == (0, 1)
    assert attempt(state).node == "a"
    assert not state.mark_failed(made)


def test_a_failed_binding_is_reverted() -> None:
    """The place is free, others are tried first, and the pod itself after a back-off."""
    state = new_state(node("a").allocatable(pods="1"), waiting("p"), waiting("q"))
    first = attempt(state)
    assert attempt(state).node == ""
    assert state.mark_failed(first)
    assert not state.assumed
    assert attempt(state).pod.metadata.name != first.pod.metadata.name
    assert used(state, "a") == 1


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda state, made: state.pod_deleted(made.pod), id="it is deleted"),
        pytest.param(
            lambda state, made: state.pod_updated(made.pod, waiting("p").terminating().build()),
            id="it starts to terminate",
        ),
        pytest.param(
            lambda state, made: state.pod_updated(made.pod, waiting("p").phase("Failed").build()), id="it has finished"
        ),
        pytest.param(lambda state, made: state.mark_deleted(made), id="the API server does not know it"),
    ],
)
def test_a_pod_deleted_during_its_binding_is_forgotten(happens: Callable[[SchedulerState, Attempt], None]) -> None:
    """Whatever the API server then answers means nothing any more."""
    state = new_state(node("a"), waiting("p"))
    made = attempt(state)
    happens(state, made)
    assert used(state, "a") == 0
    assert not state.is_assumed(made)
    state.mark_bound(made)
    assert not state.mark_failed(made)
    assert not state.assumed
    assert not list(state.queued_pods())


def test_a_pod_updated_during_its_binding_counts_as_updated() -> None:
    """And is tried as changed, should the binding fail."""
    state = new_state(node("a", zone="z1"), waiting("p"))
    made = attempt(state)
    state.pod_updated(made.pod, waiting("p").labels(app="changed").build())
    assumed = state.snapshot.pod("default/p")
    assert assumed is not None
    assert (assumed.metadata.labels, assumed.spec.node_name) == ({"app": "changed"}, "a")
    state.mark_failed(made)
    (again,) = state.queued_pods()
    assert again.pod.metadata.labels == {"app": "changed"}


def test_a_pod_of_the_same_name_is_independent_of_the_earlier_one() -> None:
    """The second pod of that name is on a node; rolling the first one back must not take it away."""
    state = new_state(node("a"), waiting("p"))
    first = attempt(state)
    state.pod_deleted(first.pod)
    state.pod_updated(None, waiting("p").uid("second").on("a").build())
    assert not state.mark_failed(first)
    state.mark_deleted(first)
    state.pod_deleted(first.pod)
    assert used(state, "a") == 1


async def test_confirmed_bindings_that_the_watch_does_not_show_are_listed() -> None:
    """Only confirmed bindings, and only after a while."""
    state = new_state(node("a"), waiting("p"), waiting("q"))
    bound, open_still = attempt(state), attempt(state)
    state.mark_bound(bound)
    clock = state._clock  # noqa: SLF001 - the clock is one that tests advance
    assert isinstance(clock, VirtualClock)
    assert state.unconfirmed(30 * SECOND) == []
    await clock.advance(30)
    assert state.unconfirmed(30 * SECOND) == [bound]
    assert state.is_assumed(open_still)
    assert state.mark_failed(bound)
    assert attempt(state).pod.key == bound.pod.key


# --- what is observed of the rest ------------------------------------------------------------------------------------


def test_a_deleted_node_gets_no_pods() -> None:
    """Its pods are still counted, should it come back."""
    state = new_state(node("a"), pod("old").on("a"), waiting("p"))
    state.node_deleted(node("a").build())
    assert attempt(state).message == "no nodes available to schedule pods"
    state.node_updated(None, node("a").build())
    assert used(state, "a") == 1
    assert attempt(state).node == "a"


def test_services_and_namespaces_are_added_and_deleted() -> None:
    """They are part of decisions: default constraints, and terms that select namespaces."""
    state = new_state()
    service = codec.convert(
        {"metadata": {"name": "s", "namespace": "n"}, "spec": {"selector": {"app": "web"}}}, KubeService
    )
    namespace = codec.convert({"metadata": {"name": "n"}}, Namespace)
    state.group_updated(None, service)
    state.namespace_updated(None, namespace)
    assert list(state.snapshot.groups(KubeService, "n")) == [service]
    assert state.snapshot.namespaces == {"n": namespace}
    state.group_deleted(service)
    state.namespace_deleted(namespace)
    assert not list(state.snapshot.groups(KubeService, "n"))
    assert not state.snapshot.namespaces


def test_services_of_other_namespaces_are_ignored() -> None:
    """The watches that it shares with other components are of all namespaces."""
    state = new_state(namespaces=frozenset({"shop"}))
    ours, theirs = (
        codec.convert({"metadata": {"name": "s", "namespace": name}, "spec": {"selector": {"app": "web"}}}, KubeService)
        for name in ("shop", "search")
    )
    for service in (ours, theirs):
        state.group_updated(None, service)
    assert list(state.snapshot.groups(KubeService, "shop")) == [ours]
    assert not list(state.snapshot.groups(KubeService, "search"))
    state.group_deleted(theirs)
    assert list(state.snapshot.groups(KubeService, "shop")) == [ours]


def test_a_pod_whose_deletion_was_missed_is_replaced_by_its_successor() -> None:
    """Informers report the first as deleted and then the second as added; both under one name."""
    state = new_state(node("a"), node("b"), waiting("p").on("a"))
    state.pod_deleted(waiting("p").on("a").build())
    state.pod_updated(None, waiting("p").uid("second").build())
    assert used(state, "a") == 0
    assert attempt(state).pod.metadata.uid == "second"


def _pods_of(state: SchedulerState) -> list[Pod]:
    return [made for made in state.snapshot.pods.objects if made is not None]


def test_pods_that_wait_are_not_in_the_snapshot() -> None:
    """They are in the queue alone; a snapshot is what nodes hold."""
    state = new_state(node("a"), waiting("p"), pod("theirs").spec(schedulerName="other"))
    assert not _pods_of(state)
    attempt(state)
    assert [made.metadata.name for made in _pods_of(state)] == ["p"]
