"""Requeue hints: which changes may help a pod, by the plugins that refused it."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api import codec
from trimtab.api.core import Namespace, Service
from trimtab.placement import changes, requeue
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.engine import place
from trimtab.placement.plugins import PLUGINS
from trimtab.placement.requeue import NO_NODES, UNSUPPORTED, RequeueHints
from trimtab.scheduler.configuration import read
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import NodeBuilder, PodBuilder, node, pod

Object = NodeBuilder | PodBuilder | None
PROFILES = read().profiles


def waiting(name: str = "p") -> PodBuilder:
    """A waiting pod of the profile trimtab."""
    return pod(name).labels(app="web").spec(schedulerName="trimtab")


def change_of(subject: Subject, action: Action, old: Object, new: Object) -> Change:
    """A change from one object to another."""
    return Change(subject, action, old.build() if old else None, new.build() if new else None)


def node_change(action: Action, old: NodeBuilder | None, new: NodeBuilder | None) -> Change:
    """A change of a node."""
    return change_of(Subject.NODE, action, old, new)


def pod_change(action: Action, old: PodBuilder | None, new: PodBuilder | None) -> Change:
    """A change of an assigned pod."""
    return change_of(Subject.ASSIGNED_POD, action, old, new)


def own_change(action: Action, old: PodBuilder, new: PodBuilder) -> Change:
    """A change of the waiting pod itself."""
    return change_of(Subject.WAITING_POD, action, old, new)


SPREAD = waiting().spread("zone")
NEAR = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "db"}}}
WITH_AFFINITY = waiting().affinity({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}})
WITH_ANTI_AFFINITY = waiting().avoids("zone", selector={"app": "db"})


@pytest.mark.parametrize(
    ("refused_by", "incoming", "change", "want"),
    [
        # No nodes, unsupported pods and unknown plugins.
        pytest.param(
            NO_NODES, waiting(), node_change(Action.ADD, None, node("a")), True, id="no nodes: a node is added"
        ),
        pytest.param(
            NO_NODES,
            waiting(),
            pod_change(Action.DELETE, pod("q").on("a"), None),
            False,
            id="no nodes: a pod is deleted",
        ),
        pytest.param(
            "TheirOwn",
            waiting(),
            node_change(Action.DELETE, node("a"), None),
            True,
            id="an unknown plugin: every change may help",
        ),
        pytest.param(
            UNSUPPORTED, waiting(), node_change(Action.ADD, None, node("a")), False, id="unsupported: a node is added"
        ),
        pytest.param(
            UNSUPPORTED,
            waiting(),
            own_change(Action.UPDATE, waiting(), waiting()),
            True,
            id="unsupported: the pod itself changes",
        ),
        # NodeResourcesFit.
        pytest.param(
            "NodeResourcesFit",
            waiting().requests(cpu="4"),
            node_change(Action.ADD, None, node("a").allocatable(cpu="8")),
            True,
            id="fit: a node is added that could take it",
        ),
        pytest.param(
            "NodeResourcesFit",
            waiting().requests(cpu="9"),
            node_change(Action.ADD, None, node("a").allocatable(cpu="8")),
            False,
            id="fit: a node is added that is too small",
        ),
        pytest.param(
            "NodeResourcesFit",
            waiting().requests(cpu="4"),
            node_change(Action.NODE_ALLOCATABLE, node("a").allocatable(cpu="4"), node("a").allocatable(cpu="8")),
            True,
            id="fit: a node grows",
        ),
        pytest.param(
            "NodeResourcesFit",
            waiting().requests(cpu="4"),
            node_change(Action.NODE_ALLOCATABLE, node("a").allocatable(cpu="8"), node("a").allocatable(cpu="4")),
            False,
            id="fit: a node shrinks",
        ),
        pytest.param(
            "NodeResourcesFit",
            waiting().requests(cpu="4"),
            node_change(Action.NODE_ALLOCATABLE, node("a"), node("a").allocatable(pods="200")),
            True,
            id="fit: a node accepts more pods",
        ),
        pytest.param(
            "NodeResourcesFit",
            waiting().requests(**{"example.com/gpu": "1"}),
            node_change(Action.NODE_ALLOCATABLE, node("a"), node("a").allocatable(**{"example.com/gpu": "2"})),
            True,
            id="fit: a node gets devices",
        ),
        pytest.param(
            "NodeResourcesFit",
            waiting(),
            pod_change(Action.DELETE, pod("q").on("a"), None),
            True,
            id="fit: a pod is deleted",
        ),
        pytest.param(
            "NodeResourcesFit",
            waiting(),
            pod_change(Action.ADD, None, pod("q").on("a")),
            False,
            id="fit: a pod is added",
        ),
        pytest.param(
            "NodeResourcesFit",
            waiting().requests(cpu="1"),
            pod_change(Action.POD_SCALE_DOWN, pod("q").on("a").requests(cpu="2"), pod("q").on("a").requests(cpu="1")),
            True,
            id="fit: a pod requests less of the same resource",
        ),
        pytest.param(
            "NodeResourcesFit",
            waiting().requests(memory="1Gi"),
            pod_change(Action.POD_SCALE_DOWN, pod("q").on("a").requests(cpu="2"), pod("q").on("a").requests(cpu="1")),
            False,
            id="fit: a pod requests less of another resource",
        ),
        # Taints, cordons, node affinity, node name and ports.
        pytest.param(
            "TaintToleration",
            waiting(),
            node_change(Action.NODE_TAINT, node("a").taint("x"), node("a")),
            True,
            id="taints: the taint is removed",
        ),
        pytest.param(
            "TaintToleration",
            waiting(),
            node_change(Action.NODE_TAINT, node("a"), node("a").taint("x")),
            False,
            id="taints: a taint is added",
        ),
        pytest.param(
            "TaintToleration",
            waiting(),
            node_change(Action.ADD, None, node("a").taint("x")),
            False,
            id="taints: a node is added with an untolerated taint",
        ),
        pytest.param(
            "TaintToleration",
            waiting(),
            own_change(Action.POD_TOLERATION, waiting(), waiting().tolerates("x")),
            True,
            id="taints: the pod tolerates more",
        ),
        pytest.param(
            "NodeUnschedulable",
            waiting(),
            node_change(Action.NODE_TAINT, node("a").cordoned(), node("a")),
            True,
            id="cordons: a node is uncordoned",
        ),
        pytest.param(
            "NodeUnschedulable",
            waiting(),
            node_change(Action.ADD, None, node("a").cordoned()),
            False,
            id="cordons: a cordoned node is added",
        ),
        pytest.param(
            "NodeUnschedulable",
            waiting().tolerates("node.kubernetes.io/unschedulable"),
            own_change(Action.POD_TOLERATION, waiting(), waiting()),
            True,
            id="cordons: the pod tolerates them now",
        ),
        pytest.param(
            "NodeAffinity",
            waiting().node_selector(disk="ssd"),
            node_change(Action.NODE_LABEL, node("a"), node("a").labels(disk="ssd")),
            True,
            id="node affinity: a node gets the label",
        ),
        pytest.param(
            "NodeAffinity",
            waiting().node_selector(disk="ssd"),
            node_change(Action.ADD, None, node("a", disk="hdd")),
            False,
            id="node affinity: a node is added with another label",
        ),
        pytest.param(
            "NodeName", waiting(), node_change(Action.ADD, None, node("a")), True, id="node name: a node is added"
        ),
        pytest.param(
            "NodePorts",
            waiting().host_port(80),
            pod_change(Action.DELETE, pod("q").on("a").host_port(80), None),
            True,
            id="ports: the port is free",
        ),
        pytest.param(
            "NodePorts",
            waiting().host_port(80),
            pod_change(Action.DELETE, pod("q").on("a").host_port(81), None),
            False,
            id="ports: another port is free",
        ),
        # PodTopologySpread.
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            pod_change(Action.ADD, None, pod("q").labels(app="web").on("a")),
            True,
            id="spread: a matching pod is added, which may raise the minimum",
        ),
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            pod_change(Action.DELETE, pod("q").labels(app="web").on("a"), None),
            True,
            id="spread: a matching pod is deleted",
        ),
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            pod_change(Action.POD_TERMINATING, pod("q").labels(app="web").on("a"), pod("q").labels(app="web").on("a")),
            True,
            id="spread: a matching pod starts to terminate",
        ),
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            pod_change(Action.DELETE, pod("q").labels(app="db").on("a"), None),
            False,
            id="spread: another pod is deleted",
        ),
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            pod_change(Action.DELETE, pod("q", namespace="other").labels(app="web").on("a"), None),
            False,
            id="spread: a pod of another namespace is deleted",
        ),
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            pod_change(Action.POD_LABEL, pod("q").labels(app="web").on("a"), pod("q").labels(app="db").on("a")),
            True,
            id="spread: a pod stops to match",
        ),
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            pod_change(
                Action.POD_LABEL, pod("q").labels(app="web").on("a"), pod("q").labels(app="web", tier="1").on("a")
            ),
            False,
            id="spread: a label changes that no selector uses",
        ),
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            node_change(Action.ADD, None, node("a", zone="z9")),
            True,
            id="spread: a node in a zone is added",
        ),
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            node_change(Action.ADD, None, node("a")),
            False,
            id="spread: a node without a zone is added",
        ),
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            node_change(Action.DELETE, node("a", zone="z9"), None),
            True,
            id="spread: a node is deleted, perhaps with the emptiest domain",
        ),
        pytest.param(
            "PodTopologySpread",
            SPREAD,
            own_change(Action.POD_LABEL, SPREAD, SPREAD),
            True,
            id="spread: the pod's own labels change",
        ),
        # InterPodAffinity.
        pytest.param(
            "InterPodAffinity",
            WITH_AFFINITY,
            pod_change(Action.ADD, None, pod("q").labels(app="db").on("a")),
            True,
            id="interpod: a pod that meets its affinity is added",
        ),
        pytest.param(
            "InterPodAffinity",
            WITH_AFFINITY,
            pod_change(Action.ADD, None, pod("q").labels(app="x").on("a")),
            False,
            id="interpod: another pod is added",
        ),
        pytest.param(
            "InterPodAffinity",
            WITH_AFFINITY,
            pod_change(Action.DELETE, pod("q").labels(app="db").on("a"), None),
            True,
            id="interpod: the last pod that met its affinity is deleted, and it may be the first",
        ),
        pytest.param(
            "InterPodAffinity",
            WITH_AFFINITY,
            pod_change(Action.POD_LABEL, pod("q").labels(app="x").on("a"), pod("q").labels(app="db").on("a")),
            True,
            id="interpod: a pod starts to meet its affinity",
        ),
        pytest.param(
            "InterPodAffinity",
            WITH_ANTI_AFFINITY,
            pod_change(Action.DELETE, pod("q").labels(app="db").on("a"), None),
            True,
            id="interpod: a pod that it avoids is deleted",
        ),
        pytest.param(
            "InterPodAffinity",
            WITH_ANTI_AFFINITY,
            pod_change(Action.DELETE, pod("q").labels(app="x").on("a"), None),
            False,
            id="interpod: another pod is deleted",
        ),
        pytest.param(
            "InterPodAffinity",
            WITH_ANTI_AFFINITY,
            pod_change(Action.POD_LABEL, pod("q").labels(app="db").on("a"), pod("q").labels(app="x").on("a")),
            True,
            id="interpod: a pod that it avoids changes its labels",
        ),
        pytest.param(
            "InterPodAffinity",
            waiting(),
            pod_change(Action.DELETE, pod("q").on("a").avoids("zone", selector={"app": "web"}), None),
            True,
            id="interpod: a pod that avoids it is deleted",
        ),
        pytest.param(
            "InterPodAffinity",
            WITH_AFFINITY,
            node_change(Action.NODE_LABEL, node("a", zone="z1"), node("a", zone="z2")),
            True,
            id="interpod: a node changes its zone",
        ),
        pytest.param(
            "InterPodAffinity",
            WITH_AFFINITY,
            node_change(Action.NODE_LABEL, node("a", zone="z1"), node("a", zone="z1", disk="ssd")),
            False,
            id="interpod: a node gets a label that no term uses",
        ),
    ],
)
def test_changes_that_may_help(refused_by: str, incoming: PodBuilder, change: Change, want: bool) -> None:
    """Each hint, with a change that helps and one that does not."""
    hints = RequeueHints(PROFILES, Snapshot())
    assert hints.can_help(incoming.build(), frozenset((refused_by,)), change) is want
    assert requeue.concerns(change)((refused_by,)) >= want


def test_a_service_may_help_pods_with_default_constraints() -> None:
    """Default constraints follow from services; a pod's own constraints do not."""
    service = codec.convert(
        {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}, Service
    )
    (change,) = changes.of_group(None, service)
    hints = RequeueHints(PROFILES, Snapshot())
    refused_by = frozenset(("PodTopologySpread",))
    assert hints.can_help(waiting().build(), refused_by, change)
    assert not hints.can_help(SPREAD.build(), refused_by, change)


