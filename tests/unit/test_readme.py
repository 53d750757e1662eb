"""What the README and the pages in docs/ show is true."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
PRINTING = {
    f"{page.name}-{number}": block
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL))
    if "print(" in block
}


@pytest.mark.parametrize("block", PRINTING.values(), ids=PRINTING)
def test_an_example_prints_what_its_comment_says(block: str) -> None:
    """Each `print(...)`, with a comment behind it or below, prints that comment."""
    wanted = re.findall(r"print\(.*\)\s+# (.*)", block)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "example", "exec"), {})  # noqa: S102 - the example is ours
    assert wanted
    assert printed.getvalue().splitlines() == wanted


def test_the_make_targets_that_it_names_exist() -> None:
    """Every make target in the README exists."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9]+):", makefile, flags=re.MULTILINE))
    assert set(re.findall(r"make ([a-z0-9]+)", README)) - {"help"} <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pages_that_it_links_to_exist(page: Path) -> None:
    """Every relative link leads to a file."""
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_sections_that_it_links_to_exist(page: Path) -> None:
    """Every anchor of a relative link is a heading of its page."""
    links = [link for link in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text()) if "://" not in link[0]]
    assert [link for link in links if link[1] not in anchors(page.parent / link[0] if link[0] else page)] == []
