"""`trimtab install` and `trimtab uninstall`, typed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.test_cli import trimtab
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.resources import untyped
from trimtab.kube.sessions import Session
from trimtab_lab.apiserver.wire.server import Server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """An API server with nothing in it."""
    async with Server(tmp_path / "server") as running:
        yield running


async def typed(*arguments: str, folder: Path, server: Server) -> subprocess.CompletedProcess[str]:
    """Run the command beside the server, which answers from this very process."""
    import asyncio

    return await asyncio.to_thread(trimtab, *arguments, "--kubeconfig", str(server.kubeconfig), folder=folder)


def test_without_a_cluster_it_prints_what_is_surely_ours(tmp_path: Path) -> None:
    """Objects go to standard output, notes to standard error."""
    done = trimtab("install", "--namespace", "level", folder=tmp_path)
    objects = list(yaml.safe_load_all(done.stdout))
    assert done.returncode == 0
    assert objects[0]["metadata"]["name"] == "level"
    assert "clonesets.apps.kruise.io is left out" in done.stderr
    assert "clonesets.apps.kruise.io" not in {each["metadata"]["name"] for each in objects}


def test_a_schedulers_file_is_installed_with_the_configuration_that_names_it(tmp_path: Path) -> None:
    """In a pod there would be no such file."""
    (tmp_path / "scheduler.yaml").write_text("apiVersion: kubescheduler.config.k8s.io/v1\nparallelism: 7\n")
    (tmp_path / "trimtab.yaml").write_text("scheduler: scheduler.yaml\n")
    done = trimtab("install", "--config", "trimtab.yaml", folder=tmp_path)
    (config,) = [each for each in yaml.safe_load_all(done.stdout) if each["kind"] == "ConfigMap"]
    assert yaml.safe_load(config["data"]["trimtab.yaml"])["scheduler"]["parallelism"] == 7


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param((), {"webhooks", "controllers"}, id="as configured"),
        pytest.param(("--component", "scheduler"), {"scheduler"}, id="as asked for"),
    ],
)
def test_what_runs_is_what_the_configuration_says(arguments: tuple[str, ...], want: set[str], tmp_path: Path) -> None:
    """Unless the command line says otherwise."""
    (tmp_path / "trimtab.yaml").write_text("components: [webhooks, controllers]\n")
    done = trimtab("install", "--config", "trimtab.yaml", *arguments, folder=tmp_path)
    found = [each["metadata"] for each in yaml.safe_load_all(done.stdout) if each["kind"] == "Deployment"]
    assert {each["labels"]["app.kubernetes.io/component"] for each in found} == want


def test_the_tasks_of_an_administrator_with_own_certificates_are_printed(tmp_path: Path) -> None:
    """Webhooks that API servers do not trust, or that never serve, would be ignored silently."""
    files = "{source: Files, certificateFile: /tls/tls.crt, keyFile: /tls/tls.key}"
    (tmp_path / "trimtab.yaml").write_text(f"webhooks: {{certificates: {files}}}")
    done = trimtab("install", "--config", "trimtab.yaml", folder=tmp_path)
    assert "is not ready until /tls/tls.crt and /tls/tls.key are mounted" in done.stderr
    assert "without --ca-file" in done.stderr


def modes(printed: str) -> list[str]:
    """The modes of the default policies in the printed configuration."""
    (config,) = [each for each in yaml.safe_load_all(printed) if each["kind"] == "ConfigMap"]
    policies = yaml.safe_load(config["data"]["trimtab.yaml"])["scaleDown"]["defaultPolicies"]
    return [each.get("mode", "") for each in policies]


WRITTEN = "scaleDown: {defaultPolicies: [{name: a, mode: Enforce}, {name: b}]}\n"


@pytest.mark.parametrize(
    ("written", "arguments", "want", "has_note"),
    [
        pytest.param("", (), ["Observe"], True, id="nothing is changed at first"),
        pytest.param("", ("--mode", "observe"), ["Observe"], True, id="as asked for"),
        pytest.param("", ("--mode", "enforce"), ["Enforce"], False, id="enforced"),
        pytest.param(WRITTEN, (), ["Enforce", ""], True, id="a file decides"),
        pytest.param(WRITTEN, ("--mode", "enforce"), 2 * ["Enforce"], False, id="a file is overridden"),
        pytest.param(WRITTEN, ("--mode", "observe"), 2 * ["Observe"], True, id="a file is overridden to observe"),
        pytest.param("", ("--component", "scheduler"), ["Observe"], False, id="the scheduler deletes nothing"),
    ],
)
def test_the_mode_of_default_policies(
    written: str, arguments: tuple[str, ...], want: list[str], has_note: bool, tmp_path: Path
) -> None:
    """A policy that observes comes with a note that says how to enforce it."""
    if written:
        (tmp_path / "trimtab.yaml").write_text(written)
        arguments = ("--config", "trimtab.yaml", *arguments)
    done = trimtab("install", *arguments, folder=tmp_path)
    assert modes(done.stdout) == want
    assert ("to enforce everywhere: the same command with --mode enforce" in done.stderr) == has_note


def test_the_configuration_is_printed_line_by_line(tmp_path: Path) -> None:
    """So that the mode can be read and changed in a file; the objects are those that `-o json` prints."""
    as_yaml, as_json = (trimtab("install", "-o", form, folder=tmp_path).stdout for form in ("yaml", "json"))
    assert '"mode": "Observe"' in [line.strip() for line in as_yaml.splitlines()]
    assert list(yaml.safe_load_all(as_yaml)) == json.loads(as_json)["items"]


@pytest.mark.parametrize(
    ("written", "has_note"),
    [pytest.param("{}", True, id="observes"), pytest.param("{mode: Enforce}", False, id="enforces")],
)
def test_processes_outside_the_cluster_observe_too(written: str, has_note: bool, tmp_path: Path) -> None:
    """Their mode is that of the file which they read, so the option is refused."""
    (tmp_path / "trimtab.yaml").write_text(
        f"webhooks: {{url: 'https://127.0.0.1:9443'}}\nscaleDown: {{defaultPolicies: [{written}]}}\n"
    )
    done = trimtab("install", "--local", "--config", "trimtab.yaml", folder=tmp_path)
    assert done.returncode == 0
    assert ("kubectl label namespace NAME trimtab.dev/scale-down=enforce" in done.stderr) == has_note
    assert "--mode" not in done.stderr
    refused = trimtab("install", "--local", "--config", "trimtab.yaml", "--mode", "enforce", folder=tmp_path)
    assert refused.returncode != 0
    assert refused.stdout == ""
    assert "set mode in the file that `trimtab run --config` reads" in refused.stderr


@pytest.mark.parametrize(
    ("written", "message"),
    [
        pytest.param(
            "scaleDown: {defaultPolicies: [{strategies: [{name: Nonsense}]}]}",
            '"Nonsense" is not a strategy',
            id="a strategy that there is not",
        ),
        pytest.param(
            "leaderElection: {enabled: false}",
            "leaderElection.enabled: several processes of an installation run at the same time",
            id="no leader election",
        ),
        pytest.param("scheduler: {profiles: []}", "scheduler.apiVersion: null is not supported", id="no version"),
    ],
)
def test_an_invalid_configuration_is_not_installed(written: str, message: str, tmp_path: Path) -> None:
    """Pods that end as soon as they begin are found out here."""
    (tmp_path / "trimtab.yaml").write_text(written)
    done = trimtab("install", "--config", "trimtab.yaml", folder=tmp_path)
    assert done.returncode != 0
    assert done.stdout == ""
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--component", "shop"), '"shop" is none of scheduler, webhooks', id="no component"),
        pytest.param(("--api-server-cidr", "10.0.0.1/8"), "has host bits set; write it as", id="no range"),
        pytest.param(("--api-server-cidr", "auto"), "auto found no API server: the cluster", id="no cluster"),
        pytest.param(("--config", "missing.yaml"), "missing.yaml: cannot be read", id="no file"),
        pytest.param(("--mode", "watch"), "'watch' is not one of 'observe', 'enforce'", id="no mode"),
    ],
)
def test_an_invalid_option_is_reported_in_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """With what to write."""
    done = trimtab("install", *arguments, folder=tmp_path)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


async def test_the_port_is_open_to_api_servers_alone_if_their_addresses_are_asked_for(
    server: Server, tmp_path: Path
) -> None:
    """They publish them; without the option, a note says that the port is open."""
    open_to_all = await typed("install", "-o", "json", folder=tmp_path, server=server)
    assert "the webhooks' port is open to the whole cluster" in open_to_all.stderr
    nowhere = await typed("install", "--api-server-cidr", "auto", folder=tmp_path, server=server)
    assert nowhere.stdout == ""
    assert "auto found no API server: the Service kubernetes in default has no address" in nowhere.stderr
    async with Client(Session(discover(server.kubeconfig))) as client:
        addresses = [{"ip": "10.0.0.7"}, {"ip": "fd00::7"}, {"ip": "127.0.0.1"}]
        body = {"metadata": {"name": "kubernetes"}, "subsets": [{"addresses": addresses}]}
        await client.create(untyped("v1", "Endpoints", "endpoints"), body, namespace="default")
    printed = await typed("install", "--api-server-cidr", "auto", "-o", "json", folder=tmp_path, server=server)
    assert webhooks_ingress(printed.stdout) == ["10.0.0.7/32", "fd00::7/128"]
    assert "only 10.0.0.7/32, fd00::7/128 reach the webhooks' port" in printed.stderr
    assert "open to the whole cluster" not in printed.stderr


def webhooks_ingress(printed: str) -> list[str]:
    """The CIDRs from which the webhooks are reached."""
    policies = [each for each in json.loads(printed)["items"] if each["kind"] == "NetworkPolicy"]
    (webhooks,) = [each for each in policies if each["metadata"]["name"] == "trimtab-webhooks"]
    return [caller["ipBlock"]["cidr"] for caller in webhooks["spec"]["ingress"][0]["from"]]


async def test_install_and_uninstall(server: Server, tmp_path: Path) -> None:
    """A cluster that can be asked gets all definitions; uninstalling says what it keeps, and what a flag would lose."""
    printed = await typed("install", "-o", "json", folder=tmp_path, server=server)
    assert '"clonesets.apps.kruise.io"' in printed.stdout
    assert printed.stderr.count("\n") == 5, "no notes but those about the mode, and the one about the port"
    planned = await typed("uninstall", "--dry-run", folder=tmp_path, server=server)
    assert "would remove" not in planned.stdout, "nothing was applied"
    assert "would revert costs of scale-downs" in planned.stdout
    done = await typed("uninstall", folder=tmp_path, server=server)
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if not line.startswith("reverted: 0 ")] == []


def test_a_kustomization_is_written_instead_of_printing(tmp_path: Path) -> None:
    """With the options of the command line; the directories that can be applied are listed."""
    done = trimtab("install", "--mode", "enforce", "--kustomize", "made", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    listed = [tmp_path / line / "kustomization.yaml" for line in done.stdout.splitlines()]
    assert listed[0] == tmp_path / "made/base/kustomization.yaml"
    assert all(path.exists() for path in listed)
    (config,) = [
        each
        for each in yaml.safe_load_all((tmp_path / "made/base/workloads.yaml").read_text())
        if each["kind"] == "ConfigMap"
    ]
    assert '"mode": "Enforce"' in config["data"]["trimtab.yaml"]
    refused = trimtab("install", "--local", "--kustomize", "made", folder=tmp_path)
    assert "cannot be combined with --local" in refused.stderr


async def test_another_installation_is_noted_and_keeps_the_definitions(server: Server, tmp_path: Path) -> None:
    """What both manage, permissions that are left, and why definitions are not removed."""
    text = json.dumps({"namespaces": ["shop", "bank"]})
    binding = {
        "metadata": {"name": "trimtab-webhooks-writing", "labels": {"app.kubernetes.io/managed-by": "trimtab"}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "trimtab-webhooks-writing"},
        "subjects": [{"kind": "ServiceAccount", "name": "trimtab-webhooks", "namespace": "trimtab-system"}],
    }
    configuration = {
        "metadata": {"name": "trimtab-configuration", "labels": {"app.kubernetes.io/name": "trimtab"}},
        "data": {"trimtab.yaml": text},
    }
    async with Client(Session(discover(server.kubeconfig))) as client:
        await client.create(untyped("v1", "ConfigMap", "configmaps"), configuration, namespace="default")
        bindings = untyped("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
        await client.create(bindings, binding, namespace="kube-public")
    (tmp_path / "trimtab.yaml").write_text("namespaces: [shop]\n")
    printed = await typed("install", "--config", "trimtab.yaml", folder=tmp_path, server=server)
    assert "the installation in default manages shop too" in printed.stderr
    assert "permissions in kube-public are not needed any more" in printed.stderr
    refused = await typed("uninstall", "--remove-crds", "--yes", folder=tmp_path, server=server)
    assert refused.returncode != 0
    assert "the installations in default use the definitions" in refused.stderr
    planned = await typed("uninstall", "--dropped-namespaces", "--dry-run", folder=tmp_path, server=server)
    assert planned.stdout == "would remove RoleBinding kube-public/trimtab-webhooks-writing\n"
    done = await typed("uninstall", "--dropped-namespaces", folder=tmp_path, server=server)
    assert done.stdout == "removed RoleBinding kube-public/trimtab-webhooks-writing\n"
    assert (await typed("uninstall", "--dropped-namespaces", folder=tmp_path, server=server)).stdout == ""


def test_cert_manager_is_needed_before_its_objects_are_applied(tmp_path: Path) -> None:
    """Its kinds are not known otherwise."""
    (tmp_path / "trimtab.yaml").write_text("webhooks: {certificates: {source: CertManager}}\n")
    done = trimtab("install", "--config", "trimtab.yaml", folder=tmp_path)
    assert "it must run in the cluster before this is applied" in done.stderr
    assert "kind: Certificate" in done.stdout
