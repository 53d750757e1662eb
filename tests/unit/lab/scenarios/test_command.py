"""The command that runs a story: the lab that it runs on, by feature gates."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner

from trimtab_lab.cli import stories
from trimtab_lab.cli.commands import lab

STORY = "youngest-first"
"""It needs controllers without LogarithmicScaleDown."""


@pytest.mark.parametrize(
    ("running", "arguments", "gates"),
    [
        pytest.param(None, "", (False, True), id="a lab of its own"),
        pytest.param((True, True), "", (False, True), id="the running lab has other gates"),
        pytest.param((False, True), "", None, id="the running lab has the same gates"),
        pytest.param(None, "LogarithmicScaleDown=true,PodDeletionCost=false", (True, False), id="as the user says"),
    ],
)
def test_a_story_runs_on_controllers_with_its_feature_gates(
    running: tuple[bool, bool] | None,
    arguments: str,
    gates: tuple[bool, bool] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On those of the running lab where they have them; its gates are None here."""
    found: list[tuple[bool, ...] | None] = []

    async def play(story: Any, kubeconfig: Path | None, factory: Any, **_: bool) -> NoReturn:
        made = None if kubeconfig is not None else factory(tmp_path / "temporary", 1, story)
        found.append(None if made is None else both(**made.feature_gates))
        raise SystemExit(0)

    monkeypatch.setattr(stories, "play", play)
    if running is not None:
        switched = dict(zip(("LogarithmicScaleDown", "PodDeletionCost"), running, strict=True))
        state = {"pid": os.getpid(), "port": 1, "processes": {}, "featureGates": switched}
        (tmp_path / "state.json").write_text(json.dumps(state), encoding="utf-8")
    chosen = ["--feature-gates", arguments] if arguments else []
    done = CliRunner().invoke(lab, ["run", STORY, "--state", str(tmp_path), *chosen])
    assert done.exit_code == 0, done.output
    assert found == [gates]


def both(**gates: bool) -> tuple[bool, bool]:
    """Both gates of the lab's controllers."""
    return gates["LogarithmicScaleDown"], gates["PodDeletionCost"]
