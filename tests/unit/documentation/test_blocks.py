"""Every block of the documentation is checked by some test; a new kind of block has to find one."""

from __future__ import annotations

import tomllib

import pytest

from tests.unit.documentation.pages import ROOT, Block, blocks, blocks_of, pages
from tests.unit.documentation.test_commands import COMMANDS
from tests.unit.documentation.test_yaml import BLOCKS as YAML
from tools import diagrams

LIBRARY = "tests/unit/test_library.py"
PRINTS = "tests/unit/test_readme.py"
OWN_STRATEGY = "tests/unit/ranking/strategies/test_own_strategy.py"
CHECKED: dict[tuple[str, str], str] = {
    ("pycon", "docs/library.md"): LIBRARY,
    ("python", "docs/placement.md"): PRINTS,
    ("python", "docs/plan.md"): PRINTS,
    ("python", "docs/strategies.md"): OWN_STRATEGY,
    ("toml", "docs/strategies.md"): OWN_STRATEGY,
}
"""The test that runs the blocks of a language on a page, where no test here does so for all pages."""
PICTURES = {("mermaid", "ARCHITECTURE.md"): "is not on the site; GitHub draws it"}
ALL = [block for page in pages() for block in blocks_of(page)]


def is_checked(block: Block) -> bool:
    """Whether a test runs a block, reads it, or compares it with what generates it."""
    if block.language == "yaml":
        return block in YAML
    if block.language in ("console", "text"):
        return block.page.startswith("docs/commands/") or any(found == block for found, _ in COMMANDS)
    if block.language == "mermaid":
        drawn = [each.source for each in diagrams.diagrams()]
        return block.text in drawn or (block.language, block.page) in PICTURES
    return (block.language, block.page) in CHECKED


def test_every_block_is_checked_by_a_test() -> None:
    """`docs/commands/` is generated, and compared with the help of the program."""
    assert len(ALL) > 140
    assert [f"{block} ({block.language or 'no language'})" for block in ALL if not is_checked(block)] == []


def test_no_block_is_overlooked() -> None:
    """Every fence of a page opens or closes a block that was found."""
    for page in pages():
        fences = [line for line in page.read_text(encoding="utf-8").splitlines() if line.strip().startswith("```")]
        assert len(fences) == 2 * len(blocks_of(page)), page


def test_no_entry_is_left_over() -> None:
    """The blocks and the tests that the tables name exist."""
    found = {(block.language, block.page) for block in ALL}
    assert {*CHECKED, *PICTURES} <= found
    for test in CHECKED.values():
        assert (ROOT / test).exists()


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_toml_can_be_read(block: Block) -> None:
    """As pip reads it."""
    assert tomllib.loads(block.text)
