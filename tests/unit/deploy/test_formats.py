"""`trimtab install`, kustomize and the Helm chart give the same objects for the same settings."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.unit.deploy.formats import HELM, KUBECTL, by_identity, helm, installed, kustomized, templated
from tools import kustomize as written
from tools.chart import files as chart
from tools.chart import merging, values
from tools.chart.conditions import separating
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.documents import JSON
from trimtab.install import kustomize
from trimtab.install.options import DEFAULT_CONFIGURATION, Options

needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not in the PATH")
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is neither in HELM nor in the PATH")


# What is generated is current.


def test_the_kustomization_in_the_repository_is_current() -> None:
    """`make generate` writes it."""
    assert _files(written.FOLDER) == written.files()


def test_the_chart_in_the_repository_is_current() -> None:
    """`make generate` writes it; no file is left of an earlier one."""
    assert _files(chart.FOLDER) == chart.files()


def _files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


# Kustomize.


@needs_kubectl
def test_kustomize_builds_what_is_printed() -> None:
    """The base and every overlay, object by object."""
    base = written.installation()
    assert by_identity(kustomized(written.FOLDER / "base")) == by_identity(base.objects())
    overlays = kustomize.overlays(base)
    assert set(overlays) == set(kustomize.OVERLAYS)
    for name, overlay in overlays.items():
        assert by_identity(kustomized(written.FOLDER / "overlays" / name)) == by_identity(overlay.objects()), name


@needs_kubectl
def test_kustomize_builds_what_is_printed_for_other_options(tmp_path: Path) -> None:
    """In another namespace, for some namespaces, without the scheduler."""
    configuration = {**DEFAULT_CONFIGURATION, "namespaces": ["shop", "bank"]}
    options = Options(
        namespace="level", components=("webhooks", "controllers"), configuration=configuration, replicas=3
    )
    base = kustomize.Installation(options)
    kustomize.write(tmp_path, kustomize.files(base))
    assert by_identity(kustomized(tmp_path / "base")) == by_identity(base.objects())
    for name, overlay in kustomize.overlays(base).items():
        assert by_identity(kustomized(tmp_path / "overlays" / name)) == by_identity(overlay.objects()), name


def test_an_overlay_that_an_installation_cannot_have_is_left_out() -> None:
    """No mode without default policies, and something must run."""
    options = Options(components=("scheduler",), configuration={})
    assert not {"observe", "enforce", "without-scheduler"} & set(kustomize.overlays(kustomize.Installation(options)))


def test_writing_again_leaves_only_what_is_current_and_what_others_wrote(tmp_path: Path) -> None:
    """An overlay that is gone would be applied by mistake."""
    kustomize.write(tmp_path, {"overlays/old/kustomization.yaml": f"{kustomize.HEADER}resources: []\n"})
    (tmp_path / "own.yaml").write_text("resources: []\n")
    kustomize.write(tmp_path, {"base/kustomization.yaml": f"{kustomize.HEADER}resources: []\n"})
    assert set(_files(tmp_path)) == {"own.yaml", "base/kustomization.yaml"}


# The chart.

SETTINGS: dict[str, JSON] = {
    "the defaults": {},
    "enforcing": {"mode": "enforce"},
    "the mode of the configuration": {
        "mode": "",
        "configuration": {"scaleDown": {"defaultPolicies": [{"name": "a", "mode": "Enforce"}, {"name": "b"}]}},
    },
    "some namespaces": {"namespaces": ["shop", "bank"]},
    "kube-system too": {"namespaces": ["shop", "kube-system"]},
    "its own namespace too": {"namespaces": ["trimtab-system"]},
    "without the scheduler": {"components": {"scheduler": False}},
    "the scheduler alone": {"components": {"webhooks": False, "controllers": False}},
    "cert-manager": {"certificates": {"source": "CertManager"}},
    "an issuer": {"certificates": {"source": "CertManager", "issuer": {"name": "company", "kind": "ClusterIssuer"}}},
    "files": {"certificates": {"source": "Files", "certificateFile": "/a", "keyFile": "/b", "caBundle": "PEM\n"}},
    "OpenKruise": {"cloneSets": False},
    "strict": {"denyCostChanges": True, "apiServerCidrs": ["10.0.0.0/28", "fd00::/64"], "replicas": 3},
    "lenient": {"groupCostEdits": True, "image": {"repository": "example.com/t", "tag": "1.2"}},
    "a digest": {"image": {"digest": f"sha256:{'0' * 64}"}},
    "gates and budgets": {
        "configuration": {
            "featureGates": {"PodWebhook": False},
            "defaultConstraints": {"delivery": "Admission"},
            "scaleDown": {"budgetSeconds": 4.5, "costWriters": ["system:serviceaccount:r:r", "jane@example.com"]},
            "scheduler": {"leaderElection": {"resourceName": "level"}},
            "webhooks": {"clientCaFile": "/ca.crt"},
        }
    },
    "a short budget": {"configuration": {"scaleDown": {"budgetSeconds": 0.6}}},
}


@needs_helm
@pytest.mark.parametrize("namespace", ["trimtab-system", "level"])
@pytest.mark.parametrize("name", SETTINGS)
def test_helm_renders_what_is_printed(name: str, namespace: str, tmp_path: Path) -> None:
    """Object by object, with Helm's own engine."""
    chosen = SETTINGS[name]
    assert by_identity(templated(chosen, tmp_path, namespace=namespace)) == by_identity(
        installed(chosen, namespace=namespace)
    )


