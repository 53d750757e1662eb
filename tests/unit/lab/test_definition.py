"""The processes of a lab."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.unit.lab.controlplane.test_binaries import OUTPUT, fill
from trimtab.api import configuration
from trimtab_lab import supervisor
from trimtab_lab.cli.banner import banner
from trimtab_lab.cli.commands import lab
from trimtab_lab.controlplane.binaries import Binaries
from trimtab_lab.controlplane.versions import API_SERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Version
from trimtab_lab.definition import ControlPlane, LabOptions, supervisor_for, write_configuration

VERSIONS = {
    ETCD: Version(3, 6, 8),
    API_SERVER: Version(1, 36, 4),
    CONTROLLER_MANAGER: Version(1, 36, 4),
    SCHEDULER: Version(1, 36, 4),
}


def options(state: Path, *names: str) -> LabOptions:
    """The options of a lab on these binaries; an embedded one without."""
    binaries = Binaries(Path("/bin"), {name: VERSIONS[name] for name in names})
    return LabOptions(state, 1, control_plane=ControlPlane(binaries) if names else None)


@pytest.mark.parametrize(
    ("names", "processes"),
    [
        pytest.param((), "apiserver workloads nodes scheduler webhooks controllers", id="embedded"),
        pytest.param(
            tuple(VERSIONS),
            "etcd apiserver kube-controller-manager kube-scheduler nodes scheduler webhooks controllers",
            id="all binaries",
        ),
        pytest.param(
            (ETCD, API_SERVER),
            "etcd apiserver workloads nodes scheduler webhooks controllers",
            id="etcd and kube-apiserver alone",
        ),
    ],
)
def test_the_lab_runs_what_the_binaries_do_not(tmp_path: Path, names: tuple[str, ...], processes: str) -> None:
    """In the order of their start."""
    made = supervisor_for(options(tmp_path, *names))
    assert " ".join(spec.name for spec in made.processes) == processes


@pytest.mark.parametrize("names", [pytest.param((), id="embedded"), pytest.param(tuple(VERSIONS), id="all binaries")])
def test_a_lab_enforces(tmp_path: Path, names: tuple[str, ...]) -> None:
    """It is there to show what Trimtab does."""
    write_configuration(options(tmp_path, *names))
    tree = json.loads((tmp_path / "trimtab.json").read_text())
    assert tree["scaleDown"]["defaultPolicies"] == [{"name": "level", "mode": "Enforce"}]


@pytest.mark.parametrize("names", [pytest.param((), id="embedded"), pytest.param((ETCD, API_SERVER), id="no manager")])
def test_feature_gates_reach_the_labs_controllers_and_trimtab(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Trimtab has to know which order the controllers use; their metrics have an address."""
    gates = {"LogarithmicScaleDown": False, "SomethingElse": True}
    chosen = replace(options(tmp_path, *names), feature_gates=gates, metrics_port=9)
    made = supervisor_for(chosen)
    (workloads,) = (spec for spec in made.processes if spec.name == "workloads")
    assert workloads.arguments[-4:] == (
        "--feature-gates",
        "LogarithmicScaleDown=false,PodDeletionCost=true",
        "--metrics-port",
        "9",
    )
    assert made.metrics_url == "http://127.0.0.1:9/metrics"
    write_configuration(chosen)
    tree = json.loads((tmp_path / "trimtab.json").read_text())
    assert tree["scaleDown"]["controllerGates"] == {"logarithmicScaleDown": False, "podDeletionCost": True}
    configuration.read(tree)


@pytest.mark.parametrize(
    ("names", "profiles"),
    [
        pytest.param((), ["default-scheduler", "trimtab"], id="embedded"),
        pytest.param((ETCD, API_SERVER), ["default-scheduler", "trimtab"], id="no kube-scheduler"),
        pytest.param((ETCD, API_SERVER, SCHEDULER), ["trimtab"], id="kube-scheduler"),
    ],
)
def test_trimtab_is_the_default_scheduler_where_there_is_none(
    tmp_path: Path, names: tuple[str, ...], profiles: list[str]
) -> None:
    """Otherwise it schedules the pods that name it."""
    write_configuration(options(tmp_path, *names))
    tree = json.loads((tmp_path / "trimtab.json").read_text())
    assert [each["schedulerName"] for each in tree["scheduler"]["profiles"]] == profiles


