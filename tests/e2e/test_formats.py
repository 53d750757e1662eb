"""`trimtab install`, kustomize and the Helm chart, each applied to a control plane: the same objects are stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.clusters import Cluster, empty_cluster, marks, needs_helm
from tests.unit.deploy.formats import DEFAULTS, configured
from tools.chart import files as chart
from trimtab.api.documents import JSON
from trimtab.install.kustomize import Identity
from trimtab.install.options import NAMESPACE

pytestmark = marks

INSTALL = ("--crds=all", "--replicas=1", "--image=example.com/trimtab:v1")
VALUES = "replicas=1,cloneSets=true,image.repository=example.com/trimtab,image.tag=v1"
_SPACE: Identity = ("Namespace", "", NAMESPACE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without Trimtab."""
    with empty_cluster(tmp_path_factory.mktemp("empty")) as found:
        yield found


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[Cluster]:
    """The same, which is left as it was."""
    yield cluster
    cluster.trimtab("uninstall", "--remove-crds", "--yes")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    assert not json.loads(cluster.kubectl("get", "crd", "--output=json"))["items"]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration that the chart installs by default."""
    file = tmp_path_factory.mktemp("settings") / "trimtab.json"
    file.write_text(json.dumps(configured(DEFAULTS)))
    return file


@pytest.fixture(scope="module")
def reference(cluster: Cluster, settings: Path) -> dict[Identity, JSON]:
    """What is stored of `trimtab install | kubectl apply`."""
    cluster.apply(*INSTALL, "--config", str(settings))
    found = cluster.stored()
    cluster.remove(NAMESPACE, "--remove-crds")
    return found


def _kustomize(cluster: Cluster, settings: Path, folder: Path) -> None:
    cluster.trimtab("install", *INSTALL, "--config", str(settings), "--kustomize", str(folder))
    cluster.kubectl("apply", "--server-side", "--kustomize", str(folder / "base"))


def _helm(cluster: Cluster, _: Path, __: Path) -> None:
    cluster.helm(
        "install", "trimtab", str(chart.FOLDER), "--namespace", NAMESPACE, "--create-namespace", "--set", VALUES
    )


@pytest.mark.parametrize("form", [_kustomize, pytest.param(_helm, marks=needs_helm)], ids=["kustomize", "helm"])
def test_the_same_objects_are_stored(
    form: Callable[[Cluster, Path, Path], None],
    reference: dict[Identity, JSON],
    settings: Path,
    empty: Cluster,
    tmp_path: Path,
) -> None:
    """Object by object, as the API server gives them back. Helm creates the namespace, without labels."""
    form(empty, settings, tmp_path)
    stored = empty.stored()
    if form is _helm:
        empty.helm("uninstall", "trimtab", "--namespace", NAMESPACE)
        stored[_SPACE] = reference[_SPACE]
    assert len(stored) > 40
    assert set(stored) == set(reference)
    for identity, tree in stored.items():
        assert tree == reference[identity], identity


@needs_helm
def test_helm_upgrades_rolls_back_and_removes_what_it_installed(empty: Cluster) -> None:
    """Permissions in a dropped namespace go; a rollback brings them back; the kinds alone stay."""
    release = ("trimtab", str(chart.FOLDER), "--namespace", NAMESPACE)
    for name in ("shop", "bank"):
        empty.kubectl("create", "namespace", name)
    empty.helm("install", *release, "--create-namespace", "--set", "namespaces={shop,bank}")
    assert empty.bound("trimtab-webhooks-writing") == {"shop", "bank"}
    empty.helm("upgrade", *release, "--reuse-values", "--set", "namespaces={shop},mode=enforce")
    assert empty.bound("trimtab-webhooks-writing") == {"shop"}
    empty.helm("rollback", "trimtab", "1", "--namespace", NAMESPACE)
    assert empty.bound("trimtab-webhooks-writing") == {"shop", "bank"}
    empty.helm("uninstall", "trimtab", "--namespace", NAMESPACE)
    assert {each["kind"] for each in empty.objects()} == {"CustomResourceDefinition"}
