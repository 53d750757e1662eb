"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(r"^( *)```(\w*)(?: title=\"([^\"]+)\")?[^\n]*\n(.*?)^\1```", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code on a page."""

    page: str
    line: int
    language: str
    title: str
    """The name of the file that the page says it is; empty if it says none."""
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The lines after a prompt; a comment at the end of a line stays."""
        return [line.strip()[2:] for line in self.text.splitlines() if line.strip().startswith("$ ")]


def pages() -> list[Path]:
    """Every page that people read."""
    folders = ("docs", "examples", "bench")
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md"]
    return [*found, *(page for folder in folders for page in sorted((ROOT / folder).rglob("*.md")))]


def blocks(*languages: str) -> list[Block]:
    """All blocks of these languages."""
    return [block for page in pages() for block in blocks_of(page) if block.language in languages]


def blocks_of(page: Path) -> list[Block]:
    """All blocks of a page."""
    text = page.read_text(encoding="utf-8")
    name = str(page.relative_to(ROOT))
    return [
        Block(name, text[: found.start()].count("\n") + 1, found[2], found[3] or "", found[4])
        for found in _BLOCK.finditer(text)
    ]
