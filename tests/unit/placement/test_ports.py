"""Host ports."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.plugin_clusters import agrees, filtered, incoming_pods, sample_clusters
from tests.unit.placement.plugin_twins import NO, PASSED
from tests.unit.placement.samples import SampleCluster
from trimtab.placement.ports import NodePorts
from trimtab.testing.builders import PodBuilder, node, pod

TAKEN = (NO, ("node(s) didn't have free ports for the requested pod ports",))


def sidecar(port: int, **more: Any) -> dict[str, Any]:
    """An init container with a host port."""
    return {"name": "i", "ports": [{"containerPort": port, "hostPort": port}], **more}


@pytest.mark.parametrize(
    ("there", "incoming", "clash"),
    [
        pytest.param(pod("p").host_port(80), pod("q").host_port(80), True, id="a port can be had once"),
        pytest.param(pod("p").host_port(80), pod("q").host_port(81), False, id="another port is another"),
        pytest.param(
            pod("p").host_port(80), pod("q").host_port(80, protocol="UDP"), False, id="so is another protocol"
        ),
        pytest.param(
            pod("p").host_port(80, protocol=""),
            pod("q").host_port(80, protocol="TCP"),
            True,
            id="no protocol means TCP",
        ),
        pytest.param(
            pod("p").host_port(80, ip="10.0.0.1"), pod("q").host_port(80, ip="10.0.0.2"), False, id="addresses differ"
        ),
        pytest.param(
            pod("p").host_port(80, ip="10.0.0.1"),
            pod("q").host_port(80),
            True,
            id="every address conflicts with one in use",
        ),
        pytest.param(
            pod("p").host_port(80),
            pod("q").host_port(80, ip="10.0.0.1"),
            True,
            id="every address in use conflicts with one",
        ),
        pytest.param(
            pod("p").host_port(80, ip="::"),
            pod("q").host_port(80, ip="10.0.0.1"),
            False,
            id="two colons are one address",
        ),
        pytest.param(
            pod("p").spec(initContainers=[sidecar(80, restartPolicy="Always")]),
            pod("q").host_port(80),
            True,
            id="a sidecar keeps its port",
        ),
        pytest.param(
            pod("p").spec(initContainers=[sidecar(80)]),
            pod("q").host_port(80),
            False,
            id="an init container gives it back",
        ),
        pytest.param(
            pod("p").host_port(80).terminating(), pod("q").host_port(80), True, id="a terminating pod still uses it"
        ),
        pytest.param(pod("p").host_port(80).on("b"), pod("q").host_port(80), False, id="another node has its own"),
    ],
)
def test_port_conflicts(there: PodBuilder, incoming: PodBuilder, clash: bool) -> None:
    """A node is refused if one of the ports is taken there."""
    placed = there if "nodeName" in there.tree()["spec"] else there.on("a")
    sample = SampleCluster([node("a").build()], [placed.build()])
    assert filtered(NodePorts(), incoming.build(), sample) == {"a": TAKEN if clash else PASSED}


def test_a_pod_without_host_ports_is_skipped() -> None:
    """A port of the container alone is no concern of the node."""
    sample = SampleCluster([node("a").build()], [pod("p").on("a").host_port(80).build()])
    assert filtered(NodePorts(), pod("q").build(), sample) is None


def test_a_port_is_free_after_its_last_user_is_deleted() -> None:
    """Two pods that share a number on different addresses count each for themselves."""
    staying = pod("p").on("a").host_port(80, ip="10.0.0.1").build()
    going = pod("q").on("a").host_port(80, ip="10.0.0.2").build()
    sample = SampleCluster([node("a").build()], [staying])
    for ip, verdict in (("10.0.0.1", TAKEN), ("10.0.0.2", PASSED)):
        assert filtered(NodePorts(), pod("r").host_port(80, ip=ip).build(), sample, churn=[going]) == {"a": verdict}


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_ports_agree_with_their_twin(data: st.DataObject) -> None:
    """On any cluster, the plugin agrees with its slow twin."""
    sample, churn = data.draw(sample_clusters("initContainers"))
    agrees(NodePorts(), data.draw(incoming_pods("initContainers")), sample, churn=churn)
