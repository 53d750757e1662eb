"""The format of stories: what is read, and how mistakes are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.lab.scenarios.stories import scale, story, tree
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import ZONE
from trimtab.kube.client import PatchKind
from trimtab_lab.scenarios import stories
from trimtab_lab.scenarios.ranges import Range
from trimtab_lab.scenarios.steps import (
    Age,
    Compare,
    NodeOperation,
    NodeSelection,
    OperateNodes,
    Patch,
    Scale,
    Target,
    Wait,
)


def test_manifests_are_kept_whole() -> None:
    """No field of a manifest is lost, whether Trimtab knows it or not."""
    (manifest,) = story().workloads
    assert manifest.tree() == tree()["workloads"][0]


def test_zones_are_recorded_unless_the_story_says_otherwise() -> None:
    """Zones are what most stories are about."""
    assert story().topology == {"zone": ZONE}
    assert story(topology={"rack": "example.com/rack"}).topology == {"rack": "example.com/rack"}


def test_a_step_has_a_verb_a_wait_and_expectations() -> None:
    """All parts of a step are read."""
    (step,) = story(
        scale(6, wait={"ready": 6, "within": 5}, expect={"domains": {"zone": {"zone-a": 3}}, "skew": {"zone": "<= 1"}})
    ).steps
    assert step.action == Scale(Target("Deployment", "web"), 6)
    assert step.wait == Wait(counts={"ready": Range(6, 6)}, within=5.0)
    assert step.expect[0].domains == {"zone": {"zone-a": Range(3, 3)}}
    assert step.expect[0].skew == {"zone": Range(0, 1)}
    assert step.compare is Compare.EXACT


@pytest.mark.parametrize(
    ("written", "action", "title"),
    [
        pytest.param(
            {"fail": {"zone": "zone-b"}, "wait": {"ready": 2}},
            OperateNodes(NodeOperation.FAIL, NodeSelection(zone="zone-b")),
            "fail zone zone-b",
            id="a zone fails",
        ),
        pytest.param(
            {"drain": {"nodes": ["zone-a-1"]}},
            OperateNodes(NodeOperation.DRAIN, NodeSelection(nodes=("zone-a-1",))),
            "drain zone-a-1",
            id="a node is drained",
        ),
        pytest.param(
            {"cordon": {"labels": {"example.com/rack": "r1"}}},
            OperateNodes(NodeOperation.CORDON, NodeSelection(labels={"example.com/rack": "r1"})),
            "cordon example.com/rack=r1",
            id="a rack is cordoned",
        ),
        pytest.param({"age": {"atLeast": 10}}, Age(10.0), "let all pods be 10 s old", id="time passes"),
        pytest.param(
            {"age": {"together": True}}, Age(None, True), "wait until all ages are of one scale", id="ages meet"
        ),
        pytest.param(
            {"patch": {"kind": "Deployment", "name": "web", "patch": [], "how": "json"}},
            Patch(Target("Deployment", "web"), [], PatchKind.JSON),
            "patch Deployment/web",
            id="a patch",
        ),
    ],
)
def test_a_verb_is_read_and_gives_the_title(written: dict[str, Any], action: object, title: str) -> None:
    """Each verb becomes an action, whose words are the step's title if it has none."""
    (step,) = story(written).steps
    assert step.action == action
    assert str(step) == title
    assert str(story({**written, "title": "mine"}).steps[0]) == "mine"


def test_added_nodes_are_shown_by_zone() -> None:
    """A reader of results learns what was added."""
    (step,) = story({"add": {"zones": [{"name": "zone-c", "nodes": 3}]}}).steps
    assert str(step) == "add zone zone-c (3 nodes)"


