"""Dashboards and labs as users start them, for a browser: also those of `make screenshots`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trimtab_lab.supervisor import find_free_port

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
"""For chromium in a container, which may have no sandbox, little shared memory and no graphics card."""
KUBECTL = shutil.which("kubectl")
WAIT = 30_000
"""Milliseconds after which something that should be shown is missing; what is usual is far less."""


@dataclass(frozen=True)
class Lab:
    """A running lab, its dashboard, and kubectl on it."""

    url: str
    kubeconfig: Path

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl."""
        assert KUBECTL is not None
        done = subprocess.run(  # noqa: S603 - kubectl
            [KUBECTL, "--kubeconfig", str(self.kubeconfig), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return done.stdout


@contextmanager
def dashboard(folder: Path, *options: str) -> Iterator[str]:
    """`trimtab dashboard`, as a user starts it; its address."""
    command = [sys.executable, "-m", "trimtab", "dashboard", "--port", str(find_free_port()), *options]
    clean = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    with subprocess.Popen(command, cwd=folder, env=clean, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        try:
            yield _found(process.stdout, r"dashboard is at (\S+)")
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def lab_up(folder: Path, *options: str) -> Iterator[Lab]:
    """`trimtab lab up`, until the block ends."""
    command = [sys.executable, "-m", "trimtab", "lab", "up", "--port", str(find_free_port()), *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        try:
            url = _found(process.stdout, r"dashboard is at (\S+)")
            threading.Thread(target=process.stdout.read, daemon=True).start()
            _wait_served(url)
            yield Lab(url, folder / ".lab" / "kubeconfig")
        finally:
            process.terminate()
            process.wait(60)


def _found(lines: Iterator[str], pattern: str) -> str:
    """The first group of a pattern in some lines. Raises LookupError with all of them."""
    said: list[str] = []
    for line in lines:
        said.append(line)
        match = re.search(pattern, line)
        if match is not None:
            return match[1]
    raise LookupError("".join(said))


def _wait_served(url: str) -> None:
    """Wait until the dashboard answers: the lab starts it last."""
    deadline = time.monotonic() + WAIT / 1000
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own address
                return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
