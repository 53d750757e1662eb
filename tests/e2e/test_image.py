"""The command of docs/install.md that builds the image and pushes it, typed with a registry on this machine.

It needs podman, and a base image that podman has: `podman pull docker.io/library/python:3.13-slim`, or another that
IMAGE_BASE names. IMAGE_ARGS has further arguments of the build, such as those for a package index of one's own.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.registries import Registry, registry
from tests.unit.documentation.pages import ROOT
from tests.unit.documentation.test_commands import COMMANDS, PUSHED, reason

BASE = os.environ.get("IMAGE_BASE", "docker.io/library/python:3.13-slim")
PODMAN = shutil.which("podman")
INSECURE = '[[registry]]\nlocation = "{host}"\ninsecure = true\n'
"""For podman: the registry serves plain HTTP."""
_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
"""What `make e2e` leaves in the environment for other makes: its own variables."""


def has_base() -> bool:
    """Whether podman has the base image."""
    command = [PODMAN or "", "image", "exists", BASE]
    return PODMAN is not None and subprocess.run(command, check=False).returncode == 0  # noqa: S603 - of the PATH


pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(PODMAN is None, reason="podman is not in the PATH"),
    pytest.mark.skipif(not has_base(), reason=f"podman has no image {BASE}: pull it, or name another in IMAGE_BASE"),
]


def typed(line: str, conf: Path) -> subprocess.CompletedProcess[str]:
    """A line, typed in the clone."""
    kept = {name: value for name, value in os.environ.items() if name not in _MAKE}
    choices = {"BASE": BASE, "ARGS": os.environ.get("IMAGE_ARGS", ""), "CONTAINERS_REGISTRIES_CONF": str(conf)}
    return subprocess.run(  # noqa: S603 - the page is ours
        ["/bin/bash", "-c", line], cwd=ROOT, env=kept | choices, capture_output=True, text=True, check=False
    )


def image_of(pushed: Registry, name: str) -> dict[str, object]:
    """The configuration of an image that was pushed."""
    digest = pushed.manifests[name]["config"]["digest"]
    found: dict[str, object] = json.loads(pushed.blob(digest).read_text())["config"]
    return found


async def test_the_image_is_built_and_pushed_as_written(tmp_path: Path) -> None:
    """With the name of the registry replaced; what is pushed starts Trimtab, without being root."""
    (line,) = (each for block, each in COMMANDS if reason(block.page, each) == PUSHED)
    async with registry(tmp_path) as pushed:
        (tmp_path / "registries.conf").write_text(INSECURE.format(host=pushed.host))
        local = line.replace("registry.example.com", pushed.host)
        try:
            done = await asyncio.to_thread(typed, local, tmp_path / "registries.conf")
        finally:
            typed(f"podman rmi {pushed.host}/trimtab:0.1", tmp_path / "registries.conf")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    image = image_of(pushed, "trimtab:0.1")
    assert (image["Entrypoint"], image["Cmd"], image["User"]) == (["trimtab"], ["run"], "65532:65532")
