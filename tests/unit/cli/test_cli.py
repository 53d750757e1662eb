"""The command line: output and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml


def trimtab(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    clean = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "trimtab", *arguments],
        cwd=folder,
        env={**clean, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("command", [(), ("run",), ("lab",), ("lab", "up"), ("lab", "nodes"), ("lab", "workloads")])
def test_help_is_there_for_every_command(command: tuple[str, ...], tmp_path: Path) -> None:
    """Every command has a help text."""
    done = trimtab(*command, "--help", folder=tmp_path)
    assert done.returncode == 0
    assert "Usage: " in done.stdout


@pytest.mark.parametrize("command", [(), ("run",), ("install",), ("lab",)])
def test_help_has_examples(command: tuple[str, ...], tmp_path: Path) -> None:
    """The commands that people start with show how."""
    assert "Examples:" in trimtab(*command, "--help", folder=tmp_path).stdout


@pytest.mark.parametrize(("given", "used"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_numpy_starts_no_threads_unless_the_environment_says_so(given: dict[str, str], used: str) -> None:
    """They take a tenth of a second of CPU at each start, and nothing uses them."""
    program = """
import atexit, os, sys
from trimtab.cli import main
atexit.register(lambda: print(os.environ["OPENBLAS_NUM_THREADS"]))
sys.argv = ["trimtab", "run", "--check"]
main()
"""
    clean = {key: value for key, value in os.environ.items() if key not in ("KUBECONFIG", "OPENBLAS_NUM_THREADS")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=clean | given, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - our own program
    first, last = done.stdout.splitlines()
    assert first.startswith("the configuration is valid")
    assert last == used


def test_an_unknown_option_is_reported_in_one_line(tmp_path: Path) -> None:
    """No traceback for what a user can mend, and what to write instead."""
    done = trimtab("run", "--component", "nonsense", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith('trimtab: components[0]: "nonsense"')
    assert "a list of scheduler, webhooks and controllers" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[", "is not YAML", id="no YAML"),
        pytest.param("- 1", "must contain one YAML object", id="a list"),
        pytest.param("apiVersion: v9", 'apiVersion: "v9" is not supported', id="a version that is not known"),
        pytest.param(
            yaml.safe_dump({"apiVersion": "kubescheduler.config.k8s.io/v1", "profiles": [{"plugin": {}}]}),
            "profiles[0]: Object contains unknown field `plugin`",
            id="a field that is not known",
        ),
    ],
)
def test_a_configuration_that_cannot_work_names_the_field(text: str, message: str, tmp_path: Path) -> None:
    """Before anything is started."""
    (tmp_path / "scheduler.yaml").write_text(text)
    done = trimtab("run", "--scheduler-config", "scheduler.yaml", folder=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_options_override_the_file(tmp_path: Path) -> None:
    """The file is for all processes of an installation, the options for this one."""
    (tmp_path / "trimtab.yaml").write_text("components: [scheduler]\nlogs: {level: loud}\n")
    refused = trimtab("run", "--config", "trimtab.yaml", "--check", folder=tmp_path)
    assert (refused.returncode, "trimtab.yaml: logs.level" in refused.stderr) == (1, True)
    taken = trimtab("run", "--config", "trimtab.yaml", "--check", "--log-level", "debug", folder=tmp_path)
    assert (taken.returncode, taken.stdout) == (0, "the configuration is valid; it runs scheduler\n")


def test_the_schedulers_file_is_found_beside_the_one_that_names_it(tmp_path: Path) -> None:
    """Wherever the command is run."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "trimtab.yaml").write_text("scheduler: scheduler.yaml")
    missing = trimtab("run", "--config", "etc/trimtab.yaml", "--check", folder=tmp_path)
    assert (missing.returncode, "etc/scheduler.yaml: cannot be read" in missing.stderr) == (1, True)
    (tmp_path / "etc" / "scheduler.yaml").write_text("apiVersion: kubescheduler.config.k8s.io/v1")
    assert trimtab("run", "--config", "etc/trimtab.yaml", "--check", folder=tmp_path).returncode == 0


def test_a_missing_kubeconfig_is_reported(tmp_path: Path) -> None:
    """And where it was looked for."""
    done = trimtab("run", folder=tmp_path)
    assert done.returncode == 1
    assert "set KUBECONFIG" in done.stderr


def test_no_lab_is_running(tmp_path: Path) -> None:
    """For people a sentence with what to do next, for programs JSON and an exit code."""
    status = trimtab("lab", "status", folder=tmp_path)
    assert (status.returncode, "start one with 'trimtab lab up'" in status.stdout) == (3, True)
    asked = trimtab("lab", "status", "-o", "json", folder=tmp_path)
    assert json.loads(asked.stdout) == {
        "running": False,
        "ready": False,
        "port": None,
        "parts": {},
        "controlPlane": None,
    }
    assert "no lab is running" in trimtab("lab", "down", folder=tmp_path).stdout


def test_reset_removes_a_lab_and_nothing_else(tmp_path: Path) -> None:
    """A folder that is no lab's is left alone."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    refused = trimtab("lab", "reset", "--state", "other", folder=tmp_path)
    assert (refused.returncode, (other / "thesis.txt").exists()) == (1, True)
    (tmp_path / ".lab" / "logs").mkdir(parents=True)
    assert trimtab("lab", "reset", folder=tmp_path).returncode == 0
    assert not (tmp_path / ".lab").exists()


def test_an_invalid_shape_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """Not in the log of a part."""
    (tmp_path / "shape.yaml").write_text("zones: [{name: a, nodes: -1}]")
    done = trimtab("lab", "up", "--shape", "shape.yaml", folder=tmp_path)
    assert done.returncode == 1
    assert "zones[0].nodes" in done.stderr
    assert not (tmp_path / ".lab" / "state.json").exists()
