"""The control plane under test: the one that KUBECONFIG names, or else the lab's own API server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Its kubeconfig. The lab is started for the length of the session, and reached as any other would be."""
    named = os.environ.get("KUBECONFIG")
    if named:
        yield Path(named)
        return
    state = tmp_path_factory.mktemp("lab")
    command = [sys.executable, "-m", "trimtab", "lab", "apiserver", "--state", str(state), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own program
        assert server.stdout is not None
        assert "https://" in server.stdout.readline()
        os.environ["KUBECONFIG"] = str(state / "kubeconfig")
        yield state / "kubeconfig"
        del os.environ["KUBECONFIG"]
        server.terminate()
