"""ARCHITECTURE.md: the paths in its tables exist, and its map names every package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SECTIONS = ("The map", "Entry points", "Where a change goes")
_PATH = re.compile(r"`((?:\w[\w.-]*/)+[\w.-]*|\.importlinter|pyproject\.toml)`")


def section(title: str) -> str:
    """The text below a heading, up to the next one."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def paths(title: str) -> list[str]:
    """The paths that the tables of a section name."""
    rows = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [path for row in rows for path in _PATH.findall(row)]


@pytest.mark.parametrize("title", SECTIONS)
def test_every_path_in_a_table_exists(title: str) -> None:
    """Modules are below src/, everything else below the root of the repository."""
    named = paths(title)
    assert named
    assert [path for path in named if not (ROOT / path).exists() and not (ROOT / "src" / path).exists()] == []


def test_every_row_of_the_change_table_names_a_file() -> None:
    """A row without one would send a reader nowhere."""
    _heading, _rule, *rows = (line for line in section("Where a change goes").splitlines() if line.startswith("|"))
    assert len(rows) >= 7
    assert [row for row in rows if not _PATH.search(row)] == []


def test_the_map_names_every_package() -> None:
    """A new package is entered in the map."""
    packages = {path.parent for path in ROOT.glob("src/trimtab/*/__init__.py")} | {ROOT / "src/trimtab_lab"}
    assert {ROOT / "src" / path for path in paths("The map")} == packages
