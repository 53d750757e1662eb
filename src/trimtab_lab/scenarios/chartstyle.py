"""Colours and other attributes of a chart's elements, by their classes.

They are attributes of the elements, since not every viewer reads style sheets or knows their variables. The style sheet
only replaces the colours by a dark palette, for viewers that prefer it.
"""

from __future__ import annotations

from collections.abc import Mapping

_LIGHT: Mapping[str, str] = {
    "surface": "#ffffff",
    "ink": "#1c2430",
    "quiet": "#5b6676",
    "grid": "#d9dfe7",
    "band": "#f5f7fa",
    "ready": "#2f6fcb",
    "starting": "#a9c8f2",
    "leaving": "#b3bac4",
    "skew": "#c2570c",
    "bad": "#b3261e",
}
_DARK: Mapping[str, str] = {
    "surface": "#14181f",
    "ink": "#e8ecf2",
    "quiet": "#9aa6b6",
    "grid": "#313a47",
    "band": "#1a2029",
    "ready": "#6ba4f0",
    "starting": "#2d4e7e",
    "leaving": "#596373",
    "skew": "#f0934a",
    "bad": "#ff8a80",
}
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"

_PAINT: Mapping[str, Mapping[str, str]] = {
    "text": {"fill": "ink"},
    "quiet": {"fill": "quiet"},
    "number": {"stroke": "surface"},
    "surface": {"fill": "surface"},
    "band": {"fill": "band"},
    "grid": {"stroke": "grid"},
    "mark": {"stroke": "quiet"},
    "ready": {"fill": "ready"},
    "starting": {"fill": "starting"},
    "leaving": {"fill": "leaving"},
    "skew": {"fill": "skew"},
    "badge": {"fill": "quiet"},
    "bad": {"fill": "bad"},
    "badge-text": {"fill": "surface"},
    "bad-text": {"fill": "bad"},
}
"""The colours of each class, by their names in the palettes; later classes win."""

_SHAPE: Mapping[str, Mapping[str, str]] = {
    "title": {"font-size": "17", "font-weight": "600"},
    "small": {"font-size": "11"},
    "number": {
        "font-weight": "600",
        "text-anchor": "end",
        "paint-order": "stroke",
        "stroke-width": "4",
        "stroke-linejoin": "round",
    },
    "grid": {"stroke-width": "1"},
    "mark": {"stroke-width": "1", "stroke-dasharray": "2 3"},
    "badge-text": {"font-size": "10", "font-weight": "600", "text-anchor": "middle"},
}
"""The other attributes of each class."""


def style_sheet() -> str:
    """A style sheet with the dark palette, for viewers that prefer it."""
    rules = [
        f"{'text' if name == 'text' else f'.{name}'} {{ {attribute}: {_DARK[colour]}; }}"
        for name, paint in _PAINT.items()
        for attribute, colour in paint.items()
    ]
    return "\n".join(["", "@media (prefers-color-scheme: dark) {", *(f"  {rule}" for rule in rules), "}", ""])


def attributes(tag: str, classes: str) -> dict[str, str]:
    """The attributes of an element by its classes."""
    found: dict[str, str] = {}
    for name in [*(["text"] if tag == "text" else []), *classes.split()]:
        found |= {attribute: _LIGHT[colour] for attribute, colour in _PAINT.get(name, {}).items()}
        found |= _SHAPE.get(name, {})
    return found
