"""Workloads that own ReplicaSets: what is read of them, and how a configuration names them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.rollouts import KIND, OWNERS, Rollout
from trimtab.api import codec, configuration, scaledown, unitedtopology
from trimtab.api.apps import ReplicaSet
from trimtab.api.errors import InvalidError
from trimtab.api.meta import ObjectMeta, OwnerReference
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import DEPLOYMENTS, MAX_WORKLOADS, WorkloadKind, with_template, workload_type
from trimtab.kube.resources import Resource

JSON = dict[str, Any]
NAMED: JSON = {"group": "argoproj.io", "version": "v1alpha1", "kind": "Rollout", "plural": "rollouts"}


def read(*kinds: JSON) -> configuration.TrimtabConfiguration:
    """A configuration with these workloads."""
    return configuration.read({"workloads": list(kinds)})


def test_the_page_on_the_configuration_names_rollouts() -> None:
    """As it stands there."""
    page = (Path(__file__).parents[3] / "docs/configuration.md").read_text(encoding="utf-8")
    section = page.partition("## Workloads of other projects")[2].partition("\n## ")[0]
    (text,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert configuration.read(yaml.safe_load(text)).workloads == (WorkloadKind(**NAMED),)


def test_a_configuration_names_kinds_by_group_version_kind_and_plural() -> None:
    """And each becomes a type with a resource of its own."""
    (model,) = read(NAMED).replicaset_owners.custom
    resource = Resource.of(model)
    assert (resource.api_version, resource.kind) == ("argoproj.io/v1alpha1", "Rollout")
    assert resource.object("web", "shop", "scale") == "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/web/scale"
    assert model is workload_type(WorkloadKind(**NAMED))
    assert model is not Rollout


@pytest.mark.parametrize(
    ("kinds", "path", "reason"),
    [
        pytest.param([{**NAMED, "group": "apps"}], "workloads[0].group", '"apps" is not the API group', id="a group"),
        pytest.param([{**NAMED, "group": "a b.io"}], "workloads[0].group", "is not the API group", id="no group"),
        pytest.param([{**NAMED, "version": "1"}], "workloads[0].version", '"1" is not a version', id="a version"),
        pytest.param([{**NAMED, "kind": "rollout'"}], "workloads[0].kind", "is not a kind", id="a kind"),
        pytest.param([{**NAMED, "plural": "Rollouts"}], "workloads[0].plural", "is not the plural", id="a plural"),
        pytest.param([{**NAMED, "plural": "a/b"}], "workloads[0].plural", "is not the plural", id="a subresource"),
        pytest.param(
            [{**NAMED, "kind": "StatefulSet"}],
            "workloads[0].kind",
            "StatefulSet is not supported: a StatefulSet removes its highest ordinal first",
            id="a kind that chooses by itself",
        ),
        pytest.param([{**NAMED, "kind": "Job"}], "workloads[0].kind", "Job is not supported", id="another"),
        pytest.param(
            [{**NAMED, "kind": "Deployment"}],
            "workloads[0].kind",
            "a kind that Trimtab knows by itself",
            id="a known one",
        ),
        pytest.param(
            [NAMED, {**NAMED, "version": "v1"}],
            "workloads[1].kind",
            '"Rollout" is the kind of workloads[0] already',
            id="one kind twice",
        ),
        pytest.param(
            [{**NAMED, "kind": f"Kind{number}"} for number in range(MAX_WORKLOADS + 1)],
            "workloads",
            f"at most {MAX_WORKLOADS}",
            id="too many",
        ),
        pytest.param([{"group": "argoproj.io"}], "workloads[0]", "is missing the field `version`", id="no version"),
        pytest.param([{**NAMED, "scale": True}], "workloads[0].scale", "is not a field", id="an unknown field"),
    ],
)
def test_what_is_wrong_with_a_kind_is_reported_with_its_field(kinds: list[JSON], path: str, reason: str) -> None:
    """And with what to write."""
    with pytest.raises(InvalidError) as caught:
        read(*kinds)
    assert caught.value.path == path
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("written", "want"),
    [
        pytest.param(7, 7, id="a number"),
        pytest.param("7", 7, id="text, as Argo writes it"),
        pytest.param("6f8d", 0, id="a hash, as old versions of Argo wrote it"),
        pytest.param(None, 0, id="nothing"),
    ],
)
def test_the_observed_generation_is_read_as_it_is_written(written: object, want: int) -> None:
    """A controller that reports none is never known to have observed anything."""
    status = {} if written is None else {"observedGeneration": written}
    assert codec.convert({"status": status}, Rollout).status.observed_generation == want


@pytest.mark.parametrize(("replicas", "want"), [({"replicas": 0}, 0), ({"replicas": 5}, 5), ({}, 1)])
def test_a_workload_without_a_size_has_one_pod(replicas: JSON, want: int) -> None:
    """As a Deployment."""
    assert codec.convert({"spec": replicas}, Rollout).desired_replicas == want


def test_a_workload_that_refers_to_its_template_has_that_of_its_largest_replicaset() -> None:
    """Argo's `workloadRef`; a template of its own stays."""
    sets = [
        codec.convert({"metadata": {"name": name}, "spec": {"replicas": size, "template": {"of": name}}}, ReplicaSet)
        for name, size in (("old", 1), ("new", 5), ("none", 0))
    ]
    found = with_template(codec.convert({"spec": {}}, Rollout), sets)
    assert found.spec.template is not None
    assert found.spec.template.tree() == {"of": "new"}
    own = codec.convert({"spec": {"template": {"of": "itself"}}}, Rollout)
    assert with_template(own, sets) is own
    assert with_template(codec.convert({"spec": {}}, Rollout), []).spec.template is None


