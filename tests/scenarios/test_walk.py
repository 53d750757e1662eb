"""The walk of the first page (docs/index.md), typed with kubectl as it is written; and again while parts are killed.

CONTROL_PLANE names a folder with real binaries: the walk is then typed on a lab of these as well.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trimtab_lab import supervisor

ROOT = Path(__file__).parents[2]
KUBECTL = shutil.which("kubectl")
BLOCK = re.search(
    r"```console\n(\$ export KUBECONFIG.*?)```", (ROOT / "docs" / "index.md").read_text(), flags=re.DOTALL
)
WALK = [line.removeprefix("$ ") for line in BLOCK.group(1).splitlines()] if BLOCK else []

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl to type the walk with"),
]


BINARIES = os.environ.get("CONTROL_PLANE", "")
REAL = pytest.mark.skipif(not BINARIES, reason="CONTROL_PLANE names no folder with etcd and kube-apiserver")
CONTROL_PLANES = [
    pytest.param((), id="on the embedded API server"),
    pytest.param(("--control-plane", BINARIES), id="on real binaries", marks=[REAL, pytest.mark.e2e]),
]


@contextmanager
def lab(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`trimtab lab up`, until the block ends; then Ctrl-C."""
    command = [sys.executable, "-m", "trimtab", "lab", "up", "--port", str(supervisor.find_free_port()), *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        for line in process.stdout:
            if "lab is up" in line:
                break
        drain = threading.Thread(target=process.stdout.read, daemon=True)
        drain.start()
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


READY = (
    "until kubectl get nodes zone-c-4 2>/dev/null; do sleep 0.2; done",
    "kubectl wait --for=condition=Ready nodes --all --timeout=60s",
)
"""What a reader sees in the lab's own output, before typing."""


def type_walk(folder: Path) -> None:
    """Every line of the walk, in one shell, stopping at the first that fails."""
    first, *others = WALK
    type_lines(folder, first, *READY, *others)


def type_lines(folder: Path, *lines: str) -> None:
    """These lines, in one shell, stopping at the first that fails."""
    script = "\n".join(["set -e", *lines])
    environment = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(  # noqa: S603
        ["/bin/bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("options", CONTROL_PLANES)
def test_the_walk_works_as_written(
    tmp_path: Path, options: tuple[str, ...], record_property: Callable[[str, object], None]
) -> None:
    """What a newcomer types first must not fail; and Ctrl-C leaves nothing running."""
    assert len(WALK) > 5
    with lab(tmp_path, *options) as process:
        state = supervisor.read_state(tmp_path / ".lab")
        assert state is not None
        record_property("told", f"on {state.control_plane}")
        type_walk(tmp_path)
    assert process.returncode == 0
    assert [name for name, pid in state.processes.items() if supervisor.is_alive(pid)] == []
    assert supervisor.read_state(tmp_path / ".lab") is None


def test_the_walk_works_while_parts_are_killed(tmp_path: Path) -> None:
    """Every part but the API server, which holds everything, may die at any moment; it comes back and goes on.

    One is killed before each line, without waiting for the one before it: every part at least once.
    """
    first, *others = WALK
    parts = ("nodes", "scheduler", "workloads", "webhooks", "controllers")
    assert len(others) >= len(parts)
    with lab(tmp_path):
        type_lines(tmp_path, first, *READY)
        for name, line in zip(itertools.cycle(parts), others, strict=False):
            kill_part(tmp_path / ".lab", name)
            type_lines(tmp_path, first, line)


def kill_part(state: Path, name: str) -> None:
    """Kill a part without warning; one that was killed before is back first."""
    patience = time.monotonic() + 60
    while (process := part_process(state, name)) is None:
        assert time.monotonic() < patience, f"{name} does not come back"
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)


def part_process(state: Path, name: str) -> int | None:
    """The process of a part that runs."""
    found = supervisor.read_state(state)
    pid = found.processes.get(name) if found else None
    return pid if pid is not None and supervisor.is_alive(pid) else None


def test_a_second_lab_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    """With the process of the first, and what to do."""
    with lab(tmp_path):
        second = subprocess.run(
            [sys.executable, "-m", "trimtab", "lab", "up"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert second.returncode == 1
        assert "is running in .lab already" in second.stderr
        assert "trimtab lab down" in second.stderr


def test_a_port_in_use_is_explained(tmp_path: Path) -> None:
    """Before anything is started."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        command = [sys.executable, "-m", "trimtab", "lab", "up", "--port", port]
        refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert refused.returncode == 1
    assert f"port {port} of the API server is in use by another program; stop it, or choose" in refused.stderr


def test_a_lab_that_was_killed_is_cleaned_up_by_the_next(tmp_path: Path) -> None:
    """Its orphaned processes are killed, and a new one starts."""
    command = [sys.executable, "-m", "trimtab", "lab", "up", "--port", str(supervisor.find_free_port())]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        for line in process.stdout:
            if "lab is up" in line:
                break
        left = supervisor.read_state(tmp_path / ".lab")
        process.kill()
    assert left is not None
    with lab(tmp_path):
        assert [name for name, pid in left.processes.items() if supervisor.is_alive(pid)] == []
