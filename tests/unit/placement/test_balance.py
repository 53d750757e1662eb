"""Balanced allocation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.plugin_clusters import agrees, incoming_pods, sample_clusters, scored
from tests.unit.placement.plugin_twins import ScoresByNode
from tests.unit.placement.samples import SampleCluster
from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import NodeResourcesBalancedAllocationArgs
from trimtab.placement.balance import NodeResourcesBalancedAllocation
from trimtab.testing.builders import PodBuilder, node, pod

GPU = "example.com/gpu"


def over(*names: str) -> NodeResourcesBalancedAllocationArgs:
    """Arguments with these resources."""
    return codec.convert({"resources": [{"name": name} for name in names]}, NodeResourcesBalancedAllocationArgs)


@pytest.mark.parametrize(
    ("given_args", "incoming", "want"),
    [
        pytest.param(over(), pod("p"), None, id="a pod without requests is skipped"),
        pytest.param(
            over(), pod("p").requests(**{GPU: "1"}), None, id="a pod that requests none of the resources is skipped"
        ),
        pytest.param(
            over(), pod("p").requests(cpu="2", memory="2Gi"), {"a": (75, 75), "b": (75, 75)}, id="even as before"
        ),
        pytest.param(over(), pod("p").requests(cpu="4"), {"a": (62, 62), "b": (87, 87)}, id="less even, and more"),
        pytest.param(
            over("cpu"), pod("p").requests(cpu="4"), {"a": (75, 75), "b": (75, 75)}, id="one resource is always even"
        ),
        pytest.param(
            over("cpu", "memory", GPU),
            pod("p").requests(cpu="4", **{GPU: "2"}),
            {"a": (63, 63), "b": (87, 87)},
            id="three resources, of which one node has two",
        ),
        pytest.param(
            over(), pod("p").requests(cpu="80"), {"a": (50, 50), "b": (75, 75)}, id="no fraction is above one"
        ),
    ],
)
def test_balance_score(
    given_args: NodeResourcesBalancedAllocationArgs, incoming: PodBuilder, want: ScoresByNode | None
) -> None:
    """Two nodes of 8 CPUs and 8 GiB: the first is empty, and has GPUs; the second has half of its memory in use."""
    room = {"cpu": "8", "memory": "8Gi"}
    sample = SampleCluster(
        [node("a").allocatable(**room, **{GPU: "4"}).build(), node("b").allocatable(**room).build()],
        [pod("q").on("b").requests(memory="4Gi").build()],
    )
    assert scored(NodeResourcesBalancedAllocation(given_args), incoming.build(), sample) == want


def test_pod_level_requests_count() -> None:
    """They do so here, though not in the score of the fit."""
    sample = SampleCluster([node("a").allocatable(cpu="8", memory="8Gi").build()], [])
    incoming = pod("p").spec(resources={"requests": {"cpu": "4"}}).build()
    assert scored(NodeResourcesBalancedAllocation(), incoming, sample) == {"a": (62, 62)}


def test_two_fractions_are_compared_directly_even_if_a_third_resource_is_configured() -> None:
    """4 % and 72 %: half the difference is 34 % exactly, the formula for more would give a little more than that."""
    nodes = [node("a").allocatable(cpu="100m", memory="100").build(), node("b").allocatable(**{GPU: "1"}).build()]
    incoming = pod("p").requests(cpu="4m", memory="72", **{GPU: "1"}).build()
    marks = scored(NodeResourcesBalancedAllocation(over("cpu", "memory", GPU)), incoming, SampleCluster(nodes, []))
    assert marks is not None
    assert marks["a"] == (58, 58)


@pytest.mark.parametrize(
    ("resources", "path"),
    [
        pytest.param([{"name": "cpu", "weight": 2}], "resources[0].weight", id="a weight"),
        pytest.param([{"name": "cpu"}, {"name": "cpu"}], "resources[1].name", id="a resource twice"),
    ],
)
def test_errors_name_the_invalid_argument(resources: list[Any], path: str) -> None:
    """All resources weigh the same, and each is there once."""
    with pytest.raises(InvalidError) as raised:
        NodeResourcesBalancedAllocation(codec.convert({"resources": resources}, NodeResourcesBalancedAllocationArgs))
    assert raised.value.path == path


ARGS = st.sampled_from(
    [
        over("cpu", "memory"),
        over("cpu"),
        over("cpu", "memory", GPU),
        over("memory", "ephemeral-storage", "cpu", GPU, "hugepages-2Mi", "pods"),
    ]
)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_balance_agrees_with_its_twin(data: st.DataObject) -> None:
    """On any cluster, the plugin computes to the last bit what the textbook's formula gives for each node."""
    fields = ("initContainers", "overhead", "resources")
    sample, churn = data.draw(sample_clusters(*fields))
    chosen = data.draw(ARGS)
    incoming = data.draw(incoming_pods(*fields))
    agrees(NodeResourcesBalancedAllocation(chosen), incoming, sample, chosen, churn)
