"""The control plane under test: the one that KUBECONFIG names, or a lab."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab_lab import supervisor

NO_NODES = "name: node-controllers\n"
"""Without nodes of the lab's own, which would take part in tests that bring theirs, but with its node controllers."""


@pytest.fixture(scope="session", autouse=True)
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of the control plane. A lab is started for the session and used like any other cluster."""
    named = os.environ.get("KUBECONFIG")
    if named:
        yield Path(named)
        return
    state = tmp_path_factory.mktemp("lab")
    (state / "shape.yaml").write_text(NO_NODES)
    options = ["--state", str(state), "--shape", str(state / "shape.yaml"), "--port", str(supervisor.find_free_port())]
    options += ["--component", "scheduler"]  # tests bring the webhooks and controllers that they are about
    command = [sys.executable, "-m", "trimtab", "lab", "up", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lab:  # noqa: S603 - our own program
        assert lab.stdout is not None
        assert any("lab is up" in line for line in lab.stdout)
        threading.Thread(target=lab.stdout.read, daemon=True).start()
        os.environ["KUBECONFIG"] = str(state / "kubeconfig")
        yield state / "kubeconfig"
        del os.environ["KUBECONFIG"]
        lab.send_signal(signal.SIGINT)
