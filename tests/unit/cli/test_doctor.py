"""`trimtab doctor`: output, exit status, and what a user may get wrong."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.unit.cli.test_cli import trimtab
from trimtab_lab.apiserver.wire.server import Server


async def test_findings_are_printed_with_their_fix_and_make_the_exit_status(tmp_path: Path) -> None:
    """An empty cluster: one error, in both formats, with the same ID."""
    async with Server(tmp_path) as server:
        arguments = ("doctor", "--kubeconfig", str(server.kubeconfig))
        plain, printed, passing = await asyncio.gather(
            *(
                asyncio.to_thread(trimtab, *arguments, *more, folder=tmp_path)
                for more in ((), ("-o", "json"), ("--fail-on", "never"))
            )
        )
    assert plain.returncode == 1, plain.stderr
    assert plain.stdout.startswith("error TD101 Namespace trimtab-system\n  Trimtab is not installed here\n  fix: ")
    assert "see: docs/doctor.md#td101-not-installed" in plain.stdout
    assert "1 finding; " in plain.stdout
    assert printed.returncode == 1
    assert [each["id"] for each in json.loads(printed.stdout)["findings"]] == ["TD101"]
    assert passing.returncode == 0


def test_a_cluster_that_is_not_reached_has_an_exit_status_of_its_own(tmp_path: Path) -> None:
    """So that a script can tell it from a finding."""
    done = trimtab("doctor", "--kubeconfig", str(tmp_path / "none"), folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_an_unknown_id_is_refused(tmp_path: Path) -> None:
    """With those that are known."""
    done = trimtab("doctor", "--ignore", "TD999", folder=tmp_path)
    assert done.returncode == 2
    assert "TD101" in done.stderr


async def test_a_configuration_of_processes_outside_names_the_namespace_that_is_looked_at(tmp_path: Path) -> None:
    """The one of the file, or that of `trimtab run` without one."""
    config = tmp_path / "trimtab.yaml"
    config.write_text("webhooks: {url: 'https://127.0.0.1:1'}\nleaderElection: {enabled: false}\n")
    async with Server(tmp_path) as server:
        arguments = ("doctor", "--kubeconfig", str(server.kubeconfig), "--config", str(config), "-o", "json")
        done = await asyncio.to_thread(trimtab, *arguments, folder=tmp_path)
    found = {each["id"]: each["object"] for each in json.loads(done.stdout)["findings"]}
    assert found["TD306"] == "Secret kube-system/trimtab-webhook-certificates"
    assert "TD101" not in found
