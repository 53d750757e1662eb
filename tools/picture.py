"""Writes `docs/images/levels.svg`: the pods of each zone after the scale-down of two runs, drawn from their results.

The results are those that the tests of scenarios compare every run with (`tests/scenarios/golden`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "images" / "levels.svg"
RESULTS = ROOT / "tests" / "scenarios" / "golden"
STEP = "scale Deployment/web to 20, 1 of 2"
RUNS = (("Kubernetes alone", "two-zones-then-three.yaml"), ("with Trimtab", "trimtab/stays-level.yaml"))

_WIDTH, _HEIGHT = 640, 250
_ROW, _DOT, _LEFT, _TOP = 44, 9, 66, 92
_COLORS = ("#00796b", "#00796b", "#ef6c00")
"""Of the zones; the last is the new one."""


def zones(file: str) -> list[int]:
    """The pods of each zone after the scale-down, the new zone last."""
    steps = yaml.safe_load((RESULTS / file).read_text(encoding="utf-8"))["steps"]
    (found,) = (each["zone"] for each in steps if each["step"] == STEP)
    return list(found.values()) if isinstance(found, dict) else list(found)


def svg() -> str:
    """The picture."""
    parts = "".join(_run(title, zones(file), at * _WIDTH // 2) for at, (title, file) in enumerate(RUNS))
    text = " and ".join(f"{title}: {'/'.join(map(str, zones(file)))}" for title, file in RUNS)
    font = 'font-family="system-ui, sans-serif"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" {font}>'
        f"<title>{text}</title>"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="#f5f7f7"/>{parts}'
        f'<line x1="{_WIDTH // 2}" y1="20" x2="{_WIDTH // 2}" y2="{_HEIGHT - 20}" stroke="#cfd8dc"/></svg>\n'
    )


def _run(title: str, counts: list[int], left: int) -> str:
    result = " / ".join(map(str, counts))
    heading = (
        f'<text x="{left + 24}" y="38" font-size="15" fill="#455a64">{title}</text>'
        f'<text x="{left + 24}" y="68" font-size="24" font-weight="700" fill="#263238">{result}</text>'
    )
    return heading + "".join(_rows(counts, left))


def _rows(counts: list[int], left: int) -> Iterator[str]:
    for at, count in enumerate(counts):
        y = _TOP + at * _ROW + _ROW // 2
        name = "new" if at == len(counts) - 1 else f"zone {'ab'[at]}"
        yield f'<text x="{left + 24}" y="{y + 4}" font-size="12" fill="#546e7a">{name}</text>'
        if not count:
            yield f'<text x="{left + _LEFT + 8}" y="{y + 4}" font-size="12" fill="#c62828">empty</text>'
        for number in range(count):
            x = left + _LEFT + 16 + number * 2 * (_DOT + 1)
            yield f'<circle cx="{x}" cy="{y}" r="{_DOT}" fill="{_COLORS[at]}"/>'


def main() -> None:
    """Write the file."""
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
