"""The walk from nothing to enforced (docs/walk.md), typed as it is written, on the embedded lab."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KUBECTL = shutil.which("kubectl")
PAGE = (ROOT / "docs" / "walk.md").read_text()
LINES = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    for line in block.splitlines()
]
END = "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT"
"""What a reader does with Ctrl-C."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl to type the walk with"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="this machine has no curl to type the walk with"),
]


def test_the_walk_from_nothing_to_enforced_works_as_written(tmp_path: Path) -> None:
    """Every line succeeds; what was enforced was announced, and the rest is level."""
    assert len(LINES) > 25
    script = "\n".join(["set -eo pipefail", END, *LINES])
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "trimtab").symlink_to(Path(sys.executable).parent / "trimtab")
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("KUBECONFIG", None)
    done = subprocess.run(  # noqa: S603 - the page is ours
        ["/bin/bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{_log(tmp_path, 'trimtab.log')}"
    assert "Deployment default/web: 9 → 5" in done.stdout
    assert "1 scale-down, " in done.stdout
    assert "kept " in (tmp_path / "warning.txt").read_text()


def _log(folder: Path, name: str) -> str:
    path = folder / name
    return path.read_text()[-2000:] if path.exists() else ""
