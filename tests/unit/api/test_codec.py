"""Decoding: what is read, what an error says, and what pods share."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api import (
    admission,
    apps,
    cloneset,
    codec,
    complexity,
    core,
    extensions,
    leases,
    nodes,
    pods,
    policy,
    priorities,
    scaledown,
    unitedtopology,
)
from trimtab.api.admission import AdmissionReview
from trimtab.api.apps import Deployment
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology

KINDS: list[type[Any]] = [
    pods.Pod,
    pods.PodList,
    nodes.Node,
    core.Service,
    core.ReplicationController,
    core.Namespace,
    core.Event,
    apps.ReplicaSet,
    apps.Deployment,
    apps.StatefulSet,
    apps.ControllerRevision,
    apps.Scale,
    policy.PodDisruptionBudget,
    priorities.PriorityClass,
    leases.Lease,
    admission.Status,
    admission.AdmissionReview,
    extensions.CustomResourceDefinition,
    unitedtopology.UnitedTopology,
    cloneset.CloneSet,
    scaledown.ScaleDownPolicy,
    scaledown.PodGroupCost,
]

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "name",
        "labels",
        "subsets",
        "containers",
        "template",
        "replicas",
        "conditions",
        "items",
    ]
)
LIKELY = st.recursive(
    JSON_VALUES,
    lambda inner: st.dictionaries(FIELDS, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("kind", "tree", "want"),
    [
        pytest.param(
            Pod,
            {"spec": {"containers": [{"name": "a"}, {"name": 3}]}},
            "spec.containers[1].name: 3: expected `str`, got `int`",
            id="an element of a list is named by its index",
        ),
        pytest.param(
            Pod,
            {"metadata": {"labels": {"tier": 1}}},
            "metadata.labels[tier]: 1: expected `str`, got `int`",
            id="a value of a map is named by its key",
        ),
        pytest.param(
            Pod,
            {"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}, 7]}}}},
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[1]: 7: "
            "expected `object`, got `int`",
            id="the deepest place is named",
        ),
        pytest.param(
            Pod,
            {"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}},
            "spec.topologySpreadConstraints[0]: is missing the field `topologyKey`",
            id="a missing field is named",
        ),
        pytest.param(
            Pod,
            {"metadata": {"creationTimestamp": "yesterday"}},
            'metadata.creationTimestamp: "yesterday": Invalid RFC3339 encoded datetime',
            id="a time that is none",
        ),
        pytest.param(Pod, [1], "expected `object`, got `array`", id="something else altogether"),
        pytest.param(
            apps.ReplicaSet,
            {"spec": {"template": "none"}},
            'spec.template: "none": Expected `object`, got `str`',
            id="a template that is no object",
        ),
        pytest.param(
            UnitedTopology,
            {"spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "subsets": []}},
            "spec.subsets: expected `array` of length >= 1",
            id="a list that is too short",
        ),
    ],
)
def test_an_error_names_the_path_and_the_reason(kind: type[Any], tree: Any, want: str) -> None:
    """Whoever wrote the document learns which field is wrong, and why."""
    with pytest.raises(InvalidError) as caught:
        codec.decode(json.dumps(tree), kind)
    assert str(caught.value).lower() == want.lower()


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"a": }', b"\xff\xfe"])
def test_text_that_is_not_json_is_refused(text: str | bytes) -> None:
    """Text that is not JSON is an error of the same kind."""
    with pytest.raises(InvalidError, match="is not JSON"):
        codec.decode(text, Pod)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=40, deadline=None)
@given(tree=LIKELY)
def test_decoding_arbitrary_json_never_crashes(kind: type[Any], tree: Any) -> None:
    """Any JSON is either the kind that was asked for, or an error that says where it is not."""
    try:
        decoded = codec.decode(json.dumps(tree), kind)
    except InvalidError as error:
        decoded, reason = None, error.reason
    assert isinstance(decoded, kind) or reason


def test_a_null_is_an_absent_field() -> None:
    """Kubernetes writes null for absent, and people do too."""
    tree = {"metadata": {"name": "p", "creationTimestamp": None, "labels": None}, "spec": {"containers": None}}
    assert codec.decode(json.dumps(tree), Pod) == codec.decode('{"metadata": {"name": "p"}}', Pod)


def test_a_null_inside_a_patch_stays() -> None:
    """In a patch a null deletes: dropping it because of a null elsewhere would change what the patch does."""
    patch = {"spec": {"priority": None}}
    subsets = [{"name": "a", "tolerations": None, "patch": patch}]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    topology = codec.convert({"spec": {"targetRef": target, "subsets": subsets}}, UnitedTopology)
    document = topology.spec.subsets[0].patch
    assert document is not None
    assert document.tree() == patch


@pytest.mark.parametrize(
    ("limit", "want"),
    [
        pytest.param("30", 'spec.subsets[1].maxReplicas: "30" is not a percentage; write 30 or "30%"', id="no sign"),
        pytest.param(
            "130%",
            'spec.subsets[1].maxReplicas: "130%" is not between 0% and 100%; write for example "30%"',
            id="too much",
        ),
        pytest.param(
            -1,
            "spec.subsets[1].maxReplicas: -1 is negative; write 0 or more, or omit it for no limit",
            id="negative",
        ),
    ],
)
def test_an_invalid_limit_is_explained(limit: int | str, want: str) -> None:
    """The message says what to write instead."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    subsets = [{"name": "a", "maxReplicas": 3}, {"name": "b", "maxReplicas": limit}]
    topology = codec.convert({"spec": {"targetRef": target, "subsets": subsets}}, UnitedTopology)
    assert [str(problem) for problem in unitedtopology.problems(topology)] == [want]


