"""The cycle: decisions on the live snapshot, and what becomes of assumptions."""

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
from trimtab.scheduler.cycle import Attempt, Cycle
from trimtab.scheduler.queue import Place
from trimtab.testing.builders import NodeBuilder, PodBuilder, node, pod
from trimtab.testing.clocks import VirtualClock


def new_cycle(*things: NodeBuilder | PodBuilder) -> Cycle:
    """A cycle that has seen these nodes and pods."""
    configuration = read()
    cycle = Cycle(configuration.profiles, VirtualClock(), random.Random(1), backoff=configuration.backoff)
    for thing in things:
        if isinstance(thing, NodeBuilder):
            cycle.node_seen(None, thing.build())
        else:
            cycle.pod_seen(None, thing.build())
    return cycle


def waiting(name: str) -> PodBuilder:
    """A pod of ours."""
    return pod(name).labels(app="web").requests(cpu="1").spec(schedulerName="trimtab")


def attempt(cycle: Cycle) -> Attempt:
    """The next attempt, which must be there."""
    made = cycle.attempt()
    assert made is not None
    return made


def used(cycle: Cycle, name: str) -> int:
    """How many pods count on a node."""
    row = cycle.snapshot.nodes.rows.index[name]
    return int(cycle.snapshot.nodes.pods[row])


def test_a_pod_counts_on_its_node_from_the_decision_on() -> None:
    """The next pod sees it there, long before the API server does."""
    cycle = new_cycle(
        node("a").allocatable(pods="1"), node("b").allocatable(pods="1"), waiting("p"), waiting("q"), waiting("r")
    )
    assert {attempt(cycle).node, attempt(cycle).node} == {"a", "b"}
    last = attempt(cycle)
    assert (last.node, last.sentence) == ("", "0/2 nodes are available: 2 Too many pods.")
    assert cycle.attempt() is None


def test_pods_of_others_are_not_ours() -> None:
    """Neither another scheduler's pods, nor those on their way out, nor those that have finished."""
    cycle = new_cycle(
        node("a"),
        pod("theirs").spec(schedulerName="default-scheduler"),
        waiting("leaving").terminating(),
        waiting("done").phase("Succeeded"),
    )
    assert cycle.attempt() is None
    assert not list(cycle.waiting())


def test_a_pod_that_needs_what_we_do_not_judge_is_left_to_others() -> None:
    """It is told so, and kept until it changes."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    cycle = new_cycle(node("a"), waiting("p").spec(volumes=[volume]))
    made = attempt(cycle)
    assert made.sentence.startswith("not supported by Trimtab, leave it to kube-scheduler")
    assert not made.failed
    cycle.node_seen(None, node("b").build())
    assert cycle.attempt() is None


def test_without_nodes_a_pod_waits_for_the_first_one() -> None:
    """The sentence is kube-scheduler's."""
    cycle = new_cycle(waiting("p"))
    assert attempt(cycle).sentence == "no nodes available to schedule pods"
    cycle.node_seen(None, node("a").build())
    assert attempt(cycle).node == "a"


def test_a_decision_that_fails_is_an_attempt_that_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One pod that breaks something does not stop the others; it is tried again."""

    def broken(*_: object) -> Decision:
        raise ZeroDivisionError("oh")

    cycle = new_cycle(node("a"), waiting("p"))
    monkeypatch.setattr("trimtab.scheduler.cycle.place", broken)
    made = attempt(cycle)
    assert (made.failed, made.sentence) == (True, "ZeroDivisionError: oh")
    assert "deciding about default/p failed" in caplog.text
    assert next(cycle.waiting()).place is Place.BACKING_OFF


def test_a_pod_that_cannot_be_read_is_an_attempt_that_failed() -> None:
    """An API server refuses such pods; if one is there nevertheless, its path is named."""
    broken = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    selector = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}
    cycle = new_cycle(node("a"), waiting("p").spec(topologySpreadConstraints=[{**broken, "labelSelector": selector}]))
    made = attempt(cycle)
    assert made.failed
    assert "spec.topologySpreadConstraints[0].labelSelector" in made.sentence


# --- what becomes of an assumption -----------------------------------------------------------------------------------


def test_the_watch_confirms_an_assumption() -> None:
    """What is observed counts, once, whether the API server's answer comes before or after it."""
    for answered_first in (True, False):
        cycle = new_cycle(node("a"), waiting("p"))
        made = attempt(cycle)
        if answered_first:
            cycle.bound(made)
        cycle.pod_seen(made.pod, waiting("p").on("a").build())
        cycle.bound(made)
        assert used(cycle, "a") == 1
        assert not cycle.assumed
        assert not list(cycle.waiting())
        assert cycle.is_placed(made)


def test_an_assumption_yields_to_what_is_observed_elsewhere() -> None:
    """Somebody else was faster: the place on our node is free again, and who waited for it is tried."""
    cycle = new_cycle(node("a").allocatable(pods="1"), waiting("p"), waiting("q"))
    made = attempt(cycle)
    assert attempt(cycle).node == ""
    cycle.node_seen(None, node("b").cordoned().build())
    cycle.pod_seen(made.pod, waiting("p").on("b").build())
    assert (used(cycle, "a"), used(cycle, "b")) == (0, 1)
    assert attempt(cycle).node == "a"
    assert not cycle.failed(made)


