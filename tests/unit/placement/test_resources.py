"""NodeResourcesFit: requests that fit, and the scoring strategies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.plugin_clusters import agrees, filtered, incoming_pods, sample_clusters, scored
from tests.unit.placement.plugin_twins import NEVER, NO, PASSED, ScoresByNode, Verdict
from tests.unit.placement.plugin_twins import curve as plain_curve
from tests.unit.placement.samples import SampleCluster
from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import NodeResourcesFitArgs, UtilizationShapePoint
from trimtab.placement.resources import NodeResourcesFit, curve
from trimtab.placement.utilization import is_extended, is_scalar
from trimtab.testing.builders import PodBuilder, node, pod

GPU = "example.com/gpu"


def args(
    weights: Mapping[str, int] | None = None,
    strategy: str = "LeastAllocated",
    shape: list[tuple[int, int]] | None = None,
) -> NodeResourcesFitArgs:
    """Arguments with this strategy, over resources of these weights."""
    made: dict[str, Any] = {"type": strategy}
    made["resources"] = [{"name": name, "weight": weight} for name, weight in (weights or {}).items()]
    if shape is not None:
        points = [{"utilization": utilization, "score": score} for utilization, score in shape]
        made["requestedToCapacityRatio"] = {"shape": points}
    return codec.convert({"scoringStrategy": made}, NodeResourcesFitArgs)


def ignoring(**names: list[str]) -> NodeResourcesFitArgs:
    """Arguments that leave something out."""
    return codec.convert(names, NodeResourcesFitArgs)


@pytest.mark.parametrize(
    ("incoming", "want"),
    [
        pytest.param(pod("p").requests(cpu="1"), PASSED, id="room enough"),
        pytest.param(pod("p").requests(cpu="2"), PASSED, id="to the last bit"),
        pytest.param(pod("p").requests(cpu="2001m"), (NO, ("Insufficient cpu",)), id="too little left"),
        pytest.param(pod("p").requests(cpu="4001m"), (NEVER, ("Insufficient cpu",)), id="never had as much"),
        pytest.param(
            pod("p").requests(cpu="3", memory="5Gi"),
            (NEVER, ("Insufficient cpu", "Insufficient memory")),
            id="all reasons are kept, and the worst code",
        ),
        pytest.param(
            pod("p").requests(**{GPU: "1", "ephemeral-storage": "1"}),
            (NEVER, ("Insufficient ephemeral-storage", f"Insufficient {GPU}")),
            id="a resource that the node does not have",
        ),
        pytest.param(pod("p").requests(cpu="0", **{GPU: "0"}), PASSED, id="asking for zero is asking for nothing"),
        pytest.param(
            pod("p").requests(odd="7", pods="9"), PASSED, id="a name without a domain is not a resource that counts"
        ),
    ],
)
def test_requests_that_fit(incoming: PodBuilder, want: Verdict) -> None:
    """A node is refused for what it has too little left of."""
    sample = SampleCluster(
        [node("a").allocatable(cpu="4", memory="4Gi", pods="9").build()],
        [pod("there").on("a").requests(cpu="2", memory="1Gi").build()],
    )
    assert filtered(NodeResourcesFit(), incoming.build(), sample) == {"a": want}


def test_the_number_of_pods_is_limited() -> None:
    """A node with as many pods as it allows takes no more; one that finished has made room."""
    full = [node("a").allocatable(pods="1").build()]
    refused = (NO, ("Too many pods",))
    assert filtered(NodeResourcesFit(), pod("p").build(), SampleCluster(full, [pod("q").on("a").build()])) == {
        "a": refused
    }
    done = pod("q").on("a").phase("Succeeded").build()
    assert filtered(NodeResourcesFit(), pod("p").build(), SampleCluster(full, [done])) == {"a": PASSED}


@pytest.mark.parametrize(
    ("given_args", "resource", "ignored"),
    [
        pytest.param(ignoring(ignoredResources=[GPU]), GPU, True, id="by its name"),
        pytest.param(ignoring(ignoredResourceGroups=["example.com"]), GPU, True, id="by its domain"),
        pytest.param(ignoring(ignoredResourceGroups=["example.org"]), GPU, False, id="another domain"),
        pytest.param(ignoring(ignoredResources=["cpu"]), "cpu", False, id="only extended resources can be"),
        pytest.param(ignoring(ignoredResources=["hugepages-2Mi"]), "hugepages-2Mi", False, id="huge pages are none"),
    ],
)
def test_ignored_resources(given_args: NodeResourcesFitArgs, resource: str, ignored: bool) -> None:
    """An extended resource can be left out of the filter."""
    sample = SampleCluster([node("a").allocatable(cpu="1").build()], [])
    verdicts = filtered(NodeResourcesFit(given_args), pod("p").requests(**{resource: "20Mi"}).build(), sample)
    assert verdicts == {"a": PASSED if ignored else (NEVER, (f"Insufficient {resource}",))}


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        pytest.param("example.com/gpu", True, True, id="with a domain"),
        pytest.param("gpu", False, False, id="without one"),
        pytest.param("kubernetes.io/thing", False, True, id="Kubernetes' own domain"),
        pytest.param("sub.kubernetes.io/thing", False, True, id="and what is below it"),
        pytest.param("requests.example.com/gpu", False, False, id="as a quota writes it"),
        pytest.param("hugepages-2Mi", False, True, id="huge pages"),
        pytest.param("attachable-volumes-csi", False, True, id="volumes that are attached"),
        pytest.param("example.com/not a name", False, False, id="what is no name"),
    ],
)
def test_extended_and_scalar_resource_names(name: str, extended: bool, scalar: bool) -> None:
    """Which names an operator may make up, and which are counted."""
    assert (is_extended(name), is_scalar(name)) == (extended, scalar)


@pytest.mark.parametrize(
    ("given_args", "incoming", "want"),
    [
        pytest.param(
            args(), pod("p").requests(cpu="1", memory="1Gi"), {"a": (50, 50), "b": (37, 37)}, id="least: what is left"
        ),
        pytest.param(
            args({"cpu": 3, "memory": 1}),
            pod("p").requests(cpu="1", memory="1Gi"),
            {"a": (50, 50), "b": (31, 31)},
            id="by weight",
        ),
        pytest.param(args({"cpu": 1}), pod("p"), {"a": (72, 72), "b": (47, 47)}, id="no request is taken for 100m"),
        pytest.param(args({"memory": 1}), pod("p"), {"a": (70, 70), "b": (70, 70)}, id="and for 200Mi"),
        pytest.param(
            args({"cpu": 1}), pod("p").requests(cpu="0"), {"a": (75, 75), "b": (50, 50)}, id="zero stays zero"
        ),
        pytest.param(
            args({"cpu": 1}), pod("p").requests(cpu="9"), {"a": (0, 0), "b": (0, 0)}, id="too much is nothing left"
        ),
        pytest.param(
            args({GPU: 1}),
            pod("p").requests(cpu="1"),
            {"a": (0, 0), "b": (0, 0)},
            id="an extended resource that is not requested",
        ),
        pytest.param(
            args({"cpu": 1, GPU: 1}),
            pod("p").requests(cpu="1", **{GPU: "1"}),
            {"a": (62, 62), "b": (25, 25)},
            id="one that a node lacks leaves its mean",
        ),
        pytest.param(
            args(strategy="MostAllocated"),
            pod("p").requests(cpu="1", memory="1Gi"),
            {"a": (50, 50), "b": (62, 62)},
            id="most: what is used",
        ),
        pytest.param(
            args({"cpu": 1}, strategy="MostAllocated"),
            pod("p").requests(cpu="9"),
            {"a": (100, 100), "b": (100, 100)},
            id="all, and no more",
        ),
        pytest.param(
            args({"cpu": 1, "memory": 2}, strategy="RequestedToCapacityRatio", shape=[(0, 0), (100, 10)]),
            pod("p").requests(cpu="1", memory="1Gi"),
            {"a": (50, 50), "b": (58, 58)},
            id="ratio: by the curve, rounded to the nearest",
        ),
        pytest.param(
            args({"cpu": 1, "memory": 1}, strategy="RequestedToCapacityRatio", shape=[(40, 0), (50, 2), (60, 0)]),
            pod("p").requests(cpu="1", memory="1Gi"),
            {"a": (20, 20), "b": (20, 20)},
            id="a resource that scores nothing leaves the mean",
        ),
    ],
)
def test_strategies(given_args: NodeResourcesFitArgs, incoming: PodBuilder, want: ScoresByNode) -> None:
    """Two nodes of 4 CPUs and 4 GiB: 1 CPU and 1 GiB are used on the first, with a GPU; 2 and 1 on the second."""
    room = {"cpu": "4", "memory": "4Gi", "pods": "9"}
    sample = SampleCluster(
        [node("a").allocatable(**room, **{GPU: "4"}).build(), node("b").allocatable(**room).build()],
        [
            pod("p1").on("a").requests(cpu="1", memory="1Gi").build(),
            pod("p2").on("b").requests(cpu="2", memory="1Gi").build(),
        ],
    )
    assert scored(NodeResourcesFit(given_args), incoming.build(), sample) == want


def test_the_score_of_an_incoming_pod_ignores_pod_level_requests() -> None:
    """Its filter does: this is how kube-scheduler 1.36 has it."""
    sample = SampleCluster([node("a").allocatable(cpu="4").build()], [])
    incoming = pod("p").requests(cpu="1").spec(resources={"requests": {"cpu": "5"}}).build()
    assert scored(NodeResourcesFit(args({"cpu": 1})), incoming, sample) == {"a": (75, 75)}
    assert filtered(NodeResourcesFit(), incoming, sample) == {"a": (NEVER, ("Insufficient cpu",))}


def test_resized_amounts_count_only_on_the_pods_node() -> None:
    """Resized amounts are in the status; an incoming pod is filtered by its spec."""
    tree = pod("p").requests(cpu="3").tree()
    status = {"name": "main", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "5"}}
    tree["status"]["containerStatuses"] = [status]
    sample = SampleCluster([node("a").allocatable(cpu="4").build()], [])
    assert filtered(NodeResourcesFit(), codec.convert(tree, type(pod("p").build())), sample) == {"a": PASSED}


SHAPES = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=1, max_size=5, unique_by=lambda p: p[0])


@given(SHAPES)
def test_the_curve_equals_the_plain_function(points: list[tuple[int, int]]) -> None:
    """Straight lines between the points, rounded towards the point before; level outside of them."""
    shape = tuple(UtilizationShapePoint(utilization=x, score=y) for x, y in sorted(points))
    assert curve(shape).tolist() == [plain_curve(shape, percent) for percent in range(101)]


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        pytest.param({"ignoredResources": ["a b"]}, "ignoredResources[0]", id="what is no name"),
        pytest.param({"ignoredResourceGroups": ["a/b"]}, "ignoredResourceGroups[0]", id="a group with a slash"),
        pytest.param(
            {"scoringStrategy": {"resources": [{"name": "cpu"}, {"name": "memory", "weight": 101}]}},
            "scoringStrategy.resources[1].weight",
            id="a weight above 100",
        ),
        pytest.param(
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": -1}]}},
            "scoringStrategy.resources[0].weight",
            id="a weight below 0",
        ),
        pytest.param(
            {"scoringStrategy": {"requestedToCapacityRatio": {"shape": []}}},
            "scoringStrategy.requestedToCapacityRatio",
            id="a curve for a strategy that has none",
        ),
        pytest.param(
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "scoringStrategy.requestedToCapacityRatio.shape",
            id="no curve for the strategy that needs one",
        ),
    ],
)
def test_errors_name_the_invalid_argument(tree: dict[str, Any], path: str) -> None:
    """A configuration is checked when it is read."""
    with pytest.raises(InvalidError) as raised:
        NodeResourcesFit(codec.convert(tree, NodeResourcesFitArgs))
    assert raised.value.path == path


@pytest.mark.parametrize(
    ("shape", "path"),
    [
        pytest.param([(0, 11)], "shape[0].score", id="a score above 10"),
        pytest.param([(0, 0), (101, 1)], "shape[1].utilization", id="a utilization above 100"),
        pytest.param([(50, 0), (50, 1)], "shape[1].utilization", id="points that do not rise"),
    ],
)
def test_errors_name_the_invalid_point_of_a_shape(shape: list[tuple[int, int]], path: str) -> None:
    """Points go from left to right, within the scale."""
    with pytest.raises(InvalidError) as raised:
        NodeResourcesFit(args(strategy="RequestedToCapacityRatio", shape=shape))
    assert raised.value.path == f"scoringStrategy.requestedToCapacityRatio.{path}"


def test_a_weight_of_zero_means_the_default() -> None:
    """And no resources at all are CPU and memory."""
    sample = SampleCluster([node("a").allocatable(cpu="4", memory="4Gi").build()], [])
    incoming = pod("p").requests(cpu="1", memory="2Gi").build()
    plain = scored(NodeResourcesFit(), incoming, sample)
    assert scored(NodeResourcesFit(args({"cpu": 0, "memory": 0})), incoming, sample) == plain
    assert scored(NodeResourcesFit(args()), incoming, sample) == plain == {"a": (62, 62)}


ARGS = st.sampled_from(
    [
        args({"cpu": 1, "memory": 1}),
        args({"cpu": 2, "memory": 1, GPU: 5, "ephemeral-storage": 3, "odd": 1, "pods": 1}),
        args({"cpu": 1, "memory": 3, "hugepages-2Mi": 1}, strategy="MostAllocated"),
        args({"cpu": 1, "memory": 3, GPU: 2}, strategy="RequestedToCapacityRatio", shape=[(0, 10), (33, 1), (70, 4)]),
    ]
)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_fit_agrees_with_its_twin(data: st.DataObject) -> None:
    """On any cluster and with any strategy, the plugin agrees with its slow twin."""
    fields = ("initContainers", "overhead", "resources")
    sample, churn = data.draw(sample_clusters(*fields))
    chosen = data.draw(ARGS)
    agrees(NodeResourcesFit(chosen), data.draw(incoming_pods(*fields)), sample, chosen, churn)


def test_no_amount_is_rounded_by_floats() -> None:
    """Bytes beyond 2**53 are distinguished."""
    huge = 2**56
    sample = SampleCluster(
        [node("a").allocatable(memory=str(huge)).build()], [pod("q").on("a").requests(memory="1").build()]
    )
    for asked, verdict in ((huge - 1, PASSED), (huge, (NO, ("Insufficient memory",)))):
        assert filtered(NodeResourcesFit(), pod("p").requests(memory=str(asked)).build(), sample) == {"a": verdict}
