"""A lab on the real binaries in the folder that CONTROL_PLANE names: what users pass through arrives, and who did what
is recorded."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.labs import lab
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.errors import KubeError
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.sessions import Session
from trimtab_lab import supervisor
from trimtab_lab.controlplane import binaries
from trimtab_lab.controlplane.commands import listening_ports
from trimtab_lab.controlplane.versions import API_SERVER, CONTROLLER_MANAGER, SCHEDULER

BINARIES = os.environ.get("CONTROL_PLANE", "")
PROCESSES = (supervisor.API_SERVER, CONTROLLER_MANAGER, SCHEDULER)
FOR_ALL, FOR_ONE = "PodDeletionCost", "CPUManagerPolicyAlphaOptions"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(not BINARIES, reason="CONTROL_PLANE names no folder with etcd and kube-apiserver"),
]


@pytest.fixture(scope="module")
def minor() -> int:
    """The minor version that the binaries emulate: the one before theirs."""
    return binaries.find(Path(BINARIES)).versions[API_SERVER].minor - 1


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory, minor: int) -> Iterator[Path]:
    """The folder of a lab with a feature gate for all binaries, and one for the controller manager alone."""
    folder = tmp_path_factory.mktemp("customized")
    options = ["--feature-gates", f"{FOR_ALL}=false", "--emulated-version", f"1.{minor}"]
    options += ["--extra-arg", f"{CONTROLLER_MANAGER}=--feature-gates={FOR_ONE}=true"]
    with lab(folder, "--control-plane", BINARIES, *options):
        yield folder


@asynccontextmanager
async def connected(state: Path, process: str) -> AsyncIterator[Client]:
    """A client of a process of the lab, with the administrator's certificate."""
    found = supervisor.read_state(state)
    assert found is not None
    line = Path(f"/proc/{found.processes[process]}/cmdline").read_text()
    (port,) = listening_ports(line.split("\0"))
    endpoint = replace(discover(state / "kubeconfig"), server=f"https://127.0.0.1:{port}")
    async with Client(Session(endpoint)) as client:
        yield client.using(retry=NO_RETRIES)


async def enabled_gates(state: Path, process: str) -> dict[str, bool]:
    """The feature gates of a process by its metrics, once it serves them."""
    async with asyncio.timeout(60):
        while True:
            try:
                async with connected(state, process) as client:
                    lines = (await client.call("GET", "/metrics")).body.decode().splitlines()
            except KubeError:
                await asyncio.sleep(0.2)
                continue
            samples = [line for line in lines if line.startswith("kubernetes_feature_enabled{")]
            return {line.partition('name="')[2].partition('"')[0]: line.endswith(" 1") for line in samples}


async def test_feature_gates_reach_their_binaries(state: Path) -> None:
    """Those of --feature-gates all of them, those of --extra-arg the one that it names."""
    gates = {process: await enabled_gates(state, process) for process in PROCESSES}
    assert {process: found[FOR_ALL] for process, found in gates.items()} == dict.fromkeys(PROCESSES, False)
    assert [process for process, found in gates.items() if found[FOR_ONE]] == [CONTROLLER_MANAGER]


async def test_an_older_version_is_emulated(state: Path, minor: int) -> None:
    """As the API server reports."""
    async with connected(state, supervisor.API_SERVER) as client:
        version = json.loads((await client.call("GET", "/version")).body)
    assert (version["emulationMajor"], version["emulationMinor"]) == ("1", str(minor))


async def test_every_request_is_audited_with_its_user(state: Path) -> None:
    """Trimtab's processes are their ServiceAccounts; the binaries are the users of an ordinary cluster."""
    expected = {
        "kubernetes-admin",
        "system:kube-controller-manager",
        "system:kube-scheduler",
        "system:serviceaccount:trimtab-system:trimtab-scheduler",
    }
    with suppress(TimeoutError):
        async with asyncio.timeout(30):
            while not expected <= audited_users(state):
                await asyncio.sleep(0.2)
    assert expected - audited_users(state) == set()


def audited_users(state: Path) -> set[str]:
    """The users in the audit log; its last line may be incomplete."""
    text = (state / "logs" / "audit.log").read_text()
    return {json.loads(line)["user"]["username"] for line in text.split("\n")[:-1]}


def test_the_status_names_the_control_plane_and_its_processes(state: Path) -> None:
    """For people and for programs."""
    shown = trimtab("status", "--state", str(state), "-o", "json")
    status = json.loads(shown.stdout)
    assert (status["running"], status["ready"]) == (True, True)
    assert status["controlPlane"] == binaries.find(Path(BINARIES)).summary
    assert {"etcd", *PROCESSES, "nodes", "scheduler"} == status["parts"].keys()
    assert binaries.find(Path(BINARIES)).summary in trimtab("status", "--state", str(state)).stdout


def test_a_story_is_played_on_a_temporary_lab(tmp_path: Path) -> None:
    """With a chart; the lab is gone afterwards."""
    chart = tmp_path / "story.svg"
    options = ("-o", "json", "--chart", str(chart), "--state", str(tmp_path / "none"))
    played = trimtab("run", "stays-level", "--control-plane", BINARIES, *options)
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout)["failures"] == []
    assert chart.read_text().startswith("<svg")


def trimtab(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `trimtab lab`."""
    command = [sys.executable, "-m", "trimtab", "lab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