def test_a_binding_that_failed_is_rolled_back() -> None:
    """The place is free, others are tried first, and the pod itself after a back-off."""
    cycle = new_cycle(node("a").allocatable(pods="1"), waiting("p"), waiting("q"))
    first = attempt(cycle)
    assert attempt(cycle).node == ""
    assert cycle.failed(first)
    assert not cycle.assumed
    assert attempt(cycle).pod.metadata.name != first.pod.metadata.name
    assert used(cycle, "a") == 1


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda cycle, made: cycle.pod_gone(made.pod), id="it is deleted"),
        pytest.param(
            lambda cycle, made: cycle.pod_seen(made.pod, waiting("p").terminating().build()), id="it starts to go"
        ),
        pytest.param(
            lambda cycle, made: cycle.pod_seen(made.pod, waiting("p").phase("Failed").build()), id="it has finished"
        ),
        pytest.param(lambda cycle, made: cycle.lost(made), id="the API server does not know it"),
    ],
)
def test_a_pod_that_goes_while_it_is_bound_leaves_no_trace(happens: Callable[[Cycle, Attempt], None]) -> None:
    """Whatever the API server then answers means nothing any more."""
    cycle = new_cycle(node("a"), waiting("p"))
    made = attempt(cycle)
    happens(cycle, made)
    assert used(cycle, "a") == 0
    assert not cycle.is_open(made)
    cycle.bound(made)
    assert not cycle.failed(made)
    assert not cycle.assumed
    assert not list(cycle.waiting())


def test_a_pod_that_changes_while_it_is_bound_counts_as_changed() -> None:
    """And is tried as changed, should the binding fail."""
    cycle = new_cycle(node("a", zone="z1"), waiting("p"))
    made = attempt(cycle)
    cycle.pod_seen(made.pod, waiting("p").labels(app="changed").build())
    assumed = cycle.snapshot.pod("default/p")
    assert assumed is not None
    assert (assumed.metadata.labels, assumed.spec.node_name) == ({"app": "changed"}, "a")
    cycle.failed(made)
    (again,) = cycle.waiting()
    assert again.pod.metadata.labels == {"app": "changed"}


def test_a_successor_is_not_touched_by_what_becomes_of_the_first() -> None:
    """The second pod of that name is on a node; rolling the first one back must not take it away."""
    cycle = new_cycle(node("a"), waiting("p"))
    first = attempt(cycle)
    cycle.pod_gone(first.pod)
    cycle.pod_seen(None, waiting("p").uid("second").on("a").build())
    assert not cycle.failed(first)
    cycle.lost(first)
    cycle.pod_gone(first.pod)
    assert used(cycle, "a") == 1


async def test_what_the_watch_never_shows_is_found() -> None:
    """Only those that the API server has said to be bound, and only after a while."""
    cycle = new_cycle(node("a"), waiting("p"), waiting("q"))
    bound, open_still = attempt(cycle), attempt(cycle)
    cycle.bound(bound)
    clock = cycle._clock  # noqa: SLF001 - the cycle was made with a clock that tests move
    assert isinstance(clock, VirtualClock)
    assert cycle.unconfirmed(30 * SECOND) == []
    await clock.advance(30)
    assert cycle.unconfirmed(30 * SECOND) == [bound]
    assert cycle.is_open(open_still)
    assert cycle.failed(bound)
    assert attempt(cycle).pod.key == bound.pod.key


# --- what is observed of the rest ------------------------------------------------------------------------------------


def test_a_node_that_goes_takes_no_more_pods() -> None:
    """Its pods are still counted, should it come back."""
    cycle = new_cycle(node("a"), pod("old").on("a"), waiting("p"))
    cycle.node_gone(node("a").build())
    assert attempt(cycle).sentence == "no nodes available to schedule pods"
    cycle.node_seen(None, node("a").build())
    assert used(cycle, "a") == 1
    assert attempt(cycle).node == "a"


def test_services_and_namespaces_are_known_and_forgotten() -> None:
    """They are part of decisions: default constraints, and terms that select namespaces."""
    cycle = new_cycle()
    service = codec.convert(
        {"metadata": {"name": "s", "namespace": "n"}, "spec": {"selector": {"app": "web"}}}, KubeService
    )
    namespace = codec.convert({"metadata": {"name": "n"}}, Namespace)
    cycle.group_seen(None, service)
    cycle.namespace_seen(None, namespace)
    assert list(cycle.snapshot.groups(KubeService, "n")) == [service]
    assert cycle.snapshot.namespaces == {"n": namespace}
    cycle.group_gone(service)
    cycle.namespace_gone(namespace)
    assert not list(cycle.snapshot.groups(KubeService, "n"))
    assert not cycle.snapshot.namespaces


def test_a_pod_whose_deletion_was_missed_is_replaced_by_its_successor() -> None:
    """Informers report the first as deleted and then the second as added; both under one name."""
    cycle = new_cycle(node("a"), node("b"), waiting("p").on("a"))
    cycle.pod_gone(waiting("p").on("a").build())
    cycle.pod_seen(None, waiting("p").uid("second").build())
    assert used(cycle, "a") == 0
    assert attempt(cycle).pod.metadata.uid == "second"


def _pods_of(cycle: Cycle) -> list[Pod]:
    return [made for made in cycle.snapshot.pods.objects if made is not None]


def test_pods_that_wait_are_not_in_the_snapshot() -> None:
    """They are in the queue alone; a snapshot is what nodes hold."""
    cycle = new_cycle(node("a"), waiting("p"), pod("theirs").spec(schedulerName="other"))
    assert not _pods_of(cycle)
    attempt(cycle)
    assert [made.metadata.name for made in _pods_of(cycle)] == ["p"]
