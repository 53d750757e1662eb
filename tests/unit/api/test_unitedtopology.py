"""UnitedTopology: what is refused and how that is told; a status as it is written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from trimtab.api import codec, unitedtopology
from trimtab.api.cloneset import SPECIFIED_DELETE
from trimtab.api.documents import JSON
from trimtab.api.meta import Condition
from trimtab.api.unitedtopology import (
    RevisionStatus,
    Shortage,
    SubsetReturn,
    SubsetStatus,
    UnitedTopology,
    UnitedTopologyStatus,
)

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def topology(*subsets: JSON, target: JSON | None = None, strategy: JSON | None = None) -> UnitedTopology:
    """A UnitedTopology with these subsets."""
    spec: JSON = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"} | (target or {}),
        "subsets": list(subsets) or [{"name": "a"}],
    }
    if strategy is not None:
        spec["scheduleStrategy"] = strategy
    return codec.convert({"metadata": {"name": "shop", "namespace": "default"}, "spec": spec}, UnitedTopology)


def told(made: UnitedTopology) -> list[str]:
    """The problems in words."""
    return [str(problem) for problem in unitedtopology.problems(made)]


def expression(operator: str, *values: str, key: str = "zone") -> JSON:
    """A subset that selects nodes by one expression."""
    wanted: dict[str, Any] = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    return {"name": "a", "nodeSelectorTerm": {"matchExpressions": [wanted]}}


MANY_HOSTS = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"n{number}" for number in range(667)]}


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(topology(), id="one subset without rules"),
        pytest.param(topology(expression("In", "z1")), id="a zone"),
        pytest.param(topology(expression("Gt", "4", key="cores")), id="a number of cores"),
        pytest.param(topology({"name": "a", "maxReplicas": 0}, {"name": "b", "maxReplicas": "100%"}), id="limits"),
        pytest.param(topology({"name": "a", "tolerations": [{"operator": "Exists"}]}), id="all taints"),
        pytest.param(
            topology({"name": "a", "patch": {"metadata": {"labels": {"a": "b", "gone": None}}}}), id="labels patched"
        ),
        pytest.param(
            topology({"name": "a", "patch": {"spec": {"containers": [{"name": "main", "env": [{"name": "A"}]}]}}}),
            id="a container patched",
        ),
        pytest.param(topology(target={"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}), id="a CloneSet"),
        pytest.param(
            topology(strategy={"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}), id="adaptive"
        ),
    ],
)
def test_valid_topologies_are_accepted(made: UnitedTopology) -> None:
    """Nothing is said about what is right."""
    assert told(made) == []


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(
            topology({"name": "a"}, {"name": "b"}, {"name": "a"}),
            'spec.subsets[2].name: "a" is already the name of spec.subsets[0]; give each subset a unique name',
            id="a name twice",
        ),
        pytest.param(
            topology(target={"apiVersion": "apps/v1beta1"}),
            'spec.targetRef.apiVersion: "apps/v1beta1" is not supported; write apps/v1 or apps.kruise.io/v1alpha1',
            id="an unknown version",
        ),
        pytest.param(
            topology(target={"kind": "StatefulSet"}),
            "spec.targetRef.kind: StatefulSet removes its highest ordinal whatever its pods cost, and its pods keep "
            "their names and volumes; write Deployment or ReplicaSet or CloneSet",
            id="a StatefulSet, with the reason",
        ),
        pytest.param(
            topology(target={"apiVersion": "batch/v1", "kind": "Job"}),
            "spec.targetRef.kind: Job does not choose by cost, and its pods end by themselves; write Deployment or "
            "ReplicaSet or CloneSet",
            id="a Job, with the reason",
        ),
        pytest.param(
            topology(target={"kind": "DaemonSet"}),
            'spec.targetRef.kind: "DaemonSet" of apps/v1 cannot have subsets; write Deployment or ReplicaSet',
            id="an unknown kind",
        ),
        pytest.param(
            topology({"name": "a", "minReplicas": 4, "maxReplicas": 3}),
            "spec.subsets[0].minReplicas: 4 is more than its maxReplicas of 3; lower it, or raise maxReplicas",
            id="a minimum above the maximum",
        ),
        pytest.param(
            topology({"name": "a", "minReplicas": 2**31 - 1}, {"name": "b", "minReplicas": 1}),
            "spec.subsets: the minReplicas of all subsets add up to 2147483648; no workload has more than 2147483647",
            id="minima larger than any workload",
        ),
        pytest.param(
            topology(*({"name": f"s{at}", "minReplicas": 1} for at in range(65))),
            "spec.subsets: 65 have minReplicas; write it for at most 64",
            id="too many minima",
        ),
        pytest.param(
            topology({"name": "a", "patch": {"metadata": {"annotations": {"not a key": "x"}}}}),
            'spec.subsets[0].patch.metadata.annotations: "not a key" is not an annotation key; write a name such as '
            "example.com/note",
            id="an annotation that is none",
        ),
        pytest.param(
            topology({"name": "a", "maxReplicas": -1}),
            "spec.subsets[0].maxReplicas: -1 is negative; write 0 or more, or omit it for no limit",
            id="a negative limit",
        ),
        pytest.param(
            topology({"name": "a", "maxReplicas": 3_000_000_000}),
            "spec.subsets[0].maxReplicas: 3000000000 does not fit into 32 bits; write at most 2147483647, or omit it",
            id="a limit larger than any workload",
        ),
        pytest.param(
            topology({"name": "a", "maxReplicas": "130%"}),
            'spec.subsets[0].maxReplicas: "130%" is not between 0% and 100%; write for example "30%"',
            id="more than all",
        ),
        pytest.param(
            topology({"name": "a", "maxReplicas": "-5%"}),
            'spec.subsets[0].maxReplicas: "-5%" is not between 0% and 100%; write for example "30%"',
            id="less than nothing",
        ),
        pytest.param(
            topology({"name": "a", "maxReplicas": "3"}),
            'spec.subsets[0].maxReplicas: "3" is not a percentage; write 3 or "3%"',
            id="a number as text",
        ),
        pytest.param(
            topology({"name": "a", "nodeSelectorTerm": {}}),
            "spec.subsets[0].nodeSelectorTerm: is empty and matches no node; write matchExpressions, or omit it",
            id="a term that matches nothing",
        ),
        pytest.param(
            topology({"name": "a", "nodeSelectorTerm": {"matchExpressions": [MANY_HOSTS] * 3}}),
            "spec.subsets[0].nodeSelectorTerm: has 2,001 values; write at most 2,000",
            id="a term with more values than are compared with each node",
        ),
        pytest.param(
            topology({"name": "a", "tolerations": [{"key": "rented", "operator": "Has"}]}),
            'spec.subsets[0].tolerations[0].operator: "Has" is not supported; write Exists or Equal',
            id="an unknown operator of a toleration",
        ),
        pytest.param(
            topology({"name": "a", "tolerations": [{"key": "rented", "operator": "Exists", "value": "yes"}]}),
            "spec.subsets[0].tolerations[0].value: is not allowed with Exists; omit it, or write operator: Equal",
            id="a value that is not compared",
        ),
        pytest.param(
            topology({"name": "a", "tolerations": [{"value": "yes"}]}),
            "spec.subsets[0].tolerations[0].operator: must be Exists if there is no key; write Exists, or a key",
            id="a toleration of nothing",
        ),
        pytest.param(
            topology({"name": "a", "tolerations": [{"key": "rented", "effect": "Evict"}]}),
            'spec.subsets[0].tolerations[0].effect: "Evict" is unknown; '
            "write NoSchedule, PreferNoSchedule, NoExecute, or omit it",
            id="an unknown effect",
        ),
        pytest.param(
            topology({"name": "a", "tolerations": [{"key": "rented", "tolerationSeconds": 5}]}),
            "spec.subsets[0].tolerations[0].effect: must be NoExecute if tolerationSeconds is set; write NoExecute",
            id="seconds of the wrong effect",
        ),
        pytest.param(
            topology({"name": "a", "patch": {"status": {"phase": "Running"}}}),
            "spec.subsets[0].patch.status: cannot be patched; write metadata and spec only",
            id="a patch of the status",
        ),
        pytest.param(
            topology({"name": "a", "patch": {"metadata": {"name": "mine"}}}),
            "spec.subsets[0].patch.metadata.name: cannot be patched; write labels, annotations or finalizers only",
            id="a patch of the name",
        ),
        pytest.param(
            topology({"name": "a", "patch": {"spec": {"containers": [{"image": "x"}]}}}),
            'spec.subsets[0].patch.spec.containers: the element {"image": "x"} lacks the merge key name',
            id="a container without a name",
        ),
        pytest.param(
            topology({"name": "a", "patch": {"spec": {"priority": "high"}}}),
            'spec.subsets[0].patch.spec.priority: "high": expected `int | null`, got `str`',
            id="a patch that makes no pod",
        ),
        pytest.param(
            topology({"name": "a", "tolerations": [{"key": "no key", "operator": "Exists"}]}),
            'spec.subsets[0].tolerations[0].key: "no key" is not a taint key; '
            "write a name such as app or example.com/app",
            id="a taint that cannot be",
        ),
        pytest.param(
            topology({"name": "a", "tolerations": [{"key": "rented", "value": "no value"}]}),
            'spec.subsets[0].tolerations[0].value: "no value" is not a taint value; write letters, digits, -, _ and .',
            id="a taint's value that cannot be",
        ),
        pytest.param(
            topology({"name": "a", "patch": {"spec": None}}),
            "spec.subsets[0].patch.spec: cannot be removed; write the fields to change, or omit it",
            id="a patch that leaves nothing",
        ),
        pytest.param(
            topology({"name": "a", "patch": {"spec": {"containers": None}}}),
            "spec.subsets[0].patch.spec.containers: is empty after the patch; "
            "write the containers to change, or omit it",
            id="a patch that leaves no container",
        ),
        pytest.param(
            topology({"name": "a", "patch": {"metadata": {"labels": {"no key": "x"}}}}),
            'spec.subsets[0].patch.metadata.labels: "no key" is not a label key; write a name such as example.com/app',
            id="a label that cannot be",
        ),
        pytest.param(
            topology({"name": "a", "patch": {"metadata": {"labels": {"a": "no value"}}}}),
            'spec.subsets[0].patch.metadata.labels[a]: "no value" is not a label value; write letters, digits, -, _',
            id="a label's value that cannot be",
        ),
        pytest.param(
            topology({"name": "a", "patch": {"metadata": {"labels": {SPECIFIED_DELETE: "true"}}}}),
            "spec.subsets[0].patch.metadata.labels[apps.kruise.io/specified-delete]: selects pods for deletion: "
            "a CloneSet would delete and create pods endlessly; remove it",
            id="a label that marks pods for deletion",
        ),
        pytest.param(
            topology({"name": "a", "patch": {"spec": {"tolerations": [{"key": "rented", "operator": "Has"}]}}}),
            'spec.subsets[0].patch.spec.tolerations[0].operator: "Has" is not supported; write Exists or Equal',
            id="a toleration in a patch",
        ),
        pytest.param(
            topology(strategy={"type": "Fixed", "adaptive": {"rescheduleCriticalSeconds": 30}}),
            "spec.scheduleStrategy.adaptive: needs type Adaptive; omit it, or write type: Adaptive",
            id="settings of another strategy",
        ),
    ],
)
def test_invalid_topologies_are_refused_with_the_field(made: UnitedTopology, want: str) -> None:
    """The message names the field and what to write instead."""
    assert told(made) == [want]


@pytest.mark.parametrize(
    ("subset", "field"),
    [
        pytest.param(expression("Is", "z1"), "matchExpressions[0].operator", id="an unknown operator"),
        pytest.param(expression("In"), "matchExpressions[0].values", id="in nothing"),
        pytest.param(expression("Gt", "many"), "matchExpressions[0].values", id="more than a word"),
        pytest.param(expression("Exists", key="no key"), "matchExpressions[0].key", id="not a key"),
    ],
)
def test_terms_that_no_pod_can_have_are_refused(subset: JSON, field: str) -> None:
    """Otherwise every pod of the subset would be refused by the API server, long after the mistake."""
    (problem,) = unitedtopology.problems(topology(subset))
    assert problem.path.startswith(f"spec.subsets[0].nodeSelectorTerm.{field.partition('.')[0]}")


@pytest.mark.parametrize(
    "seconds", [pytest.param(0, id="none"), pytest.param(86_401, id="a day and more"), pytest.param(-3, id="negative")]
)
def test_times_out_of_range_do_not_decode(seconds: int) -> None:
    """The schema says the same, so an API server refuses them before anybody else looks."""
    with pytest.raises(ValueError, match="rescheduleCriticalSeconds"):
        topology(strategy={"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": seconds}})


def test_status_is_written_whole() -> None:
    """Every number and list is stated, so that a merge leaves nothing of before; entries only where there are some."""
    status = UnitedTopologyStatus(
        observed_generation=3,
        replicas=9,
        revision="r2",
        counted_version="41",
        subset_statuses=(SubsetStatus(name="a", creating={"x": NOON}),),
        other_revisions=(
            RevisionStatus(revision="r1", subset_statuses=(SubsetStatus(name="a", missing_replicas=-1),)),
        ),
        shortages=(Shortage(name="a", until=NOON, times=2),),
        returns=(SubsetReturn(name="a", since=NOON, expected=3, pods=("p",)),),
        conditions=(Condition(type="Ready", status="True"),),
    )
    tree = unitedtopology.status_tree(status)
    assert tree == {
        "observedGeneration": 3,
        "replicas": 9,
        "revision": "r2",
        "countedVersion": "41",
        "subsetStatuses": [
            {"name": "a", "replicas": 0, "missingReplicas": 0, "creating": {"x": "2026-03-01T12:00:00.250000Z"}}
        ],
        "otherRevisions": [{"revision": "r1", "subsetStatuses": [{"name": "a", "replicas": 0, "missingReplicas": -1}]}],
        "shortages": [{"name": "a", "until": "2026-03-01T12:00:00.250000Z", "times": 2}],
        "returns": [{"name": "a", "since": "2026-03-01T12:00:00.250000Z", "expected": 3, "pods": ["p"]}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    assert codec.convert(tree, UnitedTopologyStatus) == status


def test_quantities_of_a_patch_are_read() -> None:
    """An API server would refuse every pod of the subset."""
    resources = {"requests": {"cpu": "lots", "memory": "1Gi"}}
    patch = {"spec": {"containers": [{"name": "web", "resources": resources}]}}
    (problem,) = unitedtopology.problems(topology({"name": "a", "patch": patch}))
    assert problem.path == "spec.subsets[0].patch.spec.containers[web].resources.requests.cpu"
