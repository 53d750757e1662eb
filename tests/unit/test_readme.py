"""What the README shows is true."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_an_example_prints_what_its_comment_says(block: str) -> None:
    """Each `print(...)  # text` prints that text."""
    wanted = re.findall(r"print\(.*\)\s+# (.*)", block)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "README.md", "exec"), {})  # noqa: S102 - the example is ours
    assert wanted
    assert printed.getvalue().splitlines() == wanted


def test_the_make_targets_that_it_names_exist() -> None:
    """Nobody is sent to a command that is not there."""
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9]+):", makefile, flags=re.MULTILINE))
    assert set(re.findall(r"make ([a-z0-9]+)", README)) - {"help"} <= targets


def test_the_pages_that_it_links_to_exist() -> None:
    """Nor to a page that is not there."""
    root = Path(__file__).parents[2]
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert [link for link in links if not (root / link).exists()] == []