def test_a_namespace_may_help_only_pods_with_affinity_between_pods() -> None:
    """Only affinity between pods applies to other namespaces."""
    namespace = codec.convert({"metadata": {"name": "n", "labels": {"team": "a"}}}, Namespace)
    (change,) = changes.of_namespace(None, namespace)
    hints = RequeueHints(PROFILES, Snapshot())
    assert hints.can_help(WITH_AFFINITY.build(), frozenset(("InterPodAffinity",)), change)
    assert not hints.can_help(WITH_AFFINITY.build(), frozenset(("PodTopologySpread", "NodeResourcesFit")), change)


def test_a_namespace_selector_limits_the_pods_that_may_help() -> None:
    """An added pod meets a term only if the selector matches its namespace."""
    term = {**NEAR, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    seeking = waiting().affinity({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}).build()
    view = Snapshot()
    view.put(codec.convert({"metadata": {"name": "ours", "labels": {"team": "a"}}}, Namespace))
    hints = RequeueHints(PROFILES, view)
    refused_by = frozenset(("InterPodAffinity",))
    ours = pod_change(Action.ADD, None, pod("q", namespace="ours").labels(app="db").on("a"))
    theirs = pod_change(Action.ADD, None, pod("q", namespace="theirs").labels(app="db").on("a"))
    assert hints.can_help(seeking, refused_by, ours)
    assert not hints.can_help(seeking, refused_by, theirs)


# --- where hints are declared ----------------------------------------------------------------------------------------

FILTERS = [name for name, kind in PLUGINS.items() if kind.make is not None and "filter" in kind.points]


@pytest.mark.parametrize("name", FILTERS)
def test_a_plugin_that_filters_declares_its_hints_beside_its_filter(name: str) -> None:
    """A plugin is one module or folder, which declares all of its hints, and one line of the registry."""
    kind = PLUGINS[name]
    assert kind.make is not None
    package, _, rest = type(kind.make(None)).__module__.removeprefix("trimtab.placement.").partition(".")
    home = importlib.import_module(f"trimtab.placement.{package}")
    assert home.PLUGIN is kind
    assert home.HINTS is kind.hints
    assert requeue.HINTS[name] is kind.hints
    assert kind.hints
    declared_in = {hint.condition.__module__ for hint in kind.hints if hint.condition is not None}
    assert declared_in <= {f"{home.__name__}.hints" if rest else home.__name__}


def test_no_module_declares_two_plugins() -> None:
    """A plugin can be added, and removed, without changing another."""
    kinds = [kind for kind in PLUGINS.values() if kind.make is not None]
    modules = [type(kind.make(None)).__module__ for kind in kinds if kind.make is not None]
    assert len(set(modules)) == len(modules)


# --- no change that helps is missed ----------------------------------------------------------------------------------

ZONES = ("z1", "z2", "")
APPS = ("web", "db")


def random_node(rng: random.Random, name: str) -> NodeBuilder:
    """A node that may be refused for any reason."""
    built = node(name, zone=rng.choice(ZONES)).allocatable(cpu=rng.choice(("1", "2")), pods=rng.choice(("2", "3")))
    if rng.random() < 0.3:
        built.taint("dedicated")
    if rng.random() < 0.2:
        built.cordoned()
    if rng.random() < 0.5:
        built.labels(disk="ssd")
    return built


def random_pod(rng: random.Random, name: str) -> PodBuilder:
    """A pod that may be refused for any reason."""
    built = (
        pod(name).labels(app=rng.choice(APPS)).requests(cpu=rng.choice(("0", "1", "2"))).spec(schedulerName="trimtab")
    )
    if rng.random() < 0.4:
        built.spread("zone", selector={"app": rng.choice(APPS)})
    if rng.random() < 0.3:
        built.avoids("zone", selector={"app": rng.choice(APPS)})
    if rng.random() < 0.2:
        built.affinity({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}})
    if rng.random() < 0.2:
        built.node_selector(disk="ssd")
    if rng.random() < 0.2:
        built.host_port(80)
    if rng.random() < 0.2:
        built.tolerates("dedicated")
    return built


