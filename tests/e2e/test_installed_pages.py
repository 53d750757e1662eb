"""The commands of the documentation that install, look at and remove an installation, typed as they are written.

They run on a control plane of their own with simulated nodes, which start the pods of an installation without a
container: what needs one (`port-forward`, `curl`) is not typed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clusters import BINARIES, Cluster, marks, needs_helm
from tests.e2e.labs import lab
from tests.scenarios.test_howtos import typed
from tests.unit.deploy.formats import HELM
from tests.unit.documentation.pages import ROOT, blocks_of
from tests.unit.documentation.test_commands import ON_AN_INSTALLATION, reason
from trimtab.install.options import NAMESPACE

pytestmark = marks

NODES = """\
zones:
- {name: zone-a, nodes: 2}
- {name: zone-b, nodes: 2}
- {name: zone-c, nodes: 2}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with nodes, without Trimtab."""
    state = tmp_path_factory.mktemp("nodes")
    with lab(state, "--no-product", "--control-plane", BINARIES, shape=NODES):
        yield Cluster(state / "kubeconfig")


@pytest.fixture
def folder(cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    """A folder in which a reader types: a clone, with helm in the PATH. Afterwards nothing is installed any more."""
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (tmp_path / "bin").mkdir()
    if HELM is not None:
        (tmp_path / "bin" / "helm").symlink_to(HELM)
    yield tmp_path
    cluster.trimtab("uninstall", "--remove-crds", "--yes")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=90s")


def written(*pages: str) -> list[str]:
    """The commands of some pages that are typed on an installation, without the comments beside them."""
    found = [(page, command) for page in pages for block in blocks_of(ROOT / page) for command in block.commands]
    return [command.split("  #")[0] for page, command in found if reason(page, command) == ON_AN_INSTALLATION]


def check(cluster: Cluster, folder: Path, *lines: str) -> str:
    """Type some lines; each has to succeed."""
    done = typed(folder, cluster.kubeconfig, lines)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_install_and_remove_as_written(cluster: Cluster, folder: Path) -> None:
    """Every Deployment is rolled out, another mode is applied over it, and then all of it is removed."""
    lines = [each for each in written("docs/install.md") if not each.startswith(("helm ", "kubectl apply"))]
    assert len(lines) == 4
    assert "successfully rolled out" in check(cluster, folder, *lines)
    cluster.kubectl("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=90s")
    assert [each for each in cluster.objects() if each["kind"] != "CustomResourceDefinition"] == []


def test_kustomize_as_written(cluster: Cluster, folder: Path) -> None:
    """The overlay of the page is stored, with the base under it."""
    lines = [each for each in written("docs/install.md") if each.startswith("kubectl apply")]
    assert len(lines) == 1
    check(cluster, folder, *lines)
    assert {"trimtab-controllers", "trimtab-scheduler", "trimtab-webhooks"} <= {
        each["metadata"]["name"] for each in cluster.objects() if each["kind"] == "Deployment"
    }


def test_dashboard_and_traces_as_written(cluster: Cluster, folder: Path) -> None:
    """The components of the page are there, a token is printed, and the webhooks have the endpoint."""
    lines = written("docs/dashboard.md", "docs/monitoring.md")
    assert len(lines) == 3
    check(cluster, folder, "kubectl create serviceaccount viewer", *lines, "kubectl delete serviceaccount viewer")
    container = "jsonpath={.spec.template.spec.containers[0].env[*].name}"
    of_webhooks = ("--namespace", NAMESPACE, "get", "deployment", "trimtab-webhooks", "--output", container)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in cluster.kubectl(*of_webhooks)
    cluster.kubectl("--namespace", NAMESPACE, "rollout", "status", "deployment", "trimtab-dashboard", "--timeout=90s")


@needs_helm
def test_helm_as_written(cluster: Cluster, folder: Path) -> None:
    """The upgrades enforce, and then manage two namespaces alone."""
    lines = [each for each in written("docs/install.md") if each.startswith("helm ")]
    assert len(lines) == 3
    check(cluster, folder, "kubectl create namespace shop", "kubectl create namespace bank", *lines)
    assert {"shop", "bank"} <= cluster.bound("trimtab-controllers-writing")
    check(cluster, folder, f"helm uninstall trimtab --namespace {NAMESPACE}", "kubectl delete namespace shop bank")
