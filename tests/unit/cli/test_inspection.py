"""The commands that inspect a cluster: output, errors and exit status, on a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from tests.unit.inspection.clusters import SOFT, three_zones
from trimtab.cli.commands import COMMANDS, commands
from trimtab.inspection import files

CASES = Path(__file__).parents[1] / "inspection" / "lint" / "cases"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A file of a small cluster."""
    cluster = three_zones().deployment("web", ["a1", "a2", "a1", "b1", "c1"], constraints=[SOFT]).build()
    path = tmp_path / "cluster.json.zst"
    path.write_bytes(files.encode(files.to_file(cluster)))
    return path


def trimtab(*arguments: object, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, without a cluster."""
    clean = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "trimtab", *map(str, arguments)],
        cwd=folder,
        env={**clean, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_plan_is_printed_in_plain_lines_in_a_pipe(capture: Path) -> None:
    """Aligned, without styles or drawn boxes, with a bar for each domain."""
    done = trimtab("plan", "deploy/web", "--replicas", 3, "--snapshot", capture, folder=capture.parent)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "Deployment default/web: 5 → 3"
    assert any(line.startswith("VICTIM") for line in lines)
    assert any(line.startswith("z1") and "█" in line for line in lines)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_json_and_yaml_are_the_same_values(capture: Path) -> None:
    """For programs."""
    command = ("plan", "deploy/web", "--replicas", 3, "--snapshot", capture)
    as_json = trimtab(*command, "-o", "json", folder=capture.parent).stdout
    as_yaml = trimtab(*command, "-o", "yaml", folder=capture.parent).stdout
    assert json.loads(as_json) == yaml.safe_load(as_yaml)
    assert len(json.loads(as_json)["controllers"][0]["victims"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("plan", "deploy/web", "--replicas", "9"), "is no scale-down", id="a scale-up"),
        pytest.param(("rank", "deploy/wbe"), "similar: web", id="a misspelt name"),
        pytest.param(("explain", "pod/nothing"), "there is no Pod of that name", id="a pod that is not there"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(arguments: tuple[str, ...], message: str, capture: Path) -> None:
    """And no traceback."""
    done = trimtab(*arguments, "--snapshot", capture, folder=capture.parent)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_cluster_and_no_file_is_answered_with_what_to_set(tmp_path: Path) -> None:
    """As kubectl looks for it."""
    done = trimtab("plan", "deploy/web", "--replicas", 1, folder=tmp_path)
    assert done.returncode == 1
    assert "set KUBECONFIG" in done.stderr


@pytest.mark.parametrize(
    ("more", "code"),
    [
        pytest.param((), 1, id="a warning"),
        pytest.param(("--fail-on", "error"), 0, id="errors alone"),
        pytest.param(("--ignore", "TT401"), 0, id="an ignored rule"),
        pytest.param(("--ignore", "TT999"), 2, id="an unknown rule"),
    ],
)
def test_the_exit_status_of_lint_is_for_ci(more: tuple[str, ...], code: int, tmp_path: Path) -> None:
    """0 and 1 by what was found."""
    assert trimtab("lint", "-f", CASES / "TT401-found.yaml", *more, folder=tmp_path).returncode == code


def test_a_check_that_cannot_be_made_has_an_exit_status_of_its_own(tmp_path: Path) -> None:
    """So that a pipeline does not take it for a finding."""
    (tmp_path / "broken.yaml").write_text("a: [")
    done = trimtab("lint", "-f", "broken.yaml", folder=tmp_path)
    assert (done.returncode, "broken.yaml:" in done.stderr) == (2, True)


def test_a_file_of_a_folder_that_is_not_yaml_is_reported_with_the_findings_of_the_others(tmp_path: Path) -> None:
    """A repository has templates of charts beside manifests."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "a.yaml").write_text("kind: ConfigMap\n---\nname: {{ .Values.name }}\n")
    (folder / "b.json").write_bytes(b"\xff\xfe")
    (folder / "c.yaml").write_text("until: 2026-99-99\n")
    (folder / "d.yaml").write_text((CASES / "TT401-found.yaml").read_text())
    done = trimtab("lint", "-f", folder, folder=tmp_path)
    assert done.returncode == 1
    titles = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    unreadable = [line.removeprefix(str(folder)) for line in titles if " error TT001 " in line]
    assert [line.split(": error")[0] for line in unreadable] == ["/a.yaml:3", "/b.json", "/c.yaml"]
    assert any(" TT401 " in line for line in titles)


def test_a_pod_that_fits_nowhere_is_an_exit_status(capture: Path) -> None:
    """For scripts that ask whether there is room."""
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "large"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "64"}}}]},
    }
    (capture.parent / "pod.yaml").write_text(yaml.safe_dump(tree))
    done = trimtab("place", "-f", "pod.yaml", "--snapshot", capture, folder=capture.parent)
    assert done.returncode == 1
    assert "0/6 nodes are available: 6 Insufficient cpu." in done.stdout


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    """It is a table, so that `--help` need not import them."""
    context = click.Context(commands)
    for name, (_, text) in COMMANDS.items():
        command = commands.get_command(context, name)
        assert command is not None
        assert (command.help or "").startswith(text.rstrip(".")), name


def test_names_are_completed_for_shells_and_for_kubectl(capture: Path) -> None:
    """From the cluster that the typed options name; here a file."""
    typed = f"trimtab plan --snapshot {capture} deploy/"
    completed = trimtab(folder=capture.parent, _TRIMTAB_COMPLETE="bash_complete", COMP_WORDS=typed, COMP_CWORD="4")
    assert completed.stdout.splitlines() == ["plain,deploy/web"]
    program = "from trimtab.cli.completion import kubectl; kubectl()"
    arguments = ("plan", "--snapshot", str(capture), "deploy/")
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.splitlines() == ["deploy/web", ":4"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell: str, tmp_path: Path) -> None:
    """To be sourced."""
    assert "_TRIMTAB_COMPLETE" in trimtab("completion", shell, folder=tmp_path).stdout


def test_a_dashboard_beyond_this_machine_needs_tls(capture: Path) -> None:
    """The error says what to give."""
    command = ("dashboard", "--snapshot", capture, "--host", "0.0.0.0")  # noqa: S104 - refused
    done = trimtab(*command, folder=capture.parent)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "TLS is needed; give a certificate and its key" in done.stderr


def test_a_dashboard_needs_a_token_that_is_not_empty(capture: Path) -> None:
    """An empty file protects nothing."""
    path = capture.parent / "token"
    path.write_text("\n")
    done = trimtab("dashboard", "--snapshot", capture, "--token-file", path, folder=capture.parent)
    assert done.returncode == 1
    assert "is empty; write a token into it" in done.stderr