def owned_by(kind: str, api_version: str, **more: Any) -> ObjectMeta:
    """Metadata with a controller."""
    reference = {"api_version": api_version, "kind": kind, "name": "web", "uid": "u", "controller": True, **more}
    return ObjectMeta(owner_references=(OwnerReference(**reference),))


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        pytest.param(owned_by("Deployment", "apps/v1"), (True, True), id="a Deployment"),
        pytest.param(owned_by("Rollout", KIND.api_version), (False, True), id="a kind that is named"),
        pytest.param(owned_by("Rollout", f"{KIND.group}/v1"), (False, True), id="another version of it"),
        pytest.param(owned_by("Rollout", "argoproj.io/v1alpha1"), (False, False), id="the same kind of another group"),
        pytest.param(owned_by("Rollout", KIND.api_version, controller=False), (False, False), id="no controller"),
        pytest.param(ObjectMeta(), (False, False), id="no owner"),
    ],
)
def test_which_owners_resize_replicasets(metadata: ObjectMeta, want: tuple[bool, bool]) -> None:
    """Without and with a configuration that names Rollouts."""
    assert (DEPLOYMENTS.resizes(metadata), OWNERS.resizes(metadata)) == want


def policy(api_version: str, kind: str) -> list[str]:
    """What is wrong with a policy for a workload, with Rollouts in the configuration."""
    reference = {"apiVersion": api_version, "kind": kind, "name": "web"}
    made = codec.convert({"spec": {"targetRef": reference}}, ScaleDownPolicy)
    return [str(each) for each in scaledown.problems(made, OWNERS)]


def topology(api_version: str, kind: str) -> list[str]:
    """What is wrong with a UnitedTopology for a workload, with Rollouts in the configuration."""
    reference = {"apiVersion": api_version, "kind": kind, "name": "web"}
    spec = {"targetRef": reference, "subsets": [{"name": "a"}]}
    return [str(each) for each in unitedtopology.problems(codec.convert({"spec": spec}, UnitedTopology), owners=OWNERS)]


@pytest.mark.parametrize("problems", [policy, topology])
def test_a_kind_that_the_configuration_names_can_be_a_target(problems: Any) -> None:
    """In the version that it names."""
    assert problems(KIND.api_version, "Rollout") == []
    (other,) = problems(f"{KIND.group}/v1", "Rollout")
    assert other.startswith(f'spec.targetRef.apiVersion: "{KIND.group}/v1" is not supported; write')
    assert KIND.api_version in other
    assert "workloads" not in other


@pytest.mark.parametrize("problems", [policy, topology])
def test_a_kind_that_the_configuration_does_not_name_is_refused_with_how_to_name_it(problems: Any) -> None:
    """And so are those that choose by themselves, with the reason."""
    (unknown,) = problems("argoproj.io/v1alpha1", "Rollout")
    assert unknown.startswith('spec.targetRef.apiVersion: "argoproj.io/v1alpha1" is not supported; write')
    assert unknown.endswith(
        "; list a kind that owns ReplicaSets, such as Argo's Rollout, in workloads of Trimtab's configuration"
    )
    (stateful,) = problems("apps/v1", "StatefulSet")
    assert "removes its highest ordinal" in stateful
    (job,) = problems("batch/v1", "Job")
    assert "choose" in job
    (built_in,) = problems("batch/v1", "CronJob")
    assert "workloads" not in built_in
