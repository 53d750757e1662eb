"""Every example runs, and prints what its page promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted(path for path in (Path(__file__).parents[2] / "examples").iterdir() if path.is_dir())

SAYS = {
    "01-keep-level": "stock would leave 10/10/0",
    "02-where-would-it-go": "by the operator's constraint: b",
    "03-a-strategy-of-your-own": "default/web-2 goes: OldImages 2 × 2, Balance 1 × 3",
    "04-a-cluster-in-a-box": "nodes runs",
    "05-a-story-of-your-own": "as expected",
    "06-long-work-is-spared": "spared: default/worker-1 (7 h), default/worker-2 (3 h), default/worker-5 (5 h)",
    "07-a-cloneset-that-stays-level": "as expected",
    "08-subsets-for-a-workload": "as expected",
    "09-steady-and-spot": "as expected",
}
"""A line, or a part of one, that an example must print."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(example: Path) -> None:
    """It ends well, and prints what it is about."""
    done = subprocess.run([sys.executable, example / "main.py"], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert SAYS[example.name] in done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_has_a_page_and_is_listed(example: Path) -> None:
    """A newcomer finds it from the list."""
    assert (example / "README.md").exists()
    assert f"({example.name}/)" in (example.parent / "README.md").read_text()
