"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(r"^( *)```(\w*)(?: title=\"([^\"]+)\")?[^\n]*\n(.*?)^\1```", flags=re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_TYPED = ("kubectl ", "curl ", "helm ", "podman ", "docker ")
_PLACEHOLDER = re.compile(r"…|\b[A-Z]{3,}\b")
_WORDS = 4
"""With fewer, it is the name of a command: `kubectl scale`."""


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


def inline_code(page: Path) -> list[str]:
    """The code in sentences and tables of a page."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return [" ".join(each.split()) for each in _INLINE.findall(text)]


def inline_commands(page: Path) -> list[str]:
    """The commands in sentences and tables of a page that can be typed: complete, and without a placeholder."""
    found = (each for each in inline_code(page) if each.startswith(_TYPED))
    return [each for each in found if is_complete(each) and not _PLACEHOLDER.search(each)]


def is_complete(command: str) -> bool:
    """Whether a command says what it is about, and is not only named with an option, or the end of a pipe."""
    first = command.split(" | ")[0].split()
    if first[-1] == "-" or first[-1].startswith("--"):
        return False
    return first[0] == "curl" or " | " in command or len(first) >= _WORDS
