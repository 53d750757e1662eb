"""The commands of the documentation that install, look at and remove an installation, typed as they are written.

They run on a control plane of their own with simulated nodes, which start the pods of an installation without a
container. Where a command needs one (`port-forward`), a process runs beside the Deployment, with its configuration and
its permissions, and a stand-in for the kubelets forwards to it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.clusters import BINARIES, Cluster, marks, needs_helm
from tests.e2e.kubelets import LOOPBACK, Container, kubelet
from tests.e2e.labs import lab
from tests.e2e.ports import skip_unless_free
from tests.e2e.processes import DASHBOARD, WEBHOOKS, Trimtab
from tests.scenarios.test_howtos import typed
from tests.scenarios.test_inspection_walk import END
from tests.unit.deploy.formats import HELM
from tests.unit.documentation.pages import ROOT, blocks_of, inline_commands, pages
from tests.unit.documentation.test_commands import ON_AN_INSTALLATION, reason
from trimtab.api.documents import JSON
from trimtab.install.options import NAMESPACE
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.sessions import Session
from trimtab_lab.supervisor import find_free_port

pytestmark = marks

NODES = """\
zones:
- {name: zone-a, nodes: 2}
- {name: zone-b, nodes: 2}
- {name: zone-c, nodes: 2}
"""
BY_ADDRESS = ("--extra-arg", "kube-apiserver=--kubelet-preferred-address-types=InternalIP")
"""The names of simulated nodes are in no DNS."""
FORWARD = " port-forward "
FOREIGN = {
    "PodMonitor": "monitoring.coreos.com",
    "PrometheusRule": "monitoring.coreos.com",
    "WorkloadSpread": "apps.kruise.io",
}
"""Kinds of other projects that pages name, with their groups."""
WORKLOADSPREAD = '{"apiVersion": "apps.kruise.io/v1", "kind": "WorkloadSpread", "metadata": {"name": "web"}}'
READERS_CLUSTER = (
    "kubectl wait --for=condition=Established customresourcedefinition --all",
    "trimtab install --monitoring | kubectl apply -f -",
    "kubectl -n trimtab-system rollout status deployment",
    *(f"kubectl create namespace {name}" for name in ("shop", "level", "managed")),
    *(f"kubectl -n {name} create deployment web --image=example.com/web:1" for name in ("default", "managed")),
    f"echo '{WORKLOADSPREAD}' | kubectl apply -f -",
)
"""What a reader has before typing the commands in a page's sentences."""
SERVING_PORT, DASHBOARD_PORT = 10269, 10280
READERS_CHART = (
    "mkdir -p chart/templates",
    "printf 'apiVersion: v2\\nname: shop\\nversion: 1.0.0\\n' > chart/Chart.yaml",
    "kubectl create deployment web --image=example.com/web:1 --dry-run=client -o yaml > chart/templates/web.yaml",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with nodes, without Trimtab."""
    state = tmp_path_factory.mktemp("nodes")
    with lab(state, "--no-product", "--control-plane", BINARIES, *BY_ADDRESS, shape=NODES):
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
    lines = [each for each in written("docs/dashboard.md", "docs/monitoring.md") if FORWARD not in each]
    assert len(lines) == 3
    check(cluster, folder, "kubectl create serviceaccount viewer", *lines, "kubectl delete serviceaccount viewer")
    container = "jsonpath={.spec.template.spec.containers[0].env[*].name}"
    of_webhooks = ("--namespace", NAMESPACE, "get", "deployment", "trimtab-webhooks", "--output", container)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in cluster.kubectl(*of_webhooks)
    cluster.kubectl("--namespace", NAMESPACE, "rollout", "status", "deployment", "trimtab-dashboard", "--timeout=90s")


@asynccontextmanager
async def beside(cluster: Cluster, folder: Path, component: str) -> AsyncIterator[Trimtab]:
    """A process for an installed Deployment, to launch; ports of the Deployment's pods are forwarded to it."""
    dashboard = find_free_port()
    stored = cluster.kubectl("--namespace", NAMESPACE, "get", "configmap", "trimtab-configuration", "--output=json")
    tree = json.loads(json.loads(stored)["data"]["trimtab.yaml"])
    tree["webhooks"] |= {"host": LOOPBACK, "port": find_free_port()}
    tree["serving"]["host"] = LOOPBACK
    tree["dashboard"] = {"port": dashboard}
    (folder / "trimtab.json").write_text(json.dumps(tree))
    async with Client(Session(discover(cluster.kubeconfig))) as client:
        made = Trimtab(client, NAMESPACE, folder, tree)
        await made.authorize([component])
        ports = {SERVING_PORT: made.ports[component], DASHBOARD_PORT: dashboard}
        try:
            async with kubelet(Container(ports, folder / f"{component}.log"), folder) as port:
                point_to(cluster, port)
                yield made
        finally:
            await made.stop()


def point_to(cluster: Cluster, port: int) -> None:
    """Let the API server reach the kubelet of every node at this port."""
    addresses = [{"type": "InternalIP", "address": LOOPBACK}]
    status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    nodes = cluster.kubectl("get", "nodes", "--output=name").split()
    cluster.kubectl("patch", *nodes, "--subresource=status", "--patch", json.dumps({"status": status}))


def connected(port: int) -> str:
    """Wait until a process answers at a port, or kubectl forwards it, as a reader reads in kubectl's output."""
    return f"curl -s --retry 180 --retry-delay 1 --retry-connrefused -o /dev/null http://{LOOPBACK}:{port}/healthz"


async def test_the_dashboard_is_forwarded_as_written(
    cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the token of the page, a user sees what the user may list."""
    skip_unless_free(DASHBOARD_PORT)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    install, forward, token = written("docs/dashboard.md")
    check(cluster, folder, install, f"kubectl -n {NAMESPACE} rollout status deployment/trimtab-dashboard")
    url = f"http://{LOOPBACK}:{DASHBOARD_PORT}/"
    lines = (
        END,
        "kubectl create serviceaccount viewer",
        "kubectl create clusterrolebinding viewer --clusterrole=view --serviceaccount=default:viewer",
        f"{forward} &",
        connected(DASHBOARD_PORT),
        f"curl -sf -o page.html {url}",
        f"token=$({token})",
        f'curl -sf -o state.json -H "Authorization: Bearer $token" {url}api/state',
        "kubectl delete serviceaccount,clusterrolebinding viewer",
    )
    async with beside(cluster, folder, DASHBOARD) as made:
        await made.start(DASHBOARD)
        await asyncio.to_thread(check, cluster, folder, *lines)
    assert "<title>" in (folder / "page.html").read_text()
    assert f"{NAMESPACE}/Deployment/trimtab-dashboard" in json.loads((folder / "state.json").read_text())["workloads"]


async def test_a_process_that_is_not_ready_says_why_as_written(
    cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason that the runbook names: the process may not list."""
    skip_unless_free(SERVING_PORT)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    rollout = f"kubectl -n {NAMESPACE} rollout status deployment/trimtab-webhooks"
    check(cluster, folder, "trimtab install | kubectl apply -f -", rollout)
    cluster.kubectl("delete", "clusterrolebinding", "trimtab-webhooks")
    forward, ask = written("docs/runbook.md")
    async with beside(cluster, folder, WEBHOOKS) as made:
        made.launch(WEBHOOKS)
        lines = (END, connected(made.ports[WEBHOOKS]), forward, connected(SERVING_PORT), ask)
        shown = await asyncio.to_thread(check, cluster, folder, *lines)
    assert "has not synced with the cluster yet" in shown


def inline(*programs: str) -> list[str]:
    """The commands in sentences; those of the runbook come first, and nothing needs what they delete."""
    by_urgency = sorted(pages(), key=lambda page: page.name != "runbook.md")
    found = dict.fromkeys(line for page in by_urgency for line in inline_commands(page))
    return [line for line in found if line.startswith(programs)]


async def test_commands_in_sentences_as_written(
    cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every page; those about the log find what they look for."""
    skip_unless_free(SERVING_PORT)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    lines = inline("kubectl ", "curl ")
    assert len(lines) > 15
    definitions = [definition(*each) for each in FOREIGN.items()]
    foreign = json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions})
    cluster.kubectl("apply", "--filename=-", text=foreign)
    forward = written("docs/runbook.md")[0]
    try:
        check(cluster, folder, *READERS_CLUSTER)
        async with beside(cluster, folder, WEBHOOKS) as made:
            await made.start(WEBHOOKS)
            shown = await asyncio.to_thread(check, cluster, folder, END, forward, connected(SERVING_PORT), *lines)
    finally:
        cluster.kubectl("delete", "deployment", "web", "--ignore-not-found")
        cluster.kubectl("delete", "namespace", "shop", "level", "managed", "--ignore-not-found")
        cluster.kubectl("delete", "--filename=-", text=foreign)
    assert "certificate" in shown


def definition(kind: str, group: str) -> JSON:
    """A kind with any fields."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": f"{kind.lower()}s", "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@needs_helm
def test_helm_as_written(cluster: Cluster, folder: Path) -> None:
    """The upgrades enforce, and then manage two namespaces alone."""
    lines = [each for each in written("docs/install.md") if each.startswith("helm ")]
    assert (len(lines), len(inline("helm "))) == (3, 1)
    check(cluster, folder, "kubectl create namespace shop", "kubectl create namespace bank", *lines)
    check(cluster, folder, *READERS_CHART, *inline("helm "))
    assert {"shop", "bank"} <= cluster.bound("trimtab-controllers-writing")
    check(cluster, folder, f"helm uninstall trimtab --namespace {NAMESPACE}", "kubectl delete namespace shop bank")
