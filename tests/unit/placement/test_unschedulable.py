"""NodeUnschedulable: cordoned nodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.plugin_clusters import agrees, filtered, incoming_pods, sample_clusters
from tests.unit.placement.plugin_twins import NEVER, PASSED, Verdicts
from tests.unit.placement.samples import SampleCluster
from trimtab.api.pods import Pod
from trimtab.placement.framework import Cycle
from trimtab.placement.unschedulable import NodeUnschedulable
from trimtab.testing.builders import PodBuilder, node, pod

CORDONED = (NEVER, ("node(s) were unschedulable",))

CLUSTER = SampleCluster([node("a").build(), node("b").cordoned().build()], [])


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
    assert filtered(NodeUnschedulable(), incoming.build(), CLUSTER) == want


def test_a_refusal_does_not_change_with_the_next_event() -> None:
    """A refusal stays the same if the node is uncordoned later."""
    view = CLUSTER.snapshot()
    refusals = NodeUnschedulable().filter(Cycle(pod("p").build(), view))
    view.put(node("b").build())
    assert refusals is not None
    assert refusals.reasons[0][0].tolist() == [False, True]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_cordons_agree_with_their_twin(data: st.DataObject) -> None:
    """On any cluster, the plugin decides as a loop over the nodes does."""
    sample, _ = data.draw(sample_clusters())
    incoming: Pod = data.draw(incoming_pods("tolerations"))
    agrees(NodeUnschedulable(), incoming, sample)