def test_trimtab_has_its_own_identity_on_a_real_api_server(tmp_path: Path) -> None:
    """A kubeconfig for each component, instead of the administrator's."""
    made = supervisor_for(options(tmp_path, *VERSIONS))
    for name in ("scheduler", "webhooks", "controllers"):
        (spec,) = (spec for spec in made.processes if spec.name == name)
        assert f"{tmp_path}/trimtab-{name}.kubeconfig" in spec.arguments
    write_configuration(options(tmp_path, *VERSIONS))
    assert json.loads((tmp_path / "trimtab.json").read_text())["namespace"] == "trimtab-system"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ["--port", "{port}"],
            "port {port} of the API server is in use by another program; stop it, or choose another port with --port",
            id="kube-apiserver",
        ),
        pytest.param(
            ["--extra-arg", "kube-scheduler=--secure-port={port}"],
            "port {port} of kube-scheduler is in use by another program; stop it, or change --extra-arg",
            id="kube-scheduler",
        ),
        pytest.param(
            ["--extra-arg", "etcd=--listen-client-urls=https://127.0.0.1:{port}"],
            "port {port} of etcd is in use by another program; stop it, or change --extra-arg",
            id="etcd",
        ),
    ],
)
def test_a_port_in_use_is_explained(tmp_path: Path, arguments: list[str], words: str) -> None:
    """With the port and the binary that needs it, before anything starts."""
    fill(tmp_path, **OUTPUT)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        command = ["up", "--state", str(tmp_path / "lab"), "--port", str(supervisor.find_free_port())]
        command += ["--control-plane", str(tmp_path), *(each.format(port=port) for each in arguments)]
        result = CliRunner().invoke(lab, command)
    assert result.exit_code == 1
    assert words.format(port=port) in result.output
    assert not (tmp_path / "lab" / "logs").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--control-plane", "/nowhere"], "/nowhere is not a folder", id="no folder"),
        pytest.param(["--control-plane"], "$KUBEBUILDER_ASSETS is not set", id="no value"),
        pytest.param(["--emulated-version", "1.35"], "need --control-plane", id="version of the embedded lab"),
        pytest.param(
            ["--feature-gates", "A=true"],
            "featureGates[A]: is not a known feature gate; known ones are LogarithmicScaleDown, PodDeletionCost",
            id="gates of the embedded lab",
        ),
        pytest.param(["--feature-gates", "A"], "write Name=true or Name=false", id="a gate without a value"),
        pytest.param(
            ["--control-plane", "/nowhere", "--state", "x", "--extra-arg", "v"], "is not NAME=--FLAG", id="argument"
        ),
    ],
)
def test_mistakes_are_explained_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    """On the command line."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    result = CliRunner().invoke(lab, ["up", *arguments])
    assert result.exit_code != 0
    assert words in result.output


LEVEL = "# zones stay level; a warning says what Kubernetes alone would leave"
ALONE = "# Kubernetes alone chooses which pods go: "
PENDING = "# Pending: no scheduler runs in this lab"
REAL = tuple(VERSIONS)


@pytest.mark.parametrize(
    ("names", "components", "gates", "texts"),
    [
        pytest.param((), "scheduler webhooks controllers", {}, {LEVEL}, id="all of Trimtab"),
        pytest.param(REAL, "scheduler webhooks controllers", {}, {LEVEL}, id="all of Trimtab on real binaries"),
        pytest.param(REAL, "webhooks", {}, {LEVEL}, id="the webhooks beside kube-scheduler"),
        pytest.param((), "webhooks", {}, {PENDING}, id="the webhooks and no scheduler"),
        pytest.param((), "", {}, {PENDING}, id="nothing of Trimtab"),
        pytest.param(REAL, "", {}, {ALONE}, id="nothing of Trimtab on real binaries"),
        pytest.param((ETCD, API_SERVER), "", {}, {PENDING}, id="neither Trimtab nor kube-scheduler"),
        pytest.param((), "scheduler controllers", {}, {ALONE}, id="no webhooks"),
        pytest.param((), "scheduler webhooks controllers", {"PodDeletionCost": False}, {ALONE}, id="costs are ignored"),
    ],
)
def test_the_banner_says_what_this_lab_does(
    tmp_path: Path, names: tuple[str, ...], components: str, gates: dict[str, bool], texts: set[str]
) -> None:
    """What happens to pods depends on what runs."""
    chosen = replace(options(tmp_path, *names), components=tuple(components.split()), feature_gates=gates)
    printed = banner(supervisor_for(chosen), chosen)
    assert {text for text in (LEVEL, ALONE, PENDING) if text in printed} == texts


def test_the_banner_is_that_of_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`trimtab lab up --no-product` promises nothing that Trimtab does."""

    async def run(self: supervisor.Supervisor) -> None:
        self.on_ready()

    monkeypatch.setattr(supervisor.Supervisor, "run", run)
    result = CliRunner().invoke(lab, ["up", "--no-product", "--no-dashboard", "--state", str(tmp_path)])
    assert (PENDING in result.output, LEVEL in result.output) == (True, False), result.output


def test_a_lab_serves_the_dashboard_if_it_is_asked_to(tmp_path: Path) -> None:
    """A process of the product, and the lab's controls behind its buttons; the secret is written before they start."""
    made = supervisor_for(replace(options(tmp_path), dashboard=True, dashboard_port=12345))
    names = [spec.name for spec in made.processes]
    assert names == ["apiserver", "workloads", "nodes", "scheduler", "webhooks", "controllers", "controls", "dashboard"]
    shown = made.processes[-1].arguments
    assert shown[0] == "dashboard"
    assert shown[-2:] == ("--lab-controls", str(tmp_path / "controls.json"))
    assert made.dashboard_url == "http://127.0.0.1:12345/"
    made.prepare()
    assert (tmp_path / "controls.json").exists()
    assert configuration.read(json.loads((tmp_path / "trimtab.json").read_text())) is not None
