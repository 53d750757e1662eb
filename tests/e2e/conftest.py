"""The control plane under test: the one that KUBECONFIG names, or a lab.

The lab is embedded, or on the real binaries in the folder that CONTROL_PLANE names (`make e2e CONTROL_PLANE=DIR`). The
results end with the control plane that they are of.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.labs import lab
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.sessions import Session

CONTROL_PLANE = pytest.StashKey[str]()


@pytest.fixture(scope="session", autouse=True)
def control_plane(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Path]:
    """The kubeconfig of the control plane. A lab is started for the session and used like any other cluster."""
    named, binaries = os.environ.get("KUBECONFIG"), os.environ.get("CONTROL_PLANE")
    if named and not binaries:
        pytestconfig.stash[CONTROL_PLANE] = f"the cluster of {named}, Kubernetes {server_version(Path(named))}"
        yield Path(named)
        return
    state = tmp_path_factory.mktemp("lab")
    with lab(state, *(("--control-plane", binaries) if binaries else ())) as description:
        kubeconfig = state / "kubeconfig"
        pytestconfig.stash[CONTROL_PLANE] = f"{description}, Kubernetes {server_version(kubeconfig)}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", str(kubeconfig))
            yield kubeconfig


def server_version(kubeconfig: Path) -> str:
    """The version that an API server reports."""

    async def ask() -> str:
        async with Client(Session(discover(kubeconfig))) as client:
            answer: dict[str, str] = json.loads((await client.call("GET", "/version")).body)
            return answer["gitVersion"]

    return asyncio.run(ask())


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Which control plane the results are of."""
    if CONTROL_PLANE in config.stash:
        terminalreporter.write_line(f"control plane: {config.stash[CONTROL_PLANE]}")