def test_the_names_of_subsets_must_differ_and_the_target_must_be_known() -> None:
    """A second subset of the same name, and a workload that cannot have subsets, are both refused."""
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
    topology = codec.convert({"spec": {"targetRef": target, "subsets": [{"name": "a"}, {"name": "a"}]}}, UnitedTopology)
    assert [problem.path for problem in unitedtopology.problems(topology)] == [
        "spec.targetRef.kind",
        "spec.subsets[1].name",
    ]


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        pytest.param({}, ["spec"], id="no pods are named"),
        pytest.param(
            {"selector": {}, "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            ["spec.selector"],
            id="both a target and a selector",
        ),
        pytest.param(
            {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}},
            ["spec.targetRef.kind"],
            id="a StatefulSet",
        ),
        pytest.param(
            {"targetRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "j"}}, ["spec.targetRef.kind"], id="a Job"
        ),
        pytest.param(
            {"selector": {}, "strategies": [{"name": "Balance", "threshold": 5}, {"name": "Taints"}]},
            ["spec.strategies[1].threshold"],
            id="several strategies, one without a threshold",
        ),
        pytest.param({"selector": {}, "strategies": [{"name": "Balance"}]}, [], id="one strategy needs no threshold"),
    ],
)
def test_an_invalid_policy_is_explained(spec: dict[str, Any], paths: list[str]) -> None:
    """Each problem names its field."""
    made = codec.convert({"spec": spec}, scaledown.ScaleDownPolicy)
    assert [problem.path for problem in scaledown.problems(made)] == paths


def test_pods_of_a_template_share_equal_parts() -> None:
    """Two pods that say the same keep it once, and stay equal to what was decoded."""
    spec = {"containers": [{"name": "main", "image": "web:1"}], "tolerations": [{"operator": "Exists"}]}
    items = [
        {"metadata": {"name": f"p{i}", "labels": {"app": "web"}}, "spec": {**spec, "nodeName": f"n{i}"}} for i in (1, 2)
    ]
    first, second = codec.decode_pods(json.dumps({"items": items})).items
    assert first.spec.containers is second.spec.containers
    assert first.metadata.labels is second.metadata.labels
    assert (first.spec.node_name, second.spec.node_name) == ("n1", "n2")
    assert [first, second] == [codec.convert(item, Pod) for item in items]


def test_a_view_of_a_document_is_cached() -> None:
    """Templates are looked at again and again: equal documents have one view."""
    first, second = Document({"spec": {"nodeName": "a"}}), Document({"spec": {"nodeName": "a"}})
    assert first == second
    assert codec.view(first, pods.PodTemplateSpec) is codec.view(second, pods.PodTemplateSpec)


def test_acronyms_are_read_under_their_own_names() -> None:
    """`podIP` is not `podIp`: a rename by rule alone would lose it silently."""
    status = {"podIP": "192.0.2.1"}
    container = {"ports": [{"hostPort": 80, "hostIP": "192.0.2.3"}]}
    pod = codec.convert({"spec": {"containers": [container]}, "status": status}, Pod)
    assert pod.status.pod_ip == "192.0.2.1"
    assert pod.spec.containers[0].ports[0].host_ip == "192.0.2.3"


