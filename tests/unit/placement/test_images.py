"""Images that lie on nodes already."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.plugin_clusters import agrees, incoming_pods, sample_clusters, scored
from tests.unit.placement.plugin_twins import ScoresByNode
from tests.unit.placement.samples import SampleCluster
from trimtab.api.nodes import Node
from trimtab.placement.images import ImageLocality, normalized_name
from trimtab.testing.builders import NodeBuilder, PodBuilder, node, pod

MIB = 2**20


@pytest.mark.parametrize(
    ("written", "name"),
    [
        pytest.param("app", "app:latest", id="no tag means latest"),
        pytest.param("app:1", "app:1", id="a tag stays"),
        pytest.param("host:5000/app", "host:5000/app:latest", id="a port is no tag"),
        pytest.param("host:5000/app:1", "host:5000/app:1", id="a port and a tag"),
        pytest.param("app@sha256:0a", "app@sha256:0a", id="a digest stays"),
        pytest.param("", ":latest", id="no image at all"),
    ],
)
def test_image_names_are_normalized(written: str, name: str) -> None:
    """A pod's image is looked up under the name that nodes report."""
    assert normalized_name(written) == name


@pytest.mark.parametrize(
    ("nodes", "incoming", "want"),
    [
        pytest.param(
            [node("a"), node("b")], pod("p").image("app:1"), {"a": (0, 0), "b": (0, 0)}, id="an image that no node has"
        ),
        pytest.param(
            [node("a").image("app:1", 1000 * MIB), node("b")],
            pod("p").image("app:1"),
            {"a": (48, 48), "b": (0, 0)},
            id="an image on one of two nodes is worth half its size",
        ),
        pytest.param(
            [node("a").image("app:1", 1000 * MIB), node("b").image("app:1", 500 * MIB)],
            pod("p").image("app:1"),
            {"a": (100, 100), "b": (48, 48)},
            id="each node reports its own size",
        ),
        pytest.param(
            [node("a").image("app:1", 23 * MIB)], pod("p").image("app:1"), {"a": (0, 0)}, id="23 MiB is nothing"
        ),
        pytest.param(
            [node("a").image("app:1", 9000 * MIB)], pod("p").image("app:1"), {"a": (100, 100)}, id="1000 MiB is all"
        ),
        pytest.param(
            [node("a").image("app:1", 511 * MIB + 512 * 1024)],
            pod("p").image("app:1").spec(initContainers=[{"name": "i", "image": "app:1"}]),
            {"a": (50, 50)},
            id="every container counts, and may add 1000 MiB",
        ),
        pytest.param(
            [node("a").image("model:1", 1000 * MIB)],
            pod("p").image("app:1").spec(volumes=[{"name": "m", "image": {"reference": "model:1"}}]),
            {"a": (100, 100)},
            id="so does an image that is mounted",
        ),
    ],
)
def test_image_scores(nodes: list[NodeBuilder], incoming: PodBuilder, want: ScoresByNode) -> None:
    """Size, by the share of nodes that have it, on a scale from 23 MiB to 1000 MiB a container."""
    assert scored(ImageLocality(), incoming.build(), SampleCluster([n.build() for n in nodes], [])) == want


def test_image_scores_follow_added_and_deleted_nodes() -> None:
    """Cached sizes are kept current, and dropped with the last node that has the image."""
    view = SampleCluster([node("a").image("app:1", 5).build()], []).snapshot()
    assert view.nodes.image_sizes("other:1") is None
    found = view.nodes.image_sizes("app:1")
    assert found is not None
    assert found.tolist() == [5]
    for number in range(200):
        view.put(node(f"n{number}").image("app:1", number).build())
    view.put(node("a").build())
    found = view.nodes.image_sizes("app:1")
    assert found is not None
    assert found.tolist() == [0, *range(200)]
    for number in range(200):
        view.drop(Node, "", f"n{number}")
    assert view.nodes.image_sizes("app:1") is None
    assert view.nodes.images == {}


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_images_agree_with_their_twin(data: st.DataObject) -> None:
    """On any cluster, the plugin agrees with its slow twin; nodes that pods alone name do not count."""
    sample, churn = data.draw(sample_clusters())
    agrees(ImageLocality(), data.draw(incoming_pods("initContainers", "volumes")), sample, churn=churn)
