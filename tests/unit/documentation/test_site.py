"""The site: built without a warning, with nothing from another host, and with every anchor that the program names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.documentation.pages import ROOT
from tools import diagrams, kinds, picture
from trimtab.doctor import rules as doctor_rules
from trimtab.inspection.lint import rules as lint_rules
from trimtab.install.monitoring import ALERTS

pytestmark = pytest.mark.slow

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*?\b(?:src|data)=["']?([^"'\s>]+)"""
)
LINKED = re.compile(r"""<link\b[^>]*?\bhref=["']?([^"'\s>]+)""")
IN_CSS = re.compile(r"""url\(["']?([^"')]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(  # noqa: S603 - a tool of the development environment
        [Path(sys.executable).parent / "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_page_loads_from_the_site_alone(site: Path) -> None:
    """No script, style, font or image comes from another host."""
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    assert len(pages) > 50
    loaded = {url for text in pages for pattern in (LOADED, LINKED) for url in pattern.findall(text)}
    loaded |= {url for path in site.rglob("*.css") for url in IN_CSS.findall(path.read_text(encoding="utf-8"))}
    assert loaded
    assert [url for url in loaded if re.match(r"(https?:)?//", url)] == []


def test_no_page_makes_the_theme_load_a_script(site: Path) -> None:
    """Material loads mermaid from another host where a page has an element of that class."""
    assert [path.name for path in site.rglob("*.html") if 'class="mermaid"' in path.read_text(encoding="utf-8")] == []


def test_every_diagram_is_a_picture_of_its_current_source(site: Path) -> None:
    """`make diagrams` draws them; a picture has a digest of its source in its name."""
    assert set(diagrams.FOLDER.iterdir()) == diagrams.files()
    for each in diagrams.diagrams():
        shown = (site / f"{each.page}.html").read_text(encoding="utf-8")
        assert [f"{each.file(scheme).name}#only-{scheme}" in shown for scheme in diagrams.THEMES] == [True, True]
        assert "sequenceDiagram" not in shown
        assert "stateDiagram" not in shown


def test_a_picture_loads_nothing() -> None:
    """Neither a font nor an image; the names of XML's namespaces are not loaded."""
    for path in diagrams.FOLDER.iterdir():
        text = re.sub(r'xmlns(:\w+)?="[^"]*"', "", path.read_text(encoding="utf-8"))
        assert "http" not in text, path.name
        assert "<script" not in text, path.name


def test_no_page_shows_an_escaped_bar(site: Path) -> None:
    """GitHub's tables need `\\|` in code, and the site's show it as it is."""
    shown = [path.name for path in site.rglob("*.html") if "\\|" in path.read_text(encoding="utf-8")]
    assert shown == []


def named_anchors() -> list[str]:
    """Every place in the documentation that findings and alerts name."""
    findings = [rule.anchor for rule in doctor_rules.RULES]
    findings += [rule.anchor for rule in lint_rules.RULES]
    return [*findings, *(alert.runbook for alert in ALERTS)]


def test_every_anchor_that_the_program_names_exists(site: Path) -> None:
    """On the page, as a heading."""
    for anchor in named_anchors():
        page, _, name = anchor.removeprefix("docs/").partition("#")
        text = (site / page.replace(".md", ".html")).read_text(encoding="utf-8")
        assert re.search(rf"""<h[1-6] id=["']?{re.escape(name)}["'\s>]""", text), anchor


def test_every_page_is_in_the_navigation() -> None:
    """But the template of design records."""
    listed = set(re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]))
    found = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert found - listed == {"designs/0000-template.md"}
    assert listed <= found


def test_generated_pages_and_pictures_are_current() -> None:
    """`make generate` writes them."""
    assert kinds.TARGET.read_text(encoding="utf-8") == kinds.page()
    assert picture.TARGET.read_text(encoding="utf-8") == picture.svg()


def test_the_picture_shows_what_runs_ended_with() -> None:
    """The results that every run of the two stories is compared with."""
    assert [picture.zones(file) for _, file in picture.RUNS] == [[10, 10, 0], [7, 7, 6]]
