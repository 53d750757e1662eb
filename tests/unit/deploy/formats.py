"""The formats of an installation: the objects of each, and settings that all are tried with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tools.chart import files as chart
from trimtab import __version__
from trimtab.api.annotations import CONFIGURATION_DIGEST
from trimtab.api.documents import JSON
from trimtab.install import definitions, manifests
from trimtab.install.deployments import CONFIGURATION_FILE
from trimtab.install.kustomize import Identity, identity
from trimtab.install.modes import MODES, with_mode
from trimtab.install.options import NAMESPACE, Options

KUBECTL = shutil.which("kubectl")
HELM = os.environ.get("HELM") or shutil.which("helm")
DEFAULTS: JSON = yaml.safe_load((chart.FOLDER / "values.yaml").read_text())


def by_identity(objects: Iterable[JSON]) -> dict[Identity, JSON]:
    """Objects by kind, namespace and name, the configuration as a value, and without its digest, which is checked."""
    found = {identity(each): deepcopy(each) for each in objects}
    (text,) = [each["data"][CONFIGURATION_FILE] for each in found.values() if each["kind"] == "ConfigMap"]
    for each in found.values():
        if each["kind"] == "ConfigMap":
            each["data"] = {CONFIGURATION_FILE: yaml.safe_load(text)}
        if each["kind"] == "Deployment":
            annotations = each["spec"]["template"]["metadata"]["annotations"]
            assert annotations.pop(CONFIGURATION_DIGEST) == digest(text)
    return found


def digest(text: str) -> str:
    """The digest of a configuration, as the pods carry it."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:16]


def kustomized(folder: Path) -> list[JSON]:
    """What kubectl builds from a kustomization."""
    assert KUBECTL is not None
    done = subprocess.run([KUBECTL, "kustomize", str(folder)], capture_output=True, text=True, check=True)  # noqa: S603 - found in the PATH
    return list(yaml.safe_load_all(done.stdout))


def helm(values: JSON, folder: Path, *arguments: str, namespace: str = NAMESPACE) -> subprocess.CompletedProcess[str]:
    """Run `helm template` with some values."""
    assert HELM is not None
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    command = [HELM, "template", "trimtab", str(chart.FOLDER), "--namespace", namespace, "--values", str(file)]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)  # noqa: S603 - as above


def templated(values: JSON, folder: Path, *, namespace: str = NAMESPACE) -> list[JSON]:
    """The objects that Helm's engine renders."""
    done = helm(values, folder, "--include-crds", namespace=namespace)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def installed(values: JSON, *, namespace: str = NAMESPACE) -> list[JSON]:
    """What `trimtab install` prints for the same settings. Helm creates the namespace itself."""
    full = _merged(DEFAULTS, values)
    configuration = configured(full)
    image, certificates = full["image"], full["certificates"]
    tag = f"@{image['digest']}" if image["digest"] else f":{image['tag'] or __version__}"
    options = Options(
        namespace=namespace,
        image=image["repository"] + tag,
        components=tuple(name for name, is_chosen in full["components"].items() if is_chosen),
        replicas=full["replicas"],
        configuration=configuration,
        deny_cost_changes=full["denyCostChanges"],
        group_cost_edits=full["groupCostEdits"],
        api_server_ranges=full["apiServerCidrs"],
        clonesets=full["cloneSets"] in ("auto", True),
        shared="Helm creates it",
        ca_bundle=certificates["caBundle"].encode(),
    )
    return manifests.everything(options, definitions.choose("all", []).manifests)


def configured(values: JSON) -> JSON:
    """The configuration that values stand for."""
    tree = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "TrimtabConfiguration", **deepcopy(values["configuration"])}
    if values["mode"] and (tree.get("scaleDown") or {}).get("defaultPolicies"):
        tree = with_mode(tree, MODES[values["mode"]])
    if values["namespaces"]:
        tree["namespaces"] = values["namespaces"]
    certificates = {name: value for name, value in values["certificates"].items() if value and name != "caBundle"}
    tree["webhooks"] = {**(tree.get("webhooks") or {}), "certificates": certificates}
    return tree


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Values as Helm merges them: maps are merged, and everything else is replaced."""
    merged = dict(one)
    for key, value in other.items():
        is_map = isinstance(value, Mapping) and isinstance(one.get(key), Mapping)
        merged[key] = _merged(one[key], value) if is_map else value
    return merged