def mutate(view: Snapshot, rng: random.Random) -> Iterable[Change]:
    """Change the cluster at random; the changes."""
    name = rng.choice("abcd")
    if rng.random() < 0.5:
        old = view.node(name)
        if old is not None and rng.random() < 0.3:
            view.drop(type(old), "", name)
            return list(changes.of_node(old, None))
        new = random_node(rng, name).build()
        view.put(new)
        return list(changes.of_node(old, new))
    key = f"pod-{rng.randrange(6)}"
    was = view.pod(f"default/{key}")
    if was is not None:
        view.drop(type(was), "default", key)
        return [Change(Subject.ASSIGNED_POD, Action.DELETE, was, None)]
    came = random_pod(rng, key).on(name).build()
    view.put(came)
    return [Change(Subject.ASSIGNED_POD, Action.ADD, None, came)]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32))
def test_every_change_that_makes_a_pod_schedulable_has_a_hint(seed: int) -> None:
    """In random clusters: a pod that can be placed after a change, and could not before, was requeued by a hint."""
    rng = random.Random(seed)
    view = Snapshot()
    for name in "ab":
        view.put(random_node(rng, name).build())
    hints = RequeueHints(PROFILES, view)
    incoming = random_pod(rng, "incoming").build()
    refused_by: frozenset[str] | None = None
    for _ in range(25):
        found = mutate(view, rng)
        helped = refused_by is None or any(hints.can_help(incoming, refused_by, change) for change in found)
        decision = place(incoming, view, PROFILES["trimtab"], rng)
        if decision.node is not None:
            assert helped, f"{refused_by} have no hint for {[change.label for change in found]}"
            refused_by = None
        elif helped:
            refused_by = frozenset(refusal.plugin for refusal in decision.refusals) or frozenset((NO_NODES,))
