"""Labs as a user starts them, for the end-to-end suite."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab_lab import supervisor

NO_NODES = "name: node-controllers\n"
"""Without nodes of the lab's own, which would take part in tests that bring theirs, but with its node controllers."""


@contextmanager
def lab(state: Path, *more: str, shape: str = NO_NODES) -> Iterator[str]:
    """`trimtab lab up` with its scheduler alone: tests bring the webhooks and controllers that they are about."""
    (state / "shape.yaml").write_text(shape)
    options = ["--state", str(state), "--shape", str(state / "shape.yaml"), "--port", str(supervisor.find_free_port())]
    command = [
        sys.executable,
        "-m",
        "trimtab",
        "lab",
        "up",
        "--no-dashboard",
        *options,
        "--component",
        "scheduler",
        *more,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own program
        assert process.stdout is not None
        assert any("lab is up" in line for line in process.stdout)
        threading.Thread(target=process.stdout.read, daemon=True).start()
        found = supervisor.read_state(state)
        assert found is not None
        try:
            yield found.control_plane
        finally:
            process.send_signal(signal.SIGINT)
