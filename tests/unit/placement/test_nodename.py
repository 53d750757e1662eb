"""NodeName."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.plugin_clusters import NAMES, agrees, filtered, sample_clusters
from tests.unit.placement.plugin_twins import NEVER, PASSED, Verdicts
from tests.unit.placement.samples import SampleCluster
from trimtab.placement.nodename import NodeName
from trimtab.testing.builders import PodBuilder, node, pod

ELSEWHERE = (NEVER, ("node(s) didn't match the requested node name",))

CLUSTER = SampleCluster([node("a").build(), node("b").cordoned().build()], [])


@pytest.mark.parametrize(
    ("incoming", "want"),
    [
        pytest.param(pod("p"), None, id="a pod that names no node may go anywhere"),
        pytest.param(pod("p").spec(nodeName="b"), {"a": ELSEWHERE, "b": PASSED}, id="the named node alone will do"),
        pytest.param(pod("p").spec(nodeName="gone"), {"a": ELSEWHERE, "b": ELSEWHERE}, id="a node that does not exist"),
    ],
)
def test_the_named_node(incoming: PodBuilder, want: Verdicts | None) -> None:
    """All other nodes are refused."""
    assert filtered(NodeName(), incoming.build(), CLUSTER) == want


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_node_name_agrees_with_its_twin(data: st.DataObject) -> None:
    """On any cluster, the plugin decides as a loop over the nodes does."""
    sample, _ = data.draw(sample_clusters())
    named = pod("new").spec(nodeName=data.draw(st.sampled_from(["", *NAMES]))).build()
    agrees(NodeName(), named, sample)
