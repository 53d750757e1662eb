"""Changes: what of an update matters to pods that wait, and under which name."""

from __future__ import annotations

import pytest

from trimtab.api import codec
from trimtab.api.apps import ReplicaSet
from trimtab.api.core import Namespace, Service
from trimtab.placement import changes
from trimtab.snapshot.requests import compute
from trimtab.testing.builders import NodeBuilder, PodBuilder, node, pod


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, node("a"), ["NodeAdd"], id="a node is added"),
        pytest.param(node("a"), None, ["NodeDelete"], id="a node is deleted"),
        pytest.param(node("a"), node("a").annotations(seen="now"), [], id="a heartbeat is nothing"),
        pytest.param(node("a"), node("a").labels(disk="ssd"), ["NodeUpdateNodeLabel"], id="its labels change"),
        pytest.param(node("a"), node("a").taint("x"), ["NodeUpdateNodeTaint"], id="its taints change"),
        pytest.param(node("a").cordoned(), node("a"), ["NodeUpdateNodeTaint"], id="it is open again"),
        pytest.param(node("a"), node("a").cordoned(), [], id="cordoning is not a change that may help"),
        pytest.param(node("a"), node("a").allocatable(cpu="9"), ["NodeUpdateNodeAllocatable"], id="it grows"),
        pytest.param(
            node("a"),
            node("a").labels(disk="ssd").taint("x").allocatable(cpu="9"),
            ["NodeUpdateNodeTaint", "NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel"],
            id="all at once are three changes",
        ),
    ],
)
def test_changes_of_a_node(old: NodeBuilder | None, new: NodeBuilder | None, want: list[str]) -> None:
    """Only fields that filters read count."""
    found = changes.of_node(old.build() if old else None, new.build() if new else None)
    assert [change.label for change in found] == want


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(pod("p"), pod("p").phase("Running"), [], id="its status is nothing"),
        pytest.param(pod("p"), pod("p").annotations(a="b"), [], id="an annotation is nothing"),
        pytest.param(pod("p"), pod("p").labels(a="b"), ["UnschedulablePodUpdatePodLabel"], id="a label"),
        pytest.param(
            pod("p").on("a"),
            pod("p").on("a").labels(a="b"),
            ["AssignedPodUpdatePodLabel"],
            id="a label of a pod on a node",
        ),
        pytest.param(
            pod("p"), pod("p").tolerates("x"), ["UnschedulablePodUpdatePodToleration"], id="one more toleration"
        ),
        pytest.param(
            pod("p").spec(schedulingGates=[{"name": "g"}]),
            pod("p"),
            ["UnschedulablePodUpdatePodSchedulingGatesEliminated"],
            id="the last gate is removed",
        ),
        pytest.param(
            pod("p").on("a").requests(cpu="2"),
            pod("p").on("a").requests(cpu="1"),
            ["AssignedPodUpdatePodScaleDown"],
            id="it requests less",
        ),
        pytest.param(
            pod("p").requests(cpu="1"), pod("p").requests(cpu="2"), ["UnschedulablePodUpdate"], id="it requests more"
        ),
        pytest.param(
            pod("p").on("a"), pod("p").on("a").terminating(), ["AssignedPodUpdatePodTerminating"], id="it starts to go"
        ),
    ],
)
def test_changes_of_a_pod(old: PodBuilder, new: PodBuilder, want: list[str]) -> None:
    """A pod's changes are named by whether it has a node, as kube-scheduler names them."""
    assert [change.label for change in changes.of_pod(old.build(), new.build(), compute)] == want


def test_changes_of_a_namespace_are_those_of_its_labels() -> None:
    """A phase is nothing, a label is something."""
    plain = codec.convert({"metadata": {"name": "n"}}, Namespace)
    labelled = codec.convert({"metadata": {"name": "n", "labels": {"team": "a"}}}, Namespace)
    ending = codec.convert({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}}, Namespace)
    assert [c.label for c in changes.of_namespace(plain, labelled)] == ["NamespaceUpdate"]
    assert [c.label for c in changes.of_namespace(None, plain)] == ["NamespaceAdd"]
    assert [c.label for c in changes.of_namespace(plain, None)] == ["NamespaceDelete"]
    assert not list(changes.of_namespace(plain, ending))


def test_changes_of_a_service_are_those_of_its_selector() -> None:
    """A replica set that is scaled is nothing, a service with another selector is something."""
    web = codec.convert({"metadata": {"name": "s"}, "spec": {"selector": {"app": "web"}}}, Service)
    other = codec.convert({"metadata": {"name": "s"}, "spec": {"selector": {"app": "other"}}}, Service)
    two = codec.convert({"metadata": {"name": "r"}, "spec": {"replicas": 2}}, ReplicaSet)
    three = codec.convert({"metadata": {"name": "r"}, "spec": {"replicas": 3}}, ReplicaSet)
    assert [c.label for c in changes.of_group(web, other)] == ["GroupUpdate"]
    assert [c.label for c in changes.of_group(None, web)] == ["GroupAdd"]
    assert [c.label for c in changes.of_group(web, None)] == ["GroupDelete"]
    assert not list(changes.of_group(two, three))
