"""Commands of the documentation that run until Ctrl-C, or need something that runs, typed as they are written.

They are typed in a folder that looks like a clone after `make install`. Ports are those that the pages choose: where
another program has one, the test is skipped. DIR, on some pages, is the folder that CONTROL_PLANE names.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.clusters import BINARIES
from tests.e2e.labs import lab
from tests.e2e.ports import skip_unless_free
from tests.unit.deploy.formats import KUBECTL
from tests.unit.documentation.pages import ROOT, Block, blocks_of
from tests.unit.documentation.test_commands import COMMANDS, IN_A_LAB, UNTIL_STOPPED, reason
from tests.unit.kube.certificates import Authority

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not in the PATH"),
]

LAB, DASHBOARD, SERVING, METRICS = 16550, 10280, 10269, 10252
STARTED: dict[str, tuple[str, tuple[int, ...]]] = {
    r"make up|\S*trimtab lab up": ("grep -q 'lab is up' output", (LAB, DASHBOARD)),
    "trimtab dashboard": ("grep -q 'dashboard is at' output", (DASHBOARD,)),
    "trimtab run": (f"curl -sf http://127.0.0.1:{SERVING}/healthz", (SERVING,)),
    "trimtab lab nodes": ("kubectl wait --for=condition=Ready node/zone-x-1 --timeout=1s", ()),
    "trimtab lab workloads": (f"curl -sf http://127.0.0.1:{METRICS}/metrics", (METRICS,)),
    "trimtab watch": ("grep -q following output", ()),
}
"""When a command has started, and the ports that it listens on, by its beginning."""
SHAPE = "zones:\n- {name: zone-x, nodes: 1}\n"
"""A zone that the cluster does not have."""
BEFORE = {
    "trimtab lab nodes": "kubectl delete node zone-x-1 --ignore-not-found",
    "trimtab dashboard --snapshot": "trimtab snapshot > cluster.json.zst",
}
"""What a reader has typed before, by the beginning of a command."""
PATIENCE = 120.0


def written(why: str) -> list[object]:
    """The commands with a reason, each with its block; those that need binaries are skipped without them."""
    found = [(block, command) for block, command in COMMANDS if reason(block.page, command) == why]
    real = pytest.mark.skipif(not BINARIES, reason="CONTROL_PLANE names no folder with etcd and kube-apiserver")
    return [
        pytest.param(*each, id=f"{each[0].page}: {plain(each[1])}", marks=[real] if " DIR" in each[1] else [])
        for each in found
    ]


def plain(command: str) -> str:
    """A command without the explanation beside it."""
    return re.split(r"\s{2,}", command)[0]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster of a reader's, with a Deployment."""
    state = tmp_path_factory.mktemp("lab")
    with lab(state, "--no-product"):
        created = [KUBECTL or "", "create", "deployment", "web", "--image=example.com/web:1", "--replicas=9"]
        subprocess.run(created, check=True, env={**os.environ, "KUBECONFIG": str(state / "kubeconfig")})  # noqa: S603
        yield state / "kubeconfig"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder like a clone after `make install`."""
    for each in ROOT.iterdir():
        if each.name not in (".venv", ".lab", ".git"):
            (tmp_path / each.name).symlink_to(each)
    (tmp_path / ".venv").mkdir()
    for each in Path(sys.prefix).iterdir():
        if each.name != ".installed":
            (tmp_path / ".venv" / each.name).symlink_to(each)
    (tmp_path / ".venv" / ".installed").touch()
    return tmp_path


def files_of(block: Block, folder: Path) -> None:
    """The files that the page has or names, as a reader has them."""
    for each in blocks_of(ROOT / block.page):
        if each.title:
            (folder / each.title).write_text(each.text)
    (folder / "cluster.yaml").write_text(SHAPE)
    pair = Authority().server("localhost")
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)


def environment(clone: Path, kubeconfig: Path) -> dict[str, str]:
    """A reader's environment, without what `make e2e` leaves for other makes."""
    kept = {name: value for name, value in os.environ.items() if name not in ("ARGS", "MAKEFLAGS", "MAKELEVEL")}
    path = f"{clone / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "KUBECONFIG": str(kubeconfig), "HOME": str(clone)}


def typed(line: str, clone: Path, kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    """A line, in a shell of its own."""
    command = ["/bin/bash", "-c", line.replace(" DIR", f" {BINARIES}")]
    return subprocess.run(  # noqa: S603 - the pages are ours
        command, cwd=clone, env=environment(clone, kubeconfig), capture_output=True, text=True, check=False
    )


@contextmanager
def started(line: str, clone: Path, kubeconfig: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A line in a terminal of its own, once it has started; then Ctrl-C, which ends it."""
    check, ports = next(found for start, found in STARTED.items() if re.match(start, line))
    skip_unless_free(*ports)
    command = ["/bin/bash", "-c", line.replace(" DIR", f" {BINARIES}")]
    with (clone / "output").open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the pages are ours
            command,
            cwd=clone,
            env=environment(clone, kubeconfig),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while typed(check, clone, kubeconfig).returncode != 0:
            assert process.poll() is None, (clone / "output").read_text()
            assert time.monotonic() < deadline, (clone / "output").read_text()
            time.sleep(0.2)
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.wait(60)


@pytest.mark.parametrize(("block", "line"), written(UNTIL_STOPPED))
def test_a_command_runs_until_it_is_stopped(block: Block, line: str, clone: Path, kubeconfig: Path) -> None:
    """It starts, and Ctrl-C ends it without an error; make itself reports the signal."""
    files_of(block, clone)
    for before in (each for start, each in BEFORE.items() if line.startswith(start)):
        assert typed(before, clone, kubeconfig).returncode == 0
    with started(plain(line), clone, kubeconfig) as process:
        pass
    assert process.returncode in ((0, -signal.SIGINT, 2) if line.startswith("make") else (0,))
    assert "Traceback" not in (clone / "output").read_text()


@pytest.mark.parametrize(("block", "line"), written(IN_A_LAB))
def test_a_command_ends_well(block: Block, line: str, clone: Path, kubeconfig: Path) -> None:
    """On the cluster of a reader, who has what the page is about."""
    files_of(block, clone)
    done = typed(plain(line), clone, kubeconfig)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_a_lab_from_its_start_to_its_end(clone: Path, kubeconfig: Path) -> None:
    """The first commands of docs/lab.md, one after the other; nothing is left."""
    block = next(iter(blocks_of(ROOT / "docs" / "lab.md")))
    up, status, down, reset = map(plain, block.commands)
    with started(up, clone, kubeconfig) as process:
        assert "nodes" in typed(status, clone, kubeconfig).stdout
        assert typed(down, clone, kubeconfig).returncode == 0
        assert process.wait(60) == 0
    assert typed(reset, clone, kubeconfig).returncode == 0
    assert not (clone / ".lab").exists()
