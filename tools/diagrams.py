"""The Mermaid diagrams of the documentation as pictures, so that the site needs no script to draw them.

`make diagrams` draws them with Debian's chromium and the pinned release of Mermaid from npm, once for each color
scheme; the pictures are committed. As a hook of mkdocs, this module shows them in place of their source. A picture has
a digest of its source in its name: a diagram that was changed and not drawn again is a broken link, which `make docs`
refuses.
"""

from __future__ import annotations

import hashlib
import html
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FOLDER = DOCS / "images" / "diagrams"
MERMAID = "mermaid@11.17.2"
THEMES = {"light": "neutral", "dark": "dark"}
"""Mermaid's theme for each color scheme of the site."""
_BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", flags=re.MULTILINE)
_PAGE = """<!doctype html><meta charset="utf-8"><body><script src="mermaid.min.js"></script><script>
mermaid.initialize({{startOnLoad: false, theme: "{theme}", htmlLabels: false, flowchart: {{htmlLabels: false}},
  sequence: {{useMaxWidth: false, wrap: true, width: 175, actorMargin: 65, diagramMarginX: 10}},
  state: {{useMaxWidth: false, nodeSpacing: 90, rankSpacing: 80}}, fontFamily: "system-ui, sans-serif"}});
mermaid.render("diagram", document.getElementById("source").textContent).then(
  ({{svg}}) => {{ document.body.innerHTML = svg; }});
</script>"""


@dataclass(frozen=True, slots=True)
class Diagram:
    """A diagram of a page."""

    page: str
    source: str

    def file(self, scheme: str) -> Path:
        """Its picture for a color scheme."""
        digest = hashlib.sha256(self.source.encode()).hexdigest()[:8]
        return FOLDER / f"{self.page}-{digest}-{scheme}.svg"


def diagrams() -> Iterator[Diagram]:
    """All diagrams of the site."""
    for path in sorted(DOCS.rglob("*.md")):
        for found in _BLOCK.finditer(path.read_text(encoding="utf-8")):
            yield Diagram(path.stem, found[1])


def files() -> set[Path]:
    """All pictures that there should be."""
    return {diagram.file(scheme) for diagram in diagrams() for scheme in THEMES}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Show the pictures of a page in place of the sources of its diagrams; called by mkdocs."""
    up = "../" * page.file.src_uri.count("/")

    def shown(found: re.Match[str]) -> str:
        heading = _HEADING.findall(markdown[: found.start()])[-1]
        diagram = Diagram(Path(page.file.src_uri).stem, found[1])
        paths = {scheme: diagram.file(scheme).relative_to(DOCS) for scheme in THEMES}
        images = (f"![Diagram: {heading}]({up}{path}#only-{scheme})" for scheme, path in paths.items())
        return f'<div class="diagram" markdown="1" tabindex="0">\n\n{" ".join(images)}\n\n</div>'

    return _BLOCK.sub(shown, markdown)


def main(browser: str = "chromium") -> None:
    """Draw the diagrams that have no picture, and remove pictures of earlier versions."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in set(FOLDER.iterdir()) - files():
        old.unlink()
    missing = [(each, scheme) for each in diagrams() for scheme in THEMES if not each.file(scheme).exists()]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as folder:
        _fetch_mermaid(Path(folder))
        for diagram, scheme in missing:
            diagram.file(scheme).write_text(_drawn(diagram, scheme, Path(folder), browser), encoding="utf-8")


def _fetch_mermaid(folder: Path) -> None:
    subprocess.run(["npm", "pack", "--silent", MERMAID], cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603, S607 - a tool of developers
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as opened:
        script = opened.getmember("package/dist/mermaid.min.js")
        script.name = "mermaid.min.js"
        opened.extract(script, folder, filter="data")


def _drawn(diagram: Diagram, scheme: str, folder: Path, browser: str) -> str:
    source = f'<pre id="source" hidden>{html.escape(diagram.source)}</pre>'
    page = folder / "diagram.html"
    page.write_text(_PAGE.format(theme=THEMES[scheme]).replace("<body>", f"<body>{source}"), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    command = [browser, *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - a tool of developers
    found = re.search(r"<svg\b.*</svg>", done.stdout, flags=re.DOTALL)
    if found is None or "Syntax error" in found[0]:
        sys.exit(f"{diagram.page}: {done.stdout[-500:]} {done.stderr[-500:]}")
    return found[0] + "\n"


if __name__ == "__main__":
    main()