@pytest.mark.parametrize(
    ("changes", "path", "says"),
    [
        pytest.param({"name": "Small Story"}, "name", "up to 40 of a-z, 0-9 and -", id="a name for no namespace"),
        pytest.param({"name": None}, "name", "is missing", id="no name"),
        pytest.param({"step": []}, "step", "did you mean 'steps'?", id="a misspelt field"),
        pytest.param({"steps": []}, "steps", "at least one element", id="no steps"),
        pytest.param({"cluster": {"zones": [{"name": "a"}]}}, "cluster.zones[0].nodes", "missing", id="a bad shape"),
        pytest.param({"workloads": {}}, "workloads", "is not a list", id="workloads that are no list"),
        pytest.param({"workloads": [{"kind": "Pod"}]}, "workloads[0].apiVersion", "missing", id="no apiVersion"),
        pytest.param(
            {"workloads": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}]},
            "workloads[0].metadata.namespace",
            "leave it out",
            id="a namespace",
        ),
        pytest.param(
            {"workloads": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": 1}]},
            "workloads[0].spec",
            "is not a mapping",
            id="a spec that is no mapping",
        ),
        pytest.param({"scheduler": {"apiVersion": "v1"}}, "scheduler.apiVersion", "not supported", id="a bad profile"),
        pytest.param({"topology": ["zone"]}, "topology", "is not a mapping", id="keys without names"),
    ],
)
def test_a_mistake_at_the_top_names_its_field(changes: dict[str, Any], path: str, says: str) -> None:
    """The error names the field, and what to write."""
    with pytest.raises(InvalidError) as error:
        stories.read(tree(**changes))
    assert error.value.path == path
    assert says in error.value.reason


@pytest.mark.parametrize(
    ("step", "path", "says"),
    [
        pytest.param({}, "steps[0]", "has no verb", id="nothing"),
        pytest.param({"scael": {}}, "steps[0]", "did you mean 'scale'?", id="a misspelt verb"),
        pytest.param({"title": "x", "expect": {}}, "steps[0]", "write 'apply', 'scale'", id="only a title"),
        pytest.param({"scale": {}, "delete": {}}, "steps[0]", "two verbs", id="two verbs"),
        pytest.param("scale", "steps[0]", "is not a mapping", id="a word"),
        pytest.param(scale(6, waits={}), "steps[0].waits", "did you mean 'wait'?", id="a misspelt part"),
        pytest.param(scale(-1), "steps[0].scale.replicas", "whole number from 0", id="less than nothing"),
        pytest.param(
            {"scale": {"name": "web", "replicas": 1}}, "steps[0].scale.kind", "{kind: Deployment", id="no kind"
        ),
        pytest.param({"wait": {"redy": 1}}, "steps[0].wait.redy", "did you mean 'ready'?", id="a misspelt count"),
        pytest.param({"wait": {"ready": "many"}}, "steps[0].wait.ready", '"2..10"', id="no number"),
        pytest.param({"wait": {"within": 0}}, "steps[0].wait.within", "above 0", id="no time"),
        pytest.param({"wait": {"of": "api"}}, "steps[0].wait.of", "no workload 'api'", id="an unknown workload"),
        pytest.param({"fail": {"zone": "zone-b"}}, "steps[0]", "wait: {ready", id="a failure without an end"),
        pytest.param({"drain": {}}, "steps[0].drain", "zone, nodes and labels", id="no nodes"),
        pytest.param({"drain": {"zone": "a", "nodes": ["b"]}}, "steps[0].drain", "Write one of", id="both"),
        pytest.param({"age": {}}, "steps[0].age", "either atLeast", id="no age"),
        pytest.param({"age": {"atLeast": 1, "together": True}}, "steps[0].age", "either atLeast", id="two ages"),
        pytest.param({"age": {"together": "yes"}}, "steps[0].age.together", "true nor false", id="not a flag"),
        pytest.param({"apply": {"kind": "Pod"}}, "steps[0].apply", "after a dash", id="one manifest without a dash"),
        pytest.param(
            {"patch": {"kind": "Deployment", "name": "web", "patch": []}},
            "steps[0].patch.patch",
            "mapping with the fields",
            id="operations for a merge",
        ),
        pytest.param(
            {"patch": {"kind": "Deployment", "name": "web", "patch": {}, "how": "magic"}},
            "steps[0].patch.how",
            "'strategic', 'merge' or 'json'",
            id="an unknown patch",
        ),
        pytest.param(scale(1, compare="roughly"), "steps[0].compare", "'exact', 'levels'", id="no comparison"),
        pytest.param(
            scale(1, expect={"domains": {"rack": {"r1": 1}}}),
            "steps[0].expect",
            "no topology key 'rack'",
            id="a key that is not recorded",
        ),
        pytest.param(
            scale(1, expect={"domains": {"zone": 3}}), "steps[0].expect.domains[zone]", "mapping", id="no domains"
        ),
        pytest.param(
            scale(1, expect=[{}, {"levels": {"zone": "7/7/6"}}]),
            "steps[0].expect[1].levels[zone]",
            "[7, 7, 6]",
            id="levels that are no list",
        ),
        pytest.param({"repeat": {"times": 0, "steps": []}}, "steps[0].repeat.times", "from 1", id="never"),
        pytest.param(
            {"repeat": {"times": 2, "steps": [{"wait": {}}, {"go": 1}]}},
            "steps[0].repeat.steps[1]",
            "'go' is not a verb",
            id="a mistake inside",
        ),
    ],
)
def test_a_mistake_in_a_step_names_its_field(step: Any, path: str, says: str) -> None:
    """The error names the step and the field, and what to write."""
    with pytest.raises(InvalidError) as error:
        story(step)
    assert error.value.path == path
    assert says in error.value.reason


