"""What makes one run's objects its own."""

from __future__ import annotations

import random
import re

import pytest

from tests.unit.lab.scenarios.stories import story, tree
from trimtab.api.documents import Document
from trimtab_lab.nodes.nodegroups import CLUSTER
from trimtab_lab.scenarios import runs
from trimtab_lab.scenarios.runs import Run
from trimtab_lab.scenarios.steps import NodeSelection

RUN = Run(story(), "xyz")


def test_nodes_carry_the_run() -> None:
    """Its name, its label and its taint: other pods stay away."""
    shape = RUN.shape(RUN.story.cluster)
    plan = shape.nodes["xyz-zone-a-1"]
    assert shape.name == "small-xyz"
    assert plan.labels["kubernetes.io/hostname"] == "xyz-zone-a-1"
    assert plan.labels[CLUSTER] == "small-xyz"
    assert [(taint.key, taint.value, taint.effect) for taint in plan.taints] == [(CLUSTER, "small-xyz", "NoSchedule")]


def test_pods_are_kept_on_the_nodes_of_the_run() -> None:
    """The template gets the selector and the toleration, beside what it has; all else is as it was written."""
    written = tree()["workloads"][0]
    written["spec"]["template"]["spec"] |= {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}]}
    made = RUN.manifest(Document(written))
    spec = made["spec"]["template"]["spec"]
    assert spec.pop("nodeSelector") == {"disk": "ssd", CLUSTER: "small-xyz"}
    added = {"key": CLUSTER, "operator": "Equal", "value": "small-xyz", "effect": "NoSchedule"}
    assert spec.pop("tolerations") == [{"operator": "Exists"}, added]
    del written["spec"]["template"]["spec"]["nodeSelector"], written["spec"]["template"]["spec"]["tolerations"]
    assert made == written


def test_a_bare_pod_is_kept_there_too() -> None:
    """Its spec is its own."""
    bare = Document({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}})
    assert RUN.manifest(bare)["spec"]["nodeSelector"] == {CLUSTER: "small-xyz"}


def test_objects_without_pods_stay_as_they_are() -> None:
    """A budget, a service: there is nothing to add."""
    service = Document({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": []}})
    assert RUN.manifest(service) == service.tree()


@pytest.mark.parametrize(
    ("named", "want"), [pytest.param("mine", "mine", id="a name wins"), pytest.param("", "theirs", id="else the run's")]
)
def test_pods_that_name_no_scheduler_get_the_runs(named: str, want: str) -> None:
    """A story may be played with any scheduler."""
    written = tree()["workloads"][0]
    if named:
        written["spec"]["template"]["spec"]["schedulerName"] = named
    made = Run(story(), "xyz", scheduler="theirs").manifest(Document(written))
    assert made["spec"]["template"]["spec"]["schedulerName"] == want


@pytest.mark.parametrize(
    ("selection", "want"),
    [
        pytest.param(NodeSelection(zone="zone-b"), ["xyz-zone-b-1", "xyz-zone-b-2"], id="a zone"),
        pytest.param(NodeSelection(nodes=("zone-a-2",)), ["xyz-zone-a-2"], id="a node"),
        pytest.param(
            NodeSelection(labels={"topology.kubernetes.io/zone": "zone-a"}),
            ["xyz-zone-a-1", "xyz-zone-a-2"],
            id="labels",
        ),
        pytest.param(NodeSelection(zone="zone-q"), [], id="nothing"),
    ],
)
def test_nodes_are_chosen_by_the_story_s_names(selection: NodeSelection, want: list[str]) -> None:
    """A story knows nothing of runs."""
    assert RUN.chosen(selection, RUN.shape(RUN.story.cluster)) == want


def test_names_of_runs_differ_and_fit() -> None:
    """A namespace and its nodes may be called so."""
    names = {runs.suffix(random.Random(seed)) for seed in range(200)}
    assert len(names) == 200
    assert all(re.fullmatch("[a-z0-9]{5}", name) for name in names)
