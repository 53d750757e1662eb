"""The how-tos and other pages of the documentation, typed as they are written, on one lab with all of Trimtab."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.test_walk import KUBECTL, READY, lab
from tests.unit.documentation.pages import ROOT, blocks_of
from tests.unit.documentation.test_commands import TYPED, is_typed

PAGES = [page for page, test in TYPED.items() if test.endswith("test_howtos.py")]
_SHOP = (
    "kubectl create namespace shop",
    "kubectl config set-context --current --namespace shop",
)
_REMOVED = ("kubectl delete namespace shop",)
SETUP: dict[str, tuple[str, ...]] = {
    "docs/default-constraints.md": _SHOP,
    "docs/install.md": _SHOP,
    "docs/policies.md": (*_SHOP, "kubectl apply -f workers.yaml"),
    "docs/united-topology.md": (*_SHOP, "kubectl apply -f web.yaml"),
}
"""What a reader of a page has done before: its namespace is there and is the current one, its manifests are applied."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl to type the how-tos with"),
]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a lab that has started."""
    folder = tmp_path_factory.mktemp("lab")
    with lab(folder):
        path = folder / ".lab" / "kubeconfig"
        done = typed(folder, path, READY)
        assert done.returncode == 0, done.stderr
        yield path


def typed(folder: Path, kubeconfig: Path, lines: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """These lines, in one shell, stopping at the first that fails."""
    commands = folder / "bin"
    commands.mkdir(exist_ok=True)
    if not (commands / "trimtab").exists():
        (commands / "trimtab").symlink_to(Path(sys.executable).parent / "trimtab")
    state = folder / ".lab"
    if not state.exists():
        state.mkdir()
        shutil.copy(kubeconfig, state / "kubeconfig")
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(  # noqa: S603 - the pages are ours
        ["/bin/bash", "-xc", "\n".join(["set -eo pipefail", *lines])],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "KUBECONFIG": str(kubeconfig), "PATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_works_as_written(page: str, kubeconfig: Path, tmp_path: Path) -> None:
    """Files have the names that the page gives them, and every command succeeds."""
    found = blocks_of(ROOT / page)
    for block in found:
        if block.title:
            (tmp_path / block.title).write_text(block.text)
    lines = tuple(line for block in found for line in block.commands if is_typed(block, line))
    assert lines
    own = shutil.copy(kubeconfig, tmp_path / "kubeconfig")
    done = typed(tmp_path, Path(own), (*SETUP.get(page, ()), *lines, *(_REMOVED if page in SETUP else ())))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