def test_two_workloads_need_two_names() -> None:
    """A step that speaks of one must mean one."""
    twin = {**tree()["workloads"][0], "kind": "ReplicaSet"}
    with pytest.raises(InvalidError, match="two workloads are called 'web'"):
        stories.read(tree(workloads=[tree()["workloads"][0], twin]))


def test_a_key_that_stands_twice_is_a_mistake() -> None:
    """YAML would silently take the later one."""
    with pytest.raises(InvalidError, match="'name' is a duplicate key"):
        stories.parse("name: a\nname: b\n")


def test_invalid_yaml_is_reported_with_its_line() -> None:
    """The line is in the error."""
    with pytest.raises(InvalidError, match="line 1"):
        stories.parse("name: [")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("? [a]\n: b", "the key of a mapping is not a text", id="a list as a key"),
        pytest.param("name: {yes: b}", "name: True is not a text", id="a truth value as a key"),
        pytest.param("name: {null: b}", "name: nothing is not a text", id="nothing as a key"),
        pytest.param("steps: [{name: !!set {a}}]", r"steps\[0\].name: {'a'} is a set", id="a set"),
        pytest.param("name: !!binary aGk=", "name: b'hi' is a bytes", id="binary data"),
        pytest.param("name: !!float a", "is not YAML", id="a value that does not fit its tag"),
        pytest.param(b"name: \xff", "is not YAML", id="bytes that are no text"),
    ],
)
def test_what_only_yaml_has_is_refused(text: str | bytes, reason: str) -> None:
    """An object of Kubernetes is JSON."""
    with pytest.raises(InvalidError, match=reason):
        stories.parse(text)


def test_dates_stay_what_they_are() -> None:
    """Kubernetes takes them as texts, and so do manifests."""
    manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {since: 2026-01-01}}"
    read = stories.parse(f"name: a\ncluster: {{}}\nsteps: [{{wait: {{}}}}]\nworkloads: [{manifest}]")
    assert read.workloads[0].tree()["data"] == {"since": "2026-01-01"}


def test_errors_of_a_file_name_it(tmp_path: Path) -> None:
    """People have several stories."""
    with pytest.raises(InvalidError, match=r"absent\.yaml: cannot be read"):
        stories.load(tmp_path / "absent.yaml")
    (tmp_path / "bad.yaml").write_text("name: Bad\n")
    with pytest.raises(InvalidError) as error:
        stories.load(tmp_path / "bad.yaml")
    assert error.value.path == f"{tmp_path}/bad.yaml: name"


SHIPPED = stories.kubernetes_stories() | stories.gated_stories() | stories.trimtab_stories()


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_a_shipped_story_reads_and_is_called_as_its_file(name: str) -> None:
    """All that come with Trimtab are valid and have a description."""
    read = stories.load(SHIPPED[name])
    assert read.name == name
    assert read.description


def test_feature_gates_are_switches() -> None:
    """On or off, and nothing else."""
    tree = yaml.safe_load(SHIPPED["youngest-first"].read_text())
    assert stories.read(tree).feature_gates == {"LogarithmicScaleDown": False}
    tree["featureGates"] = {"LogarithmicScaleDown": "no"}
    with pytest.raises(InvalidError) as error:
        stories.read(tree)
    assert str(error.value) == "featureGates[LogarithmicScaleDown]: is not true or false"


def test_the_page_on_stories_has_one_that_reads() -> None:
    """What people copy must work."""
    page = (Path(__file__).parents[4] / "docs/lab-stories.md").read_text()
    assert stories.parse(page.split("```yaml\n")[1].split("```")[0]).name == "a-third-zone"
