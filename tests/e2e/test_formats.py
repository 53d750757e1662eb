"""`trimtab install`, kustomize and the Helm chart, each applied to a control plane: the same objects are stored.

The chart is rendered with Helm's template engine and applied as the others are. API servers that do not serve admission
policies, such as the embedded lab's, cannot take an installation.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pytest

from tests.unit.deploy.formats import HELM, KUBECTL, by_identity, kustomized, templated
from tools import kustomize as written
from trimtab.api.documents import JSON
from trimtab.install import definitions, kustomize, manifests
from trimtab.install.kustomize import Identity
from trimtab.install.options import Options

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not in the PATH"),
]

OPTIONS = Options(replicas=1)
VALUES = {"replicas": 1, "cloneSets": True}
_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")


def kubectl(*arguments: str, documents: list[JSON] | None = None) -> str:
    """Run kubectl on the control plane under test."""
    assert KUBECTL is not None
    items = None if documents is None else json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    done = subprocess.run([KUBECTL, *arguments], input=items, capture_output=True, text=True, check=False)  # noqa: S603 - found in the PATH
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def served(control_plane: Path) -> None:
    """Skip where an installation cannot be stored."""
    del control_plane
    if "validatingadmissionpolicies" not in kubectl("api-resources", "--output=name"):
        pytest.skip("this API server does not serve ValidatingAdmissionPolicies")


def _installed(_: Path) -> list[JSON]:
    return manifests.everything(OPTIONS, definitions.choose("all", []).manifests)


def _kustomized(folder: Path) -> list[JSON]:
    base = kustomize.Installation(OPTIONS, definitions.choose("all", []).manifests)
    kustomize.write(folder, kustomize.files(base))
    return kustomized(folder / "base")


def _templated(folder: Path) -> list[JSON]:
    if HELM is None:
        pytest.skip("helm is neither in HELM nor in the PATH")
    namespace = next(each for each in written.installation().objects() if each["kind"] == "Namespace")
    return [namespace, *templated(VALUES, folder)]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[Identity, JSON]:
    """What is stored of `trimtab install`."""
    with _stored(_installed(tmp_path_factory.mktemp("install"))) as found:
        return found


@contextmanager
def _stored(objects: list[JSON]) -> Iterator[dict[Identity, JSON]]:
    """What the API server stores of objects; they are removed afterwards, but for the definitions of our kinds."""
    kubectl("apply", "--server-side", "--filename=-", documents=objects)
    try:
        found = json.loads(kubectl("get", "--filename=-", "--output=json", documents=objects))["items"]
        yield by_identity(_without_server_fields(each) for each in found)
    finally:
        removed = [each for each in objects if each["kind"] != "CustomResourceDefinition"]
        kubectl("delete", "--ignore-not-found", "--wait", "--filename=-", documents=removed)


def _without_server_fields(tree: JSON) -> JSON:
    plain = deepcopy(tree)
    plain.pop("status", None)
    for name in _BY_SERVER:
        plain["metadata"].pop(name, None)
    for name in ("clusterIP", "clusterIPs"):
        if plain["kind"] == "Service":
            plain["spec"].pop(name, None)
    if plain["kind"] == "Deployment":
        plain["metadata"].pop("annotations", None)  # the revision, which its controller writes
    return plain


@pytest.mark.parametrize("form", [_kustomized, _templated], ids=["kustomize", "helm"])
def test_the_same_objects_are_stored(
    form: Callable[[Path], list[JSON]], reference: dict[Identity, JSON], tmp_path: Path
) -> None:
    """Object by object, as the API server gives them back."""
    with _stored(form(tmp_path)) as stored:
        assert len(stored) > 40
        assert set(stored) == set(reference)
        for identity, tree in stored.items():
            assert tree == reference[identity], identity
