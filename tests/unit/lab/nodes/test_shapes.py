"""Shapes: the nodes that a file describes, and the errors of an invalid one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from trimtab.api.errors import InvalidError
from trimtab.api.nodes import HOSTNAME, REGION, ZONE
from trimtab_lab.nodes import shapes
from trimtab_lab.nodes.nodegroups import CAPACITY, CLUSTER, POOL, VIRTUAL_CAPACITY, VIRTUAL_TAINT
from trimtab_lab.nodes.scripts import PodTimings, Span
from trimtab_lab.nodes.shapefile import RACK

DOCUMENTATION = Path(__file__).parents[4] / "docs" / "lab-nodes.md"


def one_zone(**fields: Any) -> dict[str, Any]:
    """A shape of one zone of two nodes, with these fields."""
    return {"zones": [{"name": "a", "nodes": 2, **fields}]}


def test_a_zone_and_a_number_are_a_whole_shape() -> None:
    """Everything else has a default."""
    shape = shapes.parse("zones: [{name: zone-a, nodes: 2}, {name: zone-b, nodes: 1}]")
    assert list(shape.nodes) == ["zone-a-1", "zone-a-2", "zone-b-1"]
    assert shape.zones == ["zone-a", "zone-b"]
    assert shape.names("zone-a") == ["zone-a-1", "zone-a-2"]
    node = shape.nodes["zone-b-1"]
    assert node.capacity == CAPACITY
    assert node.taints == ()
    assert node.labels[ZONE] == "zone-b"
    assert node.labels[HOSTNAME] == "zone-b-1"
    assert node.labels[CLUSTER] == "lab"
    assert shape.timings == PodTimings()


def test_an_empty_file_is_a_shape_without_nodes() -> None:
    """It can be used to take all nodes away."""
    assert shapes.parse("") == shapes.read({}) == shapes.Shape()


def test_growing_a_zone_renames_no_node() -> None:
    """The names of ten nodes begin with the names of nine."""
    nine, ten = (list(shapes.read({"zones": [{"name": "a", "nodes": count}]}).nodes) for count in (9, 10))
    assert ten[:9] == nine


def test_nodes_may_have_names_of_their_own() -> None:
    """A list in place of a number, and a prefix that is for numbered ones only."""
    shape = shapes.read(
        {"prefix": "t-", "zones": [{"name": "a", "nodes": ["left", "right"]}, {"name": "b", "nodes": 1}]}
    )
    assert list(shape.nodes) == ["left", "right", "t-b-1"]


@pytest.mark.parametrize(
    ("racks", "want"),
    [
        pytest.param(2, ["a-rack-1", "a-rack-2", "a-rack-1"], id="a number of racks, filled in turn"),
        pytest.param(["r1", "r2", "r3"], ["r1", "r2", "r3"], id="racks by name"),
        pytest.param(0, [None, None, None], id="no racks"),
    ],
)
def test_nodes_stand_in_racks(racks: Any, want: list[str | None]) -> None:
    """The nodes of a zone are dealt to its racks."""
    shape = shapes.read(one_zone(nodes=3, racks=racks))
    assert [plan.labels.get(RACK) for plan in shape.nodes.values()] == want


def test_racks_may_have_a_key_of_their_own() -> None:
    """A custom topology key is a label like any other."""
    shape = shapes.read({"rackKey": "example.com/rack", **one_zone(racks=1)})
    assert shape.nodes["a-1"].labels["example.com/rack"] == "a-rack-1"


def test_more_specific_fields_win() -> None:
    """A pool inherits from its zone, and a zone from all nodes, what it does not set."""
    shape = shapes.read(
        {
            "node": {"capacity": {"cpu": 4, "memory": "8Gi"}, "labels": {"disk": "hdd", "tier": "low"}},
            "zones": [
                {
                    "name": "a",
                    "region": "north",
                    "nodes": 1,
                    "labels": {"disk": "ssd"},
                    "taints": [{"key": "dedicated", "value": "zone", "effect": "NoSchedule"}],
                    "pools": [
                        {
                            "name": "big",
                            "nodes": 1,
                            "capacity": {"cpu": 64},
                            "taints": [{"key": "dedicated", "value": "pool", "effect": "NoSchedule"}],
                        }
                    ],
                }
            ],
        }
    )
    zone, pool = shape.nodes["a-1"], shape.nodes["a-big-1"]
    assert (zone.capacity["cpu"], pool.capacity["cpu"], pool.capacity["memory"]) == ("4", "64", "8Gi")
    assert (pool.labels["disk"], pool.labels["tier"], pool.labels[REGION]) == ("ssd", "low", "north")
    assert (zone.labels.get(POOL), pool.labels[POOL]) == (None, "big")
    assert ([taint.value for taint in zone.taints], [taint.value for taint in pool.taints]) == (["zone"], ["pool"])


def test_a_virtual_pool_is_large_and_kept_apart() -> None:
    """Virtual kubelets have their label, their taint and a large capacity, and a zone only if it is set."""
    shape = shapes.read({"virtualPools": [{"name": "burst", "provider": "azure"}, {"name": "far", "zone": "z"}]})
    burst, far = shape.nodes["burst-1"], shape.nodes["far-1"]
    assert burst.labels["type"] == "virtual-kubelet"
    assert [(taint.key, taint.value, taint.effect) for taint in burst.taints] == [
        (VIRTUAL_TAINT, "azure", "NoSchedule")
    ]
    assert burst.capacity == VIRTUAL_CAPACITY
    assert ZONE not in burst.labels
    assert far.labels[ZONE] == "z"


def test_capacity_is_written_as_the_api_server_writes_it() -> None:
    """Otherwise the stored value would look different."""
    shape = shapes.read(one_zone(capacity={"memory": "2048Mi", "cpu": "2000m", "example.com/gpu": 4}))
    capacity = shape.nodes["a-1"].capacity
    assert (capacity["memory"], capacity["cpu"], capacity["example.com/gpu"]) == ("2Gi", "2", "4")


def test_labels_cannot_hide_that_a_node_is_ours() -> None:
    """The label that marks our nodes wins over one that is written."""
    assert shapes.read(one_zone(labels={CLUSTER: "theirs"})).nodes["a-1"].labels[CLUSTER] == "lab"


def test_a_shape_can_set_the_timings_of_pods() -> None:
    """A number or a range of seconds, for pods without annotations."""
    shape = shapes.read({"pods": {"startSeconds": "1-5", "stopSeconds": 2}})
    assert (shape.timings.start, shape.timings.stop, shape.timings.ready) == (
        Span(1, 5),
        Span(2, 2),
        PodTimings().ready,
    )


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        pytest.param("zones: [{name: a, nodes: 1}, {name: b, nodes: four}]", "zones[1].nodes", "four", id="no number"),
        pytest.param("zones: [{name: a, nodes: -1}]", "zones[0].nodes", "from 0 to", id="fewer than none"),
        pytest.param("zones: [{name: a, nodes: 20001}]", "zones[0].nodes", "from 0 to 20000", id="too many"),
        pytest.param(
            "zones: [{name: a, nodes: 12000}, {name: b, nodes: 12000}]", "zones[1].nodes", "20000", id="too many in all"
        ),
        pytest.param("zones: [{name: a}]", "zones[0].nodes", "is missing", id="no nodes"),
        pytest.param("zones: [{nodes: 1}]", "zones[0]", "`name`", id="no name"),
        pytest.param("zones: [{name: a, nodes: 1, node: 2}]", "zones[0]", "`node`", id="an unknown field"),
        pytest.param("zone: []", "", "`zone`", id="an unknown field at the top"),
        pytest.param("zones: [{name: A, nodes: 1}]", "zones[0].name", '"A"', id="a name that cannot be one"),
        pytest.param("zones: [{name: a, nodes: [x, Y]}]", "zones[0].nodes[1]", '"Y"', id="a node's name"),
        pytest.param("zones: [{name: a, nodes: 1}, {name: a, nodes: 1}]", "zones[1].name", "twice", id="a zone twice"),
        pytest.param(
            "zones: [{name: a, nodes: [b-1]}, {name: b, nodes: 1}]", "zones[1].nodes", '"b-1"', id="a node twice"
        ),
        pytest.param("zones: [{name: a, nodes: 1, racks: -2}]", "zones[0].racks", "-2", id="fewer racks than none"),
        pytest.param("zones: [{name: a, nodes: 1, racks: ['?']}]", "zones[0].racks[0]", '"?"', id="a rack's name"),
        pytest.param(
            "zones: [{name: a, nodes: 1, capacity: {cpu: lots}}]", "zones[0].capacity[cpu]", "lots", id="lots"
        ),
        pytest.param(
            "zones: [{name: a, nodes: 1, capacity: {cpu: -1}}]", "zones[0].capacity[cpu]", "negative", id="below 0"
        ),
        pytest.param(
            "zones: [{name: a, nodes: 1, labels: {a b: c}}]", "zones[0].labels[a b]", '"a b"', id="a label's key"
        ),
        pytest.param(
            "zones: [{name: a, nodes: 1, labels: {a: 1}}]", "zones[0].labels[a]", "`str`", id="a label's kind"
        ),
        pytest.param(
            "zones: [{name: a, nodes: 1, labels: {a: '?'}}]", "zones[0].labels[a]", '"?"', id="a label's value"
        ),
        pytest.param(
            "zones: [{name: a, nodes: 1, taints: [{key: a, effect: Never}]}]",
            "zones[0].taints[0].effect",
            "NoSchedule, PreferNoSchedule, NoExecute",
            id="an effect that is none",
        ),
        pytest.param(
            "zones: [{name: a, pools: [{name: p, nodes: x}]}]", "zones[0].pools[0].nodes", '"x"', id="inside a pool"
        ),
        pytest.param("virtualPools: [{name: v, zone: '?'}]", "virtualPools[0].zone", '"?"', id="a virtual pool's zone"),
        pytest.param("node: {capacity: {cpu: x}}", "node.capacity[cpu]", '"x"', id="what all nodes have"),
        pytest.param("pods: {startSeconds: soon}", "pods.startSeconds", '"soon"', id="a time"),
        pytest.param("pods: {startSeconds: 5-1}", "pods.startSeconds", "decrease", id="a span that decreases"),
        pytest.param("name: ''", "name", '""', id="no name for the shape"),
        pytest.param("rackKey: /", "rackKey", '"/"', id="no key"),
        pytest.param("- 1", "", "`object`", id="a list"),
        pytest.param("a: [", "", "is not YAML", id="no YAML"),
        pytest.param("[" * 5000, "", "nested too deeply", id="nested too deep"),
        pytest.param("name: !!int web", "", "cannot be read as what it is written as", id="no value of its type"),
        pytest.param("zones: &a [*a]", "", "an alias of itself", id="a list inside itself"),
    ],
)
def test_an_error_names_the_field(text: str, path: str, reason: str) -> None:
    """The error names the field and the reason."""
    with pytest.raises(InvalidError) as caught:
        shapes.parse(text)
    assert caught.value.path == path
    assert reason in caught.value.reason


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    """The message names the file."""
    path = tmp_path / "cluster.yaml"
    path.write_text("zones: [{name: a, nodes: x}]")
    with pytest.raises(InvalidError, match=re.escape(f"{path}: zones[0].nodes")):
        shapes.load(path)
    path.write_text("zones: [{name: a, nodes: 3}]")
    assert len(shapes.load(path).nodes) == 3


def test_the_documented_example_is_a_shape() -> None:
    """Every YAML block of the documentation that describes a cluster can be read."""
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    described = [block for block in blocks if "zones" in yaml.safe_load(block)]
    assert described
    assert all(shapes.parse(block).nodes for block in described)