@needs_helm
@pytest.mark.parametrize("seed", range(12))
def test_helm_renders_what_is_printed_for_settings_by_chance(seed: int, tmp_path: Path) -> None:
    """Any combination, as conditions are computed from some."""
    rng = random.Random(seed)
    chosen: JSON = {}
    for name in rng.sample([each for each in SETTINGS if each != "files"], 4):
        chosen |= SETTINGS[name]
    assert by_identity(templated(chosen, tmp_path)) == by_identity(installed(chosen)), chosen


@needs_helm
@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        pytest.param({"modes": "observe"}, "modes", id="an unknown value"),
        pytest.param({"mode": "watch"}, "mode", id="an unknown mode"),
        pytest.param({"configuration": {"scaleDwon": {}}}, "scaleDwon", id="an unknown field of the configuration"),
        pytest.param({"configuration": {"namespace": "a"}}, "namespace", id="a field that another value sets"),
        pytest.param({"configuration": {"scaleDown": {"budgetSeconds": 90}}}, "budgetSeconds", id="out of range"),
        pytest.param(
            {"components": dict.fromkeys(("scheduler", "webhooks", "controllers"), False)},
            "components",
            id="nothing runs",
        ),
        pytest.param({"certificates": {"source": "Files"}}, "certificates", id="files without paths"),
        pytest.param({"certificates": {"issuer": {"name": "a"}}}, "issuer", id="an issuer without cert-manager"),
    ],
)
def test_helm_refuses_invalid_values(chosen: JSON, reason: str, tmp_path: Path) -> None:
    """And names the field."""
    done = helm(chosen, tmp_path)
    assert done.returncode != 0
    assert reason in done.stderr


@needs_helm
def test_helm_refuses_a_namespace_that_every_cluster_has(tmp_path: Path) -> None:
    """Its pods would not be apart from others', and webhooks would exempt them."""
    done = helm({}, tmp_path, namespace="kube-system")
    assert "needs a namespace of its own" in done.stderr


def test_every_field_of_the_configuration_can_be_set() -> None:
    """By `configuration`, or by a value of its own."""
    fields = set(TrimtabConfiguration.__struct_encode_fields__)
    allowed = set(json.loads(values.schema())["$defs"]["TrimtabConfiguration"]["properties"])
    assert allowed | set(values.ELSEWHERE["TrimtabConfiguration"]) == fields


# How the chart is generated.


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        pytest.param([{"a"}, {"a", "b"}], "$is.a", id="one flag"),
        pytest.param([set(), {"b"}], "not $is.a", id="a negation"),
        pytest.param([{"a", "b"}], "and $is.a $is.b", id="both"),
        pytest.param([{"a"}, {"b"}, {"a", "b"}], "or $is.a $is.b", id="either"),
    ],
)
def test_the_shortest_condition_is_found(wanted: list[set[str]], want: str) -> None:
    """Readers of the chart see it."""
    cases = [frozenset(each) for each in (set(), {"a"}, {"b"}, {"a", "b"})]
    assert separating(cases, [frozenset(each) for each in wanted]).text == want


def test_cases_that_no_condition_tells_apart_are_an_error() -> None:
    """The generator must not guess."""
    cases = [frozenset(each) for each in (set(), {"a"}, {"b"}, {"a", "b"})]
    with pytest.raises(LookupError):
        separating(cases, [frozenset(), frozenset({"a", "b"})])


def test_what_variants_have_in_common_is_written_once() -> None:
    """Keys, items and values that differ are conditional; what could be empty is never null."""
    a, none = frozenset({"a"}), frozenset[str]()
    variants: dict[frozenset[str], Any] = {
        a: {"x": 1, "l": [{"name": "p", "v": 1}, {"name": "q"}], "m": {"k": 1}, "s": "one"},
        none: {"x": 1, "l": [{"name": "p", "v": 2}], "m": {}, "s": "two", "y": True},
    }
    assert merging.joined(merging.template(variants)) == [
        "x: 1",
        "l:",
        "- name: p",
        "  v:",
        "{{- if $is.a }}",
        "    1",
        "{{- else }}",
        "    2",
        "{{- end }}",
        "{{- if $is.a }}",
        "- name: q",
        "{{- end }}",
        "m:",
        "{{- if $is.a }}",
        "  k: 1",
        "{{- else }}",
        "  {}",
        "{{- end }}",
        "s:",
        "{{- if $is.a }}",
        "  one",
        "{{- else }}",
        "  two",
        "{{- end }}",
        "{{- if not $is.a }}",
        "y: true",
        "{{- end }}",
    ]
