"""The node that a pod names, and cordoned nodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.plugin_twins import NEVER, PASSED, Verdicts, World
from tests.unit.placement.plugin_worlds import NAMES, agrees, filtered, incoming_pods, snapshot_of, worlds
from trimtab.api.pods import Pod
from trimtab.placement.framework import Cycle
from trimtab.placement.selection import NodeName, NodeUnschedulable
from trimtab.testing.builders import PodBuilder, node, pod

ELSEWHERE = (NEVER, ("node(s) didn't match the requested node name",))
CORDONED = (NEVER, ("node(s) were unschedulable",))

WORLD = World([node("a").build(), node("b").cordoned().build()], [])


@pytest.mark.parametrize(
    ("incoming", "want"),
    [
        pytest.param(pod("p"), None, id="a pod that names no node may go anywhere"),
        pytest.param(pod("p").spec(nodeName="b"), {"a": ELSEWHERE, "b": PASSED}, id="the named node alone will do"),
        pytest.param(
            pod("p").spec(nodeName="gone"), {"a": ELSEWHERE, "b": ELSEWHERE}, id="a node that is not there never will"
        ),
    ],
)
def test_the_named_node(incoming: PodBuilder, want: Verdicts | None) -> None:
    """A pod that names a node goes there or nowhere."""
    assert filtered(NodeName(), incoming.build(), WORLD) == want


@pytest.mark.parametrize(
    ("incoming", "want"),
    [
        pytest.param(pod("p"), {"a": PASSED, "b": CORDONED}, id="a cordoned node is refused"),
        pytest.param(pod("p").tolerates("node.kubernetes.io/unschedulable"), None, id="unless the pod tolerates it"),
        pytest.param(pod("p").tolerates(), None, id="or everything"),
        pytest.param(
            pod("p").tolerates("node.kubernetes.io/unschedulable", effect="NoExecute"),
            {"a": PASSED, "b": CORDONED},
            id="tolerating another effect does not help",
        ),
    ],
)
def test_cordoned_nodes(incoming: PodBuilder, want: Verdicts | None) -> None:
    """A cordoned node takes only pods that tolerate the taint which stands for it, whether or not it has the taint."""
    assert filtered(NodeUnschedulable(), incoming.build(), WORLD) == want


def test_a_refusal_does_not_change_with_the_next_event() -> None:
    """What was said of a node that is uncordoned later stays as it was said."""
    view = snapshot_of(WORLD)
    refusals = NodeUnschedulable().filter(Cycle(pod("p").build(), view))
    view.put(node("b").build())
    assert refusals is not None
    assert refusals.reasons[0][0].tolist() == [False, True]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_selection_agrees_with_its_twins(data: st.DataObject) -> None:
    """On any cluster, both plugins say what a walk over the nodes says."""
    world, _ = data.draw(worlds())
    incoming: Pod = data.draw(incoming_pods("tolerations"))
    agrees(NodeUnschedulable(), incoming, world)
    named = pod("new").spec(nodeName=data.draw(st.sampled_from(["", *NAMES]))).build()
    agrees(NodeName(), named, world)