@pytest.mark.parametrize(
    ("path", "tree"),
    [
        pytest.param("spec.strategies", {"strategies": [{"name": "Balance"}] * 33}, id="a list"),
        pytest.param(
            "spec.strategies[1].args",
            {"strategies": [{"name": "Balance"}, {"name": "Taints", "args": {f"a{n}": n for n in range(101)}}]},
            id="a map in a list",
        ),
    ],
)
@pytest.mark.parametrize("more", [{}, {"delivery": None}], ids=["", "with a null elsewhere"])
def test_too_many_entries_are_named_by_their_field(path: str, tree: Any, more: Any) -> None:
    """And are not searched one by one."""
    data = json.dumps({"spec": {**tree, **more}}).encode()
    with pytest.raises(InvalidError, match=r"has too many entries; write at most (32|100)$") as raised:
        codec.decode(data, ScaleDownPolicy)
    assert raised.value.path == path


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        (CloneSet, True),
        (Deployment, True),
        (ScaleDownPolicy, True),
        (UnitedTopology, True),
        (dict[str, Any], True),
        (Pod, False),
        (Node, False),
        (PodGroupCost, False),
        (CustomResourceDefinition, False),
    ],
)
def test_kinds_with_free_form_parts(kind: Any, want: bool) -> None:
    """Their objects are limited in values. A pod must be read: it takes room on its node however large its text is."""
    assert codec.has_free_form(kind) is want


def test_objects_of_many_values_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If they have free-form parts."""
    read: list[Any] = []
    monkeypatch.setattr(codec, "decode_exactly", lambda _, kind: read.append(kind))
    terms = ",".join(["{}"] * complexity.MAX_VALUES)
    with pytest.raises(InvalidError, match=r"^has more than 100,000 values; make it smaller$"):
        codec.decode_object(f'{{"spec":{{"template":{{"a":[{terms}]}}}}}}'.encode(), Deployment)
    codec.decode_object(f'{{"spec":{{"tolerations":[{terms}]}}}}'.encode(), Pod)
    assert read == [Pod]


@pytest.mark.parametrize(("entries", "is_read"), [(5_000, True), (12_000, False)])
def test_nulls_are_dropped_from_objects_of_few_values(entries: int, is_read: bool) -> None:
    """That takes time for each value; in larger objects a null is an error, at msgspec's path."""
    text = json.dumps({"metadata": {"finalizers": ["a"] * entries}, "spec": {"priority": None, "nodeName": None}})
    if is_read:
        assert codec.decode_object(text.encode(), Pod) == codec.decode(text, Pod)
        return
    with pytest.raises(InvalidError, match=r"^spec\.nodeName: expected `str`, got `null`$"):
        codec.decode_object(text.encode(), Pod)


def test_too_many_entries_are_named_in_large_objects_too() -> None:
    """They are what large objects mostly have."""
    data = json.dumps({"spec": {"strategies": [{"name": "Balance"}] * 10_000}}).encode()
    with pytest.raises(InvalidError, match=r"^spec\.strategies: has too many entries; write at most 32$"):
        codec.decode_object(data, ScaleDownPolicy)


def test_the_search_for_an_error_is_limited() -> None:
    """Far behind in a long list the error is msgspec's own: whoever wrote the list chose its length."""
    tree = {"request": {"uid": "u", "userInfo": {"groups": ["g"] * 50_000 + [1]}}}
    with pytest.raises(InvalidError, match=r"^expected `str`, got `int` - at `\$\.request\.userInfo\.groups\["):
        codec.decode(json.dumps(tree).encode(), AdmissionReview)


_CONCURRENTLY = """
import sys
import threading

import msgspec

from trimtab.api import codec

DATA = '{"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 4}}'
TREE = {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 4}}
CALLS = {"decode": lambda kind: codec.decode(DATA, kind), "convert": lambda kind: codec.convert(TREE, kind)}


def read(kind, start, found):
    start.wait()
    value = CALLS[sys.argv[1]](kind)
    found.append((value.a.y, value.b.x))


sys.setswitchinterval(1e-6)
for number in range(300):
    parts = [msgspec.defstruct(f"Part{each}", [("x", "int | None", None), ("y", "int | None", None)]) for each in "ab"]
    kind = msgspec.defstruct("Whole", list(zip("ab", parts)))
    start, found = threading.Barrier(3), []
    threads = [threading.Thread(target=read, args=(kind, start, found)) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [(2, 3)] * 3, found
"""


@pytest.mark.parametrize("call", ["decode", "convert"])
def test_threads_may_read_a_type_for_the_first_time_together(call: str) -> None:
    """In a process of its own: msgspec by itself crashes it."""
    command = [sys.executable, "-c", _CONCURRENTLY, call]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert (ended.returncode, ended.stderr) == (0, "")


_DECODING = re.compile(r"msgspec\.(?:json\.(?:decode\([^)]*type=|Decoder\([^)])|convert\()|msgspec\.msgpack\.[dD]ecode")


def test_types_are_decoded_by_the_codec_alone() -> None:
    """It lets one thread at a time analyse a type. Others decode plain values, for which nothing is analysed."""
    source = Path(codec.__file__).parents[2]
    found = [path for path in source.rglob("*.py") if _DECODING.search(path.read_text())]
    tables = source / "trimtab_lab/apiserver/kinds/serialization/typetable.py"
    assert {path for path in found if path != tables} == {Path(codec.__file__)}
