"""`trimtab scheduler-config`: kube-scheduler's configuration of the same default constraints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from trimtab.api import configuration
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.app import kube_scheduler
from trimtab.cli.scheduler_config import scheduler_config
from trimtab.placement.schedulers import kube_scheduler_profiles

JSON = dict[str, Any]

KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
RACK = {"maxSkew": 2, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule"}
LIST = {"defaultingType": "List", "defaultConstraints": [RACK]}
ADMISSION = {"delivery": "Admission", "rules": [{"constraints": [RACK]}]}


def printed(tree: JSON, **options: str) -> JSON:
    """The configuration for kube-scheduler."""
    return kube_scheduler.configuration(configuration.read(tree), **options).tree


def arguments(tree: JSON, profile: int = 0) -> JSON:
    """The arguments of PodTopologySpread in a profile."""
    configs: list[JSON] = tree["profiles"][profile]["pluginConfig"]
    (args,) = (each["args"] for each in configs if each["name"] == "PodTopologySpread")
    found: JSON = args
    return found


def own(args: JSON) -> JSON:
    """A configuration of Trimtab's scheduler with these arguments."""
    return {"scheduler": {**KIND, "profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}]}}


@pytest.mark.parametrize(
    ("tree", "want"),
    [
        pytest.param({}, {"defaultingType": "System"}, id="Kubernetes' own"),
        pytest.param(own(LIST), LIST, id="a list"),
        pytest.param(own({"defaultingType": "List"}), {"defaultingType": "List", "defaultConstraints": []}, id="none"),
        pytest.param({"scheduler": {**KIND, "topologySpreadConstraints": [RACK]}}, LIST, id="at the top"),
        pytest.param({"defaultConstraints": ADMISSION}, LIST, id="a rule of admission"),
    ],
)
def test_the_arguments_are_those_of_trimtab(tree: JSON, want: JSON) -> None:
    """And kube-scheduler's profile then has the same default constraints."""
    made = printed(tree)
    assert arguments(made) == want
    found = kube_scheduler_profiles(made)["default-scheduler"].default_constraints
    if want["defaultingType"] == "List":
        assert [each.topology_key for each in found] == [each["topologyKey"] for each in want["defaultConstraints"]]


def test_the_proposals_constraints_have_the_present_label_of_zones() -> None:
    """kube-scheduler knows neither that type nor the alias."""
    args = arguments(printed(own({"defaultingType": "Proposal"})))
    assert [each["topologyKey"] for each in args["defaultConstraints"]] == [HOSTNAME, ZONE]
    assert args["defaultingType"] == "List"


def test_kube_schedulers_own_configuration_is_kept() -> None:
    """In all parts but the arguments of the plugin, in every profile."""
    other = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["x"]}}
    old = {"name": "PodTopologySpread", "args": {"defaultingType": "System"}}
    theirs = {
        **KIND,
        "parallelism": 3,
        "profiles": [{"schedulerName": "a", "pluginConfig": [other, old]}, {"schedulerName": "b"}],
    }
    made = printed({"defaultConstraints": {**ADMISSION, "kubeScheduler": theirs}}, kubeconfig="/etc/s.conf")
    assert made["parallelism"] == 3
    assert made["clientConnection"] == {"kubeconfig": "/etc/s.conf"}
    assert [each["schedulerName"] for each in made["profiles"]] == ["a", "b"]
    assert made["profiles"][0]["pluginConfig"][0] == other
    assert arguments(made) == arguments(made, 1) == LIST


def test_the_feature_gate_disables_the_plugin() -> None:
    """Spreading and defaults go together."""
    made = printed({"featureGates": {"EvenPodsSpread": False}, "defaultConstraints": ADMISSION})
    assert made["profiles"][0]["plugins"]["multiPoint"]["disabled"] == [{"name": "PodTopologySpread"}]


@pytest.mark.parametrize(
    ("tree", "options", "path"),
    [
        pytest.param(
            {
                "defaultConstraints": {
                    "delivery": "Admission",
                    "rules": [{"namespaceSelector": {}, "constraints": []}, {"name": "b"}],
                }
            },
            {},
            "defaultConstraints.rules",
            id="several rules",
        ),
        pytest.param(
            {
                "defaultConstraints": {
                    "delivery": "Admission",
                    "rules": [{"namespaceSelector": {"matchLabels": {"a": "b"}}, "constraints": [RACK]}],
                }
            },
            {},
            "defaultConstraints.rules",
            id="a rule for some namespaces",
        ),
        pytest.param({}, {"profile": "fast"}, "--profile", id="an unknown profile"),
        pytest.param(
            {
                "scheduler": {
                    "apiVersion": "componentconfig/v1alpha1",
                    "defaultTopologySpreadConstraints": [{**RACK, "topologyKey": "example.com/topology/rack"}],
                }
            },
            {},
            "defaultConstraints[0].topologyKey",
            id="a key that kube-scheduler refuses",
        ),
    ],
)
def test_what_kube_scheduler_cannot_do_is_refused(tree: JSON, options: dict[str, str], path: str) -> None:
    """With the field."""
    with pytest.raises(InvalidError) as caught:
        printed(tree, **options)
    assert caught.value.path == path


def test_the_command_prints_yaml(tmp_path: Path) -> None:
    """kube-scheduler's file may be named relative to Trimtab's."""
    (tmp_path / "theirs.yaml").write_text(yaml.safe_dump({**KIND, "parallelism": 4}))
    section = {**ADMISSION, "kubeScheduler": "theirs.yaml"}
    (tmp_path / "trimtab.yaml").write_text(yaml.safe_dump({"defaultConstraints": section}))
    result = CliRunner().invoke(scheduler_config, ["--config", str(tmp_path / "trimtab.yaml")])
    assert result.exit_code == 0, result.output
    made = yaml.safe_load(result.stdout)
    assert made["parallelism"] == 4
    assert arguments(made) == LIST
